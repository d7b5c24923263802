"""The bytes of a lane's slice that a transfer touches, relative to its pointer. Used by verify-kernel.

In: a descriptor and the number of lanes. Out: first byte and byte behind the last. The machine only checks the slice: a
tile that is larger than its buffer would overwrite the next buffer unseen.
"""

from __future__ import annotations

from math import prod

from pytorchsim.target.descriptor import Descriptor

__all__ = ["footprint_bytes", "index_tile_bytes", "slots_per_lane"]


def slots_per_lane(descriptor: Descriptor, lanes: int) -> int:
    """In-lane slots of the lane group (docs/kernel_abi.md: a slot that any lane uses is touched in every lane)."""
    last = prod(axis.size for axis in descriptor.axes if axis.lane) - 1
    run, block = descriptor.lane_stride, descriptor.lane_stride * lanes
    return last // block * run + min(run - 1, last % block) + 1


def footprint_bytes(descriptor: Descriptor, lanes: int) -> tuple[int, int]:
    """(first byte, byte behind the last) from the pointer; (0, 0) for an empty transfer."""
    if any(axis.size == 0 for axis in descriptor.axes):
        return (0, 0)
    steps = [(axis.size - 1) * axis.spad_stride for axis in descriptor.axes if not axis.lane]
    group = [axis.spad_stride for axis in descriptor.axes if axis.lane]
    if group:
        steps.append((slots_per_lane(descriptor, lanes) - 1) * group[0])
    low, high = sum(min(0, step) for step in steps), sum(max(0, step) for step in steps)
    size = descriptor.dtype.bytes
    return (descriptor.spad_address + low * size, descriptor.spad_address + (high + 1) * size)


def index_tile_bytes(descriptor: Descriptor, number: int, lanes: int) -> int:
    """Bytes per lane of the entries of index tile `number`: dense, the lane group counting as its slots."""
    tile = descriptor.index_tiles[number]
    inner = prod(descriptor.axes[axis].size for axis in tile.axes if not descriptor.axes[axis].lane)
    split = any(descriptor.axes[axis].lane for axis in tile.axes)
    return inner * (slots_per_lane(descriptor, lanes) if split else 1) * (8 if tile.wide else 4)
