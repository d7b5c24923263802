"""Addresses that a kernel sees (docs/kernel_abi.md). The C++ engine gets them through a generated header."""

from __future__ import annotations

__all__ = [
    "DRAM_ALIGNMENT_BYTES",
    "IN_FLIGHT_GRANULE_BYTES",
    "PAGE_BYTES",
    "RETURN_ADDRESS",
    "SCRATCHPAD_BASE",
    "TEXT_BASE",
]

RETURN_ADDRESS = 0x8
"""`ra` at launch. Never mapped, so nothing but a return reaches it."""

TEXT_BASE = 0x10000
"""First address of code; read-only data follows on the next page. Below 2 GiB, so one `lui` reaches it."""

SCRATCHPAD_BASE = 0x2000_0000
"""Start of the window through which each lane sees its own slice of the scratchpad."""

PAGE_BYTES = 4096
"""Granule of Spike's address translation: a page has one mapping."""

DRAM_ALIGNMENT_BYTES = 256
"""Storages start at multiples of this: a whole number of bursts of every memory we know."""

IN_FLIGHT_GRANULE_BYTES = 32
"""One in-flight bit covers this many bytes of every lane's slice (one scratchpad port access)."""
