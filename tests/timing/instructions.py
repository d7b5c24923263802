"""Instruction words for the scoreboard's tests, from the formats of the RISC-V manuals."""

from __future__ import annotations


def _r(funct7: int, rs2: int, rs1: int, funct3: int, rd: int, opcode: int) -> int:
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def addi(rd: int, rs1: int) -> int:
    return _r(0, 1, rs1, 0, rd, 0x13)


def mul(rd: int, rs1: int, rs2: int) -> int:
    return _r(1, rs2, rs1, 0, rd, 0x33)


def div(rd: int, rs1: int, rs2: int) -> int:
    return _r(1, rs2, rs1, 4, rd, 0x33)


def bne(rs1: int, rs2: int) -> int:
    return _r(0, rs2, rs1, 1, 0, 0x63)


def flw(rd: int, rs1: int) -> int:
    return _r(0, 0, rs1, 2, rd, 0x07)


def vsetvli(rd: int, rs1: int) -> int:
    return _r(0, 0b10000, rs1, 7, rd, 0x57)


def _vector(funct6: int, masked: bool, vs2: int, vs1: int, funct3: int, vd: int) -> int:
    return funct6 << 26 | (not masked) << 25 | vs2 << 20 | vs1 << 15 | funct3 << 12 | vd << 7 | 0x57


def vadd_vv(vd: int, vs2: int, vs1: int, *, masked: bool = False) -> int:
    return _vector(0x00, masked, vs2, vs1, 0, vd)


def vfadd_vv(vd: int, vs2: int, vs1: int, *, masked: bool = False) -> int:
    return _vector(0x00, masked, vs2, vs1, 1, vd)


def vfadd_vf(vd: int, vs2: int, rs1: int) -> int:
    return _vector(0x00, False, vs2, rs1, 5, vd)


def vfmacc_vv(vd: int, vs1: int, vs2: int) -> int:
    return _vector(0x2C, False, vs2, vs1, 1, vd)


def vfdiv_vv(vd: int, vs2: int, vs1: int) -> int:
    return _vector(0x20, False, vs2, vs1, 1, vd)


def vfwadd_vv(vd: int, vs2: int, vs1: int) -> int:
    return _vector(0x30, False, vs2, vs1, 1, vd)


def vfncvt_f_f_w(vd: int, vs2: int) -> int:
    return _vector(0x12, False, vs2, 0b10100, 1, vd)


def vmflt_vv(vd: int, vs2: int, vs1: int) -> int:
    return _vector(0x1B, False, vs2, vs1, 1, vd)


def vredsum_vs(vd: int, vs2: int, vs1: int) -> int:
    return _vector(0x00, False, vs2, vs1, 2, vd)


def vfredosum_vs(vd: int, vs2: int, vs1: int) -> int:
    return _vector(0x03, False, vs2, vs1, 1, vd)


def vslidedown_vi(vd: int, vs2: int, amount: int) -> int:
    return _vector(0x0F, False, vs2, amount, 3, vd)


def vrgather_vv(vd: int, vs2: int, vs1: int) -> int:
    return _vector(0x0C, False, vs2, vs1, 0, vd)


_WIDTH = {8: 0, 16: 5, 32: 6, 64: 7}


def vle(bits: int, vd: int, rs1: int, *, masked: bool = False) -> int:
    return (not masked) << 25 | rs1 << 15 | _WIDTH[bits] << 12 | vd << 7 | 0x07


def vse(bits: int, vs3: int, rs1: int) -> int:
    return 1 << 25 | rs1 << 15 | _WIDTH[bits] << 12 | vs3 << 7 | 0x27


def vlse(bits: int, vd: int, rs1: int, rs2: int) -> int:
    return 2 << 26 | 1 << 25 | rs2 << 20 | rs1 << 15 | _WIDTH[bits] << 12 | vd << 7 | 0x07


def vluxei(bits: int, vd: int, rs1: int, vs2: int) -> int:
    return 1 << 26 | 1 << 25 | vs2 << 20 | rs1 << 15 | _WIDTH[bits] << 12 | vd << 7 | 0x07


def vlseg(fields: int, bits: int, vd: int, rs1: int) -> int:
    return (fields - 1) << 29 | 1 << 25 | rs1 << 15 | _WIDTH[bits] << 12 | vd << 7 | 0x07


def vlr(registers: int, bits: int, vd: int, rs1: int) -> int:
    return (registers - 1) << 29 | 1 << 25 | 8 << 20 | rs1 << 15 | _WIDTH[bits] << 12 | vd << 7 | 0x07


def _custom(high: int, opcode: int, no_result: bool, rs2: int, rs1: int, funct3: int, rd: int) -> int:
    return high << 28 | opcode << 26 | no_result << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x5B


def sfu_exp(vd: int, vs2: int) -> int:
    return _custom(2, 3, False, vs2, 0, 3, vd)


def xlu(vd: int, vs2: int, step: int) -> int:
    return _custom(2, 3, False, vs2, 1 + step, 3, vd)


def push_weights(array: int, vs2: int, *, first: bool = False) -> int:
    return _custom(2, 0, True, vs2, 0, 3, array | first << 4)


def push_inputs(arrays: int, vs2: int) -> int:
    return _custom(2, 1, True, vs2, 0, 3, arrays)


def pop(array: int, vd: int) -> int:
    return _custom(0, 1, False, array, 0, 3, vd)
