"""Each rule of the assembly audit, on assembly that breaks it and assembly that comes close but may stay."""

from __future__ import annotations

import pytest

from pytorchsim.errors import AssemblyAuditError
from pytorchsim.mlir.audit import (
    CONTROL_RULES,
    TILE_RULES,
    audit_control_function,
    audit_tile_function,
    findings_in,
    stack_frame_bytes,
)

BREAKS = {
    "vector-to-scalar": ["vmv.x.s\ta0, v8", "vfmv.f.s fa0, v8", "vcpop.m a0, v0", "vfirst.m a0, v0"],
    "fault-only-first-load": ["vle32ff.v v8, (a0)", "vlseg2e8ff.v v8, (a0)"],
    "vector-length-read": ["csrr a0, vl", "csrr\ta0, vxsat", "csrrs a0, vstart, zero"],
    "call": ["call memset", "tail memcpy", "jal ra, memset", "jalr ra, 0(a0)", "jalr a0"],
    "dma": ["sf.vc.x 0, 0, 3, a0"],
    "indirect-jump": ["jr a0", "jalr zero, 0(a0)"],
    "scalar-load": [
        "lw a0, 0(a1)",
        "flw fa5, 4(a0)",
        "lbu a0, (a1)",
        "fld fa0, 0(a1)",
        "lhu a0, 2(a1)",
    ],
    "scalar-store": [
        "sw a0, 0(a1)",
        "fsd fa0, 8(a0)",
        "sb zero, (a0)",
        "sh a0, 0(a1)",
        "fsh fa0, 0(a1)",
        "sd a0, (a1)",
    ],
    "atomic": ["amoadd.w a0, a1, (a2)", "lr.w a0, (a1)", "sc.d a0, a1, (a2)"],
}

MAY_STAY = [
    "vmv.v.x v8, a0",
    "vfmv.v.f v8, fa0",
    "vfmv.s.f v8, fa0",
    "vle32.v v8, (a0)",
    "vlse32.v v8, (a0), zero",
    "vluxei64.v v8, (a0), v16",
    "vs8r.v v8, (a0)",
    "vl8re32.v v8, (sp)",
    "csrr a0, vlenb",
    "lw a0, 4(sp)",
    "ld ra, 8(sp)",
    "flw fa5, %pcrel_lo(.Lpcrel_hi0)(a0)",
    "fld fa5, %lo(.LCPI0_0)(a0)",
    "sd s0, 0(sp)",
    "fsd fs0, 0(sp)",
    "sf.vc.v.iv 3, v8, v8, 0",
    "sf.vc.iv 0, 1, v8, 2",
    "sf.vc.v.i 0, 0, v8, 0",
    "ret",
    "jr ra",
    "j .LBB0_1",
    "bne a0, a1, .LBB0_1",
    "li a0, 5",
    "sub a0, a0, a1",
    "srli a0, a0, 3",
    "slli a0, a0, 3",
    "lui a0, 1",
    "fsrmi a0, 0",
    "sltu a0, a1, a2",
]


def test_every_rule_has_examples() -> None:
    assert list(BREAKS) == [rule.name for rule in TILE_RULES]


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule, lines in BREAKS.items() for line in lines])
def test_a_forbidden_line_is_found_by_its_rule(rule: str, line: str) -> None:
    findings = findings_in(f"k__body:\n\t{line}\n\tret\n", "k__body", TILE_RULES)
    assert [(found.rule, found.line_number, found.function) for found in findings] == [(rule, 2, "k__body")]
    assert findings[0].line == line.replace("\t", " ")


@pytest.mark.parametrize("line", MAY_STAY)
def test_an_allowed_line_is_not_found(line: str) -> None:
    assert findings_in(f"k__body:\n\t{line}\n", "k__body", TILE_RULES) == ()


def test_comments_directives_and_labels_are_not_code() -> None:
    assert findings_in('\t.ascii "call"\n\t# call memset\n\tret # sw a0, 0(a1)\ncall:\n', "k__body", TILE_RULES) == ()


def test_the_error_lists_every_finding() -> None:
    with pytest.raises(AssemblyAuditError, match="tile function 'k__body' leaves the lanes") as caught:
        audit_tile_function("\tcall f\n\tret\n\tlw a0, 0(a1)\n", "k__body", kernel="k")
    assert [found.rule for found in caught.value.findings] == ["call", "scalar-load"]
    assert "line 1: call f  [call: a tile function calls nothing]" in str(caught.value)
    assert (caught.value.kernel, caught.value.stage) == ("k", "audit")


CONTROL_BREAKS = {
    "vector": [
        "vmv.v.i v8, 0",
        "vse32.v v8, (a0)",
        "sf.vc.v.iv 3, v8, v8, 0",
        "sf.vc.iv 0, 1, v8, 2",
        "vs1r.v v8, (sp)",
    ],
    "call": ["call memset", "tail k__other", "jalr ra, 0(a0)"],
    "indirect-jump": ["jr a0"],
    "scalar-load": ["ld a0, 0(a1)"],
    "scalar-store": ["sd zero, 0(a1)"],
    "atomic": ["amoadd.w a0, a1, (a2)"],
}


def test_every_control_rule_has_examples() -> None:
    assert list(CONTROL_BREAKS) == [rule.name for rule in CONTROL_RULES]


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule, lines in CONTROL_BREAKS.items() for line in lines])
def test_a_line_that_control_functions_may_not_have_is_found(rule: str, line: str) -> None:
    with pytest.raises(AssemblyAuditError, match="the control function is more than scalar code") as caught:
        audit_control_function(f"k:\n\t{line}\n\tret\n", ["k__body"], kernel="k")
    assert [(found.rule, found.function, found.line_number) for found in caught.value.findings] == [(rule, "k", 2)]


def test_what_a_control_function_is_made_of() -> None:
    lines = ["vsetvli zero, s5, e32, m1, ta, ma", "vsetivli zero, 1, e32, m1, ta, ma", "sf.vc.x 2, 0, 8, a0"]
    lines += [
        "call k__body",
        "tail k__body",
        "sd ra, 8(sp)",
        "ld ra, 8(sp)",
        "ret",
        "blt a0, a1, .LBB0_2",
        "divu a0, a0, a1",
    ]
    audit_control_function("\n".join(lines), ["k__body"], kernel="k")


@pytest.mark.parametrize(
    ("assembly", "size"),
    [
        ("ret", 0),
        ("addi sp, sp, -112\n sd ra, 104(sp)\n addi sp, sp, 112\n ret", 112),
        # 2032 by addi, then 4096 + 16 by a register.
        ("addi sp, sp, -2032\n lui a0, 1\n addi a0, a0, 16\n sub sp, sp, a0", 2032 + 4112),
        ("li a0, 1\n slli a0, a0, 12\n sub sp, sp, a0", 4096),
        ("addi sp, sp, -64\n andi sp, sp, -64", 128),
    ],
)
def test_stack_frame(assembly: str, size: int) -> None:
    assert stack_frame_bytes("k__body:\n " + assembly) == size


@pytest.mark.parametrize("assembly", ["csrr a0, vlenb\n sub sp, sp, a0", "li a0, 8\n ld a0, 0(a1)\n sub sp, sp, a0"])
def test_stack_frame_of_unknown_size(assembly: str) -> None:
    with pytest.raises(ValueError, match="no constant size: sub sp, sp, a0"):
        stack_frame_bytes(assembly)
