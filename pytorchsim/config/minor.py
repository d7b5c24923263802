"""`MinorConfig`: gem5's MinorCPU, for the comparison with gem5 only.

In: keyword values. Out: a frozen section of `NpuConfig`.
"""

from __future__ import annotations

from pydantic import Field

from pytorchsim.config.frozen import Frozen, PowerOfTwo

__all__ = ["MinorConfig"]


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
