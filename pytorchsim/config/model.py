"""`NpuConfig`: the machine as a frozen, validated value. Every figure has a unit and a default; the defaults are preset
`tpuv3`, and the presets' YAML files name each figure's public source.

In: keyword values of the declared types (nothing is coerced, unknown keys are errors). Out: a hashable value with a
digest. Assumes: built through `load_config`, whose messages name the full key; pydantic's own errors come otherwise.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field, model_validator

from pytorchsim.config.dram import DramConfig
from pytorchsim.config.energy import EnergyConfig
from pytorchsim.config.frozen import Frozen, PowerOfTwo
from pytorchsim.config.l2 import L2Config
from pytorchsim.config.network import NetworkConfig

__all__ = [
    "ArrayConfig",
    "CoreConfig",
    "DmaConfig",
    "DramConfig",
    "L2Config",
    "LatencyConfig",
    "MinorConfig",
    "NetworkConfig",
    "NpuConfig",
]


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
    issue_width: int = Field(2, ge=1, description="Instructions issued per cycle, in order.")
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
    scratchpad_load_ports: int = Field(2, ge=1, description="Loads per lane and cycle.")
    scratchpad_store_ports: int = Field(1, ge=1, description="Stores per lane and cycle.")
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


class LatencyConfig(Frozen):
    """Pipeline of the lane core, in cycles from issue to the first use of a result, unless said otherwise.

    TPUs publish no pipeline depths. Scalar figures are those of short in-order RISC-V cores (Rocket: documentation of
    its multiplier, FPU and branch resolution); vector figures those of open RVV units with one datapath pass per beat
    (Ara, Saturn: published FMA depth of 4 for 32-bit floats). What neither states is marked `assumed`.
    """

    int_alu_cycles: int = Field(1, ge=1, description="Integer add, logic, shift. Rocket: full bypass.")
    int_mul_cycles: int = Field(3, ge=1, description="Integer multiply, pipelined. Rocket.")
    int_div_cycles: int = Field(
        20, ge=1, description="Integer divide, not pipelined. Assumed: 64-bit, 3-4 bits per cycle."
    )
    fp_alu_cycles: int = Field(
        4, ge=1, description="Scalar float add, multiply, FMA, convert. Rocket: single precision."
    )
    fp_move_cycles: int = Field(1, ge=1, description="Float moves, min, max, sign. Assumed.")
    fp_div_cycles: int = Field(20, ge=1, description="Scalar float divide and square root, not pipelined. Assumed.")
    taken_branch_cycles: int = Field(
        1, ge=0, description="Issue cycles lost by a taken branch, jump, call or return. Assumed: target predicted."
    )
    scalar_load_cycles: int = Field(2, ge=1, description="Scalar load from constants or stack. Rocket: load-use 2.")
    vector_config_cycles: int = Field(1, ge=1, description="vsetvli to the next vector instruction. Assumed: bypassed.")
    vector_alu_cycles: int = Field(2, ge=1, description="Vector integer, logic, compare, merge, move. Assumed.")
    vector_mul_cycles: int = Field(3, ge=1, description="Vector integer multiply. Assumed as the scalar one.")
    vector_div_cycles_per_beat: int = Field(
        16, ge=1, description="Vector integer divide: cycles per datapath width. Assumed: radix 4, 32 bits."
    )
    vector_fp_cycles: int = Field(
        4, ge=1, description="Vector float add, multiply, FMA, convert. Ara, Saturn: 4 for 32 bits."
    )
    vector_fp_div_cycles_per_beat: int = Field(
        8, ge=1, description="Vector float divide and square root: cycles per datapath width. Assumed: radix 8."
    )
    vector_permute_cycles: int = Field(2, ge=1, description="Slides and gathers inside a lane. Assumed.")
    scratchpad_load_cycles: int = Field(
        2, ge=1, description="Vector load from the lane's slice. Assumed: one SRAM cycle and alignment."
    )
    scratchpad_store_cycles: int = Field(1, ge=1, description="Vector store to the lane's slice. Assumed.")
    sfu_cycles: int = Field(8, ge=1, description="Special function, first result. Assumed: table and two FMA passes.")
    xlu_cycles: int = Field(
        8, ge=1, description="Cross-lane exchange. Assumed: log2(lanes) switch stages and a register."
    )
    vector_units: int = Field(
        1,
        ge=1,
        le=8,
        description="Vector arithmetic pipes. Source: 1,024 operations per cycle over 128 lanes of 8 floats.",
    )
    chaining: bool = Field(
        True, description="A vector instruction starts when the first beats of its sources are ready. Ara, Saturn."
    )


class MinorConfig(Frozen):
    """gem5's MinorCPU, read where `core.pipeline` is `minor`. Defaults: gem5 24.0.0.1, `BaseMinorCPU.py` (the key in
    brackets is its name there); `cache_cycles` is the reference run's L1 that always hits.
    """

    fetch_line_bytes: PowerOfTwo = Field(64, ge=4, description="Bytes per fetched line [fetch1LineWidth].")
    fetches_in_flight: int = Field(1, ge=1, description="Lines under way from the cache [fetch1FetchLimit].")
    fetch_buffer_lines: int = Field(2, ge=1, description="Lines waiting to be cut [fetch2InputBufferSize].")
    decode_width: int = Field(2, ge=1, description="Instructions and micro-operations per cycle [decodeInputWidth].")
    decode_buffer_entries: int = Field(3, ge=1, description="Groups waiting for decode [decodeInputBufferSize].")
    issue_buffer_entries: int = Field(7, ge=1, description="Groups waiting for issue [executeInputBufferSize].")
    issue_width: int = Field(2, ge=1, description="Micro-operations issued per cycle [executeIssueLimit].")
    memory_issue_width: int = Field(1, ge=1, description="Memory accesses issued per cycle [executeMemoryIssueLimit].")
    commit_width: int = Field(2, ge=1, description="Micro-operations committed per cycle [executeCommitLimit].")
    memory_commit_width: int = Field(
        1, ge=1, description="Memory accesses committed per cycle [executeMemoryCommitLimit]."
    )
    branch_delay_cycles: int = Field(
        1, ge=1, description="From a mispredicted branch's commit to the first fetch [executeBranchDelay]."
    )
    int_units: int = Field(2, ge=1, description="Integer units [MinorDefaultIntFU].")
    int_cycles: int = Field(3, ge=1, description="Their depth [opLat].")
    int_early_cycles: int = Field(
        2, ge=0, description="Cycles after issue by which a source may still come [srcRegsRelativeLats]."
    )
    mul_cycles: int = Field(3, ge=1, description="Integer multiplier's depth [MinorDefaultIntMulFU].")
    div_cycles: int = Field(9, ge=1, description="Integer divider's depth and interval [MinorDefaultIntDivFU].")
    vector_units: int = Field(1, ge=1, description="Units for float and vector [MinorDefaultFloatSimdFU].")
    vector_cycles: int = Field(6, ge=1, description="Their depth [opLat].")
    vector_early_cycles: int = Field(2, ge=0, description="As int_early_cycles.")
    memory_units: int = Field(1, ge=1, description="Address units [MinorDefaultMemFU].")
    memory_cycles: int = Field(1, ge=1, description="Their depth [opLat].")
    memory_early_cycles: int = Field(1, ge=0, description="As int_early_cycles.")
    load_assumed_cycles: int = Field(
        2,
        ge=0,
        description="A load's result is expected this long after its unit; 0: consumers wait for the data"
        " [extraAssumedLat].",
    )
    memory_width_bytes: PowerOfTwo = Field(64, ge=8, description="Widest access [executeMemoryWidth, a cache line].")
    cache_cycles: int = Field(1, ge=1, description="From request to answer.")
    accesses_in_memory: int = Field(2, ge=1, description="Accesses under way [executeMaxAccessesInMemory].")
    transfer_entries: int = Field(2, ge=1, description="Transfer queue [executeLSQTransfersQueueSize].")
    store_buffer_entries: int = Field(5, ge=1, description="Store buffer [executeLSQStoreBufferSize].")
    stores_per_cycle: int = Field(
        2, ge=1, description="Stores that leave it per cycle [executeLSQMaxStoreBufferStoresPerCycle]."
    )


class ArrayConfig(Frozen):
    """Systolic arrays of a core, each `lanes x lanes`, weight stationary."""

    count: int = Field(2, ge=1, le=5, description="Arrays per core.")
    queue_entries: int = Field(256, ge=1, description="Entries of the input and output queues, in rows.")


class DmaConfig(Frozen):
    """One DMA engine per core."""

    issue_cycles: int = Field(4, ge=0, description="Cycles to decode a descriptor before the first request.")
    scratchpad_bytes_per_cycle: int = Field(4096, gt=0, description="Scratchpad side: bytes per cycle over all lanes.")
    max_outstanding: int = Field(2048, ge=1, description="Bursts in flight per engine.")


class NpuConfig(Frozen):
    """The whole machine."""

    name: str = Field("tpuv3", min_length=1, description="Name in reports; part of the digest.")
    cores: int = Field(1, ge=1, description="Cores that share the DRAM.")
    core: CoreConfig = CoreConfig()
    latency: LatencyConfig = LatencyConfig()
    minor: MinorConfig = MinorConfig()
    array: ArrayConfig = ArrayConfig()
    dma: DmaConfig = DmaConfig()
    network: NetworkConfig = NetworkConfig()
    l2: L2Config = L2Config()
    dram: DramConfig = DramConfig()
    energy: EnergyConfig = EnergyConfig()
    latency_source: Literal["builtin", "gem5", "both"] = Field(
        "builtin",
        description="Whose cycles tile functions have: the built-in model's, gem5's, or the built-in model's with"
        " gem5's beside them in the report.",
    )
    gem5: str = Field("", description="Path of the gem5 binary; empty: what `PYTORCHSIM_GEM5` names.")
    fidelity: Literal["exact", "fast"] = Field(
        "exact",
        description="Of memory with banks: every burst and command as an event, or stretches of time over the state of"
        " banks and buses (docs/timing_model.md has the error). With ideal memory and network both are the same.",
    )
    instruction_budget: int = Field(
        10_000_000_000, gt=0, description="Instructions of one launch after which it is stopped as endless."
    )

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Peak DRAM bandwidth in bytes per core cycle."""
        return self.dram.bandwidth_gb_per_s * 1e3 / self.core.frequency_mhz

    @model_validator(mode="after")
    def _check_bandwidth(self) -> NpuConfig:
        per_cycle = self.dram_bytes_per_cycle
        limit = self.dma.scratchpad_bytes_per_cycle * self.cores
        if not 1 / 64 <= per_cycle <= limit:
            raise ValueError(
                f"dram.bandwidth_gb_per_s ({self.dram.bandwidth_gb_per_s}) at core.frequency_mhz"
                f" ({self.core.frequency_mhz}) is {per_cycle:.6g} bytes per cycle; expected 1/64 to {limit}, what the"
                " DMA engines can take (cores x dma.scratchpad_bytes_per_cycle). Check the units: 1e9 bytes/s and MHz"
            )
        return self

    @model_validator(mode="after")
    def _check_l2(self) -> NpuConfig:
        bursts = self.l2.line_bytes / self.dram.burst_bytes
        if self.l2.kind == "shared" and not 1 <= bursts <= 64:
            raise ValueError(
                f"l2.line_bytes ({self.l2.line_bytes}) is {bursts:g} DRAM bursts of dram.burst_bytes"
                f" ({self.dram.burst_bytes}); expected 1 to 64"
            )
        return self

    def canonical_json(self) -> str:
        """One line of JSON with sorted keys: the config as content."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 of the content, 16 hex digits; the key of everything that depends on the machine."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()[:16]
