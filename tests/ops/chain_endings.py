"""What may follow a random chain of views: a reduction, a gather, a scatter, a mask, positions.

In: a chain. Out: a function of the chain's start and further tensors. Results are sums and extremes of small integers,
so that they are exact in float32 in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from tests.ops.view_chains import Chain, chains

__all__ = ["endings"]

Ended = tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]


@st.composite
def endings(draw: st.DrawFn) -> Ended:
    """(text, function, tensors)."""
    chain = draw(chains(longest=4))
    end = draw(st.sampled_from(sorted(_ENDINGS))) if chain(chain.start()).dim() else "none"
    shape = chain(chain.start()).shape
    axis = draw(st.integers(0, max(0, len(shape) - 1)))
    axes = draw(st.lists(st.integers(0, max(0, len(shape) - 1)), min_size=1, unique=True))
    fold = draw(st.sampled_from(["sum", "amax", "amin"]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    function, tensors = _ENDINGS.get(end, _none)(chain, (axis, axes), fold, generator)
    return f"{chain} then {end} {fold} {axes} at {axis}", function, (chain.start(), *tensors)


Places = tuple[int, list[int]]
Ending = Callable[[Chain, Places, str, torch.Generator], tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]


def _none(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del places, fold, generator
    return lambda x: chain(x) + 1, ()


def _reduction(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del generator
    return lambda x: getattr(chain(x), fold)(places[1]), ()


def _position_of_the_maximum(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del fold, generator
    return lambda x: (chain(x) % 5).argmax(places[0]), ()


def _positions(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del generator
    shape = chain(chain.start()).shape
    along = [-1 if axis == places[0] else 1 for axis in range(len(shape))]
    return lambda x: getattr(chain(x) + torch.arange(shape[places[0]]).view(along) // 3, fold)(places[1]), ()


def _selection(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del fold
    axis, extent = places[0], chain(chain.start()).shape[places[0]]
    index = torch.randint(-extent, extent, (4, 3), generator=generator)
    return lambda x, i: chain(x)[(slice(None),) * axis + (i,)] * 2, (index,)


def _gather(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    shape = chain(chain.start()).shape
    index = torch.randint(0, shape[places[0]], shape, generator=generator)
    return lambda x, i: getattr(chain(x).gather(places[0], i) + chain(x), fold)(places[1]), (index,)


def _mask(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    mask = torch.rand(chain(chain.start()).shape, generator=generator) > 0.5
    return lambda x, m: getattr(chain(x).masked_fill(m, -1.0), fold)(places[1]), (mask,)


def _difference(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del generator
    return lambda x: chain(x) - getattr(chain(x), fold)(places[1], keepdim=True), ()


def _scatter(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del fold
    shape = chain(chain.start()).shape
    index = torch.randint(0, shape[places[0]], shape, generator=generator)
    return lambda x, i: (chain(x) * 0 + 1).scatter_add(places[0], i, chain(x)), (index,)


def _several(chain: Chain, places: Places, fold: str, generator: torch.Generator) -> Any:
    del generator
    axis, axes = places
    return (
        lambda x: (chain(x).flip(axis) + chain(x), getattr(chain(x), fold)(axes), chain(x).roll(1, axis) * 2),
        (),
    )


_ENDINGS: dict[str, Ending] = {
    "reduction": _reduction,
    "position of the maximum": _position_of_the_maximum,
    "positions": _positions,
    "selection": _selection,
    "gather": _gather,
    "mask": _mask,
    "difference": _difference,
    "scatter": _scatter,
    "several": _several,
}
