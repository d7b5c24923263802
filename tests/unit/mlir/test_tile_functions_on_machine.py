"""Tile functions on the machine: loops, conditions, short vectors, spills, arguments, arrays, other machines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.compiler import compile_kernel
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Descriptor, TransferOp
from pytorchsim.target.dtypes import Dtype
from tests.unit.mlir.kernels import tile_kernel, unary
from tests.unit.mlir.machine_runs import CONFIG, LANES, TORCH, launch, run, same, sample


def test_nested_loops_and_conditions_in_a_tile_function() -> None:
    """Row sums kept in a vector over an inner loop, with an `if` on the position."""

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = ir.VectorType.get([16], ir.F32Type.get())
        zero = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get_f32(0.0)))
        bounds = [builders.index_constant(value) for value in (0, 64, 16)]
        loop = scf.ForOp(*bounds, [zero])
        with ir.InsertionPoint(loop.body):
            loaded = vector.load(kind, arguments[0], [loop.induction_variable])
            scf.yield_([arith.addf(loop.inner_iter_args[0], loaded)])
        result = loop.results[0]
        first = arith.cmpi(arith.CmpIPredicate.eq, position, builders.index_constant(0))
        chosen = scf.IfOp(first, [kind], has_else=True)
        with ir.InsertionPoint(chosen.then_block):
            scf.yield_([result])
        with ir.InsertionPoint(chosen.else_block):
            scf.yield_([arith.negf(result)])
        vector.store(chosen.results[0], arguments[1], [position])

    x = sample(dtypes.F32, 64)
    total = x[0:16] + x[16:32]
    total = total + x[32:48]
    total = total + x[48:64]
    same(run(body, [x]), torch.cat([total, -total, -total, -total]))


def test_masked_tail_leaves_the_rest_as_it_was() -> None:
    """Elements past 50 of 64 keep what the output tile had."""

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = ir.VectorType.get([16], ir.F32Type.get())
        left = arith.subi(builders.index_constant(50), position)
        mask = vector.create_mask(ir.VectorType.get([16], ir.IntegerType.get_signless(1)), [left])
        zero = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get_f32(0.0)))
        vector.store(zero, arguments[1], [position])
        loaded = vector.maskedload(kind, arguments[0], [position], mask, zero)
        vector.maskedstore(arguments[1], [position], mask, arith.addf(loaded, loaded))

    x = sample(dtypes.F32, 64)
    expected = x + x
    expected[50:] = 0
    same(run(body, [x]), expected)


def test_gather_reverses_the_tile_of_each_lane() -> None:
    """Reverses each lane's tile."""

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind, integers = (ir.VectorType.get([16], e) for e in (ir.F32Type.get(), ir.IntegerType.get_signless(32)))
        on = ir.VectorType.get([16], ir.IntegerType.get_signless(1))
        mask = arith.constant(on, ir.DenseElementsAttr.get_splat(on, ir.BoolAttr.get(True)))
        steps = arith.index_cast(integers, vector.step(ir.VectorType.get([16], ir.IndexType.get())))
        last = arith.subi(builders.index_constant(63), position)
        start = vector.broadcast(integers, arith.index_cast(integers.element_type, last))
        zero = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get_f32(0.0)))
        index = arith.subi(start, steps)
        gathered = vector.gather(kind, arguments[0], [builders.index_constant(0)], index, mask, zero)
        vector.store(gathered, arguments[1], [position])

    x = sample(dtypes.F32, 64)
    same(run(body, [x]), x.flip(0))


def test_scalar_arguments_reach_the_tile_function() -> None:
    with KernelBuilder("k", CONFIG) as kernel:
        buffer = kernel.buffer("y", 64)
        f32, i64 = ir.F32Type.get(), ir.IntegerType.get_signless(64)
        with kernel.tile_function("fill", [(16, f32)], [f32, i64, ir.IndexType.get()]) as tile:
            memory, number, wide, index = tile.arguments
            kind = ir.VectorType.get([16], f32)
            total = arith.addf(number, arith.sitofp(f32, arith.addi(wide, arith.index_cast(i64, index))))
            vector.store(vector.broadcast(kind, total), memory, [builders.index_constant(0)])
        axes = (Axis(16, LANES, 1), Axis(LANES, 1, 16, lane=True))
        store = kernel.descriptor("store", Descriptor(0, TransferOp.STORE, dtypes.F32, axes))
        with kernel.control() as (_, cores):
            view = builders.tile_view(builders.buffer_ref(buffer), builders.index_constant(0), 16, f32)
            half = arith.constant(f32, 0.5)
            builders.call_tile(tile, [view, half, arith.constant(i64, -7), cores])
            builders.transfer(store, view, 0)
            builders.wait(0)
        text = kernel.text()
    output = torch.zeros(16, LANES)
    launch(text, [output])
    same(output, torch.full_like(output, 0.5 - 7 + 1))


