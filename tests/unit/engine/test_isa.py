"""The table of custom instructions: no overlaps, LLVM's encodings, and what each does against its reference body."""

from __future__ import annotations

import itertools
from functools import lru_cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from pytorchsim.simulator.functional import Machine
from pytorchsim.simulator.native import _native
from pytorchsim.target import dtypes, isa
from pytorchsim.target.dtypes import Dtype
from tests.unit.engine.assembler import A0, Assembler, spad
from tests.unit.engine.harness import LANES, lanes_view, run, small_machine


def test_no_two_encodings_overlap() -> None:
    words = [(i.name, mask, match) for i in isa.CUSTOM for mask, match in i.words()]
    for (name, mask, match), (other, other_mask, other_match) in itertools.combinations(words, 2):
        assert (match ^ other_match) & mask & other_mask, (name, other)
    for name, match, mask in _native.vector_instructions():
        assert match & mask & 0x7F != isa.OPCODE, name


def test_encode_refuses_fields_that_are_another_instruction() -> None:
    assert isa.encode("sfu.exp", rd=8, rs2=9) != isa.encode("xlu.exchange", rd=8, rs2=9, rs1=1)
    with pytest.raises(ValueError, match=r"xlu.exchange cannot have rd=8, rs1=0"):
        isa.encode("xlu.exchange", rd=8, rs2=9, rs1=0)
    with pytest.raises(KeyError, match=r"known: dma.start"):
        isa.encode("nothing")


# name -> (a call of the intrinsic in LLVM IR, then rd, rs1, rs2; LLVM has the first argument and the result in v8)
INTRINSICS = {
    "dma.start": ("call void @llvm.riscv.sf.vc.x.se(i64 0, i64 0, i64 5, i64 %x, i64 32, i64 0, i64 1)", 5, 10, 0),
    "dma.wait": ("call void @llvm.riscv.sf.vc.x.se(i64 1, i64 0, i64 0, i64 %x, i64 32, i64 0, i64 1)", 0, 10, 0),
    "dma.set": ("call void @llvm.riscv.sf.vc.x.se(i64 2, i64 0, i64 9, i64 %x, i64 32, i64 0, i64 1)", 9, 10, 0),
    "sfu.erf": ("V_IV 0 0", 8, 0, 8),
    "sfu.tanh": ("V_IV 1 0", 8, 0, 8),
    "sfu.sin": ("V_IV 2 0", 8, 0, 8),
    "sfu.cos": ("V_IV 2 1", 8, 0, 8),
    "sfu.log": ("V_IV 2 2", 8, 0, 8),
    "sfu.atan": ("V_IV 2 3", 8, 0, 8),
    "sfu.exp": ("V_IV 3 0", 8, 0, 8),
    "xlu.exchange": ("V_IV 3 3", 8, 3, 8),
    "array.push_weights": ("call void @llvm.riscv.sf.vc.iv.se(i64 0, i64 17, <8 x float> %v, i64 2, i64 8)", 17, 2, 8),
    "array.push_inputs": ("call void @llvm.riscv.sf.vc.iv.se(i64 1, i64 3, <8 x float> %v, i64 2, i64 8)", 3, 2, 8),
    "lane.id": ("%r = call <8 x float> @llvm.riscv.sf.vc.v.i(i64 0, i64 0, i64 0, i64 8)", 8, 0, 0),
    "array.pop": ("%r = call <8 x float> @llvm.riscv.sf.vc.v.i.se(i64 1, i64 1, i64 7, i64 8)", 8, 7, 1),
}
DECLARATIONS = """
declare void @llvm.riscv.sf.vc.x.se(i64, i64, i64, i64, i64, i64, i64)
declare void @llvm.riscv.sf.vc.iv.se(i64, i64, <8 x float>, i64, i64)
declare <8 x float> @llvm.riscv.sf.vc.v.iv(i64, <8 x float>, i64, i64)
declare <8 x float> @llvm.riscv.sf.vc.v.i(i64, i64, i64, i64)
declare <8 x float> @llvm.riscv.sf.vc.v.i.se(i64, i64, i64, i64)
"""


@lru_cache
def target_machine() -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = "+m,+a,+f,+d,+v,+zvl256b,+zvfh,+xsfvcp,-c,-relax"
    target = llvm.Target.from_triple("riscv64-unknown-elf")
    return target.create_target_machine(
        cpu="generic-rv64", features=features, opt=2, reloc="static", codemodel="medium"
    )


@pytest.mark.parametrize("name", [instruction.name for instruction in isa.CUSTOM])
def test_llvm_emits_the_words_of_the_table(name: str) -> None:
    call, rd, rs1, rs2 = INTRINSICS[name]
    if call.startswith("V_IV"):
        _, op, imm = call.split()
        call = f"%r = call <8 x float> @llvm.riscv.sf.vc.v.iv(i64 {op}, <8 x float> %v, i64 {imm}, i64 8)"
    result = "<8 x float> %r" if call.startswith("%r") else "<8 x float> %v"
    text = f"define <8 x float> @f(<8 x float> %v, i64 %x) {{\n{call}\nret {result}\n}}\n{DECLARATIONS}"
    code = target_machine().emit_object(llvm.parse_assembly(f'target triple = "riscv64-unknown-elf"\n{text}'))
    assert isa.encode(name, rd=rd, rs1=rs1, rs2=rs2).to_bytes(4, "little") in code


