"""The reference's stand-alone program around a kernel, as an instruction trace for the lane core.

`run(core, code, repetitions)` executes the integer instructions and the vector configuration of a kernel `k(a, b, out)`
(memory reads as zero, so control must not depend on data) and hands every instruction to the core. Around the kernel
stands what stands around it in the reference: a loop that sets the three addresses and calls.
"""

from __future__ import annotations

from pathlib import Path

from pytorchsim import _native

KERNEL_ADDRESS = 0x10030
"""Behind the reference's start code, which takes 48 bytes from 0x10000 on: so placed, gem5 gives its figures to the
cycle (`test_gem5.py`). The trace has the same start code without compressed instructions, up to the same address."""

BUFFERS = (0x12000, 0x16000, 0x1A000)
_MASK = (1 << 64) - 1


def text_of(object_file: Path) -> list[int]:
    """The words of section .text of a relocatable object without relocations."""
    data = object_file.read_bytes()
    number = int.from_bytes(data[60:62], "little")
    table = int.from_bytes(data[40:48], "little")
    headers = [data[table + 64 * i : table + 64 * (i + 1)] for i in range(number)]
    for header in headers:
        kind = int.from_bytes(header[4:8], "little")
        flags = int.from_bytes(header[8:16], "little")
        offset, size = (int.from_bytes(header[at : at + 8], "little") for at in (24, 32))
        if kind == 1 and flags & 4 and size:
            code = data[offset : offset + size]
            return [int.from_bytes(code[i : i + 4], "little") for i in range(0, size, 4)]
    raise ValueError(f"{object_file} has no code")


def _signed(value: int, bits: int) -> int:
    return (value & ((1 << bits) - 1)) - ((value >> (bits - 1) & 1) << bits)


def start_words(repetitions: int) -> list[int]:
    """li s0, repetitions; loop: three addresses (auipc, addi), call (auipc, jalr), addi s0, bnez s0; li, li, ecall."""
    call = 14 * 4 - 7 * 4  # from the auipc of the call to the kernel
    words = [repetitions << 20 | 8 << 7 | 0x13]
    for register, buffer in zip((10, 11, 12), BUFFERS, strict=True):
        offset = buffer - (KERNEL_ADDRESS - 4 * (14 - len(words)))
        high = (offset + 0x800) & 0xFFFFF000
        words += [high | register << 7 | 0x17, (offset & 0xFFF) << 20 | register << 15 | register << 7 | 0x13]
    words += [1 << 7 | 0x17, call << 20 | 1 << 15 | 1 << 7 | 0x67]
    words += [0xFFF << 20 | 8 << 15 | 8 << 7 | 0x13, _branch(1, 8, 0, -9 * 4)]
    return [*words, 10 << 7 | 0x13, 93 << 20 | 17 << 7 | 0x13, 0x73]


def _branch(funct3: int, rs1: int, rs2: int, offset: int) -> int:
    o = offset & 0x1FFF
    return (
        (o >> 12 & 1) << 31 | (o >> 5 & 63) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12
        | (o >> 1 & 15) << 8 | (o >> 11 & 1) << 7 | 0x63
    )  # fmt: skip


def _integer(funct3: int, a: int, b: int, *, alternative: bool) -> int:
    """The base set's operations; `alternative` is subtraction, or the arithmetic shift."""
    shift = b & 63
    return {
        0: a - b if alternative else a + b,
        1: a << shift,
        2: int(_signed(a, 64) < _signed(b, 64)),
        3: int(a < b),
        4: a ^ b,
        5: _signed(a, 64) >> shift if alternative else a >> shift,
        6: a | b,
        7: a & b,
    }[funct3]


