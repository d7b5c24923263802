"""Do matrix products give eager's values, whatever the shape, strides, type and bias?"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pytorchsim

Check = Callable[..., torch.Tensor]

GRID = (1, 7, 8, 63, 128, 129, 516, 1000)
LONG = 16384


def covering(values: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Triples in which every pair of values stands together along every two axes: a Latin square."""
    count = len(values)
    square = itertools.product(range(count), range(count))
    return [(values[a], values[b], values[(a + b) % count]) for a, b in square]


def compile_for(function: Callable[..., torch.Tensor], config: str) -> Callable[..., torch.Tensor]:
    torch._dynamo.reset()
    return torch.compile(function, backend="pytorchsim", fullgraph=True, options={"config": config, "strict": True})


@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
def test_mm_of_all_pairs_of_sizes(config: str) -> None:
    """mm over all pairs of sizes; a product too large for the smallest machine to be quick is left to the other one."""
    for m, k, n in covering(GRID):
        if config == "tiny" and m * k * n > 20_000_000:
            continue
        x, w = torch.randn(m, k), torch.randn(k, n)
        torch.testing.assert_close(compile_for(torch.mm, config)(x, w), x @ w, rtol=1e-4, atol=1e-4, msg=f"{m, k, n}")


@pytest.mark.parametrize(
    ("config", "shape", "results"),
    [("tpuv3", (40, 900, 256), 1), ("tpuv3", (100, 700, 100), 1), ("mobile", (17, 100, 9), 2)],
    ids=str,
)
def test_a_smaller_first_tile(config: str, shape: tuple[int, int, int], results: int) -> None:
    """Few result tiles: their first k tile is smaller. What is left over is not a multiple of the others' size."""
    m, k, n = shape
    x, w = torch.randn(m, k), torch.randn(k, n)
    torch.testing.assert_close(compile_for(torch.mm, config)(x, w), x @ w, rtol=1e-4, atol=1e-4)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    assert kernel["tile"]["lead"] > 0
    assert -(-n // kernel["tile"]["n"]) == results


@pytest.mark.parametrize(
    "shape", [(LONG, 7, 129), (LONG, 63, 8), (8, 63, LONG), (129, 8, LONG), (1, 129, LONG)], ids=str
)
@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
def test_one_long_axis(config: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, w = torch.randn(m, k), torch.randn(k, n)
    torch.testing.assert_close(compile_for(torch.mm, config)(x, w), x @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 7), (8, 129), (129, 63)], ids=str)
@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
def test_long_sums(config: str, shape: tuple[int, int]) -> None:
    """Eager itself misses 1e-4 for K > 4096: the error against float64 is at most twice eager's and 1e-5."""
    x, w = torch.randn(shape[0], LONG), torch.randn(LONG, shape[1])
    exact = x.double() @ w.double()
    error = (compile_for(torch.mm, config)(x, w) - exact).abs().max()
    assert error <= 2 * (x @ w - exact).abs().max() + 1e-5


@pytest.mark.parametrize(("m", "k", "n"), [(32, 32, 32), (128, 256, 256), (128, 63, 56), (2, 1, 300), (61, 784, 256)])
def test_mm(check: Check, m: int, k: int, n: int) -> None:
    check(torch.mm, torch.randn(m, k), torch.randn(k, n))


@pytest.mark.parametrize(("m", "k", "n"), [(128, 256, 512), (129, 61, 56), (516, 244, 224)])
@pytest.mark.parametrize("bias", ["row", "full", "column", "scalar"])
def test_addmm(check: Check, m: int, k: int, n: int, bias: str) -> None:
    shape = {"row": (n,), "full": (m, n), "column": (m, 1), "scalar": (1,)}[bias]
    check(torch.addmm, torch.randn(shape), torch.randn(m, k), torch.randn(k, n))


