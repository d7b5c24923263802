"""The public names: all there, and importing them loads nothing but this package's own light modules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pytorchsim

PROGRAM = """
import json, sys
before = set(sys.modules)
import pytorchsim
loaded = set(sys.modules) - before
print(json.dumps(sorted(name.split(".")[0] for name in loaded if name.split(".")[0] not in sys.stdlib_module_names)))
"""


def test_every_public_name_exists() -> None:
    assert dir(pytorchsim) == sorted(pytorchsim.__all__)
    for name in pytorchsim.__all__:
        assert getattr(pytorchsim, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'raport'"):
        _ = pytorchsim.raport


def test_import_is_light() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(pytorchsim.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(json.loads(done.stdout)) == {"pytorchsim"}
