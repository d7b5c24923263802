"""A lowering of ours is used for our graphs, and no other graph of the process sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._inductor.lowering import lowerings, user_lowerings

from pytorchsim.frontend.lowerings import lowers

aten = torch.ops.aten


@pytest.fixture
def relu_for_erfc() -> Iterator[Any]:
    """For this test, `erfc` of our graphs is lowered as `relu`: wrong, and easy to tell from the stock lowering."""

    @lowers(aten.erfc.default)
    def lower_erfc(x: Any) -> Any:
        return lowerings[aten.relu.default](x)

    yield lower_erfc
    del user_lowerings[aten.erfc.default]


@pytest.mark.usefixtures("fresh_caches")
def test_for_our_graphs_only(relu_for_erfc: Any, stock_launches: list[str]) -> None:
    def complement(x: torch.Tensor) -> torch.Tensor:
        return torch.erfc(x)

    x = torch.randn(4, 5)
    ours = torch.compile(complement, backend="pytorchsim", options={"config": "tiny", "strict": True})
    torch.testing.assert_close(ours(x), torch.relu(x))
    torch.compile(complement)(x)
    (source,) = stock_launches
    assert "erfc" in source
    with pytest.raises(ValueError, match="has a lowering already"):
        lowers(aten.erfc.default)(relu_for_erfc)