def test_scales(check: Check) -> None:
    x, w, b = torch.randn(40, 50), torch.randn(50, 60), torch.randn(60)
    check(lambda b, x, w: torch.addmm(b, x, w, alpha=2.0, beta=0.5), b, x, w)
    check(lambda b, x, w: torch.addmm(b, x, w, beta=0), torch.full((60,), float("nan")), x, w)
    bx, bw, bb = torch.randn(3, 40, 50), torch.randn(3, 50, 60), torch.randn(3, 1, 60)
    check(lambda b, x, w: torch.baddbmm(b, x, w, alpha=2.0, beta=0.5), bb, bx, bw)


def test_transposed_operands(check: Check) -> None:
    x, w = torch.randn(50, 70), torch.randn(70, 90)
    check(lambda a, b: a.t() @ b, torch.randn(50, 70).contiguous(), torch.randn(50, 90))
    check(lambda a, b: a @ b.t(), x, torch.randn(90, 70))
    check(lambda a, b: a.t() @ b.t(), torch.randn(70, 50), torch.randn(90, 70))
    check(lambda a, b: a[::2] @ b[:, 3:80:7], x, w)
    check(torch.mm, torch.randn(40, 33).t(), torch.randn(40, 21))


@pytest.mark.parametrize("shape", [(4, 10, 64), (64,), (2, 3, 5, 64)], ids=str)
def test_linear(check: Check, shape: tuple[int, ...]) -> None:
    check(torch.nn.functional.linear, torch.randn(shape), torch.randn(30, 64), torch.randn(30))


@pytest.mark.parametrize(
    ("b", "m", "k", "n"),
    [(1, 32, 16, 64), (3, 61, 33, 17), (2, 128, 256, 128), (12, 64, 64, 64), (2, 3, 300, 129), (5, 1, 1, 1)],
)
def test_bmm(check: Check, b: int, m: int, k: int, n: int) -> None:
    check(torch.bmm, torch.randn(b, m, k), torch.randn(b, k, n))
    check(lambda x, w: x @ w.transpose(1, 2), torch.randn(b, m, k), torch.randn(b, n, k))


def test_broadcast_batch(check: Check) -> None:
    check(torch.matmul, torch.randn(4, 20, 30), torch.randn(30, 40))
    check(torch.matmul, torch.randn(2, 1, 20, 30), torch.randn(3, 30, 40))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(33, 70, 50), (3, 300, 50), (1, 9, 1)], ids=str)
