"""Makes the instruction encoders of this folder importable: pytest's importlib mode adds no folder to the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
