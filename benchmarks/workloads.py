"""The workloads of the accuracy table, by the names of `tpuv3_cycles.csv`, and what no machine can do them without.

In: a name such as `gemm_512x512x512`. Out: a function with its inputs, and its work: multiply-accumulates, bytes that
must cross the DRAM once, vector operations, special functions. `Work.bound` turns those into cycles of a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from benchmarks.networks import EncoderBlock, ResNet18
from pytorchsim.config import NpuConfig

__all__ = ["Work", "Workload", "workload"]

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Work:
    """Least work of a workload. `special`: exponentials and the like, which go through the SFU."""

    macs: int = 0
    dram_bytes: int = 0
    vector: int = 0
    special: int = 0

    def bound(self, config: NpuConfig) -> dict[str, float]:
        """Cycles of `config` by part: arrays, DRAM, vector lanes (arithmetic or SFU, whichever takes longer)."""
        core = config.core
        arrays = config.array.count * core.lanes**2
        lanes = core.lanes * core.datapath_bits / 32 * config.latency.vector_units
        return {
            "array": self.macs / arrays,
            "dram": self.dram_bytes / config.dram_bytes_per_cycle,
            "vector": max(self.vector / lanes, self.special / (core.lanes * core.sfu_elements_per_cycle)),
        }


@dataclass(frozen=True)
class Workload:
    """`kernels`: as many kernels the row is about; another number is another algorithm. None: any number."""

    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    work: Work
    array_bound: bool = False
    kernels: int | None = None


def workload(name: str) -> Workload:
    """The workload called `name`. ValueError: its family is not known."""
    family, _, sizes = name.partition("_")
    if name in _NETWORKS:
        return _NETWORKS[name]()
    numbers, _, variant = sizes.partition("_")
    family = f"{family}_{variant}" if variant else family
    if family not in _FAMILIES:
        raise ValueError(f"no workload family {family!r}; known: {', '.join(sorted([*_FAMILIES, *_NETWORKS]))}")
    return _FAMILIES[family](*(int(size) for size in numbers.split("x")))


def _gemm(m: int, k: int, n: int) -> Workload:
    work = Work(macs=m * k * n, dram_bytes=FLOAT_BYTES * (m * k + k * n + m * n))
    return Workload(torch.mm, (torch.randn(m, k), torch.randn(k, n)), work, array_bound=True)


def _conv(*sizes: int) -> Workload:
    batch, height, width, cin, cout, kernel, stride, pad = sizes
    x = torch.randn(batch, cin, height, width).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(cout, cin, kernel, kernel)
    out = [(size + 2 * pad - kernel) // stride + 1 for size in (height, width)]
    outputs = batch * cout * out[0] * out[1]
    work = Work(outputs * cin * kernel**2, FLOAT_BYTES * (x.numel() + weight.numel() + outputs))

    def convolve(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(x, weight, stride=stride, padding=pad)

    return Workload(convolve, (x, weight), work, array_bound=min(cin, cout) >= 128)


def _layernorm(rows: int, columns: int) -> Workload:
    # Per element: sum; subtract the mean; square and add; times the deviation; times weight plus bias.
    work = Work(dram_bytes=FLOAT_BYTES * (2 * rows * columns + 2 * columns), vector=5 * rows * columns)

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (columns,), weight, bias)

    return Workload(norm, (torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)), work)


def _softmax(rows: int, columns: int) -> Workload:
    # Per element: maximum, subtract, exponential, sum, multiply.
    elements = rows * columns
    work = Work(dram_bytes=FLOAT_BYTES * 2 * elements, vector=4 * elements, special=elements)
    return Workload(lambda x: torch.softmax(x, -1), (torch.randn(rows, columns),), work)


def _attention(heads: int, tokens: int, width: int) -> Workload:
    """Three steps, keys along the rows of the scores, as the silicon ran it."""

    def steps(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(torch.matmul(key, query.transpose(1, 2)) / width**0.5, 1)
        return torch.matmul(value.transpose(1, 2), weights)

    inputs = tuple(torch.randn(heads, tokens, width) for _ in range(3))
    return Workload(steps, inputs, _attention_work(heads, tokens, width))


def _fused_attention(heads: int, tokens: int, width: int) -> Workload:
    inputs = tuple(torch.randn(1, heads, tokens, width) for _ in range(3))
    work = _attention_work(heads, tokens, width)
    return Workload(functional.scaled_dot_product_attention, inputs, work, kernels=1)


def _attention_work(heads: int, tokens: int, width: int) -> Work:
    scores = heads * tokens * tokens
    # Scale, maximum, subtract, exponential, sum, multiply. The scores need not leave the core.
    return Work(2 * scores * width, FLOAT_BYTES * 4 * heads * tokens * width, 5 * scores, scores)


def _resnet18() -> Workload:
    model = ResNet18().eval().requires_grad_(False).to(memory_format=torch.channels_last)
    image = torch.randn(1, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    macs = 0

    def count(module: torch.nn.Module, _: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        nonlocal macs
        if isinstance(module, torch.nn.Conv2d):
            macs += output.numel() * module.weight[0].numel()
        elif isinstance(module, torch.nn.Linear):
            macs += module.weight.numel()

    hooks = [module.register_forward_hook(count) for module in model.modules()]
    model(image)
    for hook in hooks:
        hook.remove()
    weights = sum(parameter.numel() for parameter in model.parameters())
    return Workload(model, (image,), Work(macs, FLOAT_BYTES * (weights + image.numel() + 1000)))


def _bert_base() -> Workload:
    tokens, block = 512, EncoderBlock().eval().requires_grad_(False)
    hidden, inner, heads = block.HIDDEN, block.INNER, block.HEADS
    scores = heads * tokens * tokens
    work = Work(
        macs=tokens * hidden * (4 * hidden + 2 * inner) + 2 * tokens * tokens * hidden,
        dram_bytes=FLOAT_BYTES * (sum(p.numel() for p in block.parameters()) + 2 * tokens * hidden),
        # Softmax 5 per score; two norms of 5 and two additions per element; bias of every layer; GELU 4 per element.
        vector=5 * scores + tokens * (12 * hidden + 5 * hidden + 5 * inner),
        special=scores + tokens * inner,
    )
    return Workload(block, (torch.randn(tokens, hidden),), work)


_FAMILIES: dict[str, Callable[..., Workload]] = {
    "gemm": _gemm,
    "conv": _conv,
    "layernorm": _layernorm,
    "softmax": _softmax,
    "attention": _attention,
    "attention_fused": _fused_attention,
}
_NETWORKS: dict[str, Callable[[], Workload]] = {"resnet18": _resnet18, "bert_base": _bert_base}
