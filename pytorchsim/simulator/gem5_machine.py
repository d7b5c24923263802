"""A lane core as gem5's MinorCPU: what `third_party/gem5/lane_core.py` reads.

In: an `NpuConfig`. Out: JSON with MinorCPU's parameters, functional units, vector length and cache. With
`core.pipeline: minor` the figures are section `minor`'s, one to one. Otherwise they are the lane core's: its issue
width, ports and latencies, in a front end and a commit stage wide enough not to matter. gem5 gives each unit one
latency, so arithmetic of different latency is in different units there, and only the issue width is shared.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.timing_twins import SHARED_PUSH, TWINS, Twin

__all__ = ["FunctionalUnit", "fill_and_drain_cycles", "machine_json"]

_SCALAR_FLOAT = (
    "FloatAdd", "FloatCmp", "FloatCvt", "FloatMisc", "FloatMult", "FloatMultAcc", "FloatDiv", "FloatSqrt",
)  # fmt: skip
_SIMD = (
    "SimdAdd", "SimdAddAcc", "SimdAlu", "SimdCmp", "SimdCvt", "SimdMisc", "SimdMult", "SimdMultAcc", "SimdMatMultAcc",
    "SimdShift", "SimdShiftAcc", "SimdDiv", "SimdSqrt", "SimdFloatAdd", "SimdFloatAlu", "SimdFloatCmp", "SimdFloatCvt",
    "SimdFloatDiv", "SimdFloatMisc", "SimdFloatMult", "SimdFloatMultAcc", "SimdFloatMatMultAcc", "SimdFloatSqrt",
    "SimdReduceAdd", "SimdReduceAlu", "SimdReduceCmp", "SimdFloatReduceAdd", "SimdFloatReduceCmp", "SimdExt",
    "SimdFloatExt", "SimdConfig", "SimdPredAlu",
)  # fmt: skip
_MEMORY = (
    "MemRead", "MemWrite", "FloatMemRead", "FloatMemWrite", "SimdUnitStrideLoad", "SimdUnitStrideStore",
    "SimdUnitStrideMaskLoad", "SimdUnitStrideMaskStore", "SimdStridedLoad", "SimdStridedStore", "SimdIndexedLoad",
    "SimdIndexedStore", "SimdUnitStrideFaultOnlyFirstLoad", "SimdWholeRegisterLoad", "SimdWholeRegisterStore",
    "SimdUnitStrideSegmentedLoad", "SimdUnitStrideSegmentedStore",
)  # fmt: skip
_MISC = ("IprAccess", "InstPrefetch")
_WIDE = 8
_GROUP = 8  # registers of one instruction at most


@dataclass(frozen=True)
class FunctionalUnit:
    """`count` equal units for these operation classes. Cycles: depth, distance of two operations, how much later than
    issue a source may come, and how much later than the unit's end a memory result is expected (0: not before it is
    there)."""

    op_classes: tuple[str, ...]
    count: int = 1
    latency: int = 1
    interval: int = 1
    early: int = 0
    assumed: int = 0


def machine_json(config: NpuConfig) -> str:
    """The machine as JSON with sorted keys: equal machines are equal texts."""
    minor = config.core.pipeline == "minor"
    machine = {
        "vlen_bits": config.core.vlen_bits,
        "cpu": _minor_cpu(config) if minor else _lane_cpu(config),
        "units": [asdict(unit) for unit in (_minor_units(config) if minor else _lane_units(config))],
        "cache": {
            "size": f"{_cache_bytes(config) // 1024}KiB",
            "latency": config.minor.cache_cycles if minor else max(1, config.latency.scratchpad_load_cycles - 1),
        },
    }
    return json.dumps(machine, sort_keys=True, indent=1)


def fill_and_drain_cycles(config: NpuConfig, custom: frozenset[str]) -> int:
    """What the stand-ins of array instructions leave out: loading the first weights and the last row's way through the
    array (docs/timing_model.md, Systolic arrays)."""
    lanes = config.core.lanes
    load = lanes if "array.push_weights" in custom else 0
    return load + 2 * lanes - 1 if {"array.push_inputs", "array.pop"} & custom else load


def _cache_bytes(config: NpuConfig) -> int:
    """A power of two that holds a scratchpad slice and as much of constants and code."""
    return 2 * max(1 << (config.core.scratchpad_bytes_per_lane - 1).bit_length(), 32 * 1024)


def _minor_cpu(config: NpuConfig) -> dict[str, int]:
    m = config.minor
    return {
        "fetch1FetchLimit": m.fetches_in_flight,
        "fetch1LineSnapWidth": m.fetch_line_bytes,
        "fetch1LineWidth": m.fetch_line_bytes,
        "fetch2InputBufferSize": m.fetch_buffer_lines,
        "decodeInputWidth": m.decode_width,
        "decodeInputBufferSize": m.decode_buffer_entries,
        "executeInputWidth": m.decode_width,
        "executeInputBufferSize": m.issue_buffer_entries,
        "executeIssueLimit": m.issue_width,
        "executeMemoryIssueLimit": m.memory_issue_width,
        "executeCommitLimit": m.commit_width,
        "executeMemoryCommitLimit": m.memory_commit_width,
        "executeBranchDelay": m.branch_delay_cycles,
        "executeMemoryWidth": m.memory_width_bytes,
        "executeMaxAccessesInMemory": m.accesses_in_memory,
        "executeLSQTransfersQueueSize": m.transfer_entries,
        "executeLSQStoreBufferSize": m.store_buffer_entries,
        "executeLSQMaxStoreBufferStoresPerCycle": m.stores_per_cycle,
    }


def _minor_units(config: NpuConfig) -> tuple[FunctionalUnit, ...]:
    m = config.minor
    return (
        FunctionalUnit(("IntAlu",), m.int_units, m.int_cycles, early=m.int_early_cycles),
        FunctionalUnit(("IntMult",), latency=m.mul_cycles),
        FunctionalUnit(("IntDiv",), latency=m.div_cycles, interval=m.div_cycles),
        FunctionalUnit((*_SIMD, *_SCALAR_FLOAT), m.vector_units, m.vector_cycles, early=m.vector_early_cycles),
        FunctionalUnit(
            _MEMORY, m.memory_units, m.memory_cycles, early=m.memory_early_cycles, assumed=m.load_assumed_cycles
        ),
        FunctionalUnit(_MISC),
    )


def _lane_cpu(config: NpuConfig) -> dict[str, int]:
    core = config.core
    ports = core.scratchpad_load_ports + core.scratchpad_store_ports
    wide = max(_WIDE, core.issue_width)
    return {
        "fetch1FetchLimit": 4,
        "fetch2InputBufferSize": 4,
        "decodeInputWidth": wide,
        "decodeInputBufferSize": wide,
        "executeInputWidth": wide,
        "executeInputBufferSize": 2 * wide,
        "executeIssueLimit": core.issue_width,
        "executeMemoryIssueLimit": min(ports, core.issue_width),
        "executeCommitLimit": wide,
        "executeMemoryCommitLimit": ports,
        "executeMemoryWidth": core.scratchpad_port_bytes,
        "executeMaxAccessesInMemory": wide,
        "executeLSQTransfersQueueSize": wide,
        "executeLSQMaxStoreBufferStoresPerCycle": core.scratchpad_store_ports,
    }


def _lane_units(config: NpuConfig) -> tuple[FunctionalUnit, ...]:
    core, latency = config.core, config.latency
    beats = max(1, core.vlen_bits // core.datapath_bits)  # of a micro-operation, which is one register
    rows = core.vlen_bits // 32
    special = -(-rows // core.sfu_elements_per_cycle)
    tree = 1 + (core.datapath_bits // 32 - 1).bit_length()

    def vector(cycles: int, *op_classes: str) -> FunctionalUnit:
        return FunctionalUnit(op_classes, latency.vector_units, beats - 1 + cycles, beats)

    def queued(op_class: str, places: int, cycles: int, latency: int, number: int = 1) -> FunctionalUnit:
        """`number` units that take a register every `cycles`, each with `places` for registers in front. MinorCPU has
        nowhere to wait but issue, where all that follows waits, too; so each place is a unit that is free again when
        all places have had their turn."""
        return FunctionalUnit((op_class,), number * places, latency, places * cycles)

    def queues(twin: Twin, number: int) -> FunctionalUnit:
        return queued(twin.op_class, max(1, config.array.queue_entries // rows), rows, 1, number)

    divide, float_divide = latency.vector_div_cycles_per_beat, latency.vector_fp_div_cycles_per_beat
    return (
        FunctionalUnit(("IntAlu",), core.issue_width, latency.int_alu_cycles),
        FunctionalUnit(("IntMult",), latency=latency.int_mul_cycles),
        FunctionalUnit(("IntDiv",), latency=latency.int_div_cycles, interval=latency.int_div_cycles),
        FunctionalUnit(("FloatAdd", "FloatCmp", "FloatCvt", "FloatMult", "FloatMultAcc"), 1, latency.fp_alu_cycles),
        FunctionalUnit(("FloatMisc",), 1, latency.fp_move_cycles),
        FunctionalUnit(("FloatDiv", "FloatSqrt"), 1, latency.fp_div_cycles, latency.fp_div_cycles),
        FunctionalUnit(("SimdConfig",), core.issue_width, latency.vector_config_cycles),
        vector(
            latency.vector_alu_cycles,
            *("SimdAdd", "SimdAddAcc", "SimdAlu", "SimdCmp", "SimdCvt", "SimdShift", "SimdShiftAcc", "SimdExt"),
            *("SimdFloatExt", "SimdPredAlu"),
        ),
        vector(latency.vector_mul_cycles, "SimdMult", "SimdMultAcc", "SimdMatMultAcc"),
        vector(
            latency.vector_fp_cycles,
            *("SimdFloatAdd", "SimdFloatAlu", "SimdFloatCmp", "SimdFloatCvt", "SimdFloatMisc", "SimdFloatMult"),
            *("SimdFloatMultAcc", "SimdFloatMatMultAcc"),
        ),
        vector(tree * latency.vector_fp_cycles, "SimdFloatReduceAdd"),
        FunctionalUnit(("SimdMisc",), 1, beats - 1 + latency.vector_permute_cycles, beats),
        FunctionalUnit(("SimdSqrt",), 1, beats * divide, beats * divide),
        queued("SimdDiv", _GROUP, beats * divide, beats * divide),
        queued("SimdFloatDiv", _GROUP, beats * float_divide, beats * float_divide),
        # What follows has stand-ins of custom instructions.
        queued(TWINS["sfu.exp"].op_class, _GROUP, special, special - 1 + latency.sfu_cycles),
        FunctionalUnit((TWINS["xlu.exchange"].op_class,), 1, beats - 1 + latency.xlu_cycles, beats),
        queues(SHARED_PUSH, 1),
        queues(TWINS["array.push_inputs"], config.array.count),
        queues(TWINS["array.pop"], config.array.count),
        FunctionalUnit(
            _MEMORY, min(core.scratchpad_load_ports + core.scratchpad_store_ports, core.issue_width), latency=1
        ),
        FunctionalUnit(_MISC),
    )
