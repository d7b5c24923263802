"""The DMA descriptor: what a transfer does, as a constant in read-only data (docs/kernel_abi.md, DMA descriptor).

A `Descriptor` is a frozen value; `encode` gives the bytes the engine decodes. The C++ layout is generated from
`RECORDS`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from pytorchsim.target.dtypes import Dtype

__all__ = [
    "DESCRIPTOR_BYTES",
    "MAGIC",
    "MAX_BOUNDS",
    "MAX_INDEX_TILES",
    "MAX_RANK",
    "RECORDS",
    "SET_INDEX_TILE",
    "SET_SPAD_ADDRESS",
    "SET_TAG",
    "TAGS",
    "Axis",
    "Bound",
    "Descriptor",
    "DescriptorFlag",
    "IndexTile",
    "Record",
    "TransferOp",
]

MAX_RANK = 8
MAX_BOUNDS = 4
MAX_INDEX_TILES = 2
TAGS = 32
SET_SPAD_ADDRESS = 8
SET_TAG = 9
SET_INDEX_TILE = 10  # and 11: bytes added to the address of index tile 0, 1
MAGIC = 0x4E50  # "NP": catches a start on an address that is not a descriptor


class TransferOp(IntEnum):
    """Direction and combining of a transfer."""

    LOAD = 0
    STORE = 1
    STORE_ADD = 2
    STORE_MIN = 3
    STORE_MAX = 4


class DescriptorFlag(IntFlag):
    """Flags of a descriptor."""

    NONE = 0
    LOCAL = 1


@dataclass(frozen=True)
class Axis:
    """One axis of a transfer. Strides in elements; `dram_stride` is signed, 0 on a load reads once and multicasts.

    For an axis of the lane group `spad_stride` is the stride of the in-lane slots and must be equal over the group.
    """

    size: int
    dram_stride: int
    spad_stride: int
    lane: bool = False


@dataclass(frozen=True)
class Bound:
    """An element exists only if `0 <= base + sum(step[a] * position[a]) < extent`."""

    base: int
    steps: tuple[int, ...]
    extent: int


@dataclass(frozen=True)
class IndexTile:
    """A scratchpad tile of indices that add `index * dram_stride` to the DRAM element."""

    spad_address: int
    wide: bool
    axes: tuple[int, ...]
    dram_stride: int
    extent: int
    wrap: bool = False


@dataclass(frozen=True)
class Descriptor:
    """A whole transfer. `fill` is the bit pattern a load writes where no element exists."""

    slot: int
    op: TransferOp
    dtype: Dtype
    axes: tuple[Axis, ...]
    offset: int = 0
    spad_address: int = 0
    lane_stride: int = 1
    fill: int = 0
    bounds: tuple[Bound, ...] = ()
    index_tiles: tuple[IndexTile, ...] = ()
    flags: DescriptorFlag = DescriptorFlag.NONE

    def __post_init__(self) -> None:
        """Reject what the machine could not decode. ValueError."""
        if not 0 < len(self.axes) <= MAX_RANK:
            raise ValueError(f"a transfer has 1 to {MAX_RANK} axes, not {len(self.axes)}")
        if len(self.bounds) > MAX_BOUNDS:
            raise ValueError(f"a transfer has at most {MAX_BOUNDS} bounds, not {len(self.bounds)}")
        if len(self.index_tiles) > MAX_INDEX_TILES:
            raise ValueError(f"a transfer has at most {MAX_INDEX_TILES} index tiles, not {len(self.index_tiles)}")
        if self.lane_stride < 1:
            raise ValueError(f"lane_stride is at least 1, not {self.lane_stride}")
        if any(axis.size < 0 for axis in self.axes):
            raise ValueError("an axis size is negative")
        if len({axis.spad_stride for axis in self.axes if axis.lane}) > 1:
            raise ValueError("all axes of the lane group have one spad_stride")
        if any(len(bound.steps) != len(self.axes) for bound in self.bounds):
            raise ValueError("a bound has one step per axis")

    def encode(self) -> bytes:
        """The descriptor's bytes, `DESCRIPTOR_BYTES` long."""
        out = _HEADER.pack(
            MAGIC,
            self.slot,
            int(self.op),
            self.dtype.code,
            len(self.axes),
            len(self.bounds),
            len(self.index_tiles),
            int(self.flags),
            0,
            self.lane_stride,
            self.offset,
            self.spad_address,
            self.fill,
        )
        axes = [*self.axes, *([Axis(0, 0, 0)] * (MAX_RANK - len(self.axes)))]
        out += b"".join(_AXIS.pack(a.size, int(a.lane), a.dram_stride, a.spad_stride) for a in axes)
        bounds = [*self.bounds, *([Bound(0, (), 0)] * (MAX_BOUNDS - len(self.bounds)))]
        out += b"".join(_BOUND.pack(b.base, b.extent, *b.steps, *([0] * (MAX_RANK - len(b.steps)))) for b in bounds)
        tiles = [*self.index_tiles, *([IndexTile(0, False, (), 0, 0)] * (MAX_INDEX_TILES - len(self.index_tiles)))]
        for tile in tiles:
            mask = sum(1 << axis for axis in tile.axes)
            out += _INDEX.pack(
                tile.spad_address, int(tile.wide), int(tile.wrap), mask, 0, tile.dram_stride, tile.extent
            )
        return out


@dataclass(frozen=True)
class Record:
    """A packed little-endian record: `fields` are (name, count, struct code); the C++ struct is generated from it."""

    name: str
    fields: tuple[tuple[str, int, str], ...]

    @property
    def packer(self) -> struct.Struct:
        """Packs the record's values in order."""
        return struct.Struct("<" + "".join(f"{count}{code}" for _, count, code in self.fields))

    @property
    def size_bytes(self) -> int:
        """Size of the record."""
        return self.packer.size


RECORDS = (
    Record(
        "DescriptorHeader",
        (
            ("magic", 1, "H"),
            ("slot", 1, "H"),
            ("op", 1, "B"),
            ("dtype", 1, "B"),
            ("rank", 1, "B"),
            ("bounds", 1, "B"),
            ("index_tiles", 1, "B"),
            ("flags", 1, "B"),
            ("reserved", 1, "H"),
            ("lane_stride", 1, "I"),
            ("offset", 1, "q"),
            ("spad_address", 1, "Q"),
            ("fill", 1, "Q"),
        ),
    ),
    Record("DescriptorAxis", (("size", 1, "I"), ("lane", 1, "I"), ("dram_stride", 1, "q"), ("spad_stride", 1, "q"))),
    Record("DescriptorBound", (("base", 1, "q"), ("extent", 1, "q"), ("steps", MAX_RANK, "q"))),
    Record(
        "DescriptorIndexTile",
        (
            ("spad_address", 1, "Q"),
            ("wide", 1, "B"),
            ("wrap", 1, "B"),
            ("axes_mask", 1, "H"),
            ("reserved", 1, "I"),
            ("dram_stride", 1, "q"),
            ("extent", 1, "q"),
        ),
    ),
)
"""The descriptor: one header, then MAX_RANK axes, MAX_BOUNDS bounds and MAX_INDEX_TILES index tiles."""

_HEADER, _AXIS, _BOUND, _INDEX = (record.packer for record in RECORDS)

DESCRIPTOR_BYTES = _HEADER.size + MAX_RANK * _AXIS.size + MAX_BOUNDS * _BOUND.size + MAX_INDEX_TILES * _INDEX.size
