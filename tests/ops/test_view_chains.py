"""Random chains of views, pads, rolls and copies, and what follows them: does every element end up where eager puts
it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.ops.chain_endings import endings
from tests.ops.view_chains import Chain, chains

CheckCases = Callable[..., None]

TOGETHER = 5
"""Chains that are compiled in one graph."""

EXAMPLES = {"database": None, "deadline": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}
on_both = pytest.mark.parametrize("config", ["tpuv3", "tiny"], indirect=True)
together = given(together=st.lists(chains(), min_size=TOGETHER, max_size=TOGETHER))
ended = given(together=st.lists(endings(), min_size=TOGETHER, max_size=TOGETHER))


def _check(check_cases: CheckCases, together: list[Chain]) -> None:
    """Strides are not compared: Inductor lays out a pad of a reshaped view as it likes, on any backend."""
    cases = {
        f"{n}: {chain}": (lambda x, chain=chain: chain(x) + 1, (chain.start(),)) for n, chain in enumerate(together)
    }
    check_cases(cases, strides=False)


def _check_ended(check_cases: CheckCases, together: list[Any]) -> None:
    cases = {f"{number}: {text}": (function, tensors) for number, (text, function, tensors) in enumerate(together)}
    check_cases(cases, strides=False)


@on_both
@seed(20)
@settings(max_examples=10, **EXAMPLES)
@together
def test_random_chains_of_views(check_cases: CheckCases, together: list[Chain]) -> None:
    _check(check_cases, together)


@on_both
@seed(22)
@settings(max_examples=10, **EXAMPLES)
@ended
def test_chains_with_an_ending(check_cases: CheckCases, together: list[Any]) -> None:
    _check_ended(check_cases, together)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@on_both
@seed(21)
@settings(max_examples=200, **EXAMPLES)
@together
def test_many_random_chains_of_views(check_cases: CheckCases, together: list[Chain]) -> None:
    _check(check_cases, together)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@on_both
@seed(23)
@settings(max_examples=100, **EXAMPLES)
@ended
def test_many_chains_with_an_ending(check_cases: CheckCases, together: list[Any]) -> None:
    _check_ended(check_cases, together)
