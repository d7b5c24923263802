"""Run by test_isolation.py in a process of its own: what does plain Inductor generate, with or without us around?

Argument: `without` (this package is never imported) or `with` (it compiles and runs a graph, forward and backward,
before each graph of plain Inductor). Prints JSON: generated wrapper codes and FX cache keys of plain Inductor's graphs.
"""

import json
import sys
from typing import Any

import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import FxGraphCache
from torch._inductor.cpu_vec_isa import VecISA
from torch._inductor.graph import GraphLowering


def softmax_of_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, dim=-1)


def scatter(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.zeros(6, 8).index_add(0, torch.tensor([0, 2, 2, 5]), x) @ w


def variance_and_argmax(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = (x @ w).t()
    return y.var(), y.argmax()


def gelu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x) + w[:4]


def scaled_relu(x: torch.Tensor, _w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * x


def run(function: Any, backend: str, options: dict[str, Any] | None) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    result = torch.compile(function, backend=backend, options=options)(x, w)
    first = result if isinstance(result, torch.Tensor) else result[0]
    first.sum().backward()


def main(around: str) -> None:
    # No C++ compiler is needed to see what is generated: kernels compute nothing, vector units are not probed.
    VecISA.check_build = lambda _self, _code: True  # type: ignore[method-assign]
    AsyncCompile.cpp_pybinding = lambda _self, _argtypes, _source: lambda *_args: None  # type: ignore[assignment]
    ours = {"backend": "pytorchsim", "options": {"config": "tiny", "strict": True}}
    stock = {"backend": "inductor", "options": None}
    codes: list[str] = []
    keys: list[str] = []
    prepare_key = FxGraphCache.prepare_key

    def logged_key(*args: Any, **kwargs: Any) -> Any:
        result = prepare_key(*args, **kwargs)
        keys.append(result[0][0])
        return result

    for function in (softmax_of_product, scatter, variance_and_argmax, gelu):
        # In both processes a graph of the same kind comes first, so that torch's own counters agree.
        torch._dynamo.reset()
        run(scaled_relu, **(ours if around == "with" else stock))
        torch._dynamo.reset()
        GraphLowering.save_output_code = staticmethod(codes.append)
        FxGraphCache.prepare_key = staticmethod(logged_key)
        run(function, **stock)
        GraphLowering.save_output_code = None  # as it was
        FxGraphCache.prepare_key = staticmethod(prepare_key)
    print(json.dumps({"codes": codes, "keys": keys, "imported": "pytorchsim" in sys.modules}))


if __name__ == "__main__":
    main(sys.argv[1])
