"""`LatencyConfig`: the pipeline of the lane core.

In: keyword values. Out: a frozen section of `NpuConfig`.
"""

from __future__ import annotations

from pydantic import Field

from pytorchsim.config.frozen import Frozen

__all__ = ["LatencyConfig"]


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
