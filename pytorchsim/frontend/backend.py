"""`compile_graph`: the backend function behind `torch.compile(model, backend="pytorchsim")`.

In: an FX graph of Dynamo, example inputs, the user's options. Out: a callable that runs the graph on the simulated NPU.
Assumes: Inductor compiles the backward later, possibly in another thread; all that it needs is in the closure of
`inner_compile` and in the config patches, which Inductor applies again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.exc import exceptions_allowed_to_be_fallback
from torch._inductor import compile_fx as inductor
from torch._inductor.virtualized import V

from pytorchsim.config.logs import apply_log_level
from pytorchsim.config.session import Session, session_scope
from pytorchsim.errors import HostOpWarning, UnsupportedError
from pytorchsim.frontend import attention_lowerings as _attention_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import average_pool_lowerings as _average_pool_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import convolution_lowerings as _convolution_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import division_lowerings as _division_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import in_place_scatters as _in_place_scatters  # noqa: F401  importing it registers
from pytorchsim.frontend import index_lowerings as _index_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import integer_lowerings as _integer_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import max_pool_lowerings as _max_pool_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import product_lowerings as _product_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend import scan_lowerings as _scan_lowerings  # noqa: F401  importing it registers
from pytorchsim.frontend.attention_graphs import write_out_attention
from pytorchsim.frontend.attention_rewrite import AttentionRewrite
from pytorchsim.frontend.data_dependence import refuse_data_dependent_sizes
from pytorchsim.frontend.decompositions import decomposition_table
from pytorchsim.frontend.graph_breaks import check_graph_break, ends_in_break
from pytorchsim.frontend.lowerings import admit_fallbacks
from pytorchsim.frontend.meta_models import graph_on_cpu, has_meta_inputs, with_stand_ins
from pytorchsim.frontend.options import parse_options
from pytorchsim.frontend.recompile_limit import check_recompile_limit
from pytorchsim.frontend.registration import install
from pytorchsim.frontend.settings import inductor_settings
from pytorchsim.frontend.storage_views import rebase_storage_views, with_checked_offsets
from pytorchsim.frontend.surfacing import surfacing
from pytorchsim.runtime.prescribed_tiles import backward_compiled, graph_follows, warn_of_unused_entries
from pytorchsim.runtime.session import error_text, thread_session

__all__ = ["compile_graph"]


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile `gm` for the NPU.

    Args:
        gm: a graph of Dynamo.
        example_inputs: its inputs, fake tensors and numbers; symbolic sizes are specialised to those of this call.
        options: see `parse_options`.
        mode: torch.compile's own argument; only the default is accepted.

    Raises:
        PyTorchSimError: of the type that says what failed; never wrapped.
    """
    try:
        with surfacing(strict=True):
            apply_log_level()
            session = parse_options(options, mode)
    except Exception as error:
        thread_session().fail(error_text(error))
        raise
    try:
        with surfacing(strict=session.strict):
            return _compile(gm, example_inputs, session)
    except Exception as error:
        thread_session().fail(error_text(error))
        # Dynamo would swallow these and run the graph in eager.
        swallowed = dynamo_config.suppress_errors or isinstance(error, exceptions_allowed_to_be_fallback)
        if swallowed and session.strict:
            return _raiser(error)
        if swallowed:
            message = f"a graph runs on the host, not on the simulated NPU: {type(error).__name__}: {error}"
            thread_session().fail(message)
            warnings.warn(message, HostOpWarning, stacklevel=2)
        raise


def _compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], session: Session) -> Callable[..., Any]:
    _refuse_unusable_settings()
    _specialise(example_inputs)
    check_graph_break(gm, strict=session.strict)
    check_recompile_limit(strict=session.strict)
    install()
    on_meta = has_meta_inputs(example_inputs)
    if on_meta:
        gm, example_inputs = graph_on_cpu(gm, example_inputs, session)

    more_follows, needs_backward = ends_in_break(gm), _needs_backward(example_inputs)
    graph_follows(session.tiles, more=more_follows, backward=needs_backward)

    def inner_compile(graph: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        with _failure_in_report(), surfacing(strict=session.strict), session_scope(session):
            refuse_data_dependent_sizes(graph)
            rebase_storage_views(graph)
            write_out_attention(graph, session)
            admit_fallbacks(graph, backward=bool(kwargs.get("is_backward")))
            loaded = inductor.compile_fx_inner(graph, inputs, **kwargs)
        if kwargs.get("is_backward") and backward_compiled(session.tiles):
            warn_of_unused_entries(session.tiles)
        return loaded

    with session_scope(session), AttentionRewrite():
        compiled = inductor.compile_fx(
            gm,
            example_inputs,
            inner_compile=inner_compile,
            config_patches=inductor_settings(session),
            decompositions=decomposition_table(),
        )
    assert callable(compiled)
    # A backward or another graph that is still to come may have the product that an entry is for.
    if not more_follows and not needs_backward:
        warn_of_unused_entries(session.tiles)
    compiled = with_checked_offsets(compiled, gm, example_inputs)
    return with_stand_ins(compiled) if on_meta else compiled


@contextmanager
def _failure_in_report() -> Iterator[None]:
    """What fails in the lazily compiled backward, too, is what the next report is about."""
    try:
        yield
    except Exception as error:
        thread_session().fail(error_text(error))
        raise


def _refuse_unusable_settings() -> None:
    if inductor.fx_compile_mode != inductor.FxCompileMode.NORMAL:
        raise UnsupportedError(
            f"Inductor compiles in mode {inductor.fx_compile_mode.name}, in a process that knows nothing of this"
            " backend; unset TORCHINDUCTOR_FX_COMPILE_MODE"
        )
    if V.aot_compilation:
        raise UnsupportedError("AOTInductor packages are not supported; use torch.compile")


def _needs_backward(example_inputs: Sequence[Any]) -> bool:
    tensors = (value for value in example_inputs if isinstance(value, torch.Tensor))
    return torch.is_grad_enabled() and any(value.requires_grad for value in tensors)


def _specialise(example_inputs: Sequence[Any]) -> None:
    """Guard on every symbolic size, so that graphs are static: after `int`, Dynamo compiles again for another value."""
    for value in example_inputs:
        numbers = (value,)
        if isinstance(value, torch.Tensor):
            numbers = (*value.shape, *value.stride(), value.storage_offset())
        for number in numbers:
            if isinstance(number, torch.SymInt):
                int(number)


def _raiser(error: Exception) -> Callable[..., NoReturn]:
    """A compiled graph that raises `error`: what Dynamo cannot swallow."""

    def refuse(*_: Any) -> NoReturn:
        raise error

    return refuse
