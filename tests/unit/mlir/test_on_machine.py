"""Generated code on the machine: the bits that NumPy and PyTorch compute, lane by lane, wherever they are defined.

These tests hold the compile path against the functional engine: addressing, transfers with relocated addresses, short
vectors, spills, splats, exchanges, arrays. What is compared with eager op by op lives in tests/ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch
from mlir import ir
from mlir.dialects import arith, scf, vector
from mlir.dialects import math as mlir_math

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.errors import MachineFault
from pytorchsim.mlir import builders
from pytorchsim.mlir.compiler import compile_kernel, link_program
from pytorchsim.simulator.functional import LaunchResult, Machine, Slot
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, DescriptorFlag, IndexTile, TransferOp
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


@pytest.mark.parametrize("dtype", TORCH, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("step", [2, 8, 32])
def test_add(dtype: Dtype, step: int) -> None:
    """Every element type, also in vectors that fit a scalar register."""
    x = sample(dtype)
    add = arith.addf if TORCH[dtype].is_floating_point else arith.addi
    same(run_unary(lambda v: add(v, v), x, dtype, step), x + x)


@pytest.mark.parametrize("dtype", TORCH, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("step", [2, 16])
def test_zero_fill(dtype: Dtype, step: int) -> None:
    def build(v: ir.Value) -> ir.Value:
        kind = ir.VectorType(v.type)
        floating = TORCH[dtype].is_floating_point
        element = kind.element_type
        zero = ir.FloatAttr.get(element, 0.0) if floating else ir.IntegerAttr.get(element, 0)
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, zero))

    same(run_unary(build, sample(dtype), dtype, step), torch.zeros(192, LANES))


@pytest.mark.parametrize("dtype", TORCH, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("step", "element"), [(2, 1), (16, 3), (16, 0)])
def test_splat(dtype: Dtype, step: int, element: int) -> None:
    x = sample(dtype)
    expected = x.view(-1, step, LANES)[:, element : element + 1].expand(-1, step, -1).reshape(x.shape)
    same(run_unary(lambda v: builders.splat(v, element), x, dtype, step), expected)


@pytest.mark.parametrize("step", [2, 8, 16, 64])
def test_largest(step: int) -> None:
    """Of what is no NaN; a vector of NaNs gives NaN."""
    x = sample(dtypes.F32)
    x[::3] = float("nan")
    x[:step] = float("nan")
    numbers = torch.where(x.isnan(), -torch.inf, x)
    highest = numbers.view(-1, step, LANES).amax(1, keepdim=True)
    highest[:1] = float("nan")
    expected = highest.expand(-1, step, -1).reshape(x.shape)
    same(run_unary(lambda v: builders.splat(builders.largest(v), 0, step), x, dtypes.F32, step), expected)


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.I64, dtypes.I8], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("step", range(7))
def test_exchange(dtype: Dtype, step: int) -> None:
    x = sample(dtype, 64)
    same(run_unary(lambda v: builders.exchange(v, step), x, dtype), x[:, torch.arange(LANES) ^ (1 << step)])


def test_fold_over_the_lanes() -> None:
    """log2(lanes) exchanges leave the sum of all lanes in every lane."""

    def build(v: ir.Value) -> ir.Value:
        for step in range(7):
            v = arith.addi(v, builders.exchange(v, step))
        return v

    x = sample(dtypes.I32, 64)
    same(run_unary(build, x, dtypes.I32), x.sum(1, keepdim=True, dtype=torch.int32).expand(-1, LANES))


def test_number_of_every_element() -> None:
    """Lane number and position in the vector give each element its own number."""

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = ir.VectorType.get([16], ir.IntegerType.get_signless(32))
        start = vector.broadcast(kind, arith.index_cast(kind.element_type, position))
        steps = arith.index_cast(kind, vector.step(ir.VectorType.get([16], ir.IndexType.get())))
        row = arith.addi(start, steps)
        width = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, LANES)))
        vector.store(arith.addi(arith.muli(row, width), builders.lane_id(16)), arguments[-1], [position])

    x = torch.zeros(64, LANES, dtype=torch.int32)
    same(run(body, [x], dtypes.I32), torch.arange(64 * LANES).view(64, LANES))


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sin", "cos", "atan", "log"])
def test_special_functions_are_rounded_once(name: str) -> None:
    x = sample(dtypes.F32).abs() if name == "log" else sample(dtypes.F32)
    expected = getattr(torch, name)(x.double()).float()
    torch.testing.assert_close(run_unary(getattr(mlir_math, name), x), expected, rtol=2e-7, atol=0)


@pytest.mark.parametrize("name", ["floor", "ceil", "roundeven", "trunc", "absf", "sqrt"])
@pytest.mark.parametrize("dtype", [dtypes.F16, dtypes.BF16, dtypes.F32, dtypes.F64], ids=lambda dtype: dtype.name)
def test_native_functions(name: str, dtype: Dtype) -> None:
    x = sample(dtype)
    x[0, :4] = torch.tensor([0.5, -0.5, 2.5, -0.0])
    functions = {"absf": torch.abs, "roundeven": torch.round, "sqrt": _correctly_rounded_sqrt}
    expected = functions.get(name) or getattr(torch, name)
    same(run_unary(getattr(mlir_math, name), x, dtype), expected(x))


def _correctly_rounded_sqrt(x: torch.Tensor) -> torch.Tensor:
    """torch.sqrt of float32 and float64 is off by one in the last place now and then; NumPy's is exact."""
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.sqrt(x.numpy())) if x.dtype in (torch.float32, torch.float64) else torch.sqrt(x)


