"""What tile functions may contain compiles to clean vector code: every operation, type and length passes the audit.

The hazards are those LLVM is known to turn into scalar code or calls: copies, constant fills, short vectors, splats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from mlir import ir
from mlir.dialects import arith, vector
from mlir.dialects import math as mlir_math

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.errors import AssemblyAuditError
from pytorchsim.mlir import builders, compiler
from pytorchsim.mlir.compiler import CompiledKernel, compile_kernel
from pytorchsim.target.dtypes import ALL_DTYPES
from tests.unit.mlir.kernels import Body, custom_words, name_of, tile_kernel, unary

CONFIG = NpuConfig()
DTYPES = {dtype.mlir: dtype for dtype in reversed(ALL_DTYPES)}
FLOATS, INTEGERS = ["f16", "bf16", "f32", "f64"], ["i8", "i16", "i32", "i64"]
Build = Callable[[ir.Value], ir.Value]


def vector_of(count: int, element: str) -> ir.VectorType:
    return ir.VectorType.get([count], ir.Type.parse(element))


def constant(value: ir.Value, number: float) -> ir.Value:
    kind = ir.VectorType(value.type)
    element = kind.element_type
    attribute = ir.IntegerAttr.get(element, int(number)) if isinstance(element, ir.IntegerType) else None
    attribute = attribute or ir.FloatAttr.get(element, float(number))
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, attribute))


def operation(name: str, result: ir.Type, operands: Sequence[ir.Value], **attributes: ir.Attribute) -> ir.Value:
    return ir.Operation.create(name, results=[result], operands=list(operands), attributes=attributes).results[0]


def compiled(build: Build, *, element: str = "f32", step: int = 16) -> CompiledKernel:
    """A kernel that loads a vector, builds, and stores."""
    return compiled_body(unary(build, step), element=element, step=step)


def compiled_body(body: Body, *, element: str = "f32", step: int = 16) -> CompiledKernel:
    text = tile_kernel("k", body, dtype=DTYPES[element], step=step)
    return compile_kernel("k", text, CONFIG)


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"])
def test_a_copy_has_no_scalar_accesses(element: str) -> None:
    """No memcpy, no scalar loads and stores."""
    for step in (2, 4, 8, 32):
        compiled(lambda value: value, element=element, step=step)


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("step", [2, 4, 8, 32])
def test_constant_fill(element: str, step: int) -> None:
    """No memset, no scalar stores; also where LLVM finds the constant itself."""
    for number in (0, 1):
        compiled(lambda value, number=number: constant(value, number), element=element, step=step)
    if element in INTEGERS:
        compiled(lambda value: arith.subi(value, value), element=element, step=step)


@pytest.mark.parametrize("step", [2, 4, 8])
def test_fill_of_a_whole_tile_without_a_loop(step: int) -> None:
    """A run of constant stores does not become a few wide or scalar ones."""

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = vector_of(step, "i8")
        zero = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, 0)))
        for offset in range(0, 64, step):
            vector.store(zero, arguments[1], [builders.index_constant(offset)])
        vector.store(zero, arguments[1], [position])

    compiled_body(body, element="i8", step=16)


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("step", [2, 16])
def test_float_arithmetic(element: str, step: int) -> None:
    def build(x: ir.Value) -> ir.Value:
        one = constant(x, 1)
        total = arith.addf(arith.mulf(x, x), arith.divf(one, arith.subf(x, one)))
        total = arith.maximumf(arith.minimumf(arith.negf(total), x), arith.maxnumf(x, one))
        wide = arith.cmpf(arith.CmpFPredicate.OLT, total, one)
        return arith.select(wide, total, mlir_math.fma(x, total, one))

    compiled(build, element=element, step=step)


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize(
    "name", ["sqrt", "rsqrt", "absf", "floor", "ceil", "round", "roundeven", "trunc", "copysign", "isnan", "isfinite"]
)
def test_native_functions(element: str, name: str) -> None:
    def build(x: ir.Value) -> ir.Value:
        if name == "copysign":
            return mlir_math.copysign(x, constant(x, 1))
        value = getattr(mlir_math, name)(x)
        return arith.select(value, x, constant(x, 0)) if name.startswith("is") else value

    compiled(build, element=element)


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("step", [2, 16])
def test_integer_arithmetic(element: str, step: int) -> None:
    def build(x: ir.Value) -> ir.Value:
        three = constant(x, 3)
        total = arith.addi(arith.muli(x, three), arith.subi(arith.divsi(x, three), arith.remsi(x, three)))
        total = arith.addi(arith.divui(total, x), arith.remui(x, arith.ori(total, three)))
        total = arith.xori(arith.shli(total, three), arith.andi(arith.shrsi(x, three), arith.shrui(x, three)))
        total = arith.maxsi(arith.minsi(total, x), arith.maxui(arith.minui(total, x), three))
        return arith.select(arith.cmpi(arith.CmpIPredicate.slt, total, x), total, x)

    compiled(build, element=element, step=step)


@pytest.mark.parametrize("name", ["ctpop", "ctlz", "cttz", "absi"])
@pytest.mark.parametrize("element", ["i8", "i32", "i64"])
def test_integer_functions(name: str, element: str) -> None:
    compiled(getattr(mlir_math, name), element=element)


@pytest.mark.parametrize("source", FLOATS + INTEGERS)
@pytest.mark.parametrize("target", FLOATS + INTEGERS)
def test_conversions(source: str, target: str) -> None:
    """There and back, 16 elements (LMUL 4 at 64 bits)."""

    def convert(value: ir.Value, target: str, signed: bool) -> ir.Value:
        kind = ir.VectorType(value.type)
        result = ir.VectorType.get(list(kind.shape), ir.Type.parse(target))
        wide = result.element_type.width > kind.element_type.width
        if kind == result:
            return value
        if str(kind.element_type) in INTEGERS:
            if target in INTEGERS:
                extend = arith.extsi if signed else arith.extui
                return extend(result, value) if wide else arith.trunci(result, value)
            return (arith.sitofp if signed else arith.uitofp)(result, value)
        if target in INTEGERS:
            return (arith.fptosi if signed else arith.fptoui)(result, value)
        if result.element_type.width == kind.element_type.width:  # f16 and bf16
            through = ir.VectorType.get(list(kind.shape), ir.F32Type.get())
            return arith.truncf(result, arith.extf(through, value))
        return arith.extf(result, value) if wide else arith.truncf(result, value)

    def build(x: ir.Value) -> ir.Value:
        for signed in (True, False):
            x = convert(convert(x, target, signed), source, signed)
        return x

    compiled(build, element=source)


def test_shuffles_within_a_lane() -> None:
    """An all-reduce by rotations, an interleave, a reversal."""

    def build(x: ir.Value) -> ir.Value:
        for distance in (8, 4, 2, 1):
            rotated = vector.shuffle(x, x, [(lane + distance) % 16 for lane in range(16)])
            x = arith.addf(x, rotated)
        return vector.shuffle(x, x, list(reversed(range(16))))

    assembly = compiled(build)
    assert assembly.frame_bytes["k__body"] == 0


@pytest.mark.parametrize("element", ["i8", "f16", "bf16", "f32", "i64", "f64"])
@pytest.mark.parametrize("step", [2, 16])
def test_splat_of_a_loaded_vector(element: str, step: int) -> None:
    """The element of a load goes through vrgather, never through flw, also where the use would fold it to `.vf`."""

    def build(x: ir.Value) -> ir.Value:
        add = arith.addf if element in FLOATS else arith.addi
        return add(x, builders.splat(x, step - 1))

    compiled(build, element=element, step=step)


def test_shuffles_that_fold_to_a_splat() -> None:
    """Three shuffles of a load that together spread one element: still no scalar load."""

    def build(x: ir.Value) -> ir.Value:
        x = vector.shuffle(x, x, [3, 2, 1, 0] * 4)
        x = vector.shuffle(x, x, [0, 1, 0, 1] * 4)
        spread = vector.shuffle(x, x, [2, 0] * 8)
        return arith.mulf(spread, spread)

    for element in ("f32", "f64", "f16"):
        compiled(build, element=element)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "roundeven"])
@pytest.mark.parametrize("target", INTEGERS)
def test_rounding_of_bf16_to_an_integer(name: str, target: str) -> None:
    """LLVM would fold the rounding into a conversion that it has no instruction for, and abort."""

    def build(x: ir.Value) -> ir.Value:
        kind = vector_of(16, target)
        rounded = getattr(mlir_math, name)(x)
        wide = arith.extf(vector_of(16, "f32"), rounded)
        total = arith.addi(arith.fptosi(kind, rounded), arith.fptoui(kind, rounded))
        return arith.sitofp(x.type, arith.addi(total, arith.fptosi(kind, wide)))

    compiled(build, element="bf16")


def test_lane_number_and_position() -> None:
    """iota: lane number x elements + position, then back to coordinates by division."""

    def build(x: ir.Value) -> ir.Value:
        kind = vector_of(16, "i32")
        lane = builders.lane_id(16)
        step = arith.index_cast(kind, vector.step(ir.VectorType.get([16], ir.IndexType.get())))
        number = arith.addi(arith.muli(lane, constant(lane, 64)), step)
        row, column = arith.divui(number, constant(lane, 7)), arith.remui(number, constant(lane, 7))
        return arith.addf(x, arith.sitofp(x.type, arith.subi(row, column)))

    compiled(build)


def test_masks_and_tails() -> None:
    """create_mask and masked accesses; bool as bytes."""

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind, mask_kind = vector_of(16, "f32"), ir.VectorType.get([16], ir.IntegerType.get_signless(1))
        mask = vector.create_mask(mask_kind, [position])
        fill = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get_f32(-1.0)))
        loaded = vector.maskedload(kind, arguments[0], [position], mask, fill)
        byte = arith.extui(vector_of(16, "i8"), arith.cmpf(arith.CmpFPredicate.OGT, loaded, fill))
        back = arith.cmpi(arith.CmpIPredicate.ne, byte, constant(byte, 0))
        vector.maskedstore(arguments[1], [position], arith.andi(mask, back), loaded)

    compiled_body(body)


def test_gather_and_scatter_in_the_lane() -> None:
    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind, integers = vector_of(16, "f32"), vector_of(16, "i32")
        mask_kind = ir.VectorType.get([16], ir.IntegerType.get_signless(1))
        mask = arith.constant(mask_kind, ir.DenseElementsAttr.get_splat(mask_kind, ir.BoolAttr.get(True)))
        steps = arith.index_cast(integers, vector.step(ir.VectorType.get([16], ir.IndexType.get())))
        indices = arith.muli(steps, constant(steps, 4))
        zero = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get_f32(0.0)))
        del position
        start = builders.index_constant(0)
        values = vector.gather(kind, arguments[0], [start], indices, mask, zero)
        vector.scatter(None, arguments[1], [start], indices, mask, values)

    compiled_body(body)


def test_spills_have_a_constant_frame_that_the_budget_sees() -> None:
    """Ten live LMUL-8 vectors: 32 registers hold three or four."""

    def build(x: ir.Value) -> ir.Value:
        values = [arith.mulf(x, constant(x, number)) for number in range(2, 12)]
        total = values[0]
        for value in values[1:]:
            total = arith.mulf(total, arith.divf(value, arith.addf(total, values[0])))
        for value in values:
            total = arith.addf(total, mlir_math.sqrt(value))
        return total

    kernel = compiled(build, step=64)
    assert kernel.frame_bytes["k__body"] > 0
    assert kernel.frame_bytes["k__body"] % 16 == 0


def test_two_equal_special_functions_are_computed_once() -> None:
    def build(x: ir.Value) -> ir.Value:
        return arith.addf(mlir_math.exp(x), arith.mulf(mlir_math.exp(x), x))

    assert len(custom_words(compiled(build).objects["k__body"])) == 1


def test_the_order_of_wait_call_and_start_is_the_programs() -> None:
    """C1: nothing moves across; the address, origin and tag of a transfer go through registers."""
    text = compiled(lambda x: x).objects["k"]
    names = [name_of(word) for word in custom_words(text)]
    assert [name for name in names if name != "dma.set"] == ["dma.start", "dma.wait", "dma.start", "dma.wait"]


@pytest.mark.parametrize("vlen_bits", [128, 256, 512, 1024])
def test_every_vector_length(vlen_bits: int) -> None:
    config = NpuConfig(core=CoreConfig(vlen_bits=vlen_bits, datapath_bits=128))
    step = builders.longest_vector(config, 32)

    def build(x: ir.Value) -> ir.Value:
        return arith.addf(mlir_math.exp(x), builders.exchange(builders.splat(x, step - 1), 1))

    compile_kernel("k", tile_kernel("k", unary(build, step), elements=step * 2, step=step, config=config), config)


def test_what_slips_past_the_rules_is_caught_by_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With verify-kernel switched off, a scalar load and a reduction reach the assembly, and are named."""
    from pytorchsim.mlir import pipeline

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = vector_of(16, "f32")
        loaded = vector.load(kind, arguments[0], [position])
        total = vector.reduction(ir.F32Type.get(), vector.CombiningKind.ADD, loaded)
        vector.store(vector.broadcast(kind, arith.addf(total, total)), arguments[1], [position])

    text = tile_kernel("k", body)
    monkeypatch.setattr(
        compiler, "run_pipeline", lambda *a, **k: pipeline.run_pipeline(*a, passes=pipeline.PASSES[1:], **k)
    )
    with pytest.raises(AssemblyAuditError, match="vector-to-scalar") as caught:
        compile_kernel("k", text, CONFIG)
    assert caught.value.kernel == "k"


def test_addresses_do_not_fill_the_stack() -> None:
    """Sixteen buffers and descriptors in a loop: their addresses are made where they are needed, not kept in the frame.

    13 saved registers (104 bytes), 10 pointers beyond a0-a7 passed on the stack and kept (2 x 8 x 10), a few counters.
    """

    def body(arguments: Sequence[ir.Value], position: ir.Value) -> None:
        kind = vector_of(16, "f32")
        total = vector.load(kind, arguments[0], [position])
        for argument in arguments[1:-1]:
            total = arith.addf(total, vector.load(kind, argument, [position]))
        vector.store(total, arguments[-1], [position])

    kernel = compile_kernel("k", tile_kernel("k", body, tiles=16, step=16), CONFIG)
    assert kernel.frame_bytes["k"] <= 320
