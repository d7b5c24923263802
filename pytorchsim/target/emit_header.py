"""Writes the C++ view of the tables of this package: instruction words, dtype codes, memory map, descriptor layout.

Run by CMake at build time. In: the tables. Out: one header, so that the engine never holds a copy of a number. Needs no
other layer (the build environment has neither torch nor pydantic).
"""

from __future__ import annotations

import sys
from pathlib import Path

from pytorchsim.target import descriptor, memory_map
from pytorchsim.target.dtypes import ALL_DTYPES
from pytorchsim.target.isa import CUSTOM, CustomInstruction, LatencyClass, SfuFunction

__all__ = ["header", "main"]

_C_TYPES = {"B": "uint8_t", "H": "uint16_t", "I": "uint32_t", "Q": "uint64_t", "q": "int64_t"}


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace(".", "_").replace("-", "_").split("_"))


def _enum(name: str, members: list[str], width: str = "uint8_t") -> str:
    return f"enum class {name} : {width} {{ {', '.join(members)} }};"


def _struct(record: descriptor.Record) -> str:
    lines = []
    for name, count, code in record.fields:
        suffix = f"[{count}]" if count > 1 else ""
        lines.append(f"  {_C_TYPES[code]} {name}{suffix};")
    body = "\n".join(lines)
    return (
        f"struct __attribute__((packed)) {record.name} {{\n{body}\n}};\n"
        f"static_assert(sizeof({record.name}) == {record.size_bytes});"
    )


def _rows(instruction: CustomInstruction) -> list[str]:
    sfu = int(instruction.sfu) if instruction.sfu is not None else 0
    return [
        f"  {{0x{mask:08x}, 0x{match:08x}, Custom::{_camel(instruction.name)},"
        f' LatencyClass::{_camel(instruction.latency.value)}, {sfu}, "{instruction.name}"}},'
        for mask, match in instruction.words()
    ]


def header() -> str:
    """The text of `isa_generated.h`."""
    rows = [row for instruction in CUSTOM for row in _rows(instruction)]
    constants = {
        "kReturnAddress": memory_map.RETURN_ADDRESS,
        "kTextBase": memory_map.TEXT_BASE,
        "kScratchpadBase": memory_map.SCRATCHPAD_BASE,
        "kPageBytes": memory_map.PAGE_BYTES,
        "kInFlightGranuleBytes": memory_map.IN_FLIGHT_GRANULE_BYTES,
        "kDescriptorMagic": descriptor.MAGIC,
        "kDescriptorBytes": descriptor.DESCRIPTOR_BYTES,
        "kMaxRank": descriptor.MAX_RANK,
        "kMaxBounds": descriptor.MAX_BOUNDS,
        "kMaxIndexTiles": descriptor.MAX_INDEX_TILES,
        "kTags": descriptor.TAGS,
        "kSetSpadAddress": descriptor.SET_SPAD_ADDRESS,
        "kSetTag": descriptor.SET_TAG,
        "kSetIndexTile": descriptor.SET_INDEX_TILE,
        "kFlagLocal": int(descriptor.DescriptorFlag.LOCAL),
    }
    parts = [
        "// Generated from pytorchsim/target by emit_header.py. Do not edit.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace npu {",
        "",
        *[f"inline constexpr uint64_t {name} = 0x{value:x};" for name, value in constants.items()],
        "",
        _enum("Custom", [_camel(instruction.name) for instruction in CUSTOM]),
        _enum("LatencyClass", [_camel(item.value) for item in LatencyClass]),
        _enum("SfuFunction", [f"{_camel(item.name.lower())} = {int(item)}" for item in SfuFunction]),
        _enum("Dtype", [f"{_camel(dtype.name)} = {dtype.code}" for dtype in ALL_DTYPES]),
        _enum("TransferOp", [f"{_camel(op.name.lower())} = {int(op)}" for op in descriptor.TransferOp]),
        "",
        "struct DtypeRow {",
        "  const char* name;",
        "  uint8_t bytes;",
        "};",
        f"inline constexpr DtypeRow kDtypes[{len(ALL_DTYPES)}] = {{",
        *[f'    {{"{dtype.name}", {dtype.bytes}}},' for dtype in sorted(ALL_DTYPES, key=lambda dtype: dtype.code)],
        "};",
        "",
        "struct CustomRow {",
        "  uint32_t mask;",
        "  uint32_t match;",
        "  Custom instruction;",
        "  LatencyClass latency;",
        "  uint8_t sfu;  // SfuFunction, where latency is Sfu",
        "  const char* name;",
        "};",
        f"inline constexpr CustomRow kCustomRows[{len(rows)}] = {{",
        *rows,
        "};",
        "",
        *[_struct(record) for record in descriptor.RECORDS],
        "",
        "}  // namespace npu",
        "",
    ]
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    """Writes the header to the path given, if its text changed (so that nothing is rebuilt for nothing)."""
    path = Path(arguments[0])
    text = header()
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
