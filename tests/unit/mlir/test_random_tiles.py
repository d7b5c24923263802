"""Random tile functions: all compile to code that passes the audit, and results do not depend on the vector length."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from mlir import ir
from mlir.dialects import scf

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.compiler import compile_kernel, link_program
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.simulator.functional import Machine, Slot
from pytorchsim.target.descriptor import Axis, Descriptor, TransferOp
from pytorchsim.target.dtypes import ALL_DTYPES
from tests.unit.mlir.random_tiles import BITS, FLOATS, INTEGERS, RandomTile

DTYPES = {dtype.mlir: dtype for dtype in reversed(ALL_DTYPES)}
CONFIG = NpuConfig(core=CoreConfig(lanes=8))
ELEMENTS = 32


def kernel_text(
    seed: int, count: int, types: tuple[str, ...], *, elementwise: bool
) -> tuple[str, list[str], list[str]]:
    """A kernel of one tile: loads all inputs, computes, stores all outputs; with the element types of both."""
    choose = random.Random(seed)
    inputs = [choose.choice(types) for _ in range(choose.randint(1, 3))]
    outputs = [choose.choice(types) for _ in range(choose.randint(1, 3))]
    kinds = [*inputs, *outputs]
    with KernelBuilder("k", CONFIG) as kernel:
        tiles = [(ELEMENTS, ir.Type.parse(kind)) for kind in kinds]
        buffers = [kernel.buffer(f"b{n}", ELEMENTS * BITS[kind] // 8) for n, kind in enumerate(kinds)]
        axes = (Axis(ELEMENTS, CONFIG.core.lanes, 1), Axis(CONFIG.core.lanes, 1, ELEMENTS, lane=True))
        transfers = [
            kernel.descriptor(
                f"t{n}",
                Descriptor(n, TransferOp.LOAD if n < len(inputs) else TransferOp.STORE, DTYPES[kind], axes),
            )
            for n, kind in enumerate(kinds)
        ]
        with kernel.tile_function("body", tiles) as tile:
            memories = list(zip(kinds, tile.arguments, strict=True))
            bounds = [builders.index_constant(value) for value in (0, ELEMENTS, count)]
            for position in scf.for_(*bounds):
                body = RandomTile(seed, count, types, elementwise)
                body.body(memories[: len(inputs)], memories[len(inputs) :], position)
                scf.yield_([])
        with kernel.control():
            zero = builders.index_constant(0)
            views = [
                builders.tile_view(builders.buffer_ref(buffer), zero, *tile)
                for buffer, tile in zip(buffers, tiles, strict=True)
            ]
            for number in range(len(inputs)):
                builders.transfer(transfers[number], views[number], 0)
            builders.wait(0)
            builders.call_tile(tile, views)
            for number in range(len(inputs), len(kinds)):
                builders.transfer(transfers[number], views[number], 1)
            builders.wait(1)
        return kernel.text(), inputs, outputs


def run(text: str, inputs: list[str], outputs: list[str], seed: int) -> list[bytes]:
    generator = np.random.default_rng(seed)
    shape = (ELEMENTS, CONFIG.core.lanes)
    tensors = []
    for kind in inputs:
        numbers = torch.from_numpy(generator.normal(size=shape) * 50)
        tensors.append(numbers.to(getattr(torch, DTYPES[kind].name)))
    tensors += [torch.zeros(shape, dtype=getattr(torch, DTYPES[kind].name)) for kind in outputs]
    machine = Machine(CONFIG)
    machine.load(link_program([compile_kernel("k", text, CONFIG)], CONFIG))
    slots = [Slot(t.data_ptr(), 0, t.nbytes, 1 << 20 + n, t.element_size()) for n, t in enumerate(tensors)]
    machine.launch("k", slots)
    return [tensor.view(torch.uint8).numpy().tobytes() for tensor in tensors[len(inputs) :]]


@pytest.mark.parametrize("seed", range(40))
def test_compiles_to_lane_code(seed: int) -> None:
    """Any operation; vectors from 2 elements to eight registers."""
    count = random.Random(seed).choice([2, 4, 8, 16, 32])
    longest = 8 * CONFIG.core.vlen_bits // count
    types = tuple(kind for kind in (*FLOATS, *INTEGERS) if BITS[kind] <= longest)
    text, inputs, outputs = kernel_text(seed, count, types, elementwise=False)
    run(text, inputs, outputs, seed)


@pytest.mark.parametrize("seed", range(100, 130))
def test_results_do_not_depend_on_the_vector_length(seed: int) -> None:
    types = (*FLOATS, *INTEGERS)
    results = []
    for count in (2, 8, 32):
        text, inputs, outputs = kernel_text(seed, count, types, elementwise=True)
        results.append(run(text, inputs, outputs, seed))
    assert results[0] == results[1] == results[2]
