"""Tiles of attention: what is merged, what fits, when stages overlap, which tiles of keys `causal` leaves out."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from pytorchsim.config import load_config
from pytorchsim.templates.attention import attention_refusal, problem_of_tensors
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_tile import search_attention


def problem(
    batch: tuple[int, ...], queries: int, keys: int, size: int, *, causal: bool = False, transposed: bool = False
) -> AttentionProblem:
    def tensor(length: int) -> torch.Tensor:
        if transposed:
            return torch.empty(batch[0], length, *batch[1:], size).movedim(1, -2)
        return torch.empty(*batch, length, size)

    q, k, v, o = tensor(queries), tensor(keys), tensor(keys), tensor(queries)
    return problem_of_tensors(q, k, v, None, o, None, causal=causal, scale=0.5)


def test_batch_axes_merge_where_every_tensor_walks_them_as_one() -> None:
    assert problem((2, 3), 20, 30, 16).batch == (6,)
    assert problem((2, 3), 20, 30, 16, transposed=True).batch == (2, 3)
    assert problem((2, 1, 3), 20, 30, 16).batch == (6,)
    assert problem((), 20, 30, 16).batch == (1,)


def test_a_key_of_all_heads_does_not_merge() -> None:
    q = torch.empty(2, 3, 20, 16)
    k = torch.empty(2, 1, 20, 16).expand(2, 3, 20, 16)
    found = problem_of_tensors(q, k, k, None, q, None, causal=False, scale=0.5)
    assert found.batch == (2, 3)
    assert found.key.batch == (320, 0)


@pytest.mark.parametrize(
    ("config", "size", "overlapped"),
    [("tpuv3", 64, True), ("tpuv3", 128, True), ("tpuv3", 160, False), ("tpuv2", 64, False), ("mobile", 8, False)],
)
def test_stages_overlap_with_two_arrays_and_room_in_the_queues(config: str, size: int, overlapped: bool) -> None:
    chosen = search_attention(problem((4,), 512, 512, size), load_config(config)).chosen
    assert chosen is not None
    assert chosen.tile.overlapped == overlapped


def test_what_no_tile_holds_is_refused_with_reasons() -> None:
    refusal = attention_refusal(problem((4,), 512, 512, 512), load_config("tiny"))
    assert "no tile fits" in refusal
    assert "exceed the slice" in refusal


def test_tiles_of_keys_behind_the_last_query_are_left_out() -> None:
    full = problem((2,), 1024, 1024, 64)
    tile = search_attention(full, load_config("tpuv3")).all[0].tile
    tile = dataclasses.replace(tile, queries=2, keys=2)
    assert [tile.key_tiles(full, number) for number in range(4)] == [4, 4, 4, 4]
    causal = problem((2,), 1024, 1024, 64, causal=True)
    assert [tile.key_tiles(causal, number) for number in range(4)] == [1, 2, 3, 4]
    assert [tile.whole_key_tiles(causal, number) for number in range(4)] == [0, 1, 2, 3]
    ends = problem((2,), 1024, 1000, 64)
    assert [tile.whole_key_tiles(ends, number) for number in range(4)] == [3, 3, 3, 3]


def test_every_choice_fits_and_does_not_depend_on_the_number_of_cores() -> None:
    config = load_config("tpuv3")
    for queries, keys, size in ((1, 10_240, 64), (512, 512, 64), (77, 1000, 33), (4096, 4096, 128)):
        found = search_attention(problem((8,), queries, keys, size), config)
        assert found.chosen is not None
        assert not found.chosen.footprint.refusal
        several = search_attention(problem((8,), queries, keys, size), load_config({"cores": 4}))
        assert several.chosen is not None
        assert several.chosen.tile == found.chosen.tile
