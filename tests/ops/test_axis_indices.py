"""Do operations whose indices number one axis give eager's values in every type, and refuse what eager refuses?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytorchsim.errors import MachineFault

CheckCases = Callable[..., None]


@pytest.fixture(params=["tiny"])
def config(request: pytest.FixtureRequest) -> str:
    """One machine: decompositions do not depend on it."""
    return str(request.param)


TYPES = (torch.float32, torch.bfloat16, torch.int8, torch.int64)


def test_every_type(check_cases: CheckCases) -> None:
    cases: dict[str, Any] = {}
    few, many = torch.tensor([3, 0, 7]), torch.tensor([3, 0, 3, 3, 7])
    for dtype in TYPES:
        x, source = torch.randint(0, 9, (9, 5)).to(dtype), torch.randint(0, 9, (5, 5)).to(dtype)
        cases |= {
            f"select {dtype}": (lambda x, i: (x.index_select(0, i), x.t().index_select(1, i)), (x, many)),
            f"add {dtype}": (lambda x, i, s: (x.index_add(0, i, s), x.index_add(0, i, s, alpha=2)), (x, many, source)),
            f"copy {dtype}": (lambda x, i, s: (x.index_copy(0, i, s), x.index_copy_(0, i, -s)), (x, few, source[:3])),
            f"amax {dtype}": (lambda x, i, s: x.index_reduce(0, i, s, "amax"), (x, many, source)),
            f"amin {dtype}": (
                lambda x, i, s: x.index_reduce(0, i, s, "amin", include_self=False),
                (x, many, source),
            ),
        }
    cases["int32"] = (lambda x, i: x.index_select(0, i), (torch.randn(9, 5), many.int()))
    cases["one number"] = (lambda x, i: x.index_add(0, i, x), (torch.tensor(3.0), torch.tensor([0])))
    check_cases(cases)


OUT_OF_RANGE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "select": lambda x, i: x.index_select(0, i),
    "add": lambda x, i: x.index_add(0, i, x[:2]),
    "copy": lambda x, i: x.index_copy(0, i, x[:2]),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_negative_indices_are_out_of_range(name: str) -> None:
    x, index, function = torch.randn(4, 3), torch.tensor([0, -1]), OUT_OF_RANGE[name]
    with pytest.raises((IndexError, RuntimeError)):
        function(x, index)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="pytorchsim", options={"config": "tiny", "strict": True})
    with pytest.raises(MachineFault, match="index-out-of-range"):
        compiled(x, index)
