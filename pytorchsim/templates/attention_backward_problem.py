"""What the backward of attention is to its template: sizes and where operands and gradients lie.

In: frozen layouts. Out: a hashable value that the tile search is keyed by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.attention_problem import Place, merge_batch

__all__ = ["BackwardProblem", "backward_problem"]


@dataclass(frozen=True)
class BackwardProblem:
    """Gradients of O[b, q] = softmax over k of (scale * Q[b, q] K[b, k]) V[b, k]. `places`: of query, key, value,
    gradient (of O), statistics, delta, of_query, of_key, of_value, and of the mask where there is one. `first`: number
    of the first query, where `causal`; a multiple of the lanes."""

    batch: tuple[int, ...]
    queries: int
    keys: int
    size: int
    value_size: int
    places: tuple[tuple[str, Place], ...]
    causal: bool
    scale: float
    first: int

    def place(self, name: str) -> Place:
        """Of a tensor."""
        return dict(self.places)[name]

    @property
    def mask(self) -> Place | None:
        """Of the mask."""
        return dict(self.places).get("mask")

    @property
    def dtype(self) -> Dtype:
        """Of the operands and their gradients."""
        return self.place("query").dtype


def backward_problem(
    batch: Sequence[int],
    sizes: tuple[int, int, int, int],
    places: Mapping[str, Place],
    causal: bool,
    scale: float,
    first: int,
) -> BackwardProblem:
    """`sizes`: queries, keys, size, value size."""
    extents, moved = merge_batch(batch, places)
    return BackwardProblem(extents, *sizes, tuple(moved.items()), causal, scale, first)
