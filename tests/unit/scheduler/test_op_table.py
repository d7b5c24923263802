"""Is every operation Inductor can ask for either computed or refused with a reason, and never both?"""

from torch._inductor.ops_handler import OP_NAMES

from pytorchsim.templates.decompositions import DECOMPOSED, FLOAT32_ONLY, OPERANDS_AS_GIVEN
from pytorchsim.templates.operation_costs import SFU_OPERATIONS
from pytorchsim.templates.recorder import LoopRecorder
from pytorchsim.templates.unsupported_ops import UNSUPPORTED
from pytorchsim.templates.vector_ops import EMITTERS, INTERNAL

COMPUTED = (set(EMITTERS) - INTERNAL) | set(DECOMPOSED)
TAKEN_BY_THE_RECORDER = {
    "load",
    "store",
    "reduction",
    "store_reduction",
    "scan",
    "index_expr",
    "value_expr",
    "indirect_indexing",
    "check_bounds",
    "masked",
    "device_assert_async",
}


def test_the_tables_cover_inductor() -> None:
    assert COMPUTED | set(UNSUPPORTED) | TAKEN_BY_THE_RECORDER == set(OP_NAMES)


def test_nothing_is_in_two_tables() -> None:
    assert not COMPUTED & set(UNSUPPORTED)
    assert not set(EMITTERS) & set(DECOMPOSED)
    assert not TAKEN_BY_THE_RECORDER & (COMPUTED | set(UNSUPPORTED))


def test_the_recorder_takes_what_the_tables_leave_to_it() -> None:
    assert all(name in vars(LoopRecorder) for name in TAKEN_BY_THE_RECORDER)


def test_special_cases_name_operations_of_the_tables() -> None:
    assert set(EMITTERS) >= SFU_OPERATIONS
    assert set(DECOMPOSED) >= OPERANDS_AS_GIVEN | FLOAT32_ONLY


def test_every_refusal_has_a_reason() -> None:
    assert all(len(reason.split()) > 3 for reason in UNSUPPORTED.values())
