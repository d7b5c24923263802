"""The transfers of attention's backward: which tensor lies how in which buffer.

In: a problem, a tile, argument numbers. Out: a descriptor by buffer. *Rows* have a matrix's rows over the lanes and a
row's elements in one, *columns* its columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytorchsim.target.descriptor import Descriptor
from pytorchsim.templates.attention_backward_problem import BackwardProblem
from pytorchsim.templates.attention_backward_tile import BackwardTile
from pytorchsim.templates.attention_transfers import Along, matrix_descriptor, minus_infinity

__all__ = ["WALKED_ROWS", "BackwardTransfers"]

WALKED_ROWS = ("query_columns", "gradient_columns", "key_columns", "of_query", "statistics", "delta", "mask")
"""Buffers in which a tensor's rows are the axis behind the batch axes; in others they are the second one."""

_INFINITY_BITS = 0x7F800000
"""Statistics of queries that do not exist: their weights are 0."""


class BackwardTransfers:
    """`slots`: argument number by tensor."""

    def __init__(self, problem: BackwardProblem, tile: BackwardTile, slots: Mapping[str, int]) -> None:
        self._problem, self._tile, self._slots = problem, tile, slots

    def all(self) -> dict[str, Descriptor]:
        """By buffer. Axes: batch axes, rows, columns; one of the two may lie over the lanes."""
        problem, tile = self._problem, self._tile
        queries, keys = tile.queries * tile.lanes, tile.keys * tile.lanes
        every = tile.all_queries * tile.lanes
        size, value_size = (problem.size, tile.size_pitch), (problem.value_size, tile.value_pitch)
        along_queries, along_keys = (problem.queries, queries), (problem.keys, keys)
        found = {
            "query": self._rows("query", along_queries, size),
            "query_columns": self._columns("query", along_queries, problem.size),
            "gradient": self._rows("gradient", along_queries, value_size),
            "gradient_columns": self._columns("gradient", along_queries, problem.value_size),
            "key": self._rows("key", along_keys, size),
            "key_columns": self._columns("key", along_keys, problem.size),
            "value": self._rows("value", along_keys, value_size),
            "statistics": self._vector("statistics", along_queries, _INFINITY_BITS),
            "delta": self._vector("delta", along_queries, 0),
            "of_key": self._rows("of_key", along_keys, (problem.size, tile.size_pitch), store=True),
            "of_value": self._rows("of_value", along_keys, (problem.value_size, tile.value_pitch), store=True),
            "of_query": self._columns("of_query", (problem.queries, every), problem.size, store=True),
        }
        mask = problem.mask
        if mask is not None:
            rows = Along(problem.queries, queries, mask.row, 1)
            columns = Along(problem.keys, keys, mask.column, queries, lane=True)
            found["mask"] = self._descriptor("mask", (rows, columns), fill=minus_infinity(mask.dtype))
        return found

    def _rows(self, name: str, rows: tuple[int, int], columns: tuple[int, int], *, store: bool = False) -> Descriptor:
        """Rows over the lanes, a row's elements in one."""
        place = self._problem.place(name)
        axes = (
            Along(*columns, place.column, 1),
            Along(*rows, place.row, columns[1], lane=True),
        )
        return self._descriptor(name, axes, store=store)

    def _columns(self, name: str, rows: tuple[int, int], columns: int, *, store: bool = False) -> Descriptor:
        """Columns over the lanes, a column's elements in one."""
        place = self._problem.place(name)
        axes = (Along(*rows, place.row, 1), Along(columns, columns, place.column, rows[1], lane=True))
        return self._descriptor(name, axes, store=store)

    def _vector(self, name: str, rows: tuple[int, int], fill: int) -> Descriptor:
        """The same numbers in every lane."""
        return self._descriptor(name, (Along(*rows, self._problem.place(name).row, 1),), fill=fill)

    def _descriptor(self, name: str, axes: tuple[Along, ...], *, store: bool = False, fill: int = 0) -> Descriptor:
        place = self._problem.place(name)
        batch = [Along(1, 1, stride, 0) for stride in place.batch]
        return matrix_descriptor(self._slots[name], place, (*batch, *axes), store=store, fill=fill)