def test_multiplication_and_addition_round_separately() -> None:
    """No contraction: eager rounds twice."""
    x = sample(dtypes.F32)
    same(run_unary(lambda v: arith.addf(arith.mulf(v, v), v), x), x * x + x)


@pytest.mark.parametrize("target", [dtypes.I8, dtypes.I32, dtypes.I64], ids=lambda dtype: dtype.name)
def test_bf16_to_integer_and_back(target: Dtype) -> None:
    x = sample(dtypes.BF16)

    def build(v: ir.Value) -> ir.Value:
        kind = ir.VectorType.get([16], builders.element_type(target))
        return arith.sitofp(v.type, arith.fptosi(kind, mlir_math.floor(v)))

    same(run_unary(build, x, dtypes.BF16), x.floor().to(TORCH[target]).to(torch.bfloat16))


def test_integer_division_rounds_to_zero() -> None:
    x, y = sample(dtypes.I32), torch.randint(1, 9, (192, LANES), dtype=torch.int32)

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = ir.VectorType.get([16], ir.IntegerType.get_signless(32))
        a, b = (vector.load(kind, argument, [position]) for argument in arguments[:2])
        vector.store(arith.addi(arith.divsi(a, b), arith.remsi(a, b)), arguments[2], [position])

    same(run(body, [x, y], dtypes.I32), torch.div(x, y, rounding_mode="trunc") + torch.fmod(x, y))


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


def test_masked_tail() -> None:
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


def test_gather_in_the_lane() -> None:
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


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.I8], ids=lambda dtype: dtype.name)
def test_array_product(dtype: Dtype) -> None:
    """One weight tile, one input tile: X[m, k] with k on the lanes, W[k, n] with n on the lanes."""
    rows = 16
    result = dtypes.I32 if dtype is dtypes.I8 else dtypes.F32
    x = sample(dtype, rows).clamp(-8, 8)
    w = sample(dtype, LANES).clamp(-8, 8)
    y = torch.zeros(rows, LANES, dtype=TORCH[result])
    with builders.KernelBuilder("k", CONFIG) as kernel:
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


def copy_kernel(load: Descriptor, store: Descriptor, *, index: Descriptor | None = None, rows: int = 16) -> str:
    """Loads a tile (by an index tile in a buffer behind another one), stores it."""
    with builders.KernelBuilder("k", CONFIG) as kernel:
        kernel.buffer("first", 100)  # so that no buffer of interest lies at address 0 of the window
        indices = kernel.buffer("indices", rows * 8)
        tile = kernel.buffer("tile", rows * 4)
        before = kernel.descriptor("index", index) if index else ""
        gather = kernel.descriptor("load", load, index_buffers=[indices] * len(load.index_tiles))
        after = kernel.descriptor("store", store)
        with kernel.control():
            memory = builders.buffer_ref(tile)
            if before:
                builders.transfer(before, builders.buffer_ref(indices), 0)
                builders.wait(0)
            builders.transfer(gather, memory, 1)
            builders.wait(1)
            builders.transfer(after, memory, 2)
            builders.wait(2)
        return kernel.text()


def test_gather_by_an_index_tile_in_a_buffer() -> None:
    """The index tile's address in the descriptor is a relocation: the linker places the buffer."""
    rows, source_rows = 16, 100
    table = torch.randn(source_rows, LANES)
    indices = torch.randint(-source_rows, source_rows, (rows,))
    output = torch.zeros(rows, LANES)
    tile = IndexTile(0, wide=True, axes=(0,), dram_stride=LANES, extent=source_rows, wrap=True)
    lanes = Axis(LANES, 1, rows, lane=True)
    load = Descriptor(0, TransferOp.LOAD, dtypes.F32, (Axis(rows, 0, 1), lanes), index_tiles=(tile,))
    store = Descriptor(2, TransferOp.STORE, dtypes.F32, (Axis(rows, LANES, 1), lanes))
    index = Descriptor(1, TransferOp.LOAD, dtypes.I64, (Axis(rows, 1, 1),))
    launch(copy_kernel(load, store, index=index), [table, indices, output])
    same(output, table[indices])


