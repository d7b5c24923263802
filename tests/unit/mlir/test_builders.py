"""The builders: what they make is a valid module that says what was asked for, round trips, and refuses misuse."""

from __future__ import annotations

import pytest
from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import IRVerificationError
from pytorchsim.mlir import builders
from pytorchsim.mlir.dialect import npu_context
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Descriptor, DescriptorFlag, IndexTile, TransferOp
from tests.unit.mlir.kernels import add_kernel


def test_text_round_trips() -> None:
    text = add_kernel()
    with npu_context(), ir.Location.unknown():
        assert str(ir.Module.parse(text)) == text


def test_same_calls_same_text() -> None:
    assert add_kernel() == add_kernel()


def test_a_module_says_name_origins_and_tile() -> None:
    text = add_kernel()
    assert 'npu.kernel = "add"' in text
    assert 'npu.origins = ["test"]' in text
    assert "npu.tile_shape = {i = 64 : i64}" in text
    assert "func.func @add(%arg0: index, %arg1: index) attributes {npu.control}" in text
    pointer = "memref<64xf32> {llvm.align = 64 : i64, llvm.noalias}"
    assert f"func.func @add__body(%arg0: {pointer}, %arg1: {pointer}) attributes {{npu.tile}}" in text


def test_buffers_are_rounded_up_to_the_alignment() -> None:
    with KernelBuilder("k", NpuConfig()) as kernel:
        buffer = kernel.buffer("x", 65, copies=3)
        assert (buffer.symbol, buffer.bytes_per_copy, buffer.copies, buffer.bytes) == ("k.x", 128, 3, 384)
        assert kernel.buffer("y", 4, alignment=256).bytes == 256


def test_declarations_come_before_functions_in_order() -> None:
    with KernelBuilder("k", NpuConfig()) as kernel:
        kernel.buffer("a", 4)
        with kernel.control() as _:
            pass
        kernel.buffer("b", 4)
        names = [
            str(ir.StringAttr(view.operation.attributes["sym_name"]).value) for view in kernel.module.body.operations
        ]
        assert names == ["k.a", "k.b", "k"]


def test_transfer_orders_values_by_index() -> None:
    tile = IndexTile(0, wide=True, axes=(0,), dram_stride=4, extent=8)
    descriptor = Descriptor(0, TransferOp.LOAD, dtypes.F32, (Axis(8, 1, 1), Axis(8, 8, 8)), index_tiles=(tile,))
    with KernelBuilder("k", NpuConfig()) as kernel:
        index, data = kernel.buffer("i", 64), kernel.buffer("x", 256)
        symbol = kernel.descriptor("gather", descriptor, index_buffers=[index])
        with kernel.control() as (core, cores):
            builders.transfer(symbol, builders.buffer_ref(data), 3, {1: core, 0: cores}, index_shifts={0: core})
        text = kernel.text()
    assert "set_indices = array<i64: 0, 1, 10>" in text
    assert "(%1, %c3, %arg1, %arg0, %arg0)" in text or "(%0, %c3, %arg1, %arg0, %arg0)" in text
    assert "buffer = @k.i" in text


def test_local_buffer_needs_a_local_transfer() -> None:
    axes = (Axis(8, 1, 1),)
    local = Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, flags=DescriptorFlag.LOCAL)
    with KernelBuilder("k", NpuConfig()) as kernel:
        buffer = kernel.buffer("x", 64)
        kernel.descriptor("l", local, local_buffer=buffer)
        with pytest.raises(ValueError, match="only a local transfer"):
            kernel.descriptor("m", Descriptor(0, TransferOp.LOAD, dtypes.F32, axes), local_buffer=buffer)


@pytest.mark.parametrize("name", ["", "a__b", "1x", "a.b", "a b"])
def test_kernel_names(name: str) -> None:
    with pytest.raises(ValueError, match="identifier without '__'"):
        KernelBuilder(name, NpuConfig())


def test_misuse_is_refused() -> None:
    with KernelBuilder("k", NpuConfig()) as kernel:
        kernel.buffer("x", 4)
        with pytest.raises(ValueError, match=r"already has a symbol 'k.x'"):
            kernel.buffer("x", 4)
        with pytest.raises(ValueError, match="positive, not 0 x 1"):
            kernel.buffer("y", 0)
        with pytest.raises(ValueError, match="power of two from 64, not 32"):
            kernel.buffer("z", 4, alignment=32)
        with pytest.raises(ValueError, match="identifier, not 'a b'"), kernel.tile_function("a b", []):
            pass


def test_invalid_module_is_refused_with_a_location() -> None:
    with KernelBuilder("k", NpuConfig()) as kernel:
        with kernel.control() as (core, _):
            ir.Operation.create("npu.wait", operands=[core, core])
        with pytest.raises(IRVerificationError, match=r'(?s)loc\("k"|"k".*expects exactly 1 operands'):
            kernel.text()


def test_longest_vector() -> None:
    assert builders.longest_vector(NpuConfig(), 32) == 64
    assert builders.longest_vector(NpuConfig(), 16, lmul=1) == 16
