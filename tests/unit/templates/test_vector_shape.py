"""Are vectors long, and do all values fit into the registers?"""

from pytorchsim.target.dtypes import F32, I64, Dtype
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.vector_shape import VectorShape, vector_shape

FULL, ROW = AffineIndex((64, 1)), AffineIndex((1, 0))


def shape(program: LoopProgram, *, keep: bool = False) -> VectorShape:
    return vector_shape(program, plan_stages(program, keep=keep), 256)


def reduction(name: str, dtype: Dtype = F32) -> LoopProgram:
    load = Operation("load", (), F32, access=Access("x", F32, FULL))
    store = Store(Access("out", dtype, ROW), 1)
    return LoopProgram((32, 64), (load, Operation("reduce", (0,), dtype, reduction=name)), (store,), reduced=1)


def test_an_addition_takes_groups_of_four() -> None:
    loads = tuple(Operation("load", (), F32, access=Access(f"b{n}", F32, AffineIndex((1,)))) for n in range(2))
    program = LoopProgram(
        (64,), (*loads, Operation("add", (0, 1), F32)), (Store(Access("out", F32, AffineIndex((1,))), 2),)
    )
    # Three values of eight registers, a temporary and two masks: 34. With four registers: 18.
    assert shape(program) == VectorShape(32)


def test_partial_results_are_several() -> None:
    # At four registers: two loads side by side, two partial sums, a temporary, two masks: 8 + 8 + 4 + 2 = 22.
    assert shape(reduction("sum")) == VectorShape(32, 2)


def test_the_type_of_the_result_does_not_shorten_the_walk() -> None:
    # An index is i64, once per row; the walk has f32 and i32.
    assert shape(reduction("argmax", I64)).elements == 32


def test_many_live_values_take_smaller_groups() -> None:
    loads = tuple(Operation("load", (), F32, access=Access(f"b{n}", F32, AffineIndex((1,)))) for n in range(12))
    sums = tuple(Operation("add", (11 + n if n else 0, n + 1), F32) for n in range(11))
    program = LoopProgram((64,), loads + sums, (Store(Access("out", F32, AffineIndex((1,))), 22),))
    # Twelve loads and a sum: 13 values; with two registers each, a temporary and two masks: 30.
    assert shape(program).elements == 16