def test_bounds_fill_and_skip() -> None:
    """A tile that is larger than the tensor: loads fill, stores skip."""
    rows = 16
    x, output = torch.randn(10, 100), torch.zeros(10, 100)
    lanes = Axis(LANES, 1, rows, lane=True)
    axes = (Axis(rows, 100, 1), lanes)
    bounds = (Bound(0, (1, 0), 10), Bound(0, (0, 1), 100))
    load = Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, bounds=bounds)
    store = Descriptor(1, TransferOp.STORE, dtypes.F32, axes, bounds=bounds)
    launch(copy_kernel(load, store), [x, output])
    same(output, x)


def test_local_transpose_names_its_buffer() -> None:
    """A local transfer's other side is a buffer too: its address is a relocation in the descriptor."""
    x, output = torch.randn(LANES, LANES), torch.zeros(LANES, LANES)
    per_lane = CONFIG.core.scratchpad_bytes_per_lane // 4
    with builders.KernelBuilder("k", CONFIG) as kernel:
        kernel.buffer("first", 100)
        source, target = kernel.buffer("source", LANES * 4), kernel.buffer("target", LANES * 4)
        lanes = Axis(LANES, 1, LANES, lane=True)
        load = kernel.descriptor("load", Descriptor(0, TransferOp.LOAD, dtypes.F32, (Axis(LANES, LANES, 1), lanes)))
        # target[lane l, element e] = source[lane e, element l]
        axes = (Axis(LANES, per_lane, 1), Axis(LANES, 1, LANES, lane=True))
        local = Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, flags=DescriptorFlag.LOCAL)
        turn = kernel.descriptor("turn", local, local_buffer=source)
        store = kernel.descriptor("store", Descriptor(1, TransferOp.STORE, dtypes.F32, (Axis(LANES, LANES, 1), lanes)))
        with kernel.control():
            for tag, (descriptor, buffer) in enumerate(((load, source), (turn, target), (store, target))):
                builders.transfer(descriptor, builders.buffer_ref(buffer), tag)
                builders.wait(tag)
        text = kernel.text()
    launch(text, [x, output])
    same(output, x.T)


@pytest.mark.parametrize("core", [CoreConfig(lanes=8), CoreConfig(lanes=256), CoreConfig(vlen_bits=512)])
def test_other_machines(core: CoreConfig) -> None:
    config = NpuConfig(core=core)
    x, output = torch.randn(128, core.lanes), torch.zeros(128, core.lanes)

    def build(v: ir.Value) -> ir.Value:
        return arith.addf(builders.exchange(v, 1), builders.splat(v, 5))

    launch(tile_kernel("k", unary(build), config=config, tile_count=2), [x, output], config)
    rows = x.view(-1, 16, core.lanes)
    expected = rows[:, :, torch.arange(core.lanes) ^ 2] + rows[:, 5:6]
    same(output, expected.view(x.shape))


def test_a_missing_wait_is_a_fault() -> None:
    """The wait before the tile function is left out: the tile's first access faults, with both places named."""
    text = tile_kernel("k", unary(lambda v: v))
    first = text.index('"npu.wait"')
    without = text[:first] + text[text.index("\n", first) + 1 :]
    x, output = torch.randn(640, LANES), torch.zeros(640, LANES)
    launch(text, [x, output])
    with pytest.raises(MachineFault) as caught:
        launch(without, [x, output])
    assert caught.value.site.kind == "in-flight"
    assert caught.value.site.function == "k__body"
    assert caught.value.site.notes["other"].startswith("k+")


def test_scalar_arguments_reach_the_tile_function() -> None:
    with builders.KernelBuilder("k", CONFIG) as kernel:
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


def test_many_constants_in_one_function() -> None:
    """Constants come from read-only data; sharing an address register among them must not look like a tile access."""
    numbers: npt.NDArray[np.float64] = np.random.default_rng(0).normal(size=24)

    def build(v: ir.Value) -> ir.Value:
        kind = ir.VectorType(v.type)
        for number in numbers:
            constant = ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(kind.element_type, float(number)))
            v = arith.addf(arith.mulf(v, arith.constant(kind, constant)), v)
        ramp = np.arange(16, dtype=np.float64) * 0.37
        return arith.addf(v, arith.constant(kind, ir.DenseElementsAttr.get(ramp, type=kind)))

    x = sample(dtypes.F64, 64)
    expected = x
    for number in numbers:
        expected = expected * float(number) + expected
    ramp = torch.arange(16, dtype=torch.float64) * 0.37
    same(run_unary(build, x, dtypes.F64), expected + ramp.repeat(4)[:, None])


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
