"""What the file of a suite consists of: its models' values and gradients, by batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.models.measure import check_gradients, check_values
from tests.models.table import ModelCase, cases

__all__ = ["gradient_test", "value_test"]


def _param(case: ModelCase, batch: int, *, slow: bool) -> object:
    marks = [pytest.mark.slow] if slow or case.slow else []
    return pytest.param(case, batch, marks=[*marks, pytest.mark.timeout(1200)], id=f"{case.name}, batch {batch}")


def value_test(suite: str) -> Callable[[ModelCase, int], None]:
    """A test of the values of every model of `suite`."""
    params = [_param(case, batch, slow=case.trained) for case in cases(suite) for batch in case.batches]
    params += [_param(case, batch, slow=True) for case in cases(suite) for batch in case.more_batches]

    @pytest.mark.parametrize(("case", "batch"), params)
    def test(case: ModelCase, batch: int) -> None:
        check_values(case, batch)

    return test


def gradient_test(suite: str) -> Callable[[ModelCase, int], None]:
    """A test of the values and gradients of every model of `suite` that is trained."""
    params = [
        _param(case, batch, slow=batch not in case.batches)
        for case in cases(suite)
        if case.trained
        for batch in (*case.batches, *case.more_batches)
    ]

    @pytest.mark.parametrize(("case", "batch"), params)
    def test(case: ModelCase, batch: int) -> None:
        check_gradients(case, batch)

    return test