@pytest.fixture(scope="module")
def machine() -> Machine:
    return small_machine()


def vectors(dtype: np.dtype, count: int, seed: int = 0) -> np.ndarray:
    """[lanes, count] numbers of ordinary size."""
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (LANES, count), dtype=dtype, endpoint=True)
    return rng.standard_normal((LANES, count)).astype(dtype)


def load_register(a: Assembler, register: int, values: np.ndarray, offset: int) -> None:
    """Lane l's row of `values` into its vector register: every lane stores all rows, then loads its own by index."""
    size = values.dtype.itemsize
    a.vset(values.shape[1], 8 * size, max(1, values.shape[1] * size // 32))
    for lane in range(LANES):
        address = a.constant(values[lane].tobytes())
        a.li(A0, address)
        a.vle(8 * size, 24, A0)
        a.li(A0, spad(offset + lane * values.shape[1] * size))
        a.vse(8 * size, 24, A0)
    a.vset(8, 32)
    a.custom("lane.id", rd=24)
    row_bytes = values.shape[1] * size
    a.li(A0, row_bytes)
    a.vector(0x25, 6, 24, A0, 24)  # vmul.vx
    a.vid(25)
    a.li(A0, 4)
    a.vector(0x25, 6, 25, A0, 25)
    a.vadd_vv(24, 24, 25)
    a.li(A0, spad(offset))
    words = row_bytes // 4
    a.vset(words, 32)
    a.memory(store=False, width=32, register=register, base=A0, other=24, mop=1)


SPECIAL_VALUES = np.array(
    [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-40,
        -1e-40,
        1.0,
        -1.0,
        88.7,
        -103.9,
        89,
        -104,
        3.4e38,
        -3.4e38,
        1e10,
        0.5,
        -7.9,
    ],
    np.float32,
)


@pytest.mark.parametrize("function", list(isa.SfuFunction))
def test_special_functions(machine: Machine, function: isa.SfuFunction) -> None:
    """On the machine, through the register file, tail undisturbed."""
    values = vectors(np.dtype(np.float32), 8, int(function)) * 3
    values[: len(SPECIAL_VALUES) // 6, :6] = SPECIAL_VALUES.reshape(-1, 6)[: len(SPECIAL_VALUES) // 6]

    def body(a: Assembler) -> None:
        load_register(a, 8, values, 0)
        a.vset(8, 32)
        a.vmv_v_i(9, 7)
        a.vset(5, 32)
        a.custom(f"sfu.{function.name.lower()}", rd=9, rs2=8)
        a.vset(8, 32)
        a.li(A0, spad(2048))
        a.vse(32, 9, A0)

    run(machine, body)
    got = lanes_view(machine, 2048, 8, np.uint32)
    expected = isa.special_function(function, values[:, :5])
    assert (got[:, 5:] == 7).all()
    ulp = np.abs(got[:, :5].astype(np.int64) - expected.view(np.uint32).astype(np.int64))
    assert ulp.max() <= 1  # the reference's float64 functions may be another library's
    assert (ulp == 0).mean() > 0.99
    nan = np.isnan(expected)
    assert (got[:, :5][nan] == 0x7FC00000).all()


@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("in_place", [False, True])
def test_exchange(machine: Machine, step: int, *, in_place: bool) -> None:
    values = vectors(np.dtype(np.float32), 8)

    def body(a: Assembler) -> None:
        load_register(a, 8, values, 0)
        a.vset(8, 32)
        a.custom("xlu.exchange", rd=8 if in_place else 9, rs2=8, rs1=1 + step)
        a.li(A0, spad(2048))
        a.vse(32, 8 if in_place else 9, A0)

    run(machine, body)
    assert (lanes_view(machine, 2048, 8, np.float32) == isa.exchange_lanes(values, step)).all()


def test_exchange_past_the_lanes(machine: Machine) -> None:
    with pytest.raises(Exception, match="over a distance of 8 lanes, the core has 8"):
        run(machine, lambda a: (a.vset(8, 32), a.custom("xlu.exchange", rd=8, rs2=8, rs1=4)))  # type: ignore[arg-type]


@pytest.mark.parametrize("sew", [8, 16, 32, 64])
def test_lane_id(machine: Machine, sew: int) -> None:
    def body(a: Assembler) -> None:
        a.vset(32 * 8 // sew * 2, sew, 2)
        a.custom("lane.id", rd=8)
        a.li(A0, spad(0))
        a.vse(sew, 8, A0)

    run(machine, body)
    assert (lanes_view(machine, 0, 512 // sew, f"u{sew // 8}") == np.arange(LANES)[:, None]).all()


def bits_of(values: np.ndarray, dtype: Dtype) -> tuple[np.ndarray, np.ndarray]:
    """Numbers rounded to a dtype: as that dtype's bits and widened to float32 (or int32)."""
    import torch

    torch_dtype = getattr(torch, dtype.name)
    rounded = torch.from_numpy(values).to(torch_dtype)
    wide = rounded.to(torch.float32 if rounded.dtype.is_floating_point else torch.int32).numpy()
    return rounded.view(getattr(torch, f"int{dtype.bits}")).numpy(), wide


OPERANDS = (dtypes.F32, dtypes.F16, dtypes.BF16, dtypes.F8E4M3FN, dtypes.F8E5M2, dtypes.I8, dtypes.U8)


@pytest.mark.parametrize("dtype", OPERANDS, ids=lambda dtype: dtype.name)
def test_array_product(machine: Machine, dtype: Dtype) -> None:
    """5 weight rows (the rest is zero) in two pushes, 8 input rows to two arrays; results as float32 or int32."""
    integer = dtype.name in ("int8", "uint8")
    numpy_dtype = np.dtype(dtype.name) if integer else np.dtype(np.float32)
    weight_bits, weights = bits_of(vectors(numpy_dtype, 8, 1), dtype)  # [lane j, k]
    input_bits, inputs = bits_of(vectors(numpy_dtype, 8, 2), dtype)  # [lane k, i]

    def body(a: Assembler) -> None:
        load_register(a, 8, weight_bits, 0)
        load_register(a, 9, input_bits, 1024)
        a.vset(3, dtype.bits)
        a.custom("array.push_weights", rd=16, rs1=dtype.code, rs2=8)
        a.custom("array.push_weights", rd=17, rs1=dtype.code, rs2=8)
        a.vset(2, dtype.bits)
        a.custom("array.push_weights", rd=0, rs1=dtype.code, rs2=8)
        a.custom("array.push_weights", rd=1, rs1=dtype.code, rs2=8)
        a.vset(8, dtype.bits)
        a.custom("array.push_inputs", rd=3, rs1=dtype.code, rs2=9)
        for array in range(2):
            a.vset(8, 32)
            a.custom("array.pop", rd=10, rs1=dtypes.I32.code if integer else dtypes.F32.code, rs2=array)
            a.li(A0, spad(2048 + 32 * array))
            a.vse(32, 10, A0)

    run(machine, body)
    matrix = np.zeros((LANES, LANES), weights.dtype)
    matrix[:3], matrix[3:5] = weights[:, :3].T, weights[:, :2].T
    expected = isa.array_product(inputs, matrix)
    for array in range(2):
        assert (lanes_view(machine, 2048 + 32 * array, 8, expected.dtype) == expected).all()


@pytest.mark.parametrize("result", [dtypes.F16, dtypes.BF16, dtypes.F8E4M3FN, dtypes.F8E5M2], ids=lambda d: d.name)
def test_array_results_are_rounded_once(machine: Machine, result: Dtype) -> None:
    weights, inputs = vectors(np.dtype(np.float32), 8, 3) * 30, vectors(np.dtype(np.float32), 8, 4) * 30

    def body(a: Assembler) -> None:
        load_register(a, 8, weights, 0)
        load_register(a, 9, inputs, 1024)
        a.vset(8, 32)
        a.custom("array.push_weights", rd=16, rs2=8)
        a.custom("array.push_inputs", rd=1, rs2=9)
        a.vset(8, result.bits)
        a.custom("array.pop", rd=10, rs1=result.code)
        a.li(A0, spad(2048))
        a.vse(result.bits, 10, A0)

    run(machine, body)
    exact = isa.array_product(inputs, weights.T)
    expected, _ = bits_of(exact, result)
    assert (lanes_view(machine, 2048, 8, expected.dtype) == expected).all()


def test_input_lanes_without_weights_must_be_finite(machine: Machine) -> None:
    """Rows never pushed are zero weights, and zero times NaN is NaN: a tail that is not filled shows."""
    inputs = np.ones((LANES, 8), np.float32)
    inputs[5, 2] = np.nan

    def body(a: Assembler) -> None:
        load_register(a, 9, inputs, 1024)
        a.vset(4, 32)
        a.custom("array.push_weights", rd=16, rs2=9)
        a.vset(8, 32)
        a.custom("array.push_inputs", rd=1, rs2=9)
        a.custom("array.pop", rd=10)
        a.li(A0, spad(2048))
        a.vse(32, 10, A0)

    run(machine, body)
    got = lanes_view(machine, 2048, 8, np.float32)
    assert np.isnan(got[:, 2]).all()
    finite = [lane for lane in range(LANES) if lane != 5]
    assert (got[finite][:, [0, 1, 3]] == 4).all()


def test_the_page_is_that_of_the_table() -> None:
    from pathlib import Path

    from pytorchsim.target.emit_page import page

    docs = Path(__file__).parents[3] / "docs" / "isa.md"
    assert docs.read_text() == page(), "run: python -m pytorchsim.target.emit_page docs/isa.md"
