"""`surfacing`: errors of ours keep their type, facts and message on the way through Inductor and Dynamo."""

from __future__ import annotations

import errno
import inspect

import pytest
from torch._dynamo.exc import BackendCompilerFailed, ShortenTraceback
from torch._inductor.exc import InductorError, LoweringException
from torch._subclasses.fake_tensor import DataDependentOutputException

from pytorchsim.errors import (
    AssemblyAuditError,
    AuditFinding,
    CompileError,
    FaultSite,
    HostOpError,
    MachineFault,
    PyTorchSimError,
    SpadOverflowError,
    UnsupportedError,
)
from pytorchsim.frontend.surfacing import surfacing

FINDING = AuditFinding("scalar-float-move", "tile", 3, "vfmv.f.s fa0, v8")
ERRORS: list[PyTorchSimError] = [
    HostOpError("mm"),
    CompileError("broken", kernel="k", stage="lower", dump="d"),
    AssemblyAuditError("audit", (FINDING,), kernel="k"),
    MachineFault("fault", FaultSite("unmapped", "k", "f", "lw", 64)),
    SpadOverflowError(kernel="k", origins=("add",), tile={"m": 8}, used_bytes=9, budget_bytes=8, shares={"x": 9}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("wrapped", [False, True])
def test_type_facts_and_message_are_kept(error: PyTorchSimError, wrapped: bool) -> None:
    frame = inspect.currentframe()
    raised = BackendCompilerFailed(None, InductorError(error, frame), frame) if wrapped else error
    with pytest.raises(type(error)) as caught, surfacing(strict=False):
        raise raised
    assert isinstance(caught.value, ShortenTraceback)  # what Dynamo does not wrap
    assert type(caught.value).__name__ == type(error).__name__
    assert str(caught.value) == str(error)
    assert {key: getattr(caught.value, key) for key in error.__dict__} == error.__dict__
    assert caught.value.remove_dynamo_frames() is caught.value


def lower_as_inductor_does() -> None:
    try:
        raise UnsupportedError("no such kernel")
    except UnsupportedError as error:
        raise LoweringException(error, "aten.x", [], {}) from None


def test_found_where_only_the_context_has_it() -> None:
    with pytest.raises(UnsupportedError, match="no such kernel"), surfacing(strict=False):
        lower_as_inductor_does()


def fail_to_write(number: int) -> None:
    try:
        raise OSError(number, "as the system says")
    except OSError as error:
        raise InductorError(error, inspect.currentframe()) from None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES])
def test_a_folder_of_inductor_without_room_is_named(number: int) -> None:
    message = r"cannot be written to \S+: .*as the system says; .*TORCHINDUCTOR_CACHE_DIR"
    with pytest.raises(CompileError, match=message), surfacing(strict=False):
        fail_to_write(number)
    with pytest.raises(InductorError), surfacing(strict=False):
        fail_to_write(errno.ENOENT)


def test_its_cause_is_kept() -> None:
    cause = OSError("disk full")
    with pytest.raises(CompileError) as caught, surfacing(strict=False):
        raise CompileError("no object") from cause
    assert caught.value.__cause__ is cause


def test_nested_surfacing_changes_nothing() -> None:
    with pytest.raises(HostOpError) as inner, surfacing(strict=True):
        raise HostOpError("mm")
    with pytest.raises(HostOpError) as outer, surfacing(strict=True):
        raise inner.value
    assert outer.value is inner.value


def test_errors_of_others_pass() -> None:
    with pytest.raises(ZeroDivisionError), surfacing(strict=True):
        _ = 1 / 0


def test_what_dynamo_answers_with_eager_is_an_error_in_strict_mode() -> None:
    with pytest.raises(UnsupportedError, match=r"strict mode.*DataDependentOutputException"), surfacing(strict=True):
        raise DataDependentOutputException("aten.nonzero")
    with pytest.raises(DataDependentOutputException), surfacing(strict=False):
        raise DataDependentOutputException("aten.nonzero")
