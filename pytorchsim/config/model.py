"""`NpuConfig`: the machine as a frozen, validated value. Every figure has a unit, a default (preset `tpuv3`) and a source."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ArrayConfig", "CoreConfig", "DmaConfig", "DramConfig", "NpuConfig"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CoreConfig(_Frozen):
    """One core: a scalar processor that drives the lanes in lock-step."""

    frequency_mhz: int = Field(940, gt=0, description="Clock in MHz. TPUv3 core clock.")
    lanes: int = Field(128, ge=2, description="Vector lanes, a power of two.")
    vlen_bits: int = Field(256, ge=64, description="RVV VLEN of a lane in bits, a power of two.")
    datapath_bits: int = Field(256, ge=32, description="Bits one lane computes per cycle.")
    issue_width: int = Field(2, ge=1, description="Instructions issued per cycle, in order.")
    scratchpad_bytes_per_lane: int = Field(128 * 1024, gt=0, description="A lane's slice in bytes.")
    stack_reserve_bytes: int = Field(4096, gt=0, description="Top of the slice kept for the stack, in bytes.")
    scratchpad_load_ports: int = Field(2, ge=1, description="Loads per lane and cycle.")
    scratchpad_store_ports: int = Field(1, ge=1, description="Stores per lane and cycle.")
    scratchpad_port_bytes: int = Field(32, ge=4, description="Bytes per port access.")
    sfu_elements_per_cycle: int = Field(1, ge=1, description="Special functions per lane and cycle.")
    launch_cycles: int = Field(0, ge=0, description="Cycles from one kernel's end to the next one's start.")


class ArrayConfig(_Frozen):
    """Systolic arrays of a core, each `lanes x lanes`, weight stationary."""

    count: int = Field(2, ge=1, le=5, description="Arrays per core.")
    queue_entries: int = Field(256, ge=1, description="Entries of the input and output queues, in rows.")


class DmaConfig(_Frozen):
    """One DMA engine per core."""

    issue_cycles: int = Field(4, ge=0, description="Cycles to decode a descriptor before the first request.")
    scratchpad_bytes_per_cycle: int = Field(4096, gt=0, description="Scratchpad side: bytes per cycle over all lanes.")
    max_outstanding: int = Field(256, ge=1, description="Bursts in flight.")


class DramConfig(_Frozen):
    """Memory shared by all cores."""

    kind: Literal["ideal"] = "ideal"
    bandwidth_gb_per_s: float = Field(481.28, gt=0, description="Peak, 1e9 bytes per second. 32 pseudo-channels x 64 bit x 1,880 MT/s.")
    latency_cycles: int = Field(100, ge=0, description="Request to first byte, in core cycles.")
    burst_bytes: int = Field(32, gt=0, description="Smallest access. HBM2 burst length 4 on 64 bits.")


class NpuConfig(_Frozen):
    """The whole machine."""

    name: str = "tpuv3"
    cores: int = Field(1, ge=1, description="Cores that share the DRAM.")
    core: CoreConfig = CoreConfig()
    array: ArrayConfig = ArrayConfig()
    dma: DmaConfig = DmaConfig()
    dram: DramConfig = DramConfig()
    instruction_budget: int = Field(10_000_000_000, gt=0, description="Instructions of one launch after which it is stopped as endless.")

    def canonical_json(self) -> str:
        """One line of JSON with sorted keys: the config as content."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 of the content, 16 hex digits; the key of everything that depends on the machine."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()[:16]
