"""Array-bound rows of the accuracy table against silicon: none over 25 %, 12 % in the mean (docs/accuracy.md)."""

from __future__ import annotations

import pytest

from benchmarks.accuracy import MEAN_LIMIT, ROW_LIMIT, figures, measure
from benchmarks.workloads import workload
from pytorchsim.config import load_config

pytestmark = pytest.mark.usefixtures("memory")

ROWS = [row for row in figures()[1] if workload(row[0]).array_bound]


def test_array_bound_rows_are_those_of_the_silicon() -> None:
    errors = {}
    for name, silicon, others in ROWS:
        row = measure(name, silicon, others, load_config("tpuv3"))
        if row.error is not None:
            errors[name] = abs(row.error)
            assert row.cycles is not None
            assert row.cycles >= max(row.bounds.values()), "faster than the machine can be"
    if len(errors) < 2:
        pytest.fail(f"only {sorted(errors)} run")
    assert max(errors.values()) <= ROW_LIMIT
    assert sum(errors.values()) / len(errors) <= MEAN_LIMIT
