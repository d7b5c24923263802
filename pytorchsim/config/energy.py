"""`EnergyConfig`: what an operation and moving a byte cost.

In: keyword values. Out: a frozen section of `NpuConfig`.
"""

from __future__ import annotations

from pydantic import Field

from pytorchsim.config.frozen import Frozen

__all__ = ["EnergyConfig"]


class EnergyConfig(Frozen):
    """Energy in picojoules per byte moved and per operation. [J21] is N. Jouppi et al., "Ten Lessons From Three
    Generations Shaped Google's TPUv4i", ISCA 2021, table of energies at 7 nm, where memories are given per 64 bits.
    Energy of control, registers, clocks and leakage is not counted."""

    dram_pj_per_byte: float = Field(
        43.75,
        ge=0,
        description="Bursts. [J21]: HBM2 250 to 450 pJ per 8 bytes, the middle; DDR4 1,300. Not part of"
        " `dram.base`: give it with another memory.",
    )
    network_pj_per_byte: float = Field(
        6.4, ge=0, description="Between scratchpad and DRAM. Assumed: 10 mm of wire at 0.08 pJ per bit and mm."
    )
    scratchpad_pj_per_byte: float = Field(
        1.34,
        ge=0,
        description="Both sides of the scratchpads, transfers and vector loads and stores. [J21]: SRAM of 32 KiB"
        " 8.5 pJ, of 1 MiB 14 pJ per 8 bytes; between them for 128 KiB.",
    )
    mac_float32_pj: float = Field(
        1.69, ge=0, description="A multiplication and an addition in an array. [J21]: float32 1.31 + 0.38 pJ."
    )
    mac_float16_pj: float = Field(0.72, ge=0, description="[J21]: float16 product 0.34, float32 sum 0.38 pJ.")
    mac_bfloat16_pj: float = Field(0.59, ge=0, description="[J21]: bfloat16 product 0.21, float32 sum 0.38 pJ.")
    mac_float8_pj: float = Field(
        0.45, ge=0, description="Assumed: a product as of int8, 0.07, float32 sum 0.38 pJ [J21]."
    )
    mac_int8_pj: float = Field(0.1, ge=0, description="[J21]: int8 product 0.07, int32 sum 0.03 pJ.")
    vector_float_pj: float = Field(
        0.85, ge=0, description="An element in a lane's pipe. [J21]: float32 sum 0.38, product 1.31 pJ; the middle."
    )
    vector_integer_pj: float = Field(
        0.03, ge=0, description="An element of integers, logic, moves, slides, gathers. [J21]: int32 sum."
    )
    vector_divide_pj: float = Field(
        13.5, ge=0, description="An element of a division or square root. Assumed: 8 steps of 1.69 pJ."
    )
    special_function_pj: float = Field(
        13.5, ge=0, description="An element in the SFU. Assumed: a polynomial of 8 steps of 1.69 pJ."
    )
    lane_exchange_pj: float = Field(
        2.56, ge=0, description="An element in the XLU. Assumed: 1 mm of 32 wires at 0.08 pJ per bit and mm."
    )
