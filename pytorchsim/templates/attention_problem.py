"""What attention is to its template: sizes and where operands, mask and results lie.

In: frozen layouts. Out: a hashable value that the tile search is keyed by. Batch axes that every tensor walks as one
are merged; the last one is called heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from pytorchsim.target.descriptor import MAX_RANK
from pytorchsim.target.dtypes import Dtype

__all__ = ["MOST_BATCH_AXES", "AttentionProblem", "Place", "attention_problem", "merge_batch"]

MOST_BATCH_AXES = MAX_RANK - 2
"""What a descriptor has besides the two axes of a matrix."""


@dataclass(frozen=True)
class Place:
    """Where a tensor lies, in elements: strides of the batch axes, of rows and of columns."""

    offset: int
    batch: tuple[int, ...]
    row: int
    column: int
    dtype: Dtype


@dataclass(frozen=True)
class AttentionProblem:
    """O[b, q] = softmax over k of (scale * Q[b, q] K[b, k]) V[b, k]. `batch`: sizes, at least one. `statistics`: [b, q]
    where the backward needs them."""

    batch: tuple[int, ...]
    queries: int
    keys: int
    size: int
    value_size: int
    query: Place
    key: Place
    value: Place
    result: Place
    mask: Place | None
    statistics: Place | None
    causal: bool
    scale: float

    @property
    def dtype(self) -> Dtype:
        """Of the operands and the result."""
        return self.query.dtype

    @property
    def heads(self) -> int:
        """The innermost batch axis."""
        return self.batch[-1]


def merge_batch(batch: Sequence[int], places: Mapping[str, Place]) -> tuple[tuple[int, ...], dict[str, Place]]:
    """Batch axes that all tensors walk as one become one: sizes, at least one, and places with as many strides."""
    kept = [axis for axis, size in enumerate(batch) if size != 1]
    groups: list[list[int]] = []
    for axis in kept:
        if groups and all(p.batch[groups[-1][-1]] == p.batch[axis] * batch[axis] for p in places.values()):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    moved = {
        name: Place(p.offset, tuple(p.batch[group[-1]] for group in groups) or (0,), p.row, p.column, p.dtype)
        for name, p in places.items()
    }
    return tuple(prod(batch[axis] for axis in group) for group in groups) or (1,), moved


def attention_problem(
    batch: Sequence[int], sizes: tuple[int, int, int, int], places: Mapping[str, Place], causal: bool, scale: float
) -> AttentionProblem:
    """`sizes`: queries, keys, size, value size; `places` by the names of the fields."""
    extents, moved = merge_batch(batch, places)
    return AttentionProblem(
        extents,
        *sizes,
        query=moved["query"],
        key=moved["key"],
        value=moved["value"],
        result=moved["result"],
        mask=moved.get("mask"),
        statistics=moved.get("statistics"),
        causal=causal,
        scale=scale,
    )