class Hart:
    """Integer registers, pc and vector configuration."""

    def __init__(self) -> None:
        self.x = [0] * 32
        self.vl, self.sew, self.lmul = 0, 8, 1.0

    def configure(self, word: int) -> None:
        rd, rs1 = word >> 7 & 31, word >> 15 & 31
        immediate = word >> 30 == 3
        vtype = word >> 20 & (0x3FF if immediate else 0x7FF)
        self.sew = 8 << (vtype >> 3 & 7)
        self.lmul = 2.0 ** _signed(vtype, 3)
        largest = int(256 / self.sew * self.lmul)
        if immediate:
            self.vl = min(rs1, largest)
        elif rs1:
            self.vl = min(self.x[rs1], largest)
        elif rd:
            self.vl = largest
        self.write(rd, self.vl)

    def write(self, rd: int, value: int) -> None:
        if rd:
            self.x[rd] = value & _MASK

    def step(self, word: int, pc: int) -> int:
        """Executes; returns the next pc."""
        opcode, rd, funct3 = word & 127, word >> 7 & 31, word >> 12 & 7
        a, b = self.x[word >> 15 & 31], self.x[word >> 20 & 31]
        immediate = _signed(word >> 20, 12)
        if opcode in (0x13, 0x1B):
            arithmetic_right = bool(funct3 == 5 and word >> 30 & 1)
            value = _integer(funct3, a, immediate & _MASK, alternative=arithmetic_right)
            self.write(rd, value if opcode == 0x13 else _signed(value, 32))
        elif opcode in (0x33, 0x3B):
            value = a * b if word >> 25 == 1 else _integer(funct3, a, b, alternative=bool(word >> 30 & 1))
            self.write(rd, value if opcode == 0x33 else _signed(value, 32))
        elif opcode == 0x37:
            self.write(rd, _signed(word & 0xFFFFF000, 32))
        elif opcode == 0x17:
            self.write(rd, pc + _signed(word & 0xFFFFF000, 32))
        elif opcode in (0x03, 0x53):
            self.write(rd if opcode == 0x03 else 0, 0)
        elif opcode == 0x57 and funct3 == 7:
            self.configure(word)
        elif opcode == 0x6F:
            self.write(rd, pc + 4)
            low = (word >> 21 & 0x3FF) << 1 | (word >> 20 & 1) << 11 | (word >> 12 & 0xFF) << 12 | (word >> 31) << 20
            return pc + _signed(low, 21)
        elif opcode == 0x67:
            self.write(rd, pc + 4)
            return (a + immediate) & ~1
        elif opcode == 0x63:
            low = (word >> 7 & 1) << 11 | (word >> 8 & 15) << 1 | (word >> 25 & 63) << 5 | (word >> 31) << 12
            signed = _signed(a, 64), _signed(b, 64)
            taken = {0: a == b, 1: a != b, 4: signed[0] < signed[1], 5: signed[0] >= signed[1], 6: a < b, 7: a >= b}
            return pc + _signed(low, 13) if taken[funct3] else pc + 4
        elif opcode not in (0x07, 0x23, 0x27, 0x57, 0x43, 0x47, 0x4B, 0x4F):
            raise ValueError(f"word {word:#010x} at {pc:#x} is not known here")
        return pc + 4


def run(core: _native.LaneCore, code: list[int], repetitions: int) -> int:
    """Cycles of the program that calls the kernel `repetitions` times."""
    start = start_words(repetitions)
    first = KERNEL_ADDRESS - 4 * len(start)
    words = [*start, *code]
    hart = Hart()
    pc, last = first, KERNEL_ADDRESS - 4
    core.begin()
    while pc != last:
        word = words[(pc - first) // 4]
        base = hart.x[word >> 15 & 31]
        offset = _signed(word >> 20, 12)
        if word & 127 == 0x23 or (word & 127 == 0x27 and word >> 12 & 7 in (2, 3)):
            offset = _signed(word >> 25 << 5 | (word >> 7 & 31), 12)
        vector_memory = word & 127 in (0x07, 0x27) and word >> 12 & 7 in (0, 5, 6, 7)
        address = (base if vector_memory else base + offset) & _MASK
        core.retire(word, hart.vl, hart.sew, hart.lmul, address, pc)
        pc = hart.step(word, pc)
    return core.drain()


def cycles_per_call(core: _native.LaneCore, code: list[int]) -> float:
    """As the reference counts: eleven calls against one."""
    return (run(core, code, 11) - run(core, code, 1)) / 10
