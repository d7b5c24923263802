"""Are slow results used late enough, and is nothing computed before or after it is needed?"""

from hypothesis import given
from hypothesis import strategies as st

from pytorchsim.target.dtypes import F32
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store
from pytorchsim.templates.operation_costs import is_slow
from pytorchsim.templates.phases import MOST_PHASES, StepWork, plan_phases

X = Access("x", F32, AffineIndex((1,)))
OUT = Access("out", F32, AffineIndex((1,)))


def program(*operations: tuple[str, tuple[int, ...]]) -> LoopProgram:
    """A load, then `operations`; the last one is stored."""
    rest = [
        Operation(name, operands, F32, constant=1.0 if name == "constant" else None) for name, operands in operations
    ]
    load = Operation("load", (), F32, access=X)
    return LoopProgram((64,), (load, *rest), (Store(OUT, len(rest)),))


def work(of: LoopProgram) -> StepWork:
    return StepWork(tuple(range(len(of.operations))), tuple(range(len(of.stores))))


def test_quick_chains_have_one_phase() -> None:
    quick = program(("neg", (0,)), ("mul", (1, 0)))
    phases = plan_phases(quick, work(quick))
    assert [phase.operations for phase in phases.phases] == [(0, 1, 2)]
    assert phases.rotation == 1


def test_silu_has_three_phases_and_loads_twice() -> None:
    silu = program(("neg", (0,)), ("exp", (1,)), ("constant", ()), ("add", (2, 3)), ("truediv", (0, 4)))
    phases = plan_phases(silu, work(silu))
    assert [phase.operations for phase in phases.phases] == [(0, 1, 2), (0, 3, 4, 5), ()]
    assert [phase.stores for phase in phases.phases] == [(), (), (0,)]
    assert phases.carried == {2: (1, 0), 5: (1, 1)}
    assert phases.rotation == 2


def test_recalled_values_are_read_where_they_are_used() -> None:
    quotient = program(("exp", (0,)), ("truediv", (1, 0)))
    phases = plan_phases(quotient, StepWork((1, 2), (0,), recalled=(1,)))
    assert [phase.operations for phase in phases.phases] == [(1, 2), ()]


NAMES = st.sampled_from(["neg", "mul", "add", "exp", "truediv", "sqrt"])


@given(st.lists(st.tuples(NAMES, st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=12))
def test_every_value_is_there_when_it_is_used(drawn: list[tuple[str, int, int]]) -> None:
    chain = program(*((name, (a % (n + 1), b % (n + 1))) for n, (name, a, b) in enumerate(drawn)))
    phases = plan_phases(chain, work(chain))
    assert len(phases.phases) <= MOST_PHASES
    home = {}
    for number, phase in enumerate(phases.phases):
        for operation in phase.operations:
            if operation:  # the load is in every phase that uses it
                assert operation not in home
                home[operation] = number
    assert set(home) <= set(range(1, len(chain.operations)))
    for number, phase in enumerate(phases.phases):
        for operation in phase.operations:
            for operand in chain.operations[operation].operands:
                if operand == 0:
                    assert 0 in phase.operations
                    continue
                late = number - home[operand]
                assert late >= 0
                if late:
                    assert phases.carried[operand] == (max(late, phases.carried[operand][0]), home[operand])
                elif is_slow(chain.operations[operand]):
                    assert number == MOST_PHASES - 1  # phases are few: here it has to wait
