"""The digest of an object's content: what it does, not what it is called.

In: the bytes of an object file with one function. Out: a digest over its allocated sections and relocations. Names of
functions are left out, so the same tile function in two kernels has one digest (and its latency is measured once).
"""

from __future__ import annotations

import hashlib
import io

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

__all__ = ["object_digest"]

_SHF_ALLOC = 2


def object_digest(object_bytes: bytes) -> str:
    """SHA-256 over the allocated sections (name, alignment, bytes) and their relocations, 16 hex digits."""
    elf = ELFFile(io.BytesIO(object_bytes))
    digest = hashlib.sha256()
    for section in elf.iter_sections():
        if section["sh_flags"] & _SHF_ALLOC:
            digest.update(f"{section.name} {section['sh_addralign']} {section['sh_size']}\n".encode())
            digest.update(section.data())
        elif isinstance(section, RelocationSection):
            symbols = elf.get_section(section["sh_link"])
            assert isinstance(symbols, SymbolTableSection)
            for relocation in section.iter_relocations():
                symbol = symbols.get_symbol(relocation["r_info_sym"])
                # A section-relative position says which constant is meant; a name could be any.
                position = f"{symbol['st_shndx']} {symbol['st_value']}"
                entry = [relocation[key] for key in ("r_offset", "r_info_type", "r_addend")]
                digest.update(f"{section.name} {entry} {position}\n".encode())
    return digest.hexdigest()[:16]
