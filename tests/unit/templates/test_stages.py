"""Are reductions ordered so that every value exists when it is used?"""

from pytorchsim.target.dtypes import F32
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store
from pytorchsim.templates.stages import plan_stages

FULL = Access("x", F32, AffineIndex((10, 1)))
ROW = Access("bias", F32, AffineIndex((1, 0)))
OUT = Access("y", F32, AffineIndex((10, 1)))
OUT_ROW = Access("z", F32, AffineIndex((1, 0)))


def test_elementwise_is_one_stage_without_a_walk() -> None:
    flat = Access("x", F32, AffineIndex((1,)))
    program = LoopProgram(
        (8,), (Operation("load", (), F32, access=flat), Operation("neg", (0,), F32)), (Store(flat, 1),)
    )
    (stage,) = plan_stages(program)
    assert stage.row_operations == (0, 1)
    assert stage.row_stores == (0,)
    assert not stage.walks


def test_softmax_has_three_stages() -> None:
    program = LoopProgram(
        (4, 10),
        (
            Operation("load", (), F32, access=FULL),
            Operation("reduce", (0,), F32, reduction="max"),
            Operation("sub", (0, 1), F32),
            Operation("exp", (2,), F32),
            Operation("reduce", (3,), F32, reduction="sum"),
            Operation("truediv", (3, 4), F32),
        ),
        (Store(OUT, 5),),
        reduced=1,
    )
    maximum, total, quotient = plan_stages(program)
    assert (maximum.walk_operations, maximum.reductions) == ((0,), (1,))
    assert (total.walk_operations, total.reductions) == ((0, 2, 3), (4,))
    assert (quotient.walk_operations, quotient.walk_stores) == ((0, 2, 3, 5), (0,))


def test_row_values_are_computed_once_and_stored_before_the_next_walk() -> None:
    program = LoopProgram(
        (4, 10),
        (
            Operation("load", (), F32, access=FULL),
            Operation("load", (), F32, access=ROW),
            Operation("reduce", (0,), F32, reduction="sum"),
            Operation("add", (2, 1), F32),
            Operation("mul", (0, 3), F32),
        ),
        (Store(OUT_ROW, 3), Store(OUT, 4)),
        reduced=1,
    )
    first, second = plan_stages(program)
    assert first.row_operations == (1,)
    assert second.row_operations == (3,)
    assert second.row_stores == (0,)
    assert second.walk_operations == (0, 4)


def test_a_row_value_stored_to_every_point_needs_a_walk() -> None:
    program = LoopProgram(
        (4, 10),
        (Operation("load", (), F32, access=FULL), Operation("reduce", (0,), F32, reduction="sum")),
        (Store(OUT, 1),),
        reduced=1,
    )
    _, second = plan_stages(program)
    assert second.walks
    assert second.walk_operations == ()


def test_what_takes_long_is_kept_from_walk_to_walk() -> None:
    program = LoopProgram(
        (4, 10),
        (
            Operation("load", (), F32, access=FULL),
            Operation("reduce", (0,), F32, reduction="max"),
            Operation("sub", (0, 1), F32),
            Operation("exp", (2,), F32),
            Operation("reduce", (3,), F32, reduction="sum"),
            Operation("truediv", (3, 4), F32),
        ),
        (Store(OUT, 5),),
        reduced=1,
    )
    _, total, quotient = plan_stages(program, keep=True)
    assert total.kept == (3,)
    assert (quotient.walk_operations, quotient.recalled) == ((3, 5), (3,))
    again = plan_stages(program)
    assert not any(stage.kept or stage.recalled for stage in again)


def test_a_difference_is_computed_again() -> None:
    program = LoopProgram(
        (4, 10),
        (
            Operation("load", (), F32, access=FULL),
            Operation("reduce", (0,), F32, reduction="sum"),
            Operation("sub", (0, 1), F32),
            Operation("reduce", (2,), F32, reduction="max"),
            Operation("mul", (2, 3), F32),
        ),
        (Store(OUT, 4),),
        reduced=1,
    )
    assert plan_stages(program, keep=True) == plan_stages(program)
