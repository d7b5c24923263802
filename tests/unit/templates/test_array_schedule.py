"""Is the order of pushes and pops one that the arrays can execute, and is everything multiplied once?"""

from __future__ import annotations

from collections import Counter

import pytest

from pytorchsim.config import load_config
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.array_schedule import ArraySchedule, instruction_counts
from pytorchsim.templates.gemm_tile import GemmTile

STEPS = [
    (rows, blocks, parts) for rows in (8, 32, 100, 224, 256, 392, 800) for blocks in (1, 2, 5, 9) for parts in (1, 2)
]


def schedule(rows: int, blocks: int, parts: int) -> tuple[GemmTile, ArraySchedule]:
    vector = min(32, rows)
    tile = GemmTile("array", (rows,), 2 // parts, (128 * blocks,), "none", vector, 128, parts=parts)
    return tile, ArraySchedule.of(tile, F32, load_config("tpuv3"))


@pytest.mark.parametrize(("rows", "blocks", "parts"), STEPS, ids=str)
def test_every_row_meets_every_matrix_once_and_fits_the_queue(rows: int, blocks: int, parts: int) -> None:
    _, plan = schedule(rows, blocks, parts)
    queues: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
    met: Counter[tuple[int, int]] = Counter()  # (vector of rows, block of products)
    loaded = -1, 0  # matrix, pieces
    for event in plan.events(plan.matrices):
        if event.kind == "weights":
            assert event.number == (0 if event.matrix != loaded[0] else loaded[1])
            loaded = event.matrix, event.number + 1
            continue
        shared = event.matrix < plan.shared
        for part in range(plan.parts_at(event.matrix, event.number)):
            if event.kind == "inputs":
                assert loaded == (event.matrix, plan.pieces)
                queues[part].append(event[1:])
                assert len(queues[part]) * plan.vector <= 256
                block = event.matrix if shared else plan.shared + (event.matrix - plan.shared) * parts + part
                met[event.number + (part * plan.part_rows if shared else 0), block] += 1
            else:
                assert queues[part].pop(0) == event[1:]
    assert not any(queues)
    assert met == {(row, block): 1 for row in range(plan.rows) for block in range(blocks)}


@pytest.mark.parametrize(("rows", "blocks", "parts"), STEPS, ids=str)
def test_matrices_from_the_steady_one_on_are_alike(rows: int, blocks: int, parts: int) -> None:
    _, plan = schedule(rows, blocks, parts)
    for accumulate in (True, False):
        first = plan.steady(accumulate=accumulate)
        for matrix in range(first, first + 3):
            for (pop, push), (pop_, push_) in zip(plan.rounds(first), plan.rounds(matrix), strict=True):
                assert pop is not None
                assert pop_ is not None
                assert pop.matrix >= plan.shared
                assert accumulate or pop.matrix > 0  # the first matrix's results are not added
                assert (pop_.matrix - pop.matrix, pop_.number) == (matrix - first, pop.number)
                assert (push_.matrix - push.matrix, push_.number) == (matrix - first, push.number)


def test_arrays_without_columns_share_the_matrices() -> None:
    # 9 matrices on two arrays: one by halves of the rows, then four in each. Each is loaded where it is used, in 4
    # pieces: 2 + 8 loads. 25 vectors of rows x 9, once in and once out.
    tile, plan = schedule(800, 9, 2)
    assert (plan.shared, plan.matrices, plan.part_rows) == (1, 5, 13)
    assert [plan.parts_at(0, row) for row in (0, 11, 12)] == [2, 2, 1]
    assert instruction_counts(tile, F32, load_config("tpuv3")) == 10 * 4 + 25 * 9 * 2
