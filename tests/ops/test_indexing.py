"""Do gathers, scatters, masks and computed positions give eager's values, and stay untouched bytes untouched?"""

from __future__ import annotations

from collections.abc import Callable

import torch

Check = Callable[..., torch.Tensor]


def test_positions_as_values(check: Check) -> None:
    check(lambda x: x + torch.arange(x.shape[1]), torch.randn(5, 37), exact=True)
    check(lambda x: torch.where(torch.arange(37) < 5, x, -x), torch.randn(5, 37), exact=True)
    check(lambda x: x.tril(1) + x.triu(), torch.randn(21, 21), exact=True)


def test_gather(check: Check) -> None:
    table, rows = torch.randn(50, 12), torch.randint(0, 50, (3, 7))
    check(lambda t, i: t[i] + 1, table, rows, exact=True)
    check(torch.nn.functional.embedding, rows, table, exact=True)
    check(lambda t, i, j: t[i, j] * 2, table, torch.randint(-50, 50, (9,)), torch.randint(-12, 12, (9,)), exact=True)
    check(lambda t, i: t.index_select(1, i), table, torch.randint(0, 12, (5,)), exact=True)
    check(lambda t, i: t.gather(1, i), table, torch.randint(0, 12, (50, 4)), exact=True)


def test_scatter(check: Check) -> None:
    base, rows = torch.randn(30, 6), torch.randint(0, 30, (11,))
    check(lambda b, i, v: b.index_add(0, i, v), base, rows, torch.randn(11, 6))
    check(lambda b, i, v: b.index_put((i,), v, accumulate=True), base, rows, torch.randn(11, 6))
    check(lambda b, i, v: b.index_put((i,), v), base, torch.randperm(30)[:11], torch.randn(11, 6), exact=True)
    check(
        lambda b, i, v: b.scatter(1, i, v),
        base,
        torch.argsort(torch.randn(30, 6), 1)[:, :3],
        torch.randn(30, 3),
        exact=True,
    )
    check(lambda b, i, v: b.scatter_add(0, i, v), base, torch.randint(0, 30, (9, 6)), torch.randn(9, 6))


def test_masked_fill(check: Check) -> None:
    check(lambda x, m: x.masked_fill(m, -1e9) + 1, torch.randn(9, 31), torch.rand(9, 31) > 0.5)


def test_writing_a_slice_leaves_the_rest(check: Check) -> None:
    def write(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x[2:9, 1::3] = v * 2
        return x + 1

    check(write, torch.randn(12, 10), torch.randn(7, 3), exact=True)


def test_embedding_gradient(check: Check) -> None:
    del check
    table = torch.randn(40, 8, requires_grad=True)
    same = table.detach().clone().requires_grad_()
    rows = torch.randint(0, 40, (5, 9))
    compiled = torch.compile(
        torch.nn.functional.embedding, backend="pytorchsim", fullgraph=True, options={"strict": True}
    )
    compiled(rows, table).square().sum().backward()
    torch.nn.functional.embedding(rows, same).square().sum().backward()
    torch.testing.assert_close(table.grad, same.grad, rtol=1e-4, atol=1e-4)


def test_reduction_of_a_gathered_bias(check: Check) -> None:
    table, index = torch.randn(30, 4), torch.randint(0, 30, (6 * 7,))

    def bias(scores: torch.Tensor, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        b = table[index].view(6, 7, 4).permute(2, 0, 1)
        return torch.softmax(scores + b.unsqueeze(0), -1)

    check(bias, torch.randn(5, 4, 6, 7), table, index)
    check(lambda s, t, i: (s + t[i].view(6, 7, 4).permute(2, 0, 1)).amax(-1), torch.randn(5, 4, 6, 7), table, index)
