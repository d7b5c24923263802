"""`KernelBuilder`: the skeleton of a kernel's module: buffers, descriptors, control function, tile functions.

In: names, sizes in bytes per lane, a `Descriptor` per transfer. Out: the text of one verified kernel module for
`compiler.py`. What functions do is written by `builders` (the `npu` ops) and by the caller with `mlir.dialects.scf`,
`arith`, `vector` and `math`. Assumes one builder per thread at a time (MLIR's "current context" is per thread).

    with KernelBuilder("add_0", config) as kernel:
        x = kernel.buffer("x", bytes_per_copy=256, copies=2)
        load = kernel.descriptor("load_x", Descriptor(...))
        with kernel.tile_function("body", [(64, ir.F32Type.get())], []) as tile: ...
        with kernel.control() as (core, cores): ...
        text = kernel.text()
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType

from mlir import ir
from mlir.dialects import func

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import IRVerificationError
from pytorchsim.mlir import dialect
from pytorchsim.mlir.descriptor_attributes import DescriptorBuffers, descriptor_attributes
from pytorchsim.mlir.dialect import BUFFER_ALIGNMENT_BYTES
from pytorchsim.target.descriptor import Descriptor

__all__ = ["Buffer", "KernelBuilder", "TileFunction"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Buffer:
    """A scratchpad buffer of the kernel. Sizes in bytes per lane; copy `c` starts at byte `c * bytes_per_copy`."""

    symbol: str
    bytes_per_copy: int
    copies: int

    @property
    def bytes(self) -> int:
        """All copies together."""
        return self.bytes_per_copy * self.copies


@dataclass(frozen=True)
class TileFunction:
    """A tile function while its body is built and to be called afterwards.

    `arguments`: pointers first, then scalars.
    """

    symbol: str
    arguments: tuple[ir.Value, ...]


class KernelBuilder:
    """The module of one kernel. Use as a context manager: it makes its MLIR context and location the current ones."""

    def __init__(
        self, name: str, config: NpuConfig, *, origins: Sequence[str] = (), tile_shape: Mapping[str, int] | None = None
    ) -> None:
        """Start kernel `name` (an identifier without `__`, unique in its graph).

        `origins` (places in the model) and `tile_shape` (sizes by axis) only serve messages.
        """
        if not _NAME.fullmatch(name) or "__" in name:
            raise ValueError(f"a kernel's name is an identifier without '__', not {name!r}")
        self.name, self.config = name, config
        self.context = dialect.npu_context()
        self._entered = ExitStack()
        self._symbols: set[str] = set()
        with self.context, ir.Location.name(name):
            self.module = ir.Module.create()
            integers = {axis: _i64(size) for axis, size in (tile_shape or {}).items()}
            attributes = self.module.operation.attributes
            attributes[dialect.KERNEL_ATTRIBUTE] = ir.StringAttr.get(name)
            attributes[dialect.ORIGINS_ATTRIBUTE] = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in origins])
            attributes[dialect.TILE_SHAPE_ATTRIBUTE] = ir.DictAttr.get(integers)
            attributes["llvm.data_layout"] = ir.StringAttr.get(dialect.DATA_LAYOUT)
            attributes["llvm.target_triple"] = ir.StringAttr.get(dialect.TARGET_TRIPLE)

    def __enter__(self) -> KernelBuilder:
        self._entered.enter_context(self.context)
        self._entered.enter_context(ir.Location.name(self.name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.close()

    def buffer(
        self, name: str, bytes_per_copy: int, *, copies: int = 1, alignment: int = BUFFER_ALIGNMENT_BYTES
    ) -> Buffer:
        """Declare a scratchpad buffer of `bytes_per_copy` per lane, rounded up to `alignment` (bytes; a power of 2)."""
        if bytes_per_copy < 1 or copies < 1:
            raise ValueError(f"buffer {name!r}: sizes and copies are positive, not {bytes_per_copy} x {copies}")
        if alignment < BUFFER_ALIGNMENT_BYTES or alignment & (alignment - 1):
            raise ValueError(
                f"buffer {name!r}: alignment is a power of two from {BUFFER_ALIGNMENT_BYTES}, not {alignment}"
            )
        buffer = Buffer(self._symbol(f"{self.name}.{name}"), -(-bytes_per_copy // alignment) * alignment, copies)
        self._declare(
            "npu.buffer",
            {
                "sym_name": ir.StringAttr.get(buffer.symbol),
                "bytes": _i64(buffer.bytes),
                "copies": _i64(copies),
                "alignment": _i64(alignment),
            },
        )
        return buffer

    def descriptor(
        self,
        name: str,
        descriptor: Descriptor,
        *,
        index_buffers: Sequence[Buffer | None] = (),
        local_buffer: Buffer | None = None,
    ) -> str:
        """Declare a DMA descriptor and return its symbol for `transfer`.

        `index_buffers`: the buffer of each index tile, whose `spad_address` is then an offset in bytes into it.
        `local_buffer`: the buffer on the DRAM side of a local transfer, whose `offset` is then an offset in bytes
        into it.
        """
        symbol = self._symbol(f"{self.name}.{name}")
        buffers = DescriptorBuffers(
            tuple(None if buffer is None else buffer.symbol for buffer in index_buffers),
            None if local_buffer is None else local_buffer.symbol,
        )
        attributes = descriptor_attributes(descriptor, buffers)
        self._declare("npu.descriptor", {"sym_name": ir.StringAttr.get(symbol), **attributes})
        return symbol

    @contextmanager
    def control(self) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Build the control function's body; yields (core, cores), both `index`. The return is added at the end."""
        index = ir.IndexType.get()
        function = self._function(self._symbol(self.name), [index, index], dialect.CONTROL_ATTRIBUTE)
        with ir.InsertionPoint(function.add_entry_block()):
            core, cores = function.arguments
            yield core, cores
            func.ReturnOp([])

    @contextmanager
    def tile_function(
        self, name: str, tiles: Sequence[tuple[int, ir.Type]], scalars: Sequence[ir.Type] = ()
    ) -> Iterator[TileFunction]:
        """Build tile function `<kernel>__<name>`: one `memref<N x T>` argument per (N, T) of `tiles`, then `scalars`.

        The pointers do not alias each other and are aligned to `BUFFER_ALIGNMENT_BYTES`. The return is added at the
        end.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"a tile function's name is an identifier, not {name!r}")
        pointers: list[ir.Type] = [ir.MemRefType.get([count], element) for count, element in tiles]
        symbol = self._symbol(f"{self.name}__{name}")
        function = self._function(symbol, [*pointers, *scalars], dialect.TILE_ATTRIBUTE)
        pointer = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get(), "llvm.align": _i64(BUFFER_ALIGNMENT_BYTES)})
        function.arg_attrs = ir.ArrayAttr.get([*([pointer] * len(pointers)), *([ir.DictAttr.get({})] * len(scalars))])
        with ir.InsertionPoint(function.add_entry_block()):
            yield TileFunction(symbol, tuple(function.arguments))
            func.ReturnOp([])

    def text(self) -> str:
        """The module's text, verified. IRVerificationError names the op that its dialect refuses."""
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            raise IRVerificationError(str(error), kernel=self.name, stage="build") from error
        return str(self.module)

    def _symbol(self, symbol: str) -> str:
        if symbol in self._symbols:
            raise ValueError(f"kernel {self.name!r} already has a symbol {symbol!r}")
        self._symbols.add(symbol)
        return symbol

    def _declare(self, name: str, attributes: dict[str, ir.Attribute]) -> None:
        # Before the functions, in order of declaration, so that the text reads top down and is deterministic.
        body = self.module.body
        first = next((op for op in body.operations if isinstance(op, func.FuncOp)), None)
        with ir.InsertionPoint(body) if first is None else ir.InsertionPoint(first):
            ir.Operation.create(name, attributes=attributes)

    def _function(self, symbol: str, inputs: list[ir.Type], marker: str) -> func.FuncOp:
        with ir.InsertionPoint(self.module.body):
            function = func.FuncOp(symbol, ir.FunctionType.get(inputs, []))
        function.attributes[marker] = ir.UnitAttr.get()
        return function


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
