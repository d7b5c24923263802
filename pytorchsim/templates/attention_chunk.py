"""Where the blocks of a step of attention lie, some of one row of queries at a time.

In: numbers, known where the code is written or carried by a loop. Out: places of blocks in the buffers, as numbers
wherever a tile makes them the same for all chunks, so that no scalar instruction finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from pytorchsim.templates.attention_stages import Block
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_vectors import Index, equal, plus, value_of

__all__ = ["Chunk"]


@dataclass(frozen=True)
class Chunk:
    """`tile.unroll` blocks of one row: the number of the chunk, and the places of its first block. What a tile makes
    the same for all chunks is an `int`."""

    tile: AttentionTile
    number: Index
    row: Index
    keys: Index
    query_place: Index
    key_place: Index

    @classmethod
    def at(cls, tile: AttentionTile, number: int) -> Chunk:
        """By number, all places known."""
        row, key_place = divmod(number * tile.unroll, tile.keys)
        head, query_place = divmod(row, tile.queries)
        return cls(tile, number, row, head * tile.keys + key_place, query_place, key_place)

    def block(self, place: int) -> Block:
        """One of its blocks."""
        keys, key_place = plus(self.keys, place), plus(self.key_place, place)
        return Block(self.number, place, self.row, keys, self.query_place, key_place)

    def following(self) -> Chunk:
        """The chunk behind this one."""
        tile, one = self.tile, ir.IntegerType.get_signless(1)
        key_place, query_place = plus(self.key_place, tile.unroll), plus(self.query_place, 1)
        always = arith.constant(one, 1)
        new_row = always if tile.unroll == tile.keys else equal(key_place, tile.keys)
        new_head = always if tile.queries == 1 else equal(query_place, tile.queries)
        same_head = arith.andi(new_row, arith.xori(new_head, always))
        back = arith.select(same_head, value_of(tile.keys), value_of(0))
        next_place = arith.select(new_head, value_of(0), value_of(query_place))
        return replace(
            self,
            number=plus(self.number, 1),
            row=arith.select(new_row, value_of(plus(self.row, 1)), value_of(self.row)),
            keys=arith.subi(value_of(plus(self.keys, tile.unroll)), back),
            query_place=arith.select(new_row, next_place, value_of(self.query_place)),
            key_place=arith.select(new_row, value_of(0), value_of(key_place)),
        )

    def carried(self) -> list[ir.Value]:
        """What differs from chunk to chunk, for a loop."""
        return [value_of(getattr(self, name)) for name in self._varying()]

    def with_carried(self, number: Index, values: Sequence[ir.Value]) -> Chunk:
        """Chunk `number` with what a loop carried; the rest is as it always is."""
        chunk = replace(self, number=number, query_place=0, key_place=0)
        return replace(chunk, **dict(zip(self._varying(), values, strict=True)))

    def _varying(self) -> list[str]:
        tile = self.tile
        names = ["row", "keys"]
        names += ["query_place"] if tile.queries > 1 else []
        return names + (["key_place"] if tile.unroll != tile.keys else [])
