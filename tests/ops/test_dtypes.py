"""Do all element types keep their width, sign and rounding through loads, arithmetic, conversions and reductions?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytorchsim.errors import UnsupportedError

CheckEach = Callable[..., tuple[torch.Tensor, ...]]

pytestmark = pytest.mark.parametrize("config", ["tpuv3", "tiny"], indirect=True)

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
FULL_INTEGERS = (*SIGNED, torch.uint8)
"""The types that eager has arithmetic for."""

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def name(value: object) -> str:
    return str(value).removeprefix("torch.")


def integers(dtype: torch.dtype, count: int = 150, seed: int = 0) -> torch.Tensor:
    """Random values of any magnitude, the extremes and their neighbours."""
    info = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(seed)
    values = [info.min, info.min + 1, -1, 0, 1, 2, 7, info.max - 1, info.max, info.max // 2 + 1]
    for _ in range(count - len(values)):
        bits = int(torch.randint(1, info.bits + 1, (), generator=generator))
        draw = int.from_bytes(bytes(torch.randint(0, 256, (8,), generator=generator).tolist()), "little")
        value = draw % (1 << bits)
        values.append(value - (1 << bits) // 2 if info.min < 0 else value)
    return torch.tensor([_wrapped(value, info) for value in values], dtype=dtype)


def _wrapped(value: int, info: torch.iinfo) -> int:
    return (value - info.min) % (1 << info.bits) + info.min


@pytest.mark.parametrize("dtype", FULL_INTEGERS, ids=name)
def test_integer_arithmetic_wraps(check_each: CheckEach, dtype: torch.dtype) -> None:
    a, b = integers(dtype), integers(dtype, seed=1)

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            a + b,
            a - b,
            a * b,
            -a,
            a * 3 + 1,
            abs(a),
            torch.sign(a),
            torch.maximum(a, b),
            torch.minimum(a, b),
            torch.clamp(a, -3, 9),
            torch.clamp(a, 1, 9),
            torch.square(a),
            a**3,
            torch.where(a > b, a, b),
        )

    check_each(function, a, b)


@pytest.mark.parametrize("dtype", FULL_INTEGERS, ids=name)
def test_integer_comparisons_and_bits(check_each: CheckEach, dtype: torch.dtype) -> None:
    a, b = integers(dtype), integers(dtype, seed=1)
    b[::7] = a[::7]

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            a == b,
            a != b,
            a < b,
            a <= b,
            a > b,
            a >= b,
            a & b,
            a | b,
            a ^ b,
            ~a,
            torch.logical_and(a, b),
            torch.logical_or(a, b),
            torch.logical_xor(a, b),
            torch.logical_not(a),
            torch.signbit(a),
            torch.isnan(a),
            torch.isinf(a),
            (a > 0) & ~(b > 3) | (a == b),
            (a > 0) ^ (b > 0),
        )

    check_each(function, a, b)


@pytest.mark.parametrize("dtype", FULL_INTEGERS, ids=name)
def test_shifts_of_any_count(check_each: CheckEach, dtype: torch.dtype) -> None:
    bits = torch.iinfo(dtype).bits
    counts = [count for count in (0, 1, 3, bits - 1, bits, bits + 1, 100, -1, -bits) if count >= torch.iinfo(dtype).min]
    a, count = torch.meshgrid(integers(dtype, 20), torch.tensor(counts, dtype=dtype), indexing="ij")
    check_each(lambda a, n: (a << n, a >> n, a << 3, a >> 2), a.contiguous(), count.contiguous())


@pytest.mark.parametrize("dtype", FULL_INTEGERS, ids=name)
def test_integer_division(check_each: CheckEach, dtype: torch.dtype) -> None:
    a, b = integers(dtype), integers(dtype, seed=1)
    b[b == 0] = 3
    if dtype in SIGNED:
        b[(b == -1) & (a == torch.iinfo(dtype).min)] = 2  # the host's division traps

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.div(a, b, rounding_mode="floor"),
            torch.div(a, b, rounding_mode="trunc"),
            a // 7,
            torch.remainder(a, b),
            torch.fmod(a, b),
            a % 5,
            torch.remainder(a, 7),
            a / b,
            a / 4,
        )

    check_each(function, a, b)


def test_division_by_zero_and_overflow_do_not_spread(check_each: CheckEach) -> None:
    a, b = torch.tensor([7, -(2**31), 5, 9], dtype=torch.int32), torch.tensor([0, -1, 2, -4], dtype=torch.int32)
    defined = torch.tensor([False, False, True, True])

    def function(a: torch.Tensor, b: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.where(keep, torch.div(a, b, rounding_mode="floor"), a), torch.where(keep, a % b, b)

    expected = (torch.tensor([7, -(2**31), 2, -3], dtype=torch.int32), torch.tensor([0, -1, 1, -3], dtype=torch.int32))
    check_each(function, a, b, defined, expected=expected)


@pytest.mark.parametrize("source", [torch.bool, *SIGNED, *UNSIGNED], ids=name)
def test_integers_convert(check_each: CheckEach, source: torch.dtype) -> None:
    x = torch.tensor([True, False, True]) if source is torch.bool else integers(source)
    targets = [target for target in (torch.bool, *SIGNED, *UNSIGNED, *FLOATS) if target is not source]
    check_each(lambda x: tuple(x.to(target) for target in targets), x)


@pytest.mark.parametrize("source", FLOATS, ids=name)
def test_floats_convert(check_each: CheckEach, source: torch.dtype) -> None:
    info = torch.finfo(source)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(200, generator=generator, dtype=torch.float64) * 10.0 ** torch.randint(
        -9, 9, (200,), generator=generator
    )
    special = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, info.tiny, info.max, -info.max, info.eps, 65519.0, 65520.0, 3.4e38]
    x = torch.cat([values, torch.tensor([*special, float("inf"), float("-inf"), float("nan")])]).to(source)
    floats = [target for target in FLOATS if target is not source]
    check_each(lambda x: (*(x.to(target) for target in floats), x.to(torch.bool)), x)
    check_each(lambda x: (x.half().float() * 3, x.bfloat16().float() * 3), x)
    for target in (*SIGNED, *UNSIGNED):
        limit = torch.iinfo(target)
        inside = x[(x.double() > max(limit.min, -(2.0**62)) - 0.5) & (x.double() < min(limit.max, 2**62))]
        check_each(lambda x, target=target: (x.to(target),), inside)


def test_floats_out_of_an_integers_range_convert_as_on_x86(check_each: CheckEach) -> None:
    x = torch.tensor([3e9, -3e9, 1e20, -1e20, float("inf"), float("-inf"), float("nan"), 2.0**31, -(2.0**31), 2.0**63])
    for source in (torch.float32, torch.float64):
        check_each(lambda x: (x.to(torch.int32), x.to(torch.int64)), x.to(source))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=name)
def test_float8_is_eagers_bit_for_bit(check_each: CheckEach, dtype: torch.dtype) -> None:
    every_byte = torch.arange(256, dtype=torch.uint8).view(dtype)
    check_each(lambda x: (x.float(), x.half(), x.bfloat16()), every_byte)
    values = every_byte.float()
    finite = values[values.isfinite()].unique()
    middles = (finite[1:] + finite[:-1]) / 2
    above, below = middles.nextafter(torch.tensor(1e9)), middles.nextafter(torch.tensor(-1e9))
    special = [float("inf"), float("-inf"), float("nan"), 448.1, 464.0, 465.0, 480.0, 1e9, 61439.0, 61440.0, 65536.0]
    x = torch.cat([finite, middles, above, below, torch.tensor([*special, 1e-45, -0.0]), torch.randn(100) * 100])
    check_each(lambda x: (x.to(dtype).view(torch.uint8), x.to(dtype).float()), x)
    x = x[~x.isnan()]  # eager's own conversion to bfloat16 sets the sign of a NaN
    check_each(lambda x: (x.to(dtype).view(torch.uint8),), x.half())
    check_each(lambda x: (x.to(dtype).view(torch.uint8),), x.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=name)
def test_half_precision_arithmetic(check_each: CheckEach, dtype: torch.dtype) -> None:
    a, b = torch.randn(40, 33).to(dtype), torch.randn(40, 33).to(dtype)
    check_each(lambda a, b: (a + b, a * b, a - b, a / b, torch.relu(a), a * 0.1, torch.maximum(a, b), a > b), a, b)
    tolerance = 1e-2
    check_each(lambda a, b: (torch.exp(a) * b, torch.sigmoid(a), torch.tanh(a) + b), a, b, tolerance=tolerance)
    check_each(lambda a: (a.sum(1), a.mean(0), a.amax(1), a.argmax(1), torch.softmax(a, 1)), a, tolerance=tolerance)


def test_float64_arithmetic(check_each: CheckEach) -> None:
    a, b = torch.randn(40, 33, dtype=torch.float64), torch.randn(40, 33, dtype=torch.float64)
    check_each(
        lambda a, b: (a + b, a * b, a - b, a / b, torch.floor(a * 9), torch.maximum(a, b), -a, a.abs(), a > b),
        a,
        b,
    )
    check_each(lambda a: (a.sum(1), a.mean(0), a.amax(1), a.argmin(0), a.var(1), a.sqrt()), a, tolerance=1e-13)


def test_types_mix_in_one_loop(check_each: CheckEach) -> None:
    small, wide = integers(torch.int8, 500), integers(torch.int64, 500)
    real, half, mask = torch.randn(500), torch.randn(500).half(), torch.rand(500) > 0.5

    def function(*x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        small, wide, real, half, mask = x
        chosen = torch.where(mask, small, wide)
        return small + wide, small * real, half * real, chosen, mask * real, mask + small, half + mask

    check_each(function, small, wide, real, half, mask)


def test_bits_read_as_another_type(check_each: CheckEach) -> None:
    x = torch.cat([torch.randn(100), torch.tensor([0.0, -0.0, float("inf")])])
    check_each(lambda x: (x.view(torch.int32) >> 23, (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)), x)
    check_each(lambda x: (x.view(torch.int16) + 1, (x.view(torch.int16) ^ 1).view(torch.float16)), x.half())
    check_each(lambda x: (x.view(torch.int16) + 1,), x.bfloat16())


@pytest.mark.parametrize("dtype", [*FULL_INTEGERS, torch.bool], ids=name)
@pytest.mark.parametrize("dim", [0, 1])
def test_integer_reductions(check_each: CheckEach, dtype: torch.dtype, dim: int) -> None:
    x = (torch.rand(37, 50) > 0.5) if dtype is torch.bool else integers(dtype, 37 * 50).reshape(37, 50)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        extremes = (x.amax(dim), x.amin(dim), (x != 0).any(dim), x.max(dim).values, x.max(dim).indices)
        return (*extremes, x.argmin(dim), x.sum(dim), x.prod(dim))

    if dtype is torch.bool:
        check_each(lambda x: (x.amax(dim), x.amin(dim), x.any(dim), x.all(dim), x.sum(dim)), x)
    else:
        check_each(function, x)
    check_each(lambda x: (x[:5].amax(dim), x[:, 3:4].amin(dim)), x)
    negative = -abs(x) if dtype in SIGNED else x  # a wrong identity (0) would win
    check_each(lambda x: (x.amax(), x.amin(), x.sum()), negative)


def test_long_rows_of_bytes(check_each: CheckEach) -> None:
    """Rows end inside a vector, and the mask is of i32 positions: vectors and stack frames must have room for them."""
    x = torch.randint(-128, 128, (2, 1000)).to(torch.int8)
    check_each(lambda x: (x.amax(-1), x.amin(-1), x.sum(-1), (x > 99).any(-1), x.argmax(-1)), x)


def test_zero_times_what_is_not_finite(check_each: CheckEach) -> None:
    """Inductor folds a product with the integer 0; eager's is NaN."""
    x = torch.tensor([float("inf"), 1.0, float("nan"), -0.0, -2.0])
    check_each(lambda x: (x * 0, 0 * x + 1, x.half() * 0, x.mul(False), x * 0.0, torch.addr(x, x, x, alpha=0)), x)


