"""Is every operation Inductor can ask for either computed or refused with a reason, and never both?"""

from torch._inductor.ops_handler import OP_NAMES

from pytorchsim.templates.unsupported_ops import UNSUPPORTED
from pytorchsim.templates.vector_ops import EMITTERS

TAKEN_BY_THE_RECORDER = {"load", "store"}


def test_the_tables_cover_inductor() -> None:
    assert set(EMITTERS) | set(UNSUPPORTED) | TAKEN_BY_THE_RECORDER == set(OP_NAMES)


def test_nothing_is_both_computed_and_refused() -> None:
    assert not set(EMITTERS) & set(UNSUPPORTED)
