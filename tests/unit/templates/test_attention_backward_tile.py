"""Do tiles of attention's backward fit, leave out what `causal` hides, and are queries cut where they do not?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytorchsim.config.load import load_config
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.attention_backward import most_queries
from pytorchsim.templates.attention_backward_problem import BackwardProblem, backward_problem
from pytorchsim.templates.attention_backward_tile import search_backward
from pytorchsim.templates.attention_problem import Place

MATRICES = ("query", "key", "value", "gradient", "of_query", "of_key", "of_value")


def problem(queries: int, keys: int, size: int, *, causal: bool = False) -> BackwardProblem:
    """Four heads, contiguous."""
    places = {name: Place(0, (1 << 20,), size, 1, F32) for name in MATRICES}
    places |= {name: Place(0, (1 << 20,), 1, 0, F32) for name in ("statistics", "delta")}
    return backward_problem((4,), (queries, keys, size, size), places, causal, 1.0, 0)


@pytest.mark.parametrize(("config", "size"), [("tpuv3", 64), ("tpuv4", 128), ("mobile", 64), ("tiny", 8)])
@pytest.mark.parametrize("length", [1, 100, 513, 800])
def test_a_part_of_the_queries_fits(config: str, size: int, length: int) -> None:
    machine, whole = load_config(config), problem(length, length, size)
    most = most_queries(whole, machine)
    assert most == length or (most < length and most % machine.core.lanes == 0)
    assert most
    chosen = search_backward(replace(whole, queries=most), machine).chosen
    assert chosen is not None
    assert not chosen.footprint.refusal


def test_nothing_fits_or_in_too_many_parts() -> None:
    assert most_queries(problem(8, 8, 100_000), load_config("mobile")) == 0
    assert most_queries(problem(2048, 2048, 8), load_config("tiny")) == 0


def test_causal_leaves_out_queries_before_the_first_key() -> None:
    """Keys 512 to 1023 are hidden from queries 0 to 511: the first tile of 256 queries that sees one is number 2; of
    queries from 512 on it is their first."""
    machine = load_config("tpuv3")
    whole = problem(1024, 1024, 64, causal=True)
    tile = replace(search_backward(whole, machine).all[0].tile, queries=2, keys=4, all_queries=8)
    assert [tile.first_query_tile(whole, key_tile) for key_tile in (0, 1)] == [0, 2]
    assert tile.first_query_tile(replace(whole, queries=512, first=512), 1) == 0
    assert tile.first_query_tile(problem(256, 1024, 64, causal=True), 1) == 0
