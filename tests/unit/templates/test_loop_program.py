"""Does merging axes keep what every access walks, and is register pressure counted right?"""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytorchsim.target.dtypes import F32
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store
from pytorchsim.templates.merge_axes import merge_axes


def _program(sizes: tuple[int, ...], strides: list[tuple[int, ...]]) -> LoopProgram:
    accesses = [Access(f"b{number}", F32, AffineIndex(walk, number)) for number, walk in enumerate(strides)]
    loads = tuple(Operation("load", (), F32, access=access) for access in accesses[:-1])
    add = Operation("add", tuple(range(len(loads))), F32)
    return LoopProgram(sizes, (*loads, add), (Store(accesses[-1], len(loads)),))


def _walk(sizes: tuple[int, ...], index: AffineIndex) -> list[int]:
    return [index.offset + int(np.dot(index.strides, point)) for point in product(*map(range, sizes))]


def test_contiguous_axes_become_one() -> None:
    merged = merge_axes(_program((4, 5, 6), [(30, 6, 1), (30, 6, 1)]))
    assert merged.sizes == (120,)
    assert [access.index.strides for access in merged.accesses()] == [(1,), (1,)]


def test_broadcast_and_transposed_axes_stay() -> None:
    assert merge_axes(_program((4, 5), [(5, 1), (0, 1), (5, 1)])).sizes == (4, 5)
    assert merge_axes(_program((4, 5), [(1, 4), (5, 1)])).sizes == (4, 5)
    assert merge_axes(_program((4, 1, 5), [(0, 9, 1), (5, 9, 1)])).sizes == (4, 5)


def test_a_point_keeps_one_axis() -> None:
    assert merge_axes(_program((), [(), ()])).sizes == (1,)
    assert merge_axes(_program((1, 1), [(7, 7), (7, 7)])).sizes == (1,)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4).flatmap(
        lambda sizes: st.tuples(
            st.just(tuple(sizes)),
            st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 3, 6, 9, -1])] * len(sizes)), min_size=2, max_size=3),
        )
    )
)
def test_merging_walks_the_same_elements(case: tuple[tuple[int, ...], list[tuple[int, ...]]]) -> None:
    program = _program(*case)
    merged = merge_axes(program)
    before = [_walk(program.sizes, access.index) for access in program.accesses()]
    after = [_walk(merged.sizes, access.index) for access in merged.accesses()]
    if len(set(program.accesses())) == len(list(program.accesses())):
        assert before == after
