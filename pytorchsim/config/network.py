"""`NetworkConfig`: what lies between the cores and the memory.

In: keyword values. Out: a frozen section of `NpuConfig`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pytorchsim.config.frozen import Frozen

__all__ = ["NetworkConfig"]


class NetworkConfig(Frozen):
    """Between the cores' DMA engines and the DRAM's data buses. Public facts about a TPU's on-chip network are few:
    figures other than the latency are assumed, so that no link is slower than the whole memory."""

    kind: Literal["ideal", "crossbar", "mesh"] = Field(
        "ideal", description="A latency only; one switch; or a router per core and data bus, row before column."
    )
    latency_cycles: int = Field(
        10, ge=0, description="`ideal`, `crossbar`: one way, in core cycles. Figure of the tpuv3 reference machine."
    )
    hop_cycles: int = Field(2, ge=0, description="`mesh`: router and wire, in core cycles. Assumed.")
    columns: int = Field(0, ge=0, le=1024, description="`mesh`: routers in a row; 0: as square as possible.")
    link_bytes_per_cycle: int = Field(
        512, ge=1, description="`crossbar`, `mesh`: payload of a link and direction, in bytes per core cycle. Assumed."
    )
    header_bytes: int = Field(
        8, ge=1, description="What a packet without payload takes of a link (read request, write answer). Assumed."
    )
    buffer_packets: int = Field(
        256,
        ge=1,
        description="Buffer at the end of a link, for requests and for responses; a packet is a burst. Assumed.",
    )
    separate_responses: bool = Field(
        True, description="Requests and responses have buffers of their own. False: one buffer, which can deadlock."
    )
