"""`EnergyConfig`: what moving a byte costs.

In: keyword values. Out: a frozen section of `NpuConfig`.
"""

from __future__ import annotations

from pydantic import Field

from pytorchsim.config.frozen import Frozen

__all__ = ["EnergyConfig"]


class EnergyConfig(Frozen):
    """Energy of data movement, in picojoules per byte. [J21] is N. Jouppi et al., "Ten Lessons From Three Generations
    Shaped Google's TPUv4i", ISCA 2021, table of energies at 7 nm, given there per 64 bits. Energy of computation and of
    leakage is not counted."""

    dram_pj_per_byte: float = Field(
        43.75, ge=0, description="Bursts. [J21]: HBM2 250 to 450 pJ per 8 bytes, the middle; DDR4 1,300."
    )
    network_pj_per_byte: float = Field(
        6.4, ge=0, description="Between scratchpad and DRAM. Assumed: 10 mm of wire at 0.08 pJ per bit and mm."
    )
    scratchpad_pj_per_byte: float = Field(
        1.34,
        ge=0,
        description="Transfers' side of the scratchpads. [J21]: SRAM of 32 KiB 8.5 pJ, of 1 MiB 14 pJ per 8"
        " bytes; between them for 128 KiB.",
    )
