"""Is a size or a place that depends on values of tensors refused with our error, which names operation and line?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pytorchsim.errors import UnsupportedError

X, COUNTS, PLACE = torch.arange(20.0).reshape(4, 5), torch.tensor([1, 0, 2, 1]), torch.tensor(-1)

SIZES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 4] * 2,
    "masked_select": lambda x: x.masked_select(x > 4).sum(),
    "repeats": lambda x: x.repeat_interleave(COUNTS, 0) + 1,
    "unique": lambda x: x.unique(),
}

PLACES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "one row": lambda x, i: x[i] + 1,
    "one element": lambda x, i: x[i, i] + 1,
    "one column": lambda x, i: x[:, i] + 1,
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_depend_on_data_are_refused(name: str, strict: bool) -> None:
    torch._dynamo.reset()
    options = {"config": "tiny", "strict": strict}
    function = torch.compile(SIZES[name], backend="pytorchsim", fullgraph=True, options=options)
    with pytest.raises(UnsupportedError, match=r"test_data_dependence\.py:\d+.*depends on values of tensors.*fixed"):
        function(X)


@pytest.mark.parametrize("name", PLACES)
def test_places_that_depend_on_data_are_refused(name: str) -> None:
    torch._dynamo.reset()
    function = torch.compile(PLACES[name], backend="pytorchsim", fullgraph=True, options={"config": "tiny"})
    with pytest.raises(UnsupportedError, match=r"(?s)depends on a value of a tensor.*index_select.*getitem"):
        function(X, PLACE)
    # What the message says, and the next call, work.
    taken = torch.compile(
        lambda x, i: x.index_select(1, i.reshape(1)) + 1, backend="pytorchsim", options={"config": "tiny"}
    )
    torch.testing.assert_close(taken(X, PLACE + 3), X[:, 2:3] + 1)
