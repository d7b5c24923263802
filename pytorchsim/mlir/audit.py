"""The audit of a tile function's assembly: what would pass a lane's value through a scalar register is an error.

In: LLVM's assembly of one tile function. Out: nothing, or AssemblyAuditError with a finding per line. The IR rules of
verify-kernel keep these out as written; the audit holds LLVM to it, because instruction selection may undo them
(codegen 14). It also reads the size of the stack frame, for which LLVM offers no other report here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytorchsim.errors import AssemblyAuditError, AuditFinding

__all__ = ["RULES", "Rule", "audit_tile_function", "findings_in", "stack_frame_bytes"]


@dataclass(frozen=True)
class Rule:
    """Lines that match `pattern` (instruction and operands, no indentation, no comment) are findings."""

    name: str
    pattern: re.Pattern[str]
    reason: str


_NOT_STACK = r"(?!.*\(sp\))"

RULES: tuple[Rule, ...] = (
    Rule(
        "vector-to-scalar",
        re.compile(r"(vmv\.x\.s|vfmv\.f\.s|vcpop\.m|vpopc\.m|vfirst\.m)"),
        "a lane's value in a scalar register faults unless all lanes agree",
    ),
    Rule(
        "fault-only-first-load",
        re.compile(r"vl(seg\d)?e?\d+ff\.v"),
        "it sets the vector length by one lane's addresses",
    ),
    Rule("vector-length-read", re.compile(r"csrrs?\s.*\b(vl|vxsat|vstart)\b"), "the value may depend on the lane"),
    Rule("call", re.compile(r"(call|tail|jalr?)\s(?!zero\b|x0\b)"), "a tile function calls nothing"),
    Rule(
        "indirect-jump",
        re.compile(r"(jr\s(?!ra\b)|jalr\s+(zero|x0)\b)"),
        "control flow is the same in every lane and static",
    ),
    Rule(
        "scalar-load",
        re.compile(rf"(l[bhwd]u?|fl[hwd])\s(?!.*%pcrel_lo){_NOT_STACK}"),
        "a scalar load from a tile would see one lane; constants (%pcrel_lo) and the stack are fine",
    ),
    Rule(
        "scalar-store",
        re.compile(rf"(s[bhwd]|fs[hwd])\s{_NOT_STACK}"),
        "a scalar store has no lane; only the stack may be written",
    ),
    Rule("atomic", re.compile(r"(amo\w+|lr|sc)\.[wd]"), "lanes share no memory"),
    Rule("dma", re.compile(r"sf\.vc\.x\s"), "transfers and waits belong to the control function"),
)

_FRAME = re.compile(r"addi\s+sp, sp, -(\d+)$")
_LUI = re.compile(r"lui\s+(\w+), (\d+)$")
_ADDI = re.compile(r"addiw?\s+(\w+), (\w+), (-?\d+)$")
_LI = re.compile(r"li\s+(\w+), (-?\d+)$")
_SLLI = re.compile(r"slli\s+(\w+), (\w+), (\d+)$")
_SUB_SP = re.compile(r"sub\s+sp, sp, (\w+)$")
_ALIGN_SP = re.compile(r"andi\s+sp, sp, -(\d+)$")


def audit_tile_function(assembly: str, function: str, *, kernel: str, dump: str = "") -> None:
    """Raise AssemblyAuditError if a line of `assembly` breaks a rule."""
    findings = findings_in(assembly, function)
    if findings:
        reasons = {rule.name: rule.reason for rule in RULES}
        lines = "\n  ".join(
            f"line {found.line_number}: {found.line}  [{found.rule}: {reasons[found.rule]}]" for found in findings
        )
        raise AssemblyAuditError(
            f"tile function {function!r} leaves the lanes:\n  {lines}", findings, kernel=kernel, dump=dump
        )


def findings_in(assembly: str, function: str) -> tuple[AuditFinding, ...]:
    """Every line of `assembly` that breaks a rule; one finding per line, by the first rule that matches."""
    findings = []
    for number, text in _instructions(assembly):
        rule = next((rule for rule in RULES if rule.pattern.match(text)), None)
        if rule is not None:
            findings.append(AuditFinding(rule.name, function, number, " ".join(text.split())))
    return tuple(findings)


def stack_frame_bytes(assembly: str) -> int:
    """Bytes that the function in `assembly` takes from the stack. ValueError: the frame's size is not a constant.

    Read from the instructions that lower sp. With `vscale_range` of one value the sizes of vector spills are constants.
    """
    total, registers = 0, dict[str, int]()
    for _, raw in _instructions(assembly):
        text = " ".join(raw.split())
        if match := _FRAME.match(text):
            total += int(match[1])
        elif match := _ALIGN_SP.match(text):
            total += int(match[1])  # at most: sp is rounded down to this multiple
        elif match := _SUB_SP.match(text):
            if match[1] not in registers:
                raise ValueError(f"the stack frame has no constant size: {text}")
            total += registers[match[1]]
        elif match := _LUI.match(text):
            registers[match[1]] = int(match[2]) << 12
        elif match := _LI.match(text):
            registers[match[1]] = int(match[2])
        elif (match := _ADDI.match(text)) and match[2] in registers:
            registers[match[1]] = registers[match[2]] + int(match[3])
        elif (match := _SLLI.match(text)) and match[2] in registers:
            registers[match[1]] = registers[match[2]] << int(match[3])
        elif " " in text:
            # Any other instruction may write its first operand.
            registers.pop(text.split(" ", 1)[1].split(",")[0], None)
    return total


def _instructions(assembly: str) -> list[tuple[int, str]]:
    """(line number, text) of each instruction: no labels, directives or comments."""
    lines = []
    for number, line in enumerate(assembly.splitlines(), 1):
        text = line.split("#", 1)[0].strip()
        if text and not text.startswith(".") and not text.endswith(":"):
            lines.append((number, text))
    return lines
