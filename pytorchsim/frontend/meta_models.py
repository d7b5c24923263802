"""Models on device `meta`: timed without ever having weights.

In: a Dynamo graph with inputs on `meta`. Out: the same graph on the CPU for the compiler, and a callable that gives
each `meta` input memory that no page is behind. Assumes: timing mode, in which no kernel reads or writes tensors;
results are CPU tensors as always in that mode, gradients of `meta` inputs are on `meta` again.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_map

from pytorchsim.config.session import Session
from pytorchsim.errors import UnsupportedError

__all__ = ["graph_on_cpu", "has_meta_inputs", "with_stand_ins"]

_MAP_NORESERVE = 0x4000
"""Linux, x86-64 (`mmap` has the name from Python 3.12 on): address space that is not counted as memory in use."""

_META, _CPU = torch.device("meta"), torch.device("cpu")


def has_meta_inputs(example_inputs: Sequence[Any]) -> bool:
    """Whether any input is on `meta`."""
    return any(_on_meta(value) for value in example_inputs)


def graph_on_cpu(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], session: Session
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The graph and its inputs as if the model were on the CPU. `gm` itself is changed: it is the compiler's own copy.

    Raises:
        UnsupportedError: another mode than timing, which would need the data.
    """
    if session.mode != "timing":
        names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
        on_meta = [name for name, value in zip(names, example_inputs, strict=False) if _on_meta(value)]
        raise UnsupportedError(
            f"{len(on_meta)} input(s) are on device 'meta' and have no data, first {on_meta[0] if on_meta else '?'!r}:"
            f" mode {session.mode!r} computes. Use options={{'mode': 'timing'}}, or give the model its weights."
        )
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            node.args = tree_map(_device_to_cpu, node.args)
            node.kwargs = tree_map(_device_to_cpu, node.kwargs)
    for name, value in [*gm.named_parameters(recurse=True), *gm.named_buffers(recurse=True)]:
        if _on_meta(value):
            owner, _, attribute = name.rpartition(".")
            setattr(gm.get_submodule(owner), attribute, _stand_in(value, {}))
    gm.recompile()
    mode = detect_fake_mode(example_inputs)
    if mode is None:
        blocks: dict[int, torch.UntypedStorage] = {}
        return gm, [_stand_in(value, blocks) if _on_meta(value) else value for value in example_inputs]
    with mode:
        return gm, [_fake(value) if _on_meta(value) else value for value in example_inputs]


def with_stand_ins(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled` for inputs of which some are on `meta`. Views of one `meta` storage share one block of addresses."""

    def run(*inputs: Any) -> Any:
        blocks: dict[int, torch.UntypedStorage] = {}
        return compiled(*(_input(value, blocks) if _on_meta(value) else value for value in inputs))

    return run


class _OnCpu(torch.autograd.Function):
    """The stand-in of an input that needs a gradient; the gradient has no data either."""

    @staticmethod
    def forward(_: Any, value: torch.Tensor, blocks: dict[int, torch.UntypedStorage]) -> torch.Tensor:
        return _stand_in(value, blocks)

    @staticmethod
    def backward(_: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.empty_like(gradients[0], device=_META), None


def _on_meta(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device == _META


def _device_to_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value == _META:
        return _CPU
    return "cpu" if isinstance(value, str) and value == "meta" else value


def _fake(value: torch.Tensor) -> torch.Tensor:
    size, stride = [int(extent) for extent in value.shape], [int(step) for step in value.stride()]
    fake = torch.empty_strided(size, stride, dtype=value.dtype, device=_CPU)
    return fake.requires_grad_(value.requires_grad)


def _input(value: torch.Tensor, blocks: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    if value.requires_grad and torch.is_grad_enabled():
        result: torch.Tensor = _OnCpu.apply(value, blocks)  # type: ignore[no-untyped-call]
        return result
    return _stand_in(value, blocks)


def _stand_in(value: torch.Tensor, blocks: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    """A CPU tensor of the same storage, offset, sizes and strides, whose pages exist only once they are touched."""
    storage = value.untyped_storage()
    block = blocks.get(storage._cdata)
    if block is None:
        size = int(storage.nbytes())
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        memory = torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8) if size else torch.empty(0)
        block = blocks[storage._cdata] = memory.untyped_storage()
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(block, int(value.storage_offset()), value.shape, value.stride())
