"""Small kernels that several tests compile, and what their objects hold."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from elftools.elf.elffile import ELFFile
from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.target import dtypes, isa
from pytorchsim.target.descriptor import Axis, Descriptor, TransferOp
from pytorchsim.target.dtypes import Dtype

Body = Callable[[Sequence[ir.Value], ir.Value], None]
"""Builds the ops of one vector: (tile arguments, position)."""


def tile_kernel(
    name: str,
    body: Body,
    *,
    config: NpuConfig | None = None,
    dtype: Dtype = dtypes.F32,
    elements: int = 64,
    step: int = 16,
    tiles: int = 2,
    copies: int = 2,
    tile_count: int = 10,
) -> str:
    """A kernel that loads `tiles - 1` tiles, runs `body` over them, stores the last one; `tile_count` times.

    Tensors are `[tile_count * elements, lanes]`: lane l has column l, element e of tile t is row t * elements + e.
    """
    config = config or NpuConfig()
    with KernelBuilder(name, config, origins=["test"], tile_shape={"i": elements}) as kernel:
        kind = builders.element_type(dtype)
        buffers = [kernel.buffer(f"b{n}", elements * dtype.bytes, copies=copies) for n in range(tiles)]
        axes = (Axis(config.core.lanes, 1, elements, lane=True), Axis(elements, config.core.lanes, 1))
        descriptors = [
            kernel.descriptor(
                f"t{n}",
                Descriptor(n, TransferOp.STORE if n == tiles - 1 else TransferOp.LOAD, dtype, axes),
            )
            for n in range(tiles)
        ]
        with kernel.tile_function("body", [(elements, kind)] * tiles) as tile:
            bounds = [builders.index_constant(value) for value in (0, elements, step)]
            for position in scf.for_(*bounds):
                body(tile.arguments, position)
                scf.yield_([])
        with kernel.control() as (core, cores):
            memories = [builders.buffer_ref(buffer) for buffer in buffers]
            for number in scf.for_(core, builders.index_constant(tile_count), cores):
                copy = arith.remui(number, builders.index_constant(copies))
                shift = arith.muli(copy, builders.index_constant(buffers[0].bytes_per_copy))
                views = [builders.tile_view(memory, shift, elements, kind) for memory in memories]
                origin = arith.muli(number, builders.index_constant(elements))
                for descriptor, view in zip(descriptors[:-1], views, strict=False):
                    builders.transfer(descriptor, view, copy, {1: origin})
                builders.wait(copy)
                builders.call_tile(tile, views)
                builders.transfer(descriptors[-1], views[-1], 8, {1: origin})
                builders.wait(8)
                scf.yield_([])
        return kernel.text()


def unary(build: Callable[[ir.Value], ir.Value], step: int = 16) -> Body:
    """Load from the first tile, `build`, store to the last."""

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = ir.VectorType.get([step], ir.MemRefType(arguments[0].type).element_type)
        value = build(vector.load(kind, arguments[0], [position]))
        vector.store(value, arguments[-1], [position])

    return body


def add_kernel(name: str = "add") -> str:
    """x + x."""
    return tile_kernel(name, unary(lambda value: arith.addf(value, value)))


def custom_words(object_bytes: bytes) -> list[int]:
    """The custom instructions of an object, in order."""
    text = ELFFile(io.BytesIO(object_bytes)).get_section_by_name(".text").data()
    words = [int.from_bytes(text[at : at + 4], "little") for at in range(0, len(text), 4)]
    return [word for word in words if word & 0x7F == isa.OPCODE]


def name_of(word: int) -> str:
    """The one instruction of the table that the word is."""
    (found,) = (item.name for item in isa.CUSTOM if any(word & mask == match for mask, match in item.words()))
    return found
