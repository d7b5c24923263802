"""Errors of ours reach the user as what they are.

In: exceptions raised while a graph is compiled, wrapped by Inductor and Dynamo once or more. Out: the first error of
ours among them, of its own type, with its own facts; one of ours for what PyTorch cannot trace. Assumes: torch 2.13
passes a `ShortenTraceback` on unchanged and wraps every other exception of a backend into `BackendCompilerFailed`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch._dynamo.exc import ShortenTraceback, exceptions_allowed_to_be_fallback
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from pytorchsim.errors import CompileError, PyTorchSimError, UnsupportedError

__all__ = ["surfacing"]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
_Error = TypeVar("_Error", bound=BaseException)


@contextmanager
def surfacing(*, strict: bool) -> Iterator[None]:
    """Raise the error of ours that an exception carries, in a form that Dynamo passes on unchanged.

    With `strict`, those exceptions that Dynamo would answer with a graph break (the graph then runs in eager) become an
    `UnsupportedError`, too.
    """
    try:
        yield
    except Exception as error:
        cause = _first(error, PyTorchSimError) or _place_by_value(error) or _no_room(error)
        if cause is None and strict and isinstance(error, exceptions_allowed_to_be_fallback):
            cause = UnsupportedError(
                f"strict mode: the graph cannot be compiled ({type(error).__name__}: {error}) and would run on the host"
            )
        if cause is None or isinstance(cause, ShortenTraceback):
            raise
        raise _passed_on(cause) from cause.__cause__


def _first(error: BaseException, kind: type[_Error]) -> _Error | None:
    """The first error of a kind on the chain of what wraps what."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, kind):
            return link
        seen.add(id(link))
        # Inductor's wrappers keep the original as an attribute or, raised `from None`, only as the context.
        link = getattr(link, "inner_exception", None) or link.__cause__ or link.__context__
    return None


def _place_by_value(error: BaseException) -> UnsupportedError | None:
    """PyTorch cannot trace `x[i]` where `i` is a tensor of one number: the view would start where its value says."""
    found = _first(error, GuardOnDataDependentSymNode)
    if found is None:
        return None
    while_executing = str(found).partition("While executing ")[2].partition("\n\n")[0]
    return UnsupportedError(
        "a view, a size or a branch depends on a value of a tensor, which is not known when the graph is compiled."
        " Take an element with x.index_select(dim, i.reshape(1)), store one with index_copy or torch.where."
        f"\n  {while_executing or found}"
    )


def _no_room(error: BaseException) -> CompileError | None:
    """Inductor keeps what it compiles in files, and says nothing of where when they cannot be written."""
    found = _first(error, OSError)
    if found is None or found.errno not in _NO_ROOM:
        return None
    return CompileError(
        f"files of compiled code cannot be written to {cache_dir()}: {found}; free space there or set"
        " TORCHINDUCTOR_CACHE_DIR to another folder",
        stage="cache of Inductor",
    )


def _passed_on(error: PyTorchSimError) -> PyTorchSimError:
    """A copy of `error` whose class is also one that Dynamo does not wrap. It is still an instance of its old class."""
    base = type(error)
    message = str(error)
    # Dynamo appends advice about its own stack trace to the arguments of whatever passes.
    namespace = {"__module__": base.__module__, "__doc__": base.__doc__, "__str__": lambda _: message}
    cls: Any = type(base.__name__, (base, ShortenTraceback), namespace)
    copy = cls.__new__(cls, *error.args)
    # Our own constructors take facts, not messages: only Dynamo's part is constructed, the facts are carried over.
    ShortenTraceback.__init__(copy, *error.args, first_useful_frame=None)
    copy.__dict__.update(error.__dict__)
    passed_on: PyTorchSimError = copy.with_traceback(error.__traceback__)
    return passed_on
