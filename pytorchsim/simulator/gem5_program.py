"""A stand-alone program around a tile function, for a simulator that runs Linux binaries.

In: the linked program a tile function is part of, its name and arguments. Out: a static RV64 executable that calls it a
number of times with the scratchpad's window mapped (all zeros) and exits. Custom instructions are replaced by their
stand-ins (`target/timing_twins.py`). Assumes: a tile function's control flow depends on its arguments only.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from pytorchsim.config.model import NpuConfig
from pytorchsim.simulator.functional import LoadableProgram
from pytorchsim.target.memory_map import SCRATCHPAD_BASE
from pytorchsim.target.timing_twins import timing_twin

__all__ = ["TileCall", "executable", "static_executable", "tile_call"]

_STUB_BASE = 0x8000
_READ, _WRITE, _EXECUTE = 4, 2, 1
_EXIT = 93  # Linux, RISC-V
_SP, _S0, _RA, _T0 = 2, 8, 1, 5


@dataclass(frozen=True)
class TileCall:
    """A tile function with its stand-ins, its constants and what it is called with.

    segments: (address, bytes, size in memory, ELF flags). custom: names of the custom instructions it contains.
    """

    name: str
    entry: int
    segments: tuple[tuple[int, bytes, int, int], ...]
    arguments: tuple[int, ...]
    stack_pointer: int
    custom: frozenset[str] = frozenset()


def tile_call(
    program: LoadableProgram, name: str, arguments: Sequence[int], stack_alignment_bytes: int, config: NpuConfig
) -> TileCall:
    """The call of tile function `name` as the machine makes it.

    Raises:
        KeyError: the program has no such symbol.
        ValueError: an instruction has no stand-in.
    """
    start, size = program.symbols[name]
    segments: list[tuple[int, bytes, int, int]] = []
    custom: set[str] = set()
    for address, data, memory_size, flags in program.segments:
        if address <= start < address + len(data):
            code = bytearray(data[start - address : start - address + size])
            for offset in range(0, size - 3, 4):
                twin = timing_twin(int.from_bytes(code[offset : offset + 4], "little"))
                if twin is not None:
                    custom.add(twin[0])
                    code[offset : offset + 4] = twin[1].to_bytes(4, "little")
            segments.append((start, bytes(code), size, _READ | _EXECUTE))
        elif not flags & _EXECUTE:
            segments.append((address, data, memory_size, flags))
    core = config.core
    segments.append((SCRATCHPAD_BASE, b"", core.scratchpad_bytes_per_lane, _READ | _WRITE))
    top = SCRATCHPAD_BASE + core.scratchpad_bytes_per_lane
    stack = top - core.scratchpad_port_bytes - stack_alignment_bytes
    return TileCall(name, start, tuple(segments), tuple(arguments), stack, frozenset(custom))


def executable(call: TileCall, repetitions: int) -> bytes:
    """An ELF file whose entry calls the function `repetitions` times and exits."""
    words = [*_load(_S0, repetitions)]
    loop = len(words)
    words += _load(_SP, call.stack_pointer)
    for number, value in enumerate(call.arguments[:8]):
        words += _load(10 + number, value)
    words += _load(_T0, call.entry)
    words += [_T0 << 15 | _RA << 7 | 0x67]  # jalr ra, t0
    words += [_addi(_S0, _S0, -1), _branch_if_not_zero(_S0, 4 * (loop - len(words) - 1))]
    words += [*_load(10, 0), *_load(17, _EXIT), 0x73]
    stub = b"".join(word.to_bytes(4, "little") for word in words)
    return static_executable(_STUB_BASE, [(_STUB_BASE, stub, len(stub), _READ | _EXECUTE), *call.segments])


def _addi(rd: int, rs1: int, immediate: int) -> int:
    return (immediate & 0xFFF) << 20 | rs1 << 15 | rd << 7 | 0x13


def _branch_if_not_zero(rs1: int, offset: int) -> int:
    o = offset & 0x1FFF
    high, low = (o >> 12 & 1) << 31 | (o >> 5 & 0x3F) << 25, (o >> 1 & 0xF) << 8 | (o >> 11 & 1) << 7
    return high | rs1 << 15 | 1 << 12 | low | 0x63


def _load(rd: int, value: int) -> list[int]:
    """Any 64-bit value: 11 bits at a time where it does not fit an immediate."""
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    if -2048 <= value < 2048:
        return [_addi(rd, 0, value)]
    low = (value & 0x7FF) - (0x800 if value & 0x400 else 0)
    shift = 11 << 20 | rd << 15 | 1 << 12 | rd << 7 | 0x13  # slli rd, rd, 11
    return [*_load(rd, (value - low) >> 11), shift, _addi(rd, rd, low)]


def static_executable(entry: int, segments: Sequence[tuple[int, bytes, int, int]]) -> bytes:
    """A static RV64 executable. Layout: System V ABI, ELF-64; offsets are congruent to addresses modulo a page."""
    page = 4096
    ordered = sorted(segments)
    offset = 64 + 56 * len(ordered)
    headers, body = b"", b""
    for address, data, memory_size, flags in ordered:
        padding = (address - offset) % page
        body += bytes(padding) + data
        offset += padding
        headers += struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, len(data), memory_size, page)
        offset += len(data)
    # 64-bit, little endian, executable, RISC-V (243), double-float ABI (flag 4).
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, entry, 64, 0, 4, 64, 56, len(ordered), 64, 0, 0)
    return identity + header + headers + body
