"""A transfer as docs/kernel_abi.md defines it, element by element. Slow and literal on purpose."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

from pytorchsim.target.descriptor import Descriptor, DescriptorFlag, IndexTile, TransferOp
from pytorchsim.target.dtypes import Kind
from pytorchsim.target.memory_map import SCRATCHPAD_BASE

Bytes = npt.NDArray[np.uint8]


@dataclass
class Model:
    """`scratchpad`: [lanes, slice bytes]. `dram`: the slot's bytes, element 0 at `origin_byte`. Both change."""

    scratchpad: Bytes
    dram: Bytes
    origin_byte: int
    faults: set[str] = field(default_factory=set)

    def run(
        self, d: Descriptor, origins: Mapping[int, int], spad_add: int = 0, index_add: tuple[int, int] = (0, 0)
    ) -> None:
        """Perform the transfer. Faults are collected; state is meaningless if there are any."""
        sizes = [axis.size for axis in d.axes]
        if 0 in sizes:
            return
        size = d.dtype.bytes
        lanes = len(self.scratchpad)
        slots = self._slots(d, lanes)
        before, dram_before = self.scratchpad.copy(), self.dram.copy()
        if d.op is TransferOp.LOAD:
            self._fill(d, slots, spad_add)
        for point in itertools.product(*map(range, sizes)):
            position = [origins.get(axis, 0) + i for axis, i in enumerate(point)]
            if not all(
                0 <= b.base + sum(s * p for s, p in zip(b.steps, position, strict=True)) < b.extent for b in d.bounds
            ):
                continue
            element = sum(axis.dram_stride * p for axis, p in zip(d.axes, position, strict=True))
            for tile, add in zip(d.index_tiles, index_add, strict=False):
                element += self._index(d, tile, point, slots, add, before) * tile.dram_stride
            lane, cell = self._cell(d, point, lanes)
            offset = d.spad_address + spad_add - SCRATCHPAD_BASE + cell * size
            targets = range(lanes) if lane is None else [lane]
            if d.flags & DescriptorFlag.LOCAL:
                source_lane, within = divmod(element, self.scratchpad.shape[1] // size)
                start = d.offset - SCRATCHPAD_BASE + within * size
                for target in targets:
                    self.scratchpad[target, offset : offset + size] = before[source_lane, start : start + size]
                continue
            start = self.origin_byte + (element + d.offset) * size
            if start < 0 or start + size > len(self.dram):
                self.faults.add("slot-bounds")
                continue
            if d.op is TransferOp.LOAD:
                for target in targets:
                    self.scratchpad[target, offset : offset + size] = dram_before[start : start + size]
                continue
            values = {before[target, offset : offset + size].tobytes() for target in targets}
            if len(values) > 1:
                self.faults.add("lanes-disagree")
                continue
            old = self.dram[start : start + size].tobytes()
            self.dram[start : start + size] = np.frombuffer(_combine(d, old, values.pop()), np.uint8)

    @staticmethod
    def _slots(d: Descriptor, lanes: int) -> int:
        count = prod(axis.size for axis in d.axes if axis.lane)
        return max(c // (d.lane_stride * lanes) * d.lane_stride + c % d.lane_stride for c in range(count)) + 1

    @staticmethod
    def _lane_index(d: Descriptor, point: tuple[int, ...]) -> int:
        c = 0
        for axis, i in zip(d.axes, point, strict=True):
            c = c * axis.size + i if axis.lane else c
        return c

    def _cell(self, d: Descriptor, point: tuple[int, ...], lanes: int) -> tuple[int | None, int]:
        cell = sum(axis.spad_stride * i for axis, i in zip(d.axes, point, strict=True) if not axis.lane)
        group = [axis for axis in d.axes if axis.lane]
        if not group:
            return None, cell
        c = self._lane_index(d, point)
        slot = c // (d.lane_stride * lanes) * d.lane_stride + c % d.lane_stride
        return c // d.lane_stride % lanes, cell + slot * group[0].spad_stride

    def _fill(self, d: Descriptor, slots: int, spad_add: int) -> None:
        group = [axis for axis in d.axes if axis.lane]
        ranges = [range(0, axis.size * axis.spad_stride, axis.spad_stride) for axis in d.axes if not axis.lane]
        if group:
            ranges.append(range(0, slots * group[0].spad_stride, group[0].spad_stride))
        pattern = np.frombuffer(d.fill.to_bytes(8, "little")[: d.dtype.bytes], np.uint8)
        for offsets in itertools.product(*ranges):
            start = d.spad_address + spad_add - SCRATCHPAD_BASE + sum(offsets) * d.dtype.bytes
            self.scratchpad[:, start : start + d.dtype.bytes] = pattern

    def _index(
        self, d: Descriptor, tile: IndexTile, point: tuple[int, ...], slots: int, add: int, before: Bytes
    ) -> int:
        lanes = len(self.scratchpad)
        entry, lane, placed = 0, 0, False
        for number, (axis, i) in enumerate(zip(d.axes, point, strict=True)):
            if number not in tile.axes:
                continue
            if not axis.lane:
                entry = entry * axis.size + i
            elif not placed:
                placed = True
                c = self._lane_index(d, point)
                lane = c // d.lane_stride % lanes
                entry = entry * slots + c // (d.lane_stride * lanes) * d.lane_stride + c % d.lane_stride
        dtype = np.dtype(np.int64 if tile.wide else np.int32)
        start = tile.spad_address + add - SCRATCHPAD_BASE + entry * dtype.itemsize
        value = int(before[lane, start : start + dtype.itemsize].view(dtype)[0])
        if not placed and len({row[start : start + dtype.itemsize].tobytes() for row in before}) > 1:
            self.faults.add("lanes-disagree")
        if tile.wrap and value < 0:
            value += tile.extent
        if not 0 <= value < tile.extent:
            self.faults.add("index-out-of-range")
            return 0
        return value


def _combine(d: Descriptor, old: bytes, new: bytes) -> bytes:
    if d.op is TransferOp.STORE:
        return new
    kind = {Kind.FLOAT: "f", Kind.SIGNED: "i", Kind.UNSIGNED: "u", Kind.BOOL: "?"}[d.dtype.kind]
    dtype = np.dtype(kind if kind == "?" else f"{kind}{d.dtype.bytes}")
    a, b = np.frombuffer(old, dtype), np.frombuffer(new, dtype)
    with np.errstate(all="ignore"):
        combined = {TransferOp.STORE_ADD: np.add, TransferOp.STORE_MIN: np.minimum, TransferOp.STORE_MAX: np.maximum}[
            d.op
        ](a, b)
    return combined.astype(dtype).tobytes()
