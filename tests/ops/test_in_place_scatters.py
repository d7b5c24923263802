"""Do scatters write where they can into the tensor itself, and never see what they wrote?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pytorchsim

ROWS = 600


@pytest.fixture(params=["tiny"])
def config(request: pytest.FixtureRequest) -> str:
    """Small tiles: rows that are read late have been written by then."""
    return str(request.param)


def _column(index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand(-1, x.shape[1])


def _doubled(write: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`write` of a value that nobody reads afterwards, so that it happens in place."""
    return lambda x, index: write(x * 2, index)


SELF = {
    "index_put of a view": lambda y, i: y.index_put((i[:300],), y[300:]),
    "index_put of a flip": lambda y, i: y.index_put((i,), y.flip(0)),
    "index_put of a sum": lambda y, i: y.index_put((i,), y.flip(0) + 1),
    "index_put, added": lambda y, i: y.index_put((i[:300],), y[300:], accumulate=True),
    "index_copy of a view": lambda y, i: y.index_copy(0, i[:300], y[300:]),
    "index_add of a view": lambda y, i: y.index_add(0, i[:300], y[300:]),
    "scatter of a flip": lambda y, i: y.scatter(0, _column(i, y), y.flip(0)),
    "scatter_add of a view": lambda y, i: y.scatter_add(0, _column(i[:300], y), y[300:]),
}


def test_what_is_written_is_never_read(check_cases: Callable[..., None]) -> None:
    x, index = torch.randn(ROWS, 33), torch.randperm(ROWS)
    cases: dict[str, Any] = {name: (_doubled(write), (x, index)) for name, write in SELF.items()}
    check_cases(cases)


STEPS: dict[str, Callable[..., torch.Tensor]] = {
    "index_copy_": lambda cache, i, new: cache.index_copy_(1, i, new),
    "index_add_": lambda cache, i, new: cache.index_add_(1, i, new),
    "index_put_": lambda cache, i, new: cache.index_put_((torch.arange(2)[:, None], i), new),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_decoding_copies_no_cache(name: str) -> None:
    """One kernel that writes the token's rows: not the cache out, into it, and back."""
    write = STEPS[name]

    def step(cache: torch.Tensor, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        write(cache, index, new * 3)
        return new + 1

    cache, index, new = torch.randn(2, 64, 16), torch.tensor([5]), torch.randn(2, 1, 16)
    expected, actual = cache.clone(), cache.clone()
    step(expected, index, new)
    torch._dynamo.reset()
    torch.compile(step, backend="pytorchsim", fullgraph=True, options={"config": "tiny", "strict": True})(
        actual, index, new
    )
    torch.testing.assert_close(actual, expected)
    written = sum(kernel["bytes_written"] for kernel in pytorchsim.report().to_dict()["kernels"])
    assert written < cache.nbytes
