"""The audit of assembly: a tile function keeps its values in the lanes, a control function is scalar code.

In: LLVM's assembly of one function. Out: nothing, or AssemblyAuditError with a finding per line. The IR rules of
verify-kernel keep these out as written; the audit holds LLVM to it, because instruction selection may undo them.
It also reads the size of the stack frame, for which LLVM offers no other report here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytorchsim.errors import AssemblyAuditError, AuditFinding
from pytorchsim.mlir.stack_addresses import stack_registers

__all__ = [
    "CONTROL_RULES",
    "TILE_RULES",
    "Rule",
    "audit_control_function",
    "audit_tile_function",
    "findings_in",
    "stack_frame_bytes",
]


@dataclass(frozen=True)
class Rule:
    """Lines that match `pattern` (instruction and operands, no indentation, no comment) are findings."""

    name: str
    pattern: re.Pattern[str]
    reason: str


# Shared by both kinds of function.
_STATIC_FLOW = Rule(
    "indirect-jump",
    re.compile(r"(jr\s(?!ra\b)|jalr\s+(zero|x0)\b)"),
    "control flow is static and the same in every lane",
)
_SCALAR_LOAD = Rule(
    "scalar-load",
    re.compile(r"(l[bhwd]u?|fl[hwd])\s(?!.*%(pcrel_)?lo\()"),
    "a scalar load from a tile would see one lane; constants (%lo) and the stack are fine",
)
_SCALAR_STORE = Rule(
    "scalar-store",
    re.compile(r"(s[bhwd]|fs[hwd])\s"),
    "a scalar store has no lane; only the stack may be written",
)
_ATOMIC = Rule("atomic", re.compile(r"(amo\w+|lr|sc)\.[wd]"), "lanes share no memory")

TILE_RULES: tuple[Rule, ...] = (
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
    Rule("dma", re.compile(r"sf\.vc\.x\s"), "transfers and waits belong to the control function"),
    _STATIC_FLOW,
    _SCALAR_LOAD,
    _SCALAR_STORE,
    _ATOMIC,
)

CONTROL_RULES: tuple[Rule, ...] = (
    Rule("vector", re.compile(r"(v(?!set)|sf\.vc\.(v\.|iv))"), "a control function computes no vectors"),
    Rule("call", re.compile(r"(call|tail|jalr?)\s(?!zero\b|x0\b)"), "it calls only tile functions of its kernel"),
    _STATIC_FLOW,
    _SCALAR_LOAD,
    _SCALAR_STORE,
    _ATOMIC,
)

_BASE = re.compile(r"(?:l[bhwd]u?|fl[hwd]|s[bhwd]|fs[hwd])\s.*\((\w+)\)$")
_CALL = re.compile(r"(?:call|tail)\s+(\S+)$")

_FRAME = re.compile(r"addi\s+sp, sp, -(\d+)$")
_LUI = re.compile(r"lui\s+(\w+), (\d+)$")
_ADDI = re.compile(r"addiw?\s+(\w+), (\w+), (-?\d+)$")
_LI = re.compile(r"li\s+(\w+), (-?\d+)$")
_SLLI = re.compile(r"slli\s+(\w+), (\w+), (\d+)$")
_SUB_SP = re.compile(r"sub\s+sp, sp, (\w+)$")
_ALIGN_SP = re.compile(r"andi\s+sp, sp, -(\d+)$")


def audit_tile_function(assembly: str, function: str, *, kernel: str, dump: str = "") -> None:
    """Raise AssemblyAuditError if a line of a tile function's `assembly` breaks a rule of TILE_RULES."""
    findings = findings_in(assembly, function, TILE_RULES)
    _raise(f"tile function {function!r} leaves the lanes", findings, TILE_RULES, kernel, dump)


def audit_control_function(assembly: str, tiles: Collection[str], *, kernel: str, dump: str = "") -> None:
    """Raise AssemblyAuditError if a line of the control function's `assembly` breaks a rule of CONTROL_RULES.

    `tiles` are the functions it may call.
    """
    findings = findings_in(assembly, kernel, CONTROL_RULES, calls=tiles)
    _raise("the control function is more than scalar code", findings, CONTROL_RULES, kernel, dump)


def findings_in(
    assembly: str, function: str, rules: Sequence[Rule], *, calls: Collection[str] = ()
) -> tuple[AuditFinding, ...]:
    """Every line of `assembly` that breaks a rule; one finding per line, by the first rule that matches.

    Calls of functions named in `calls` are allowed, and scalar accesses through registers that hold stack addresses.
    """
    findings = []
    lines = _code(assembly)
    for (number, text), stack in zip(lines, stack_registers([text for _, text in lines]), strict=True):
        call, base = _CALL.match(text), _BASE.match(text)
        if (call is not None and call[1] in calls) or (base is not None and base[1] in stack) or text.endswith(":"):
            continue
        rule = next((rule for rule in rules if rule.pattern.match(text)), None)
        if rule is not None:
            findings.append(AuditFinding(rule.name, function, number, " ".join(text.split())))
    return tuple(findings)


def _raise(what: str, findings: tuple[AuditFinding, ...], rules: Sequence[Rule], kernel: str, dump: str) -> None:
    if not findings:
        return
    reasons = {rule.name: rule.reason for rule in rules}
    lines = "\n  ".join(
        f"line {found.line_number}: {found.line}  [{found.rule}: {reasons[found.rule]}]" for found in findings
    )
    raise AssemblyAuditError(f"{what}:\n  {lines}", findings, kernel=kernel, dump=dump)


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
    return [(number, text) for number, text in _code(assembly) if not text.endswith(":")]


def _code(assembly: str) -> list[tuple[int, str]]:
    """(line number, text) of each instruction and label."""
    lines = []
    for number, line in enumerate(assembly.splitlines(), 1):
        text = line.split("#", 1)[0].strip()
        if text.endswith(":") or (text and not text.startswith(".")):
            lines.append((number, text))
    return lines
