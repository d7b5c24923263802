"""Does an overflow of the scratchpad state a need above the budget, and do its shares add up to it?"""

from __future__ import annotations

import random
import re

import pytest

from pytorchsim.config import load_config
from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import SpadOverflowError, UnsupportedError
from pytorchsim.target.dtypes import F32, F64
from pytorchsim.templates.footprint import BufferNeed, footprint_of
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem
from pytorchsim.templates.gemm_search import search_gemm
from pytorchsim.templates.loop_kernel import build_loop_kernel
from pytorchsim.templates.loop_program import Access, AffineIndex, Guard, LoopProgram, Operation, Store


def machine(stack: int = 512) -> NpuConfig:
    """With slices of 4 KiB."""
    return load_config({"base": "tiny", "core": {"stack_reserve_bytes": stack}})


def check(error: SpadOverflowError, config: NpuConfig) -> None:
    slice_bytes = config.core.scratchpad_bytes_per_lane
    assert error.used_bytes > error.budget_bytes
    assert sum(error.shares.values()) == error.used_bytes
    assert error.budget_bytes == (slice_bytes // 2 if error.one_tile else slice_bytes)
    text = re.search(r"needs (\d+) bytes .* budget is (\d+)(, half of a slice)?;", str(error))
    assert text is not None
    assert (int(text[1]), int(text[2])) == (error.used_bytes, error.budget_bytes)
    assert bool(text[3]) == error.one_tile


def test_of_any_buffers() -> None:
    generator, rules = random.Random(2), set()
    for _ in range(500):
        config = machine(generator.choice([512, 1024, 1536]))
        needs = {
            f"b{number}": BufferNeed(generator.randint(1, 120), F64, generator.choice([1, 2, 2, 3]))
            for number in range(generator.randint(1, 8))
        }
        footprint = footprint_of(needs, config)
        if footprint.refusal:
            error = footprint.overflow("k", ("op",), {"m": 1})
            rules.add(error.one_tile)
            check(error, config)
    assert rules == {True, False}


def many_loads(count: int) -> LoopProgram:
    """Loads of as many buffers, of which the least tile needs `count` x 64 bytes at a time."""
    loads = [Operation("load", (), F64, access=Access(f"x{n}", F64, AffineIndex((1,)))) for n in range(count)]
    sums = [Operation("add", (count + n - 1 if n else 0, n + 1), F64) for n in range(count - 1)]
    store = Store(Access("out", F64, AffineIndex((1,))), 2 * count - 2)
    return LoopProgram((40,), (*loads, *sums), (store,))


@pytest.mark.parametrize("count", [23, 24, 27, 28, 40])
def test_loops_with_too_many_loads_overflow(count: int) -> None:
    """One step needs 64 bytes per load, 64 for the store and the stack: half of 4 KiB hold 23 loads, the slice all
    copies of 27."""
    config = machine()
    slots = {f"x{n}": n for n in range(count)} | {"out": count}
    if count == 23:
        build_loop_kernel("k", many_loads(count), slots, (), config)
        return
    with pytest.raises(SpadOverflowError) as caught:
        build_loop_kernel("k", many_loads(count), slots, (), config)
    check(caught.value, config)
    assert caught.value.one_tile == (count <= 27)


def test_what_fits_but_cannot_be_moved_is_no_overflow() -> None:
    guards = tuple(Guard(AffineIndex((n + 1,), -1), 9) for n in range(5))
    load = Operation("load", (), F32, access=Access("x", F32, AffineIndex((1,)), guards))
    program = LoopProgram((64,), (load,), (Store(Access("out", F32, AffineIndex((1,))), 0),))
    with pytest.raises(UnsupportedError, match="can be moved: more than 4 bounds"):
        build_loop_kernel("k", program, {"x": 0, "out": 1}, (), machine())


def test_products_beside_a_large_stack_overflow() -> None:
    found = 0
    for stack in (512, 1536, 1920, 2016):
        config = machine(stack)
        x, w, y = AffineIndex((0, 1, 64)), AffineIndex((0, 1, 64)), AffineIndex((0, 1, 64))
        problem = GemmProblem((1,), (64,), 64, (64,), x, w, y, F32, F32, "array")
        search = search_gemm(problem, GemmFusion(), config)
        if search.chosen is None:
            check(search.nearest.footprint.overflow("k", (), search.nearest.tile.describe()), config)
            found += 1
    assert found
