"""A small assembler for the engine's tests: one method per instruction, labels, constants, and a program to load.

Not a general tool: it knows what the tests need. Vector operands are register numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pytorchsim.target import isa
from pytorchsim.target.memory_map import PAGE_BYTES, SCRATCHPAD_BASE, TEXT_BASE

ZERO, RA, SP, T0, T1, T2 = 0, 1, 2, 5, 6, 7
A0, A1, A2, A3, A4, A5 = 10, 11, 12, 13, 14, 15
SEW = {8: 0, 16: 1, 32: 2, 64: 3}
LMUL = {1: 0, 2: 1, 4: 2, 8: 3, 0.5: 7, 0.25: 6, 0.125: 5}


@dataclass(frozen=True)
class TestProgram:
    """What `Machine.load` needs."""

    __test__ = False

    segments: tuple[tuple[int, bytes, int, int], ...]
    symbols: Mapping[str, tuple[int, int]]
    tile_functions: tuple[str, ...]


@dataclass
class Assembler:
    """Words in order; `label` names places; `constant` puts bytes into read-only data and gives their address."""

    words: list[int] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tiles: list[str] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    _fixups: list[tuple[int, str, Callable[[int], int]]] = field(default_factory=list)

    CONSTANTS = 0x80000

    def emit(self, word: int) -> None:
        self.words.append(word & 0xFFFFFFFF)

    @property
    def here(self) -> int:
        return TEXT_BASE + 4 * len(self.words)

    def label(self, name: str, *, tile: bool = False) -> None:
        self.labels[name] = self.here
        if tile:
            self.tiles.append(name)

    def constant(self, data: bytes, align: int = 8) -> int:
        self.data.extend(b"\0" * (-len(self.data) % align))
        address = self.CONSTANTS + len(self.data)
        self.data.extend(data)
        return address

    def program(self) -> TestProgram:
        for index, name, encode in self._fixups:
            self.words[index] = encode(self.labels[name] - (TEXT_BASE + 4 * index)) & 0xFFFFFFFF
        code = b"".join(word.to_bytes(4, "little") for word in self.words)
        segments = [(TEXT_BASE, code, len(code), 5)]
        if self.data:
            segments.append((self.CONSTANTS, bytes(self.data), len(self.data), 4))
        assert TEXT_BASE + len(code) <= self.CONSTANTS - PAGE_BYTES
        starts = sorted(self.labels.items(), key=lambda item: item[1])
        ends = [start for _, start in starts[1:]] + [self.here]
        symbols = {name: (start, end - start) for (name, start), end in zip(starts, ends, strict=True)}
        return TestProgram(tuple(segments), symbols, tuple(self.tiles))

    # scalar
    def _i(self, opcode: int, funct3: int, rd: int, rs1: int, imm: int) -> None:
        self.emit(opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (imm & 0xFFF) << 20)

    def _s(self, opcode: int, funct3: int, rs2: int, rs1: int, imm: int) -> None:
        self.emit(opcode | (imm & 31) << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | (imm >> 5 & 0x7F) << 25)

    def addi(self, rd: int, rs1: int, imm: int) -> None:
        self._i(0x13, 0, rd, rs1, imm)

    def add(self, rd: int, rs1: int, rs2: int) -> None:
        self.emit(0x33 | rd << 7 | rs1 << 15 | rs2 << 20)

    def slli(self, rd: int, rs1: int, shift: int) -> None:
        self._i(0x13, 1, rd, rs1, shift)

    def li(self, rd: int, value: int) -> None:
        """Any 64-bit value."""
        value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
        if -2048 <= value < 2048:
            self.addi(rd, ZERO, value)
            return
        if -(1 << 31) <= value < (1 << 31) - 2048:
            self.emit(0x37 | rd << 7 | ((value + 0x800) & 0xFFFFF000))
            self._i(0x1B, 0, rd, rd, value)  # addiw
            return
        low = (value & 0xFFF) - (0x1000 if value & 0x800 else 0)
        self.li(rd, (value - low) >> 12)
        self.slli(rd, rd, 12)
        self.addi(rd, rd, low)

    def ld(self, rd: int, rs1: int, imm: int = 0) -> None:
        self._i(0x03, 3, rd, rs1, imm)

    def lw(self, rd: int, rs1: int, imm: int = 0) -> None:
        self._i(0x03, 2, rd, rs1, imm)

    def flw(self, rd: int, rs1: int, imm: int = 0) -> None:
        self._i(0x07, 2, rd, rs1, imm)

    def sd(self, rs2: int, rs1: int, imm: int = 0) -> None:
        self._s(0x23, 3, rs2, rs1, imm)

    def ret(self) -> None:
        self._i(0x67, 0, ZERO, RA, 0)

    def jalr(self, rd: int, rs1: int, imm: int = 0) -> None:
        self._i(0x67, 0, rd, rs1, imm)

    def call(self, name: str) -> None:
        """jal ra, name. The caller saves ra itself."""
        self._fixups.append((len(self.words), name, lambda offset: _jal(RA, offset)))
        self.emit(0)

    def jump(self, name: str) -> None:
        self._fixups.append((len(self.words), name, lambda offset: _jal(ZERO, offset)))
        self.emit(0)

    def bnez(self, rs1: int, name: str) -> None:
        self._fixups.append((len(self.words), name, lambda offset: _branch(1, rs1, ZERO, offset)))
        self.emit(0)

    def csrr(self, rd: int, number: int) -> None:
        self._i(0x73, 2, rd, ZERO, number)

    def csrw(self, number: int, rs1: int) -> None:
        self._i(0x73, 1, ZERO, rs1, number)

    # vector
    def vsetvli(self, rd: int, rs1: int, sew: int, lmul: float = 1) -> None:
        self._i(0x57, 7, rd, rs1, 0xC0 | SEW[sew] << 3 | LMUL[lmul])

    def vset(self, vl: int, sew: int, lmul: float = 1) -> None:
        """vl elements of SEW bits, through t0."""
        self.li(T0, vl)
        self.vsetvli(ZERO, T0, sew, lmul)

    def vector(self, funct6: int, funct3: int, vd: int, op1: int, vs2: int, *, masked: bool = False) -> None:
        """Any OP-V instruction; op1 is vs1, rs1 or an immediate."""
        vm = 0 if masked else 1
        self.emit(0x57 | vd << 7 | funct3 << 12 | (op1 & 31) << 15 | vs2 << 20 | vm << 25 | funct6 << 26)

    def vadd_vv(self, vd: int, vs2: int, vs1: int) -> None:
        self.vector(0, 0, vd, vs1, vs2)

    def vfadd_vv(self, vd: int, vs2: int, vs1: int) -> None:
        self.vector(0, 1, vd, vs1, vs2)

    def vmv_v_i(self, vd: int, imm: int) -> None:
        self.vector(0x17, 3, vd, imm, 0)

    def vid(self, vd: int) -> None:
        self.vector(0x14, 2, vd, 17, 0)

    def vmv_x_s(self, rd: int, vs2: int) -> None:
        self.vector(0x10, 2, rd, 0, vs2)

    def memory(  # every vector load and store
        self,
        *,
        store: bool,
        width: int,
        register: int,
        base: int,
        other: int = 0,
        mop: int = 0,
        fields: int = 1,
        masked: bool = False,
    ) -> None:
        funct3 = {8: 0, 16: 5, 32: 6, 64: 7}[width]
        opcode = 0x27 if store else 0x07
        vm = 0 if masked else 1
        self.emit(
            opcode | register << 7 | funct3 << 12 | base << 15 | other << 20 | vm << 25 | mop << 26 | (fields - 1) << 29
        )

    def vle(self, width: int, vd: int, base: int) -> None:
        self.memory(store=False, width=width, register=vd, base=base)

    def vse(self, width: int, vs3: int, base: int) -> None:
        self.memory(store=True, width=width, register=vs3, base=base)

    # custom
    def custom(self, name: str, *, rd: int = 0, rs1: int = 0, rs2: int = 0) -> None:
        self.emit(isa.encode(name, rd=rd, rs1=rs1, rs2=rs2))

    def dma_set(self, index: int, value: int) -> None:
        self.li(T1, value)
        self.custom("dma.set", rd=index, rs1=T1)

    def dma_start(self, tag: int, descriptor: int) -> None:
        self.li(T1, descriptor)
        self.custom("dma.start", rd=tag, rs1=T1)

    def dma_wait(self, tag: int) -> None:
        self.li(T1, tag)
        self.custom("dma.wait", rs1=T1)


def spad(offset: int) -> int:
    """Kernel address of an offset in the slice."""
    return SCRATCHPAD_BASE + offset


def _jal(rd: int, offset: int) -> int:
    return (
        0x6F
        | rd << 7
        | (offset >> 12 & 0xFF) << 12
        | (offset >> 11 & 1) << 20
        | (offset >> 1 & 0x3FF) << 21
        | (offset >> 20 & 1) << 31
    )


def _branch(funct3: int, rs1: int, rs2: int, offset: int) -> int:
    return (
        0x63
        | (offset >> 11 & 1) << 7
        | (offset >> 1 & 15) << 8
        | funct3 << 12
        | rs1 << 15
        | rs2 << 20
        | (offset >> 5 & 63) << 25
        | (offset >> 12 & 1) << 31
    )
