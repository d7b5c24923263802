"""Which buffers and transfers do kernels with positions, masks and indices have?"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytorchsim.config.load import load_config
from pytorchsim.errors import UnsupportedError
from pytorchsim.target.dtypes import F32, I32, I64
from pytorchsim.templates.gathers import IndexForm, check_indices, plan_transfers
from pytorchsim.templates.index_terms import AxisTerm, IndexSum, sum_of
from pytorchsim.templates.loop_kernel import build_loop_kernel
from pytorchsim.templates.loop_program import Access, AffineIndex, Gather, LoopProgram, Operation, Store
from pytorchsim.templates.masks import Condition, compared, guards_of
from pytorchsim.templates.stages import plan_stages

SIZES = (40, 37)
ROWS = AffineIndex((37, 1))
X, OUT = Access("x", F32, ROWS), Access("out", F32, ROWS)
INDEX = Access("index", I64, AffineIndex((1, 0)))


def _scaled(*positions: Operation) -> LoopProgram:
    """x times a chain of operations on positions."""
    operations = (*positions, Operation("to_dtype", (len(positions) - 1,), F32)) if positions else ()
    load = Operation("load", (), F32, access=X)
    factors = (len(operations), len(operations) - 1 if positions else len(operations))
    return LoopProgram(SIZES, (*operations, load, Operation("mul", factors, F32)), (Store(OUT, len(operations) + 1),))


def _buffers(program: LoopProgram) -> dict[str, int]:
    built = build_loop_kernel("k", program, {"x": 0, "index": 1, "out": 2}, (), load_config("tpuv3"))
    declared = re.findall(r'"npu.buffer"\(\) <?\{(.*?)\}', built.mlir)
    pairs = [(re.search(r'"(.*?)"', text), re.search(r"bytes = (\d+)", text)) for text in declared]
    return {name[1]: int(size[1]) for name, size in pairs if name and size}


def test_positions_take_no_scratchpad() -> None:
    """The bound is `compute_vec_size + 1` entries per lane; positions live in registers and take none."""
    position = Operation("position", (), I32, position=AffineIndex((100, 1), 3))
    digits = (
        position,
        Operation("index_quotient", (0,), I32, constant=5),
        Operation("index_remainder", (1,), I32, constant=3),
    )
    plain, with_positions = _buffers(_scaled()), _buffers(_scaled(*digits))
    assert plain
    assert sum(with_positions.values()) <= sum(plain.values())
    assert with_positions.keys() == plain.keys()


def _gathering(value: int, *operations: Operation) -> LoopProgram:
    access = Access("x", F32, AffineIndex((0, 1)), gathers=(Gather(value, 37, 40),))
    load = Operation("load", (), F32, access=access)
    return LoopProgram(SIZES, (*operations, load), (Store(OUT, len(operations)),))


def test_an_index_tensor_is_loaded_once_per_row_of_the_tile() -> None:
    program = _gathering(0, Operation("load", (), I64, access=INDEX))
    (phases,) = plan_transfers(program, plan_stages(program), rows_inner=True, streams=False).walks
    assert [key.form for key in phases[0].indices] == [IndexForm.DIRECT]
    assert not phases[0].loads  # nothing but the index is needed before the gather
    assert [access.buffer for access in phases[1].loads] == ["x"]


def test_a_computed_index_waits_for_what_it_is_made_of() -> None:
    program = _gathering(
        1, Operation("load", (), I64, access=INDEX), Operation("index_quotient", (0,), I64, constant=2)
    )
    (phases,) = plan_transfers(program, plan_stages(program), rows_inner=True, streams=False).walks
    assert phases[0].loads == (INDEX,)
    assert [key.form for key in phases[1].computed] == [IndexForm.ROW]
    assert [access.buffer for access in phases[1].loads] == ["x"]


def test_an_index_by_a_reduction_is_refused() -> None:
    load = Operation("load", (), F32, access=X)
    reduce = Operation("reduce", (0,), I64, reduction="argmax")
    access = Access("x", F32, AffineIndex((37, 0)), gathers=(Gather(1, 1, 37),))
    row = Access("out", F32, AffineIndex((1, 0)))
    program = LoopProgram(SIZES, (load, reduce, Operation("load", (), F32, access=access)), (Store(row, 2),), reduced=1)
    with pytest.raises(UnsupportedError, match="depends on a reduction"):
        check_indices(program)


AXES = (AxisTerm(0, 7), AxisTerm(1, 5))
SUMS = st.builds(lambda a, b, c: sum_of([(AXES[0], a), (AXES[1], b)], c), *[st.integers(-3, 3)] * 2, st.integers(-9, 9))
COMPARISONS = st.tuples(st.sampled_from(["lt", "le", "gt", "ge", "eq"]), SUMS)

HOLDS = {
    "lt": lambda d: d < 0,
    "le": lambda d: d <= 0,
    "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0,
    "eq": lambda d: d == 0,
}


def _at(index: IndexSum, point: tuple[int, int]) -> int:
    return index.constant + sum(c * point[term.axis] for term, c in index.terms if isinstance(term, AxisTerm))


@settings(max_examples=200, deadline=None)
@given(st.lists(COMPARISONS, min_size=1, max_size=4))
def test_guards_hold_exactly_where_all_comparisons_do(comparisons: list[tuple[str, IndexSum]]) -> None:
    conditions = [compared(name, difference) for name, difference in comparisons]
    known = [condition for condition in conditions if isinstance(condition, Condition)]
    assert len(known) == len(comparisons)
    guards = guards_of(known, 2)
    for point in ((i, j) for i in range(7) for j in range(5)):
        wanted = all(HOLDS[name](_at(difference, point)) for name, difference in comparisons)
        positions = [
            guard.position.offset + sum(s * p for s, p in zip(guard.position.strides, point, strict=True))
            for guard in guards
        ]
        assert wanted == all(0 <= at < guard.extent for at, guard in zip(positions, guards, strict=True))


def test_comparisons_that_are_no_ranges() -> None:
    assert compared("ne", sum_of([(AXES[0], 1)])) is None
    assert compared("lt", sum_of([(AXES[0], 1)], -100)) == Condition(())  # always