def test_autocast_to_bfloat16(check_each: CheckEach) -> None:
    a, b = torch.randn(20, 30), torch.randn(20, 30)

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            half = a.bfloat16() * b.bfloat16()
            return half, half + a, torch.nn.functional.gelu(half), torch.softmax(half, -1)

    check_each(function, a, b, tolerance=1e-2)


def test_xor_of_everything(check_each: CheckEach) -> None:
    x = integers(torch.int64, 37 * 50).reshape(37, 50)
    expected = torch.from_numpy(np.bitwise_xor.reduce(x.numpy(), axis=1))
    check_each(lambda x: (torch.ops.prims.xor_sum(x, [1]),), x, expected=(expected,))


def test_special_functions_of_float64_are_refused(check_each: CheckEach) -> None:
    x = torch.rand(8, dtype=torch.float64)
    for function in (torch.exp, torch.asinh, torch.log2, lambda x: x**2.5, lambda x: torch.fmod(x, 0.3)):
        with pytest.raises(UnsupportedError, match="float64"):
            check_each(lambda x, function=function: (function(x),), x)


def test_neighbours_of_bfloat16_are_refused(check_each: CheckEach) -> None:
    x = torch.rand(8).bfloat16()
    with pytest.raises(UnsupportedError, match="nextafter"):
        check_each(lambda x: (torch.nextafter(x, x + 1),), x)


OPERATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "lt": torch.lt,
    "eq": torch.eq,
    "ge": torch.ge,
    "where": lambda a, b: torch.where(a > b, a, b),
    "logical_and": torch.logical_and,
    "second's type": lambda a, b: a.to(b.dtype),
    "sum": lambda a, b: (a + b).sum(-1),
    "amax": lambda a, b: torch.maximum(a, b).amax(0),
    "argmin": lambda a, b: (a * b).to(torch.float32).argmin(-1),
}


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    types=st.tuples(*[st.sampled_from([torch.bool, *FULL_INTEGERS, torch.float32, torch.float16, torch.bfloat16])] * 2),
    operations=st.sets(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=4),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    seed=st.integers(0, 1000),
)
def test_any_two_types_and_operations(
    check_each: CheckEach,
    types: tuple[torch.dtype, torch.dtype],
    operations: set[str],
    shape: tuple[int, int],
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Small whole numbers: sums and products of every type are exact, so nothing but the result's type rounds.
    a, b = (torch.randint(0, 6, shape, generator=generator).to(dtype) for dtype in types)
    check_each(lambda a, b: tuple(OPERATIONS[name](a, b) for name in sorted(operations)), a, b)
