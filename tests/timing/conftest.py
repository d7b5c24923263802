"""Makes the instruction encoders of this folder importable: pytest's importlib mode adds no folder to the path. And
the memory that bounds of cycles are held with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=["ideal", pytest.param("banked", marks=pytest.mark.slow)])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Launches are timed with ideal memory or, in the slow job, burst by burst with one of banks. Programs, tiles and
    transfers are the same. Returns which: a test whose bound another memory exceeds says by what, and why."""
    if request.param == "banked":
        from benchmarks.banked import with_banks
        from pytorchsim.simulator import timing

        simulate = timing.simulate

        def simulate_with_banks(traces: Any, config: Any, *l2: Any) -> timing.LaunchTiming:
            return simulate(traces, with_banks(config, "exact"), *l2)

        monkeypatch.setattr(timing, "simulate", simulate_with_banks)
    return str(request.param)