def test_spilled_vectors_come_back() -> None:
    """More live vectors of LMUL 8 than there are registers: the frame is in the scratchpad, and the budget knows it."""

    def build(v: ir.Value) -> ir.Value:
        kind = ir.VectorType(v.type)
        values = []
        for number in range(2, 12):
            factor = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get_f32(float(number))))
            values.append(arith.mulf(v, factor))
        total = values[0]
        for value in values[1:]:
            total = arith.subf(arith.mulf(total, values[0]), value)
        for value in values:
            total = arith.addf(total, value)
        return total

    x = sample(dtypes.F32)
    terms = [x * number for number in range(2, 12)]
    expected = terms[0]
    for term in terms[1:]:
        expected = expected * terms[0] - term
    for term in terms:
        expected = expected + term
    text = tile_kernel("k", unary(build, 64), step=64, tile_count=3)
    kernel = compile_kernel("k", text, CONFIG)
    output = torch.zeros_like(x)
    result = launch(text, [x, output])
    same(output, expected)
    assert kernel.frame_bytes["k__body"] > 0
    assert result.stack_bytes == kernel.stack_bytes


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.I8], ids=lambda dtype: dtype.name)
def test_arrays_multiply_tiles_of_every_dtype(dtype: Dtype) -> None:
    """One weight tile, one input tile: X[m, k] with k on the lanes, W[k, n] with n on the lanes."""
    rows = 16
    result = dtypes.I32 if dtype is dtypes.I8 else dtypes.F32
    x = sample(dtype, rows).clamp(-8, 8)
    w = sample(dtype, LANES).clamp(-8, 8)
    y = torch.zeros(rows, LANES, dtype=TORCH[result])
    with KernelBuilder("k", CONFIG) as kernel:
        kind, accumulator = builders.element_type(dtype), builders.element_type(result)
        buffers = [
            kernel.buffer("w", LANES * dtype.bytes),
            kernel.buffer("x", rows * dtype.bytes),
            kernel.buffer("y", rows * result.bytes),
        ]
        # Weights: lane j holds column j; row k of W is element k. Inputs: lane k holds column k of X.
        square = (Axis(LANES, LANES, 1), Axis(LANES, 1, LANES, lane=True))
        axes = (Axis(rows, LANES, 1), Axis(LANES, 1, rows, lane=True))
        loads = [
            kernel.descriptor("load_w", Descriptor(0, TransferOp.LOAD, dtype, square)),
            kernel.descriptor("load_x", Descriptor(1, TransferOp.LOAD, dtype, axes)),
        ]
        store = kernel.descriptor("sy", Descriptor(2, TransferOp.STORE, result, axes))
        with kernel.tile_function("product", [(LANES, kind), (rows, kind), (rows, accumulator)]) as tile:
            weights, inputs, outputs = tile.arguments
            vector_kind = ir.VectorType.get([rows], kind)
            for number in range(0, LANES, rows):
                loaded = vector.load(vector_kind, weights, [builders.index_constant(number)])
                builders.push_weights(loaded, array=1, dtype=dtype, first=number == 0)
            zero = builders.index_constant(0)
            builders.push_inputs(vector.load(vector_kind, inputs, [zero]), arrays=[1], dtype=dtype)
            vector.store(builders.pop(rows, array=1, dtype=result), outputs, [zero])
        with kernel.control():
            zero = builders.index_constant(0)
            memories = [builders.buffer_ref(buffer) for buffer in buffers]
            views = [
                builders.tile_view(memory, zero, count, element)
                for memory, (count, element) in zip(
                    memories, [(LANES, kind), (rows, kind), (rows, accumulator)], strict=True
                )
            ]
            for descriptor, view in zip(loads, views, strict=False):
                builders.transfer(descriptor, view, 0)
            builders.wait(0)
            builders.call_tile(tile, views)
            builders.transfer(store, views[2], 1)
            builders.wait(1)
        text = kernel.text()
    launch(text, [w, x, y])
    expected = x.to(torch.int64) @ w.to(torch.int64) if dtype is dtypes.I8 else x.double() @ w.double()
    torch.testing.assert_close(y.double(), expected.double(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("core", [CoreConfig(lanes=8), CoreConfig(lanes=256), CoreConfig(vlen_bits=512)])
def test_machines_with_other_lanes_and_vectors(core: CoreConfig) -> None:
    config = NpuConfig(core=core)
    x, output = torch.randn(128, core.lanes), torch.zeros(128, core.lanes)

    def build(v: ir.Value) -> ir.Value:
        return arith.addf(builders.exchange(v, 1), builders.splat(v, 5))

    launch(tile_kernel("k", unary(build), config=config, tile_count=2), [x, output], config)
    rows = x.view(-1, 16, core.lanes)
    expected = rows[:, :, torch.arange(core.lanes) ^ 2] + rows[:, 5:6]
    same(output, expected.view(x.shape))
