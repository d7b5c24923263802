"""`CoreConfig`, `ArrayConfig`, `DmaConfig`: one core with its lanes, systolic arrays and DMA engine.

In: keyword values. Out: frozen sections of `NpuConfig`. Sizes that contradict each other are errors here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pytorchsim.config.frozen import Frozen, PowerOfTwo

__all__ = ["ArrayConfig", "CoreConfig", "DmaConfig"]

_SCRATCHPAD_PAGE_BYTES = 4096
"""The engine maps memory by pages of this size (`target/memory_map.py`), so a slice is a whole number of them."""

_SCRATCHPAD_WINDOW_BYTES = 1 << 28
"""A slice must end below the next region of the memory map."""


class CoreConfig(Frozen):
    """One core: a scalar processor that drives the lanes in lock-step."""

    frequency_mhz: int = Field(940, gt=0, description="Clock in MHz.")
    lanes: PowerOfTwo = Field(128, ge=2, le=1024, description="Vector lanes, a power of two.")
    vlen_bits: PowerOfTwo = Field(256, ge=128, le=4096, description="RVV VLEN of a lane in bits, a power of two.")
    datapath_bits: PowerOfTwo = Field(256, ge=32, description="Bits one lane computes per cycle.")
    issue_width: int = Field(2, ge=1, le=64, description="Instructions issued per cycle, in order.")
    max_lmul: PowerOfTwo = Field(
        8, ge=1, le=8, description="Registers that kernels group to one vector at most (LMUL), a power of two."
    )
    scratchpad_bytes_per_lane: int = Field(
        128 * 1024,
        gt=0,
        le=_SCRATCHPAD_WINDOW_BYTES,
        multiple_of=_SCRATCHPAD_PAGE_BYTES,
        description="A lane's slice in bytes, a multiple of 4096.",
    )
    stack_reserve_bytes: int = Field(
        4096, gt=0, multiple_of=32, description="Top of the slice kept for the stack, in bytes, a multiple of 32."
    )
    scratchpad_load_ports: int = Field(2, ge=1, le=8, description="Loads per lane and cycle.")
    scratchpad_store_ports: int = Field(1, ge=1, le=8, description="Stores per lane and cycle.")
    scratchpad_port_bytes: PowerOfTwo = Field(32, ge=4, description="Bytes per port access.")
    sfu_elements_per_cycle: int = Field(1, ge=1, description="Special functions per lane and cycle.")
    launch_cycles: int = Field(0, ge=0, description="Cycles from one kernel's end to the next one's start.")
    pipeline: Literal["lanes", "minor"] = Field(
        "lanes",
        description="What counts a tile function's cycles: the lane core's scoreboard with `latency`, or gem5's"
        " MinorCPU with `minor`. The second serves the comparison with gem5 only and knows no arrays, SFU and XLU.",
    )

    @model_validator(mode="after")
    def _check_sizes(self) -> CoreConfig:
        if self.datapath_bits > self.vlen_bits:
            raise ValueError(
                f"datapath_bits ({self.datapath_bits}) must not exceed vlen_bits ({self.vlen_bits}):"
                " a lane computes at most one vector register per instruction and cycle"
            )
        if 2 * self.stack_reserve_bytes >= self.scratchpad_bytes_per_lane:
            raise ValueError(
                f"stack_reserve_bytes ({self.stack_reserve_bytes}) must be less than half of"
                f" scratchpad_bytes_per_lane ({self.scratchpad_bytes_per_lane}): tiles are double-buffered"
            )
        return self


class ArrayConfig(Frozen):
    """Systolic arrays of a core, each `lanes x lanes`, weight stationary."""

    count: int = Field(2, ge=1, le=5, description="Arrays per core.")
    queue_entries: int = Field(
        256, ge=2, description="Entries of the input and output queues, in rows: at least a push or pop, two rows."
    )


class DmaConfig(Frozen):
    """One DMA engine per core."""

    issue_cycles: int = Field(4, ge=0, description="Cycles to decode a descriptor before the first request.")
    scratchpad_bytes_per_cycle: int = Field(4096, gt=0, description="Scratchpad side: bytes per cycle over all lanes.")
    max_outstanding: int = Field(2048, ge=1, description="Bursts in flight per engine.")
