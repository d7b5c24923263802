"""Do gathers, scatters, masks and computed positions give eager's values, and stay untouched bytes untouched?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import avg_pool2d, cross_entropy, embedding, interpolate, max_pool2d, one_hot, pad

from pytorchsim.errors import MachineFault, UnsupportedError

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
CheckCases = Callable[..., None]


@pytest.fixture(params=["tpuv3", "tiny"])
def config(request: pytest.FixtureRequest) -> str:
    """The widest machine and the smallest: what lies between them differs in no form of an index."""
    return str(request.param)


R = torch.randn


def _indices(extent: int, *shape: int, dtype: torch.dtype = torch.int64, negative: bool = False) -> torch.Tensor:
    return torch.randint(-extent if negative else 0, extent, shape).to(dtype)


def _distinct(rows: int, extent: int, count: int) -> torch.Tensor:
    """`count` different indices below `extent` in each of `rows` rows."""
    return torch.stack([torch.randperm(extent)[:count] for _ in range(rows)])


def test_positions_as_values(check_cases: CheckCases) -> None:
    rows, columns = torch.arange(13)[:, None], torch.arange(37)
    check_cases(
        {
            "integers": (lambda a: a + torch.arange(37), (R(13, 37),)),
            "floats": (lambda a: a * torch.arange(13)[:, None] + torch.arange(37, dtype=torch.float32), (R(13, 37),)),
            "in pieces": (lambda a: a + (columns // 5) * 100 + (rows * columns) % 7, (R(13, 37),)),
            "eye": (lambda a: a + torch.eye(37), (R(37, 37),)),
            "triangles": (lambda a: a.tril(1) + a.triu(2), (R(45, 37),)),
            "a prefix": (lambda a: torch.where(torch.arange(37) < 5, a, -a), (R(13, 37),)),
            "linspace": (lambda a: a * torch.linspace(-1, 1, 37), (R(13, 37),)),
            "reduced": (lambda a: (a * torch.arange(37)).amax(1), (R(13, 37),)),
            "one_hot": (lambda i: one_hot(i, 12), (_indices(12, 20),)),
            "an expert mask": (lambda i: one_hot(i, 8).permute(2, 1, 0) * 2, (_indices(8, 40, 2),)),
            "of rows": (lambda a: a.sum(1) * torch.arange(13), (torch.ones(13, 37),)),
        },
        tolerance=1e-6,
    )


def test_causal_softmax(check_cases: CheckCases) -> None:
    def causal(x: torch.Tensor) -> torch.Tensor:
        future = torch.arange(x.shape[-2])[:, None] < torch.arange(x.shape[-1])
        return x.masked_fill(future, float("-inf")).softmax(-1)

    check_cases({"causal": (causal, (R(2, 45, 45),)), "long": (causal, (R(2, 3000),))}, tolerance=1e-5)


def test_gathers(check_cases: CheckCases) -> None:
    check_cases(
        {
            "embedding": (lambda w, i: embedding(i, w) + 1, (R(50, 24), _indices(50, 7, 9))),
            "rows": (lambda a, i, y: a[i] + y, (R(50, 24), _indices(50, 30, negative=True), R(30, 24))),
            "rows by int32": (lambda a, i: a[i], (R(50, 24), _indices(50, 30, negative=True, dtype=torch.int32))),
            "columns": (lambda a, i: a[:, i] * 2, (R(50, 24), _indices(24, 30, negative=True))),
            "elements": (lambda a, i, j: a[i, j] * 2, (R(50, 24), _indices(50, 30, negative=True), _indices(24, 30))),
            "axes apart": (lambda a, i, j: a[i, :, j] * 2, (R(9, 10, 11), _indices(9, 30), _indices(11, 30))),
            "a grid": (lambda a, i, j: a[i[:, None], j], (R(50, 24), _indices(50, 30), _indices(24, 12))),
            "with positions": (lambda a, i: a[torch.arange(20), i], (R(20, 24), _indices(24, 20, negative=True))),
            "one by another": (lambda a, i, j: a[i[j]], (R(50, 24), _indices(50, 30), _indices(30, 40))),
            "gather": (lambda a, i: a.gather(1, i), (R(20, 24), _indices(24, 20, 5))),
            "gather, first axis": (lambda a, i: a.gather(0, i) + 1, (R(20, 24), _indices(20, 5, 24))),
            "index_select": (lambda a, i: a.index_select(1, i), (R(20, 24), _indices(24, 7))),
            "take": (lambda a, i: a.take(i), (R(20, 24), _indices(480, 7, 3))),
            "take_along_dim": (lambda a, i: torch.take_along_dim(a, i, 1), (R(20, 24), _indices(24, 20, 5))),
            "nothing": (lambda a, i: a[i], (R(50, 24), _indices(50, 0))),
        }
    )


def test_gathers_by_computed_indices(check_cases: CheckCases) -> None:
    check_cases(
        {
            "arithmetic": (lambda a, i: a[(i * 2 + 1) % 50] + 1, (R(50, 24), _indices(50, 30))),
            "halves": (lambda a, i: a[i // 2], (R(50, 24), _indices(100, 30))),
            "of a reshaped transpose": (
                lambda a, i: a.t().reshape(-1)[i],
                (R(20, 24), _indices(480, 33, negative=True)),
            ),
            "three indices": (
                lambda a, i, j, k: a[i, j, k] * 2,
                (R(9, 10, 11), _indices(9, 30, negative=True), _indices(10, 30), _indices(11, 30, negative=True)),
            ),
            "by an argmax": (lambda a: a.gather(1, a.argmax(1, keepdim=True)), (R(20, 24),)),
            "by an argmax of another": (lambda a, b: b[a.argmax(1)], (R(20, 24), R(24, 5))),
            "by int8": (lambda a, i: a[i.long()], (R(50, 4), _indices(50, 30, dtype=torch.int8))),
            "then padded": (lambda a, i: pad(a[i], (1, 1, 2, 0, 1, 0)), (R(9, 4, 5), _indices(9, 6))),
            "then reduced": (lambda a, i: a[i // 2].amax(1), (R(50, 24), _indices(100, 30))),
            "one row": (lambda a, i: a[i // 3].amax(), (R(50), _indices(150, 4000))),
        }
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.int8, torch.bool, torch.bfloat16], ids=str)
def test_tables_of_every_width(check_cases: CheckCases, dtype: torch.dtype) -> None:
    table, rows = torch.randint(-100, 100, (50, 3)).to(dtype), _indices(50, 30)
    added = torch.randint(0, 2, (30, 3)).to(dtype)
    cases: dict[str, Case] = {
        "gather": (lambda a, i: a[i], (table, rows)),
        "scatter": (lambda a, i, v: a.index_put((i,), v), (table, torch.randperm(50)[:30], added)),
        "scatter_add": (lambda a, i, v: a.index_put((i,), v, accumulate=True), (table, rows, added)),
    }
    if dtype == torch.bfloat16:
        del cases["scatter_add"]  # eager adds duplicates in float32 and rounds once
    check_cases(cases)


def test_scatters(check_cases: CheckCases) -> None:
    check_cases(
        {
            "scatter": (lambda a, i, v: a.scatter(1, i, v), (R(20, 24), _distinct(20, 24, 5), R(20, 5))),
            "a number": (lambda a, i: a.scatter(1, i, 2.5), (R(20, 24), _distinct(20, 24, 5))),
            "index_put": (lambda a, i, v: a.index_put((i,), v), (R(50, 24), torch.randperm(50)[:30], R(30, 24))),
            "one row for all": (lambda a, i, v: a.index_put((i,), v), (R(50, 24), torch.randperm(50)[:30], R(24))),
            "index_copy": (lambda a, i, v: a.index_copy(0, i, v), (R(50, 24), torch.randperm(50)[:30], R(30, 24))),
            "index_fill": (lambda a, i: a.index_fill(1, i, 3.0), (R(20, 24), _indices(24, 7))),
            "masked_fill": (lambda a, m: a.masked_fill(m, -1e9) + 1, (R(9, 31), R(9, 31) > 0.5)),
            "no index": (lambda a, i, v: a.scatter(0, i, v), (R(5, 4), _indices(5, 0, 4), R(0, 4))),
        }
    )


def test_scatters_that_add(check_cases: CheckCases) -> None:
    """With duplicates: many more elements than places."""
    check_cases(
        {
            "scatter_add": (lambda a, i, v: a.scatter_add(1, i, v), (R(20, 24), _indices(24, 20, 50), R(20, 50))),
            "first axis": (lambda a, i, v: a.scatter_add(0, i, v), (R(20, 24), _indices(20, 60, 24), R(60, 24))),
            "index_add": (lambda a, i, v: a.index_add(0, i, v, alpha=2), (R(50, 24), _indices(50, 130), R(130, 24))),
            "index_add, last axis": (lambda a, i, v: a.index_add(1, i, v), (R(24, 50), _indices(50, 130), R(24, 130))),
            "index_put": (
                lambda a, i, j, v: a.index_put((i, j), v, accumulate=True),
                (R(50, 24), _indices(50, 300, negative=True), _indices(24, 300), R(300)),
            ),
            "everything to one place": (
                lambda a, i, v: a.index_put((i,), v, accumulate=True),
                (R(5), torch.full((3000,), 2), R(3000)),
            ),
        },
        tolerance=1e-4,
    )


def test_scatters_of_reductions(check_cases: CheckCases) -> None:
    """Row-level stores: one element per row, wherever its index says."""
    check_cases(
        {
            "loaded": (lambda a, b, i: a.index_add(0, i, b.amax(1)), (R(40), R(30, 50), _indices(40, 30))),
            "computed": (lambda a, b, i: a.index_add(0, i // 2, b.amax(1)), (R(40), R(30, 50), _indices(80, 30))),
            "streamed": (lambda a, b, i: a.index_add(0, i // 2, b.amax(1)), (R(40), R(3, 9000), _indices(80, 3))),
            "one row": (lambda a, b, i: a.index_add(0, i // 2, b.amax(1)), (R(40), R(1, 900), _indices(80, 1))),
        },
        tolerance=1e-5,
    )


def test_scatters_that_take_extremes(check_cases: CheckCases) -> None:
    base, index, values = R(20, 24), _indices(24, 20, 50), R(20, 50)
    values[3, 4], values[5, 6] = float("nan"), float("-inf")
    check_cases(
        {
            "amax": (lambda a, i, v: a.scatter_reduce(1, i, v, "amax"), (base, index, values)),
            "amin": (lambda a, i, v: a.scatter_reduce(1, i, v, "amin"), (base, index, values)),
            "amin without what is there": (
                lambda a, i, v: a.scatter_reduce(1, i, v, "amin", include_self=False),
                (base, index, values),
            ),
            "integers": (
                lambda a, i, v: a.scatter_reduce(1, i, v, "amax", include_self=False),
                (_indices(9, 20, 24, negative=True), index, _indices(9, 20, 50, negative=True)),
            ),
        }
    )


def test_scatters_into_inputs_leave_the_rest(check_cases: CheckCases) -> None:
    """Inputs are views of larger storages, whose other bytes `check_cases` compares too."""
    check_cases(
        {
            "index_put_": (
                lambda a, i, v: a.index_put_((i,), v) + 0,
                (R(30, 40)[5:25, 3:27], torch.randperm(20)[:7], R(7, 24)),
            ),
            "scatter_": (
                lambda a, i, v: a.scatter_(1, i, v) + 0,
                (R(30, 40)[5:25, 3:27], _distinct(20, 24, 5), R(20, 5)),
            ),
            "index_copy_": (
                lambda a, i, v: a.index_copy_(0, i, v) + 0,
                (R(30, 40)[::2], torch.randperm(15)[:7], R(7, 40)),
            ),
            "masked_fill_": (lambda a, m: a.masked_fill_(m, 7.0) + 0, (R(30, 40)[5:25, 3:27], R(20, 24) > 0)),
            "permuting itself": (lambda a, i: a.copy_(a[i]) + 0, (R(30, 40)[5:25], torch.randperm(20))),
        }
    )


def test_bias_tables(check_cases: CheckCases) -> None:
    """A table gathered by query and key with the head apart, then reduced over keys: tiles of four axes."""
    table, index, scores = R(49, 4), _indices(49, 16, 16), R(2, 4, 16, 16)

    def biased(x: torch.Tensor, t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x + t[i.view(-1)].view(16, 16, 4).permute(2, 0, 1)[None]

    check_cases(
        {
            "maximum": (lambda x, t, i: biased(x, t, i).amax(-1), (scores, table, index)),
            "softmax": (lambda x, t, i: biased(x, t, i).softmax(-1), (scores, table, index)),
            "over queries": (lambda x, t, i: biased(x, t, i).sum(2), (scores, table, index)),
        },
        tolerance=1e-5,
    )


def test_losses_and_gradients(check_cases: CheckCases) -> None:
    check_cases({"cross entropy": (cross_entropy, (R(20, 24), _indices(24, 20)))}, tolerance=1e-5)


GRADIENTS: dict[str, Case] = {
    "embedding": (lambda w, i: embedding(i, w, padding_idx=3).tanh(), (R(40, 8), _indices(40, 5, 9))),
    "gather": (lambda a, i: a.gather(1, i) * 2, (R(20, 24), _indices(24, 20, 50))),
    "index": (lambda a, i, j: a[i, j].exp(), (R(20, 24), _indices(20, 70), _indices(24, 70))),
    "scatter_add": (lambda a, i, v: a.scatter_add(1, i, v) ** 2, (R(20, 24), _indices(24, 20, 50), R(20, 50))),
    "moves": (lambda a, b: pad(torch.cat([a.roll(2, 0), b.flip(1)], 1), (1, 2, 3, 0)).sigmoid(), (R(9, 7), R(9, 5))),
    "reflection": (lambda a: pad(a, (2, 3), mode="reflect") ** 2, (R(3, 4, 9),)),
    "windows": (lambda a: a.unfold(1, 4, 2) ** 2, (R(3, 20),)),
    "maximum pool": (lambda a: max_pool2d(a, 3, 2, 1) ** 2, (R(1, 3, 9, 9),)),
    "triangle": (lambda a: a.tril().logsumexp(1), (R(20, 24),)),
}


@pytest.mark.parametrize("case", GRADIENTS.values(), ids=GRADIENTS.keys())
def test_gradients(config: str, case: Case) -> None:
    """The backward of a gather is a scatter that adds, of a pad a slice, and so on."""
    function, tensors = case
    ours, eagers = ([t.clone().requires_grad_() if t.is_floating_point() else t for t in tensors] for _ in range(2))
    torch._dynamo.reset()
    options = {"strict": True, "config": config}
    result = torch.compile(function, backend="pytorchsim", fullgraph=True, options=options)(*ours)
    expected = function(*eagers)
    weight = torch.randn_like(expected)
    (result * weight).sum().backward()
    (expected * weight).sum().backward()
    for mine, theirs in zip(ours, eagers, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)


def test_gathers_in_rows_longer_than_the_scratchpad(check_cases: CheckCases) -> None:
    """Streamed rows: index tiles per row, per tile, loaded and computed."""
    long = 9000
    check_cases(
        {
            "loaded": (lambda a, i: a[:, i].amax(1), (R(3, 500), _indices(500, long))),
            "computed": (lambda a, i: a[:, i // 2].amax(1), (R(3, 500), _indices(1000, long))),
            "per element": (lambda a, i: a.gather(1, i).amax(1), (R(3, 600), _indices(600, 3, long))),
            "per row": (lambda a, t, i: (a * t[i][:, None]).amax(1), (R(3, long), R(77), _indices(77, 3))),
            "per row, computed": (
                lambda a, t, i: (a * t[(i + 1) % 77][:, None]).amax(1),
                (R(3, long), R(77), _indices(77, 3)),
            ),
            "positions": (lambda a: (a.flip(1) * torch.arange(long)).amax(1), (R(3, long),)),
            "masks": (lambda a: a.triu(5).amin(1), (R(30, 3000),)),
            "position of the maximum": (
                lambda a: a.view(3, 90, 100).permute(0, 2, 1).reshape(3, -1).argmax(1),
                (torch.randint(-3, 3, (3, long)).float(),),
            ),
        }
    )


def test_interpolation_and_pools(check_cases: CheckCases) -> None:
    check_cases(
        {
            "bilinear": (lambda a: interpolate(a, size=(11, 9), mode="bilinear"), (R(1, 2, 5, 7),)),
            "maximum": (lambda a: max_pool2d(a, 3, 2, 1, return_indices=True), (R(1, 2, 9, 9),)),
            "mean": (lambda a: avg_pool2d(a, 3, 2, 1), (R(1, 2, 9, 9),)),
            "mean, padding not counted": (lambda a: avg_pool2d(a, 3, 2, 1, False, False), (R(1, 2, 9, 9),)),
        },
        tolerance=1e-5,
    )


def _compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    torch._dynamo.reset()
    options = {"config": "tpuv3", "strict": True}
    return torch.compile(function, backend="pytorchsim", fullgraph=True, options=options)


OUT_OF_RANGE: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "too large": (lambda a, i: a[i], (R(50, 24), torch.tensor([1, 50]))),
    "too small": (lambda a, i: a[i], (R(50, 24), torch.tensor([1, -51]))),
    "inside the storage": (lambda a, i: a[:, i] + 1, (R(50, 24), torch.tensor([1, 24]))),
    "beyond 32 bits": (lambda a, i: a[i], (R(50, 24), torch.tensor([1, (1 << 32) + 1]))),
    "computed": (lambda a, i: a[i * 2], (R(50, 24), torch.tensor([1, 25]))),
    "one of three": (
        lambda a, i, j, k: a[i, j, k],
        (R(4, 5, 6), torch.tensor([1]), torch.tensor([5]), torch.tensor([0])),
    ),
    "of a reshaped transpose": (lambda a, i: a.t().reshape(-1)[i], (R(4, 5), torch.tensor([20]))),
    "store": (lambda a, i: a.index_fill(0, i, 1.0), (R(4, 5), torch.tensor([4]))),
    "sum": (lambda a, i, v: a.index_add(0, i, v), (R(4, 5), torch.tensor([4]), R(1, 5))),
    "gather takes no negative ones": (lambda a, i: a.gather(0, i), (R(4, 5), torch.tensor([[-1]]))),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE.keys())
def test_an_index_out_of_range_is_an_error(case: Case) -> None:
    function, tensors = case
    with pytest.raises((IndexError, RuntimeError)):
        function(*tensors)
    with pytest.raises(MachineFault, match="out of range") as raised:
        _compiled(function)(*tensors)
    assert raised.value.site.kind == "index-out-of-range"


@pytest.mark.parametrize("wrong", [3, -1])
def test_an_assertion_of_the_graph_is_checked(wrong: int) -> None:
    """`one_hot` asserts that its classes are in range, and computes zeros for those that are not."""
    with pytest.raises(MachineFault) as raised:
        _compiled(lambda i: one_hot(i, 3))(torch.tensor([0, wrong, 2]))
    assert "assert" in raised.value.site.kernel


def test_a_position_out_of_range_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"takes values 0\.\.9, outside 0\.\.4"):
        _compiled(lambda a: a[:, torch.arange(10)] + 1)(R(7, 5))
