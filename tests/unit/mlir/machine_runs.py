"""Compile a kernel and run it on the machine: what the tests of generated code have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.compiler import compile_kernel, link_program
from pytorchsim.simulator.functional import LaunchResult, Machine, Slot
from pytorchsim.target import dtypes
from pytorchsim.target.dtypes import Dtype
from tests.unit.mlir.kernels import Body, tile_kernel, unary

CONFIG = NpuConfig()
LANES = CONFIG.core.lanes
TORCH = {
    dtype: getattr(torch, dtype.name)
    for dtype in (dtypes.F32, dtypes.F16, dtypes.BF16, dtypes.F64, dtypes.I8, dtypes.I16, dtypes.I32, dtypes.I64)
}


def launch(text: str, tensors: Sequence[torch.Tensor], config: NpuConfig = CONFIG) -> LaunchResult:
    """Compile, link, load and run kernel `k` with `tensors` as its slots."""
    program = link_program([compile_kernel("k", text, config)], config)
    machine = Machine(config)
    machine.load(program)
    slots = [
        Slot(tensor.data_ptr(), 0, tensor.nbytes, 1 << 20 + number, tensor.element_size())
        for number, tensor in enumerate(tensors)
    ]
    return machine.launch("k", slots)


def run(
    body: Body, inputs: Sequence[torch.Tensor], dtype: Dtype = dtypes.F32, step: int = 16, elements: int = 64
) -> torch.Tensor:
    """The output of `body` over `[tiles * elements, LANES]` inputs."""
    output = torch.zeros_like(inputs[0])
    text = tile_kernel(
        "k",
        body,
        dtype=dtype,
        step=step,
        elements=elements,
        tiles=len(inputs) + 1,
        tile_count=inputs[0].shape[0] // elements,
    )
    launch(text, [*inputs, output])
    return output


def run_unary(
    build: Callable[[ir.Value], ir.Value], x: torch.Tensor, dtype: Dtype = dtypes.F32, step: int = 16
) -> torch.Tensor:
    return run(unary(build, step), [x], dtype, step)


def sample(dtype: Dtype, rows: int = 192) -> torch.Tensor:
    kind = TORCH[dtype]
    if kind.is_floating_point:
        return (torch.randn(rows, LANES) * 4).to(kind)
    return torch.randint(-100, 100, (rows, LANES)).to(kind)


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=0, atol=0, equal_nan=True)
