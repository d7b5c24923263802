"""Random chains of views, pads, rolls and copies: does every element end up where eager puts it?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.ops.view_chains import Chain, chains

CheckCases = Callable[..., None]

TOGETHER = 5
"""Chains that are compiled in one graph."""


def _check(check_cases: CheckCases, together: list[Chain]) -> None:
    """Strides are not compared: Inductor lays out a pad of a reshaped view as it likes, on any backend."""
    cases = {
        f"{n}: {chain}": (lambda x, chain=chain: chain(x) + 1, (chain.start(),)) for n, chain in enumerate(together)
    }
    check_cases(cases, strides=False)


@pytest.mark.parametrize("config", ["tpuv3", "tiny"], indirect=True)
@seed(20)
@settings(
    max_examples=10, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(together=st.lists(chains(), min_size=TOGETHER, max_size=TOGETHER))
def test_chains(check_cases: CheckCases, together: list[Chain]) -> None:
    _check(check_cases, together)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("config", ["tpuv3", "tiny"], indirect=True)
@seed(21)
@settings(
    max_examples=200, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(together=st.lists(chains(), min_size=TOGETHER, max_size=TOGETHER))
def test_many_chains(check_cases: CheckCases, together: list[Chain]) -> None:
    _check(check_cases, together)
