"""Which tile wins a measurement, and how that is told. Measurements are made up: no kernel is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytorchsim.config import NpuConfig, load_config
from pytorchsim.runtime.measurement import Measurement
from pytorchsim.scheduler import tuning
from pytorchsim.templates.base import BuiltKernel

CONFIG = load_config("tiny")


def build(machine: NpuConfig, rank: int = 0) -> BuiltKernel:
    """Three tiles that fit."""
    del machine
    tile = {"m": 8 << min(rank, 1), "n": 32}
    return BuiltKernel(
        f"kernel {min(rank, 2)}", tile | {"deep": rank}, ("4 tiles refused: too large",), 3, f"{100 + rank} cycles"
    )


def told(monkeypatch: pytest.MonkeyPatch, *cycles: int | None) -> tuple[str, ...]:
    def measure(texts: Sequence[str], *_: Any) -> list[Measurement]:
        assert list(texts) == [f"kernel {rank}" for rank in range(len(cycles))]
        return [Measurement(count, "" if count is not None else "9 of 8 bytes") for count in cycles]

    monkeypatch.setattr(tuning, "measure", measure)
    built = tuning.fastest(build, "KERNEL_NAME", (), CONFIG, len(cycles))(CONFIG)
    assert built.all_reasons[-1] == "4 tiles refused: too large"
    return built.all_reasons[:-1]


def test_another_tile_than_the_estimates_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, 300, 200, 250) == (
        "tile chosen: fastest of 3 measured, 3 fit; number 2 by estimate: 200 cycles measured, estimated 101 cycles",
        "best tile by estimate, with m 8, deep 0: 300 cycles measured, estimated 100 cycles",
    )


def test_the_estimates_tile_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    won, other = told(monkeypatch, 200, 250, 200)
    assert won == (
        "tile chosen: fastest of 3 measured, 3 fit; also the best by estimate: 200 cycles measured,"
        " estimated 100 cycles"
    )
    assert other == "second fastest tile, with m 16, deep 2: 200 cycles measured, estimated 102 cycles"


def test_the_estimates_tile_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, None, 200)[1] == (
        "best tile by estimate, with m 8, deep 0: cannot run: 9 of 8 bytes, estimated 100 cycles"
    )


def test_none_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, None, None) == ()


def test_only_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(told(monkeypatch, 200, None)) == 1
