"""Values in generated code: the bits that NumPy and PyTorch compute, lane by lane, wherever they are defined.

What is compared with eager op by op lives in tests/ops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch
from mlir import ir
from mlir.dialects import arith, vector
from mlir.dialects import math as mlir_math

from pytorchsim.mlir import builders
from pytorchsim.target import dtypes
from pytorchsim.target.dtypes import Dtype
from tests.unit.mlir.machine_runs import LANES, TORCH, run, run_unary, same, sample


@pytest.mark.parametrize("dtype", TORCH, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("step", [2, 8, 32])
def test_sums_of_every_dtype(dtype: Dtype, step: int) -> None:
    """Every element type, also in vectors that fit a scalar register."""
    x = sample(dtype)
    add = arith.addf if TORCH[dtype].is_floating_point else arith.addi
    same(run_unary(lambda v: add(v, v), x, dtype, step), x + x)


@pytest.mark.parametrize("dtype", TORCH, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("step", [2, 16])
def test_constant_zero_of_every_dtype(dtype: Dtype, step: int) -> None:
    def build(v: ir.Value) -> ir.Value:
        kind = ir.VectorType(v.type)
        floating = TORCH[dtype].is_floating_point
        element = kind.element_type
        zero = ir.FloatAttr.get(element, 0.0) if floating else ir.IntegerAttr.get(element, 0)
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, zero))

    same(run_unary(build, sample(dtype), dtype, step), torch.zeros(192, LANES))


@pytest.mark.parametrize("dtype", TORCH, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("step", "element"), [(2, 1), (16, 3), (16, 0)])
def test_splat_spreads_one_element(dtype: Dtype, step: int, element: int) -> None:
    x = sample(dtype)
    expected = x.view(-1, step, LANES)[:, element : element + 1].expand(-1, step, -1).reshape(x.shape)
    same(run_unary(lambda v: builders.splat(v, element), x, dtype, step), expected)


@pytest.mark.parametrize("step", [2, 8, 16, 64])
def test_largest_passes_over_nan(step: int) -> None:
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
def test_exchange_reads_the_lane_across(dtype: Dtype, step: int) -> None:
    x = sample(dtype, 64)
    same(run_unary(lambda v: builders.exchange(v, step), x, dtype), x[:, torch.arange(LANES) ^ (1 << step)])


def test_exchanges_sum_over_all_lanes() -> None:
    """log2(lanes) exchanges leave the sum of all lanes in every lane."""

    def build(v: ir.Value) -> ir.Value:
        for step in range(7):
            v = arith.addi(v, builders.exchange(v, step))
        return v

    x = sample(dtypes.I32, 64)
    same(run_unary(build, x, dtypes.I32), x.sum(1, keepdim=True, dtype=torch.int32).expand(-1, LANES))


def test_lane_and_position_number_every_element() -> None:
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
def test_rounding_functions_give_exact_bits(name: str, dtype: Dtype) -> None:
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


def test_many_constants_do_not_look_like_tile_accesses() -> None:
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
