"""Writes docs/isa.md: custom instructions, element types, descriptor layout, from the tables of this package.

In: the tables. Out: Markdown. A test holds the page in docs/ to what this gives.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pytorchsim.target import descriptor, memory_map
from pytorchsim.target.dtypes import ALL_DTYPES
from pytorchsim.target.isa import CUSTOM, OPCODE, CustomInstruction

__all__ = ["main", "page"]

_FIELDS = (("rd", 7), ("rs1", 15), ("rs2", 20))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _field(instruction: CustomInstruction, field: str) -> str:
    for operand in instruction.operands:
        if operand.field == field:
            bounded = (operand.low, operand.high) != (0, 31)
            return operand.meaning + (f" ({operand.low}-{operand.high})" if bounded else "")
    return str(dict(instruction.fixed).get(field, 0))


def _instructions() -> str:
    head = ("name", "form", "op", "rd", "rs1", "rs2", "class", "meaning")
    rows = [
        (
            f"`{i.name}`",
            f"`{i.form.mnemonic}`",
            str(i.op),
            *(_field(i, field) for field, _ in _FIELDS),
            i.latency.value,
            i.meaning,
        )
        for i in CUSTOM
    ]
    return _table(head, rows)


def _encodings() -> str:
    rows = []
    for instruction in CUSTOM:
        free = {field for field, _ in _FIELDS} & {operand.field for operand in instruction.operands}
        bits = 0xFFFFFFFF
        for field, shift in _FIELDS:
            if field in free:
                bits &= ~(31 << shift)
        match = instruction.words()[0][1] & bits
        rows.append((f"`{instruction.name}`", f"`{match:#010x}`", ", ".join(sorted(free))))
    return _table(("name", "word with operand fields 0", "operand fields"), rows)


def _layout() -> str:
    rows = []
    offset = 0
    counts = (1, descriptor.MAX_RANK, descriptor.MAX_BOUNDS, descriptor.MAX_INDEX_TILES)
    kinds = {"B": "u8", "H": "u16", "I": "u32", "Q": "u64", "q": "i64"}
    for record, count in zip(descriptor.RECORDS, counts, strict=True):
        fields = ", ".join(
            f"{name}: {kinds[code]}{f'[{length}]' if length > 1 else ''}" for name, length, code in record.fields
        )
        rows.append((str(offset), f"{count} x {record.name}", str(record.size_bytes), fields))
        offset += count * record.size_bytes
    return _table(("byte", "record", "bytes each", "fields in order"), rows)


def page() -> str:
    """The text of docs/isa.md."""
    dtypes = [(str(d.code), d.name, str(d.bits), d.kind.value) for d in sorted(ALL_DTYPES, key=lambda d: d.code)]
    return f"""# Instruction set

Generated from `pytorchsim/target/` by `python -m pytorchsim.target.emit_page docs/isa.md`. Do not edit.

The base is rv64 with I, M, A (encoded, but atomics fault), F, D, Zfh, V 1.0, Zvfh, the bf16 conversions and the
ratified vector bit-manipulation and cryptography extensions; no compressed instructions. What the lanes change about V
is in [kernel_abi.md](kernel_abi.md). This page lists what the NPU adds. NumPy reference bodies are in
`pytorchsim/target/isa.py`.

## Custom instructions
Major opcode `{OPCODE:#x}` (custom-2). Bits 31:28, 25 and 14:12 name the form, bits 27:26 the op.

{_instructions()}

## Encodings
{_encodings()}

## Element types
{_table(("code", "name", "bits", "kind"), dtypes)}

## DMA descriptor
{descriptor.DESCRIPTOR_BYTES} bytes, little endian, magic `{descriptor.MAGIC:#x}`. Its meaning:
[kernel_abi.md](kernel_abi.md).

{_layout()}

## Memory map
| what | address |
| --- | --- |
| return address | `{memory_map.RETURN_ADDRESS:#x}` |
| code | `{memory_map.TEXT_BASE:#x}` |
| scratchpad window | `{memory_map.SCRATCHPAD_BASE:#x}` |
"""


def main(arguments: list[str]) -> None:
    """Writes the page to the path given."""
    Path(arguments[0]).write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
