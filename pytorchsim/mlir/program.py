"""A linked program: one ELF per graph, read into a frozen value that the simulator loads.

In: the linked file's bytes and what the compiler knows of its kernels. Out: `Program`. Addresses are those kernels see
(target/memory_map.py).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Program", "read_image"]


@dataclass(frozen=True)
class Program:
    """What the functional engine loads.

    segments: (address, bytes, size in memory, ELF flags: 1 execute, 2 write, 4 read), by address.
    symbols: name -> (address, size in bytes) of functions, descriptors and scratchpad buffers.
    kernels: control functions in link order. tile_functions: `<kernel>__<tile>` in link order.
    tile_digests: tile function -> digest of its object before linking: equal code has equal digests in any program.
    spad_bytes: kernel -> bytes per lane of its buffers, all copies.
    """

    segments: tuple[tuple[int, bytes, int, int], ...]
    symbols: Mapping[str, tuple[int, int]]
    kernels: tuple[str, ...]
    tile_functions: tuple[str, ...]
    tile_digests: Mapping[str, str] = field(default_factory=dict)
    spad_bytes: Mapping[str, int] = field(default_factory=dict)


def read_image(
    image: bytes,
) -> tuple[tuple[tuple[int, bytes, int, int], ...], dict[str, tuple[int, int]]]:
    """The loadable segments and the symbols of an ELF file. Mapping symbols (`$x`) and local labels are left out."""
    from elftools.elf.elffile import ELFFile  # only here: a program from the store is read without it
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(image))
    segments = sorted(
        (int(segment["p_vaddr"]), bytes(segment.data()), int(segment["p_memsz"]), int(segment["p_flags"]))
        for segment in elf.iter_segments("PT_LOAD")
        if segment["p_memsz"]
    )
    symbols = {}
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection):
            continue
        for symbol in section.iter_symbols():
            named = symbol.name and not symbol.name.startswith(("$", ".L"))
            if named and symbol["st_info"]["type"] != "STT_FILE":
                symbols[symbol.name] = (int(symbol["st_value"]), int(symbol["st_size"]))
    return tuple(segments), dict(sorted(symbols.items(), key=lambda item: (item[1], item[0])))
