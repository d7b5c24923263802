"""Which tensors are to stay in the L2 during a launch, and what it holds from launch to launch of a call.

In: the slots of each launch, in order. Out: ranges of DRAM bytes for the timing simulator, and the state it goes on
with. The rule: what the launch before has written and this one uses, then what this one writes, as long as all of them
leave one way of each set to the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytorchsim.simulator.timing import L2State

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig
    from pytorchsim.simulator.functional import Slot

__all__ = ["Residency"]

Range = tuple[int, int]


class Residency:
    """The L2 of one machine during one call."""

    def __init__(self, config: NpuConfig) -> None:
        self.state = L2State(config) if config.l2.kind == "shared" else None
        self._room_bytes = config.l2.size_bytes * (config.l2.ways - 1) // config.l2.ways
        self._written: tuple[Range, ...] = ()

    def next_launch(self, slots: Sequence[Slot]) -> list[Range]:
        """The resident ranges of the launch that begins with these slots."""
        used = [(slot.dram_address + slot.lowest_byte, slot.dram_address + slot.end_byte) for slot in slots]
        written = [span for span, slot in zip(used, slots, strict=True) if slot.writable]
        wanted = dict.fromkeys([*(span for span in used if span in self._written), *written])
        self._written = tuple(written)
        resident, left = [], self._room_bytes
        for first, end in wanted:
            if 0 < end - first <= left:
                resident.append((first, end))
                left -= end - first
        return resident
