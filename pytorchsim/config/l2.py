"""`L2Config`: a cache between network and DRAM, shared by all cores.

In: keyword values. Out: a frozen section of `NpuConfig`. Geometries that cannot be built are errors here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pytorchsim.config.frozen import Frozen, PowerOfTwo

__all__ = ["L2Config"]


class L2Config(Frozen):
    """A cache between network and DRAM, shared by all cores: one slice per data bus, each with its bursts. Lines
    consist of sectors of one DRAM burst; write-back, write-allocate without reading, least recently used. TPUs of these
    generations have none: all figures are assumed."""

    kind: Literal["none", "shared"] = Field("none", description="No L2, or one for all cores.")
    sets: PowerOfTwo = Field(
        8192, ge=1, le=1 << 24, description="Sets, a power of two. Assumed: 8,192 x 16 x 128 bytes are 16 MiB."
    )
    ways: int = Field(16, ge=1, le=64, description="Lines of a set. Assumed.")
    line_bytes: PowerOfTwo = Field(
        128, ge=1, description="Bytes of a line, a power of two: 1 to 64 DRAM bursts. Assumed: four bursts of HBM2."
    )
    bytes_per_cycle: int = Field(
        1024, ge=1, description="Of all slices together, in bytes per core cycle. Assumed: twice HBM2's bandwidth."
    )
    latency_cycles: int = Field(
        30,
        ge=0,
        description="From a request's turn to its data, in core cycles; then a miss goes to the DRAM. Assumed.",
    )

    @property
    def size_bytes(self) -> int:
        """What it holds."""
        return self.sets * self.ways * self.line_bytes
