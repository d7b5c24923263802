"""Which graph runs one report shows: those of the last top-level call of the thread, and its last backward pass.

Graphs here are Dynamo's, run in eager between `begin` and `end`, so only the bookkeeping is tested.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from pytorchsim.config import load_config
from pytorchsim.report.record import (
    CallRecord,
    GraphRecord,
    KernelFacts,
    LaunchRecord,
    set_thread_record,
    thread_record,
)
from pytorchsim.runtime.session import thread_session

CONFIG = load_config("tiny")


def framed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as the call of a generated module."""

    def call(*args: Any) -> Any:
        record = GraphRecord(name, name.partition("_")[0], CONFIG, "functional", {})
        thread_session().begin(record)
        try:
            return function(*args)
        finally:
            thread_session().end(record)

    return call


def recording_backend(gm: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
    targets = [str(node.target) for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    return framed(f"inference_{'_'.join(targets)}", gm.forward)


@pytest.fixture(autouse=True)
def _no_record() -> None:
    set_thread_record(None)


def graphs() -> list[str]:
    record = thread_record()
    assert record is not None
    return [graph.name for graph in record.graphs]


@torch.compile(backend=recording_backend)
def broken(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def test_graphs_of_one_call_are_together() -> None:
    broken(torch.zeros(2))
    assert graphs() == ["inference_sin", "inference_cos"]


def test_the_next_call_starts_anew() -> None:
    for _ in range(3):
        broken(torch.zeros(2))
    assert graphs() == ["inference_sin", "inference_cos"]


def test_a_graph_that_runs_often_in_one_call_counts_every_time() -> None:
    @torch.compile(backend=recording_backend)
    def block(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @torch.compile(backend=recording_backend)
    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            torch._dynamo.graph_break()
            x = block(x)
        return x

    model(torch.zeros(2))
    assert graphs() == ["inference_sin"] * 3


def test_calls_of_different_models_are_different() -> None:
    @torch.compile(backend=recording_backend)
    def other(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    broken(torch.zeros(2))
    other(torch.zeros(2))
    assert graphs() == ["inference_exp"]


def test_nested_graphs_belong_to_the_outer_one() -> None:
    inner = framed("inference_inner", lambda: 2)
    assert framed("inference_outer", lambda: inner() + 1)() == 3
    assert graphs() == ["inference_outer", "inference_inner"]


def test_an_error_ends_the_graph() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        framed("inference_bad", fails)()
    framed("inference_good", lambda: None)()
    assert graphs() == ["inference_good"]
    with pytest.raises(RuntimeError, match="outside of begin"):
        _ = thread_session().current_graph


class Doubling(torch.autograd.Function):
    """Forward and backward as two graphs."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return framed("forward_double", lambda: 2 * x)()

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
        return framed("backward_double", lambda: 2 * gradient)()


def test_the_backward_pass_joins_its_call() -> None:
    x = torch.ones(2, requires_grad=True)
    Doubling.apply(x).sum().backward()
    assert graphs() == ["forward_double", "backward_double"]


def test_only_the_last_backward_pass_counts() -> None:
    x = torch.ones(2, requires_grad=True)
    y = Doubling.apply(x).sum()
    for _ in range(3):
        y.backward(retain_graph=True)
    assert graphs() == ["forward_double", "backward_double"]


def test_a_report_made_before_is_not_changed_by_a_later_backward() -> None:
    x = torch.ones(2, requires_grad=True)
    y = Doubling.apply(x).sum()
    y.backward(retain_graph=True)
    before = thread_record()
    y.backward()
    assert before is not thread_record()


def test_threads_do_not_see_each_other() -> None:
    framed("inference_here", lambda: None)()
    seen: list[CallRecord | None] = []
    thread = threading.Thread(target=lambda: seen.append(thread_record()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert graphs() == ["inference_here"]


def test_addresses_start_anew_with_each_call() -> None:
    x = torch.zeros(100)
    addresses = []

    def use() -> None:
        thread_session().allocator.address(torch.zeros(7))
        addresses.append(thread_session().allocator.address(x))

    for _ in range(2):
        framed("inference_use", use)()
    assert addresses == [256, 256]


def test_a_call_keeps_no_tensor_alive() -> None:
    x = torch.zeros(100)
    broken(x)
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_host_time_is_what_no_stage_accounts_for() -> None:
    def work() -> None:
        thread_session().account("functional", 1000.0)

    framed("inference_work", work)()
    record = thread_record()
    assert record is not None
    assert record.graphs[0].wall_seconds == {"functional": 1000.0, "host": 0.0}


def error() -> str:
    record = thread_record()
    assert record is not None
    return record.error


def test_an_error_is_part_of_the_record() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        framed("inference_outer", framed("inference_inner", fails))()
    assert (graphs(), error()) == (["inference_outer", "inference_inner"], "KeyError: 'x'")
    framed("inference_good", lambda: None)()
    assert error() == ""


def test_what_the_caller_handles_is_no_error_of_the_graph() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        framed("inference_good", lambda: None)()
    assert error() == ""


def test_a_failed_compile_begins_a_call() -> None:
    framed("inference_before", lambda: None)()
    thread_session().fail("ConfigError: unknown")
    assert (graphs(), error()) == ([], "ConfigError: unknown")


def test_runs_of_one_graph_in_one_call_are_one_record() -> None:
    facts: dict[str, list[Any]] = {}

    def inner() -> None:
        record = GraphRecord("inference_inner", "inference", CONFIG, "functional", facts)
        thread_session().begin(record)
        facts_of_kernel = KernelFacts("npu_add_0")
        record.add_launch(LaunchRecord(facts_of_kernel, None, {"scalar": 3}, stack_bytes=8))
        thread_session().end(record)

    def outer() -> None:
        for _ in range(50):
            inner()

    framed("inference_outer", outer)()
    assert graphs() == ["inference_outer", "inference_inner"]
    record = thread_record()
    assert record is not None
    loop = record.graphs[1]
    assert (loop.runs, loop.kernels["npu_add_0"].launches, loop.kernels["npu_add_0"].instructions) == (
        50,
        50,
        {"scalar": 150},
    )
    assert loop.wall_seconds["host"] > 0