def test_half_precision(config: str, dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    """Sums are float32 and rounded once: at most one unit in the last place from the exact value, rounded."""
    m, k, n = shape
    x, w = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    result, exact = compile_for(torch.mm, config)(x, w), (x.double() @ w.double()).to(dtype)
    assert result.dtype == dtype
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(result, exact, rtol=unit, atol=1e-4)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str
)
@pytest.mark.parametrize("shape", [(33, 70, 50), (3, 70, 50), (1, 9, 1)], ids=str)
def test_other_types(config: str, dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    """Integers wrap as eager's do."""
    m, k, n = shape
    if dtype == torch.float64:
        x, w = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
    else:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        x, w = torch.randint(low, high, (m, k), dtype=dtype), torch.randint(low, high, (k, n), dtype=dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 0
    torch.testing.assert_close(compile_for(torch.mm, config)(x, w), x @ w, rtol=tolerance, atol=tolerance)


def test_int_mm(config: str) -> None:
    x = torch.randint(-128, 127, (33, 72), dtype=torch.int8)
    w = torch.randint(-128, 127, (72, 56), dtype=torch.int8)
    result = compile_for(torch._int_mm, config)(x, w)
    assert result.dtype == torch.int32
    assert torch.equal(result, torch._int_mm(x, w))


def test_empty(check: Check) -> None:
    torch.testing.assert_close(compile_for(torch.mm, "tpuv3")(torch.randn(3, 0), torch.randn(0, 5)), torch.zeros(3, 5))
    check(torch.addmm, torch.randn(5), torch.randn(3, 0), torch.randn(0, 5))


def test_not_finite_values_pass_through(check: Check) -> None:
    x, w = torch.randn(9, 20), torch.randn(20, 11)
    x[2, 3], w[4, 5] = float("inf"), float("nan")
    check(torch.mm, x, w)


def test_what_is_multiplied_by_zero_is_not_read(check: Check) -> None:
    """As BLAS defines it. Eager's own kernel for small batches reads all the same, so `baddbmm` has its result here."""
    x, w, finite, not_finite = torch.randn(9, 20), torch.randn(20, 11), torch.randn(9, 11), torch.randn(9, 11)
    not_finite[1] = float("nan")
    wrong = x.clone()
    wrong[0], wrong[2, 3] = float("inf"), float("nan")
    check(lambda b, x, w: torch.addmm(b, x, w, alpha=0, beta=2.5), finite, wrong, w)
    check(lambda b, x, w: torch.addmm(b, x, w, alpha=0.0), finite[0], wrong, w)
    check(lambda b, x, w: torch.addmm(b, x, w, alpha=0, beta=0), not_finite, wrong, w)
    check(lambda b, x, w: torch.addmm(b, x, w, alpha=2, beta=0), not_finite, x, w)
    check(lambda b, x, w: torch.baddbmm(b, x, w, beta=0), not_finite[None], x[None], w[None])
    check(lambda b, x, w: torch.addbmm(b, x, w, alpha=0, beta=2.5), finite, wrong[None], w[None])
    check(lambda b, x, w: torch.addmv(b, x, w, alpha=0, beta=2.5), finite[:, 0], wrong, w[:, 0].contiguous())
    result = compile_for(lambda b, x, w: torch.baddbmm(b, x, w, alpha=0), "tpuv3")(finite[None], wrong[None], w[None])
    assert torch.equal(result, finite[None])


def test_products_of_vectors_and_of_sums(check: Check) -> None:
    check(lambda b, x, w: torch.addmv(b, x, w, alpha=2, beta=0.5), torch.randn(9), torch.randn(9, 20), torch.randn(20))
    check(lambda b, x, w: torch.addbmm(b, x, w, beta=2), torch.randn(11), torch.randn(3, 9, 20), torch.randn(3, 20, 11))


def test_operand_of_bytes_computed_with_a_tail(config: str) -> None:
    """k = 200 ends inside a tile: the mask is of i32 positions, four times as wide as the operand."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = (x @ (x * 2).T).to(torch.float32)
        return z.transpose(-1, -2).contiguous() + 1, z

    x = torch.randint(-5, 6, (33, 401)).to(torch.int8)[:, 1::2]
    for ours, eagers in zip(compile_for(model, config)(x), model(x), strict=True):
        assert torch.equal(ours, eagers)


@pytest.mark.parametrize("cores", [2, 3])
def test_cores_share_the_work_and_agree(cores: int) -> None:
    x, w = torch.randn(700, 300), torch.randn(300, 700)
    one = compile_for(torch.mm, "tpuv3")(x, w)
    torch._dynamo.reset()
    options = {"config": {"cores": cores}, "strict": True}
    several = torch.compile(torch.mm, backend="pytorchsim", options=options)(x, w)
    assert torch.equal(one, several)
    assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0


@st.composite
def strided(draw: st.DrawFn, rows: int, columns: int) -> torch.Tensor:
    """A matrix in a larger storage: any order of axes, steps, an offset."""
    steps = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    offset, turned = draw(st.integers(0, 5)), draw(st.booleans())
    sizes = (columns, rows) if turned else (rows, columns)
    outer, inner = sizes[1] * steps[1] * steps[0], steps[1]
    storage = torch.arange(offset + sizes[0] * outer + 1, dtype=torch.float32).mul(0.37).sin()
    matrix = storage.as_strided(sizes, (outer, inner), offset)
    return matrix.t() if turned else matrix


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), config=st.sampled_from(["tpuv3", "mobile", "tiny"]))
def test_any_strides_and_offsets(data: st.DataObject, config: str) -> None:
    m, k, n = (data.draw(st.integers(1, 70), label=axis) for axis in "mkn")
    x, w = data.draw(strided(m, k), label="x"), data.draw(strided(k, n), label="w")
    torch.testing.assert_close(compile_for(torch.mm, config)(x, w), x @ w, rtol=1e-4, atol=1e-4)
