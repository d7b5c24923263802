"""Rules of the symbols of a kernel module: buffers, descriptors, function names. Part of verify-kernel."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from pytorchsim.mlir.descriptor_attributes import DescriptorBuffers, descriptor_of
from pytorchsim.mlir.dialect import BUFFER_ALIGNMENT_BYTES, TILE_ATTRIBUTE
from pytorchsim.mlir.passes.walk import problem_at
from pytorchsim.target.descriptor import Descriptor

__all__ = ["SymbolTable", "symbol_problems"]


@dataclass
class SymbolTable:
    """What the functions of the module may name."""

    buffer_bytes: dict[str, int] = field(default_factory=dict)
    descriptors: dict[str, Descriptor] = field(default_factory=dict)
    descriptor_buffers: dict[str, DescriptorBuffers] = field(default_factory=dict)
    tiles: set[str] = field(default_factory=set)


def symbol_problems(module: ir.Module) -> tuple[SymbolTable, list[str]]:
    """The symbols, and what is wrong with them. MLIR itself refuses a symbol that is defined twice."""
    table, problems = SymbolTable(), list[str]()
    referenced: list[tuple[ir.Operation, str]] = []
    for view in module.body.operations:
        operation = view.operation
        if "sym_name" not in operation.attributes:
            continue
        symbol = str(ir.StringAttr(operation.attributes["sym_name"]).value)
        if operation.name == "npu.buffer":
            problems += [problem_at(operation, text) for text in _buffer_problems(operation)]
            table.buffer_bytes[symbol] = _int(operation, "bytes")
        elif operation.name == "npu.descriptor":
            try:
                attributes = {name: operation.attributes[name] for name in operation.attributes}
                descriptor, buffers = descriptor_of(attributes)
                problems += [problem_at(operation, text) for text in _descriptor_problems(descriptor)]
                descriptor.encode()
            except (ValueError, struct.error) as error:
                problems.append(problem_at(operation, f"descriptor {symbol!r}: {error}"))
                continue
            table.descriptors[symbol] = descriptor
            table.descriptor_buffers[symbol] = buffers
            referenced += [(operation, buffer) for buffer in buffers.symbols]
        elif isinstance(view, func.FuncOp) and TILE_ATTRIBUTE in operation.attributes:
            table.tiles.add(symbol)
    problems += [
        problem_at(operation, f"there is no npu.buffer {buffer!r}")
        for operation, buffer in referenced
        if buffer not in table.buffer_bytes
    ]
    return table, problems


def _buffer_problems(operation: ir.Operation) -> list[str]:
    size, copies, alignment = (_int(operation, name) for name in ("bytes", "copies", "alignment"))
    problems = []
    if alignment < BUFFER_ALIGNMENT_BYTES or alignment & (alignment - 1):
        problems.append(f"alignment is a power of two from {BUFFER_ALIGNMENT_BYTES}, not {alignment}")
    elif size < 1 or copies < 1 or size % (copies * alignment):
        problems.append(f"bytes ({size}) is copies ({copies}) times a positive multiple of the alignment ({alignment})")
    return problems


def _descriptor_problems(descriptor: Descriptor) -> list[str]:
    rank = len(descriptor.axes)
    problems = []
    if not 0 <= descriptor.slot < 1 << 16:
        problems.append(f"slot {descriptor.slot} is not in 0..65535")
    for number, tile in enumerate(descriptor.index_tiles):
        if any(not 0 <= axis < rank for axis in tile.axes):
            problems.append(f"index tile {number} runs over axes {list(tile.axes)}, the transfer has {rank}")
    return problems


def _int(operation: ir.Operation, name: str) -> int:
    return int(ir.IntegerAttr(operation.attributes[name]).value)
