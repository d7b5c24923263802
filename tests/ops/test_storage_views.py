"""Does `as_strided` mean the storage, as in eager, whatever view it is called on?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pytorchsim.errors import UnsupportedError

CheckCases = Callable[..., None]


@pytest.fixture(params=["tiny"])
def config(request: pytest.FixtureRequest) -> str:
    """One machine: it is the graph that is changed."""
    return str(request.param)


def test_as_strided_of_a_view_means_the_storage(check_cases: CheckCases) -> None:
    x = torch.arange(60.0).reshape(12, 5)

    def of_slice(x: torch.Tensor) -> torch.Tensor:
        return (x * 2)[2:10].contiguous().as_strided((3, 4), (1, 5), 1)

    check_cases(
        {
            "slice of a value": (of_slice, (x,)),
            "its own offset": (lambda x: (x * 2)[2:10].as_strided((3, 4), (5, 1)), (x,)),
            "a permuted value": (lambda x: (x + 1).t()[1:].as_strided((3, 4), (5, 1), 7) * 2, (x,)),
            "one by another": (lambda x: (x + 1)[3].as_strided((4,), (2,), 1).as_strided((3,), (5,), 2), (x,)),
            "a reduction": (lambda x: x.cumsum(0)[3:].as_strided((2, 5), (5, 1), 0).sum(0), (x,)),
            "slice of an input": (lambda x: x[2:10].as_strided((3, 4), (1, 5), 1) + 1, (x,)),
        }
    )


def test_an_input_that_begins_elsewhere_is_not_taken_for_the_one_that_was_compiled_for() -> None:
    """Dynamo does not compile again for another storage offset."""
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: x.as_strided((3,), (1,), 5) * 1, backend="pytorchsim", options={"config": "tiny", "strict": True}
    )
    base = torch.arange(30.0)
    assert compiled(base[3:23]).tolist() == [5, 6, 7]
    with pytest.raises(UnsupportedError, match=r"begins at element 0 .* compiled for one that begins at 3"):
        compiled(base[:20])
    assert compiled(base[3:23]).tolist() == [5, 6, 7]
