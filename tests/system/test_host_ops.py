"""Nothing runs on the host in silence: strict mode refuses it, otherwise it is announced, reported, and right."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.utils import counters
from torch._inductor.lowering import lowerings

import pytorchsim.runtime
from pytorchsim.errors import HostOpError, HostOpWarning, PyTorchSimError, UnsupportedError

pytestmark = pytest.mark.usefixtures("fresh_caches")

TINY = {"config": "tiny"}
STRICT = {"config": "tiny", "strict": True}


def sample(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


# One of every way in which Inductor calls the host: out-of-place kernels, allocating ones, several results, effects,
# in-place scatters, complex numbers, and data on which the host decides. What gets a kernel of ours leaves this table.
HOST_OPS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "aten._fft_r2c": (lambda x: torch.view_as_real(torch.fft.fft(x)), (sample(4, 8),)),
    "aten.histc": (lambda x: torch.histc(x, 4), (sample(4, 8),)),
    "aten.linalg_inv_ex": (lambda x: torch.linalg.inv(x).t(), (torch.eye(4) * 2,)),
    "aten.median": (lambda x: x.median(0).values, (sample(5, 6),)),
    "aten.scatter_reduce_": (
        lambda x: torch.zeros(4, 4).scatter_reduce(0, torch.zeros(4, 4, dtype=torch.int64), x, "prod"),
        (sample(4, 4),),
    ),
    "Conditional": (
        lambda flag, x: torch.cond(flag, lambda x: x + x, lambda x: x * x, (x,)),
        (torch.tensor(True), sample(4, 8)),
    ),
}


@pytest.mark.parametrize("op", HOST_OPS)
def test_strict_refuses(op: str, launches: Any) -> None:
    function, inputs = HOST_OPS[op]
    with pytest.raises(HostOpError, match=r"(?s)strict mode: \d+ operation.*at .*test_host_ops\.py:\d+: ") as caught:
        torch.compile(function, backend="pytorchsim", options=STRICT)(*inputs)
    text = str(caught.value)
    assert op in text
    assert "(FX node " in text
    assert "[" in text.split(op)[1].splitlines()[0]  # the shape
    assert launches.launched == []


@pytest.mark.parametrize("op", [op for op in HOST_OPS if op != "aten.scatter_reduce_"])
def test_otherwise_it_runs_and_is_announced(op: str) -> None:
    function, inputs = HOST_OPS[op]
    with pytest.warns(HostOpWarning) as announced:
        actual = torch.compile(function, backend="pytorchsim", options=TINY)(*inputs)
    assert any(op in str(warning.message) and warning.filename == __file__ for warning in announced)
    torch.testing.assert_close(actual, function(*inputs))


def test_facts_reach_the_runtime_also_from_a_warm_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs = HOST_OPS["aten.median"]
    facts: list[Any] = []
    load_graph = pytorchsim.runtime.load_graph

    def logged(**given: str) -> Any:
        facts.append(json.loads(given["facts"]))
        return load_graph(**given)

    monkeypatch.setattr(pytorchsim.runtime, "load_graph", logged)
    counters.clear()
    for _ in range(2):
        torch._dynamo.reset()
        torch._inductor.codecache.PyCodeCache.cache_clear()
        with pytest.warns(HostOpWarning, match=r"aten\.median"):
            torch.compile(function, backend="pytorchsim", options=TINY)(*inputs)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    cold, warm = facts
    assert cold == warm
    (op,) = cold["host_ops"]
    assert (op["op"], op["shape"], op["dtype"]) == ("aten.median.dim", [6], "float32")
    assert op["file"].endswith("test_host_ops.py")
    assert "median" in op["code"]


def test_copy_by_autograd_after_the_graph_is_named() -> None:
    def accumulate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x + y

    def inputs() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(4, requires_grad=True) + 0, torch.ones(4, requires_grad=True)

    with pytest.raises(HostOpError, match=r"aten\.copy_\.default -> float32\[4\] \(FX node primals_1\)"):
        torch.compile(accumulate, backend="pytorchsim", options=STRICT)(*inputs())


def broken_graph(x: torch.Tensor) -> torch.Tensor:
    y = x + x
    return y * y.sum().item()


def test_graph_break() -> None:
    x = torch.zeros(0, 4)  # without elements no reduction kernel is needed
    with pytest.raises(HostOpError, match=r"graph break at .*test_host_ops\.py:\d+: return y \* y\.sum\(\)\.item\(\)"):
        torch.compile(broken_graph, backend="pytorchsim", options=STRICT)(x)


def test_graph_break_is_announced() -> None:
    def breaks(x: torch.Tensor) -> torch.Tensor:
        y = x + x
        torch._dynamo.graph_break()
        return y * y

    x = sample(3, 4)
    with pytest.warns(HostOpWarning, match=r"graph break at .*test_host_ops\.py:\d+: torch\._dynamo\.graph_break\(\)"):
        actual = torch.compile(breaks, backend="pytorchsim", options=TINY)(x)
    torch.testing.assert_close(actual, breaks(x))


def test_suppress_errors_does_not_hide_a_refusal() -> None:
    function, inputs = HOST_OPS["aten.median"]
    with dynamo_config.patch(suppress_errors=True), pytest.raises(HostOpError, match=r"aten\.median"):
        torch.compile(function, backend="pytorchsim", options=STRICT)(*inputs)


def test_suppressed_errors_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise UnsupportedError("no kernel for this")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", refuse)
    x = sample(3, 4)
    with dynamo_config.patch(suppress_errors=True):
        with pytest.warns(HostOpWarning, match="a graph runs on the host.*no kernel for this"):
            torch.testing.assert_close(torch.compile(torch.relu, backend="pytorchsim", options=TINY)(x), torch.relu(x))
        torch._dynamo.reset()
        with pytest.raises(UnsupportedError, match="no kernel for this"):
            torch.compile(torch.relu, backend="pytorchsim", options=STRICT)(x)


def test_refusal_in_the_lazy_backward_has_its_type() -> None:
    class OnlyBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x + x

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return gradient + x.median(0).values

    compiled = torch.compile(OnlyBackward.apply, backend="pytorchsim", options=STRICT)
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(PyTorchSimError, match=r"aten\.median") as caught:
        compiled(x).backward(torch.ones(3, 4))
    assert isinstance(caught.value, HostOpError)


@pytest.mark.parametrize("ci", [False, True])
def test_the_variable_ci_changes_nothing(monkeypatch: pytest.MonkeyPatch, ci: bool) -> None:
    """With it, Inductor refuses its own implicit fallbacks by an assertion, before a lowering of ours is asked."""
    monkeypatch.setenv("CI", "true") if ci else monkeypatch.delenv("CI", raising=False)
    monkeypatch.delitem(lowerings, torch.ops.aten.roll.default, raising=False)
    x = torch.arange(12.0).reshape(3, 4)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(lambda x: x.roll(1, 0), backend="pytorchsim", options=STRICT)(x), x.roll(1, 0))
