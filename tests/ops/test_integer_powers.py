"""Are integer powers computed on the NPU with eager's wrap-around and signs, and does `any` keep eager's type?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

CheckEach = Callable[..., tuple[torch.Tensor, ...]]

pytestmark = pytest.mark.parametrize("config", ["tpuv3", "tiny"], indirect=True)

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_powers_by_a_tensor(check_each: CheckEach, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    bases = torch.tensor([0, 1, 2, 3, -1, -2, 7, 10, 64, info.max, info.min], dtype=torch.int64).to(dtype)
    exponents = [0, 1, 2, 3, 5, 7, 8, 31, 63, 64, -1, -2, -3, info.max, info.min, info.max - 1]
    x, n = torch.meshgrid(bases, torch.tensor(exponents, dtype=torch.int64).to(dtype), indexing="ij")
    check_each(lambda x, n: (x**n,), x, n)
    check_each(lambda n: (torch.pow(-3, n),), n)


def test_powers_promote_and_broadcast(check_each: CheckEach) -> None:
    x = torch.arange(-6, 6, dtype=torch.int32)[:, None]
    check_each(
        lambda x, n, m, f: (x**n, n**x, x**m, x**f, torch.pow(2.0, n), x.clone().pow_(m)),
        x,
        torch.arange(0, 9, dtype=torch.int64),
        torch.tensor([[3]], dtype=torch.uint8),
        torch.ones(1),
    )


def test_any_of_bytes(check_each: CheckEach) -> None:
    x = (torch.arange(35) % 11 == 3).reshape(5, 7).to(torch.uint8) * 6
    check_each(lambda x: (x.any(), x.any(1), torch.any(x, (0, 1)), x.any(0, keepdim=True), x.char().any(0)), x)
    check_each(lambda x: (x.all(), x.all(1), x[:0].any(), x[:0].any(0), x.bool().any(1)), x)
