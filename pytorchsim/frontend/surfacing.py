"""Errors of ours reach the user as what they are.

In: exceptions raised while a graph is compiled, wrapped by Inductor and Dynamo once or more. Out: the first error of
ours among them, of its own type, with its own facts. Assumes: torch 2.13 passes a `ShortenTraceback` on unchanged and
wraps every other exception of a backend into `BackendCompilerFailed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo.exc import ShortenTraceback, exceptions_allowed_to_be_fallback

from pytorchsim.errors import PyTorchSimError, UnsupportedError

__all__ = ["surfacing"]


@contextmanager
def surfacing(*, strict: bool) -> Iterator[None]:
    """Raise the error of ours that an exception carries, in a form that Dynamo passes on unchanged.

    With `strict`, those exceptions that Dynamo would answer with a graph break (the graph then runs in eager) become an
    `UnsupportedError`, too.
    """
    try:
        yield
    except Exception as error:
        cause = _ours(error)
        if cause is None and strict and isinstance(error, exceptions_allowed_to_be_fallback):
            cause = UnsupportedError(
                f"strict mode: the graph cannot be compiled ({type(error).__name__}: {error}) and would run on the host"
            )
        if cause is None or isinstance(cause, ShortenTraceback):
            raise
        raise _passed_on(cause) from cause.__cause__


def _ours(error: BaseException) -> PyTorchSimError | None:
    """The first error of ours on the chain of what wraps what."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, PyTorchSimError):
            return link
        seen.add(id(link))
        # Inductor's wrappers keep the original as an attribute or, raised `from None`, only as the context.
        link = getattr(link, "inner_exception", None) or link.__cause__ or link.__context__
    return None


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
