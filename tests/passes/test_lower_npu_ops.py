"""lower-npu-ops: what varies in a transfer goes through registers, descriptors become constants, buffers symbols."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytorchsim.config.model import CoreConfig, NpuConfig
from tests.passes.conftest import DESCRIPTOR

NESTED = "module {{ module @{name} {{ {symbols}\n func.func @{name}({arguments}) {{ {body}\n return }} }} }}"


def control(body: str, symbols: str = "") -> str:
    arguments = "%bytes: memref<512xi8>, %a: index, %b: index"
    return NESTED.format(name="k", symbols=symbols, arguments=arguments, body=body)


def tile(body: str) -> str:
    return NESTED.format(name="k__body", symbols="", arguments="%v: vector<16xf32>, %h: vector<16xbf16>", body=body)


def numbers(output: str) -> list[list[str]]:
    """Operands of every intrinsic call, constants as numbers."""
    constants, calls = {}, []
    for line in output.splitlines():
        text = line.strip()
        if "arith.constant" in text:
            name, value = text.split(" = arith.constant ")
            constants[name] = value.split(" : ")[0]
        elif "llvm.call_intrinsic" in text:
            operands = text.split("(", 1)[1].split(")", 1)[0].split(", ")
            calls.append([constants.get(operand, operand) for operand in operands])
    return calls


def test_static_transfer(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    body = """%tag = arith.constant 5 : index
    "npu.transfer"(%bytes, %tag, %a, %b) {descriptor = @k.load, set_indices = array<i64: 0, 10>}
      : (memref<512xi8>, index, index, index) -> ()"""
    output = run_pass("lower-npu-ops", control(body, DESCRIPTOR))
    check(
        output,
        "arith.index_cast %arg1",
        "arith.index_cast %arg2",
        "memref.extract_aligned_pointer_as_index %arg0",
        "llvm.mlir.addressof @k.load",
        "llvm.ptrtoint",
    )
    # op, rs2, rd, rs1, sew, lmul, vl: set 0, set 10, set 8 (the address), start with tag 5.
    fields = [(call[0], call[2]) for call in numbers(output)]
    assert fields == [("2", "0"), ("2", "10"), ("2", "8"), ("0", "5")]
    assert all(call[1] == "0" and call[4:] == ["32", "0", "1"] for call in numbers(output))
    assert "npu." not in output


def test_dynamic_tag_and_zero_origin(run_pass: Callable[..., str]) -> None:
    body = """%zero = arith.constant 0 : index
    "npu.transfer"(%bytes, %a, %zero) {descriptor = @k.load, set_indices = array<i64: 1>}
      : (memref<512xi8>, index, index) -> ()"""
    output = run_pass("lower-npu-ops", control(body, DESCRIPTOR))
    # An origin that is always 0 needs no set; the tag goes through set 9 and start's own tag is 0.
    assert [(call[0], call[2]) for call in numbers(output)] == [("2", "8"), ("2", "9"), ("0", "0")]


def test_wait(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    output = run_pass("lower-npu-ops", control('"npu.wait"(%a) : (index) -> ()'))
    check(output, "arith.index_cast %arg1", 'llvm.call_intrinsic "llvm.riscv.sf.vc.x.se"')
    assert [(call[0], call[2]) for call in numbers(output)] == [("1", "0")]


def test_descriptor_is_an_aligned_constant_of_the_encoded_bytes(
    run_pass: Callable[..., str], check: Callable[..., None]
) -> None:
    from pytorchsim.target import dtypes
    from pytorchsim.target.descriptor import DESCRIPTOR_BYTES, Axis, Descriptor, TransferOp

    output = run_pass("lower-npu-ops", control("", DESCRIPTOR))
    kind = f"!llvm.struct<packed (array<{DESCRIPTOR_BYTES} x i8>)>"
    check(
        output, f"llvm.mlir.global internal constant @k.load() {{addr_space = 0 : i32, alignment = 8 : i64}} : {kind}"
    )
    expected = Descriptor(0, TransferOp.LOAD, dtypes.F32, (Axis(128, 1, 4, lane=True), Axis(4, 128, 1))).encode()
    text = output.split('llvm.mlir.constant("', 1)[1].split('") :', 1)[0]
    assert _unescaped(text) == expected


def test_addresses_in_buffers_are_relocations(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    tiles = (
        "index_tiles = [{spad_address = 24 : i64, wide = true, axes = array<i64: 0>, dram_stride = 1 : i64,"
        " extent = 4 : i64, wrap = false, buffer = @k.i}]"
    )
    text = DESCRIPTOR.replace("index_tiles = []", tiles).replace('local_buffer = ""', 'local_buffer = "k.l"')
    text = text.replace("offset = 0", "offset = 8").replace("flags = 0", "flags = 1")
    buffers = "".join(
        '"npu.buffer"() {alignment = 64 : i64, bytes = 64 : i64, copies = 1 : i64,'
        f' sym_name = "k.{name}"}} : () -> ()\n'
        for name in "il"
    )
    output = run_pass("lower-npu-ops", control("", buffers + text))
    check(
        output,
        "llvm.mlir.global external @k.i() {addr_space = 0 : i32, alignment = 64 : i64} : !llvm.array<64 x i8>",
        "llvm.mlir.global external @k.l()",
        "llvm.struct<packed (array<16 x i8>, i64, array<",
        "llvm.mlir.addressof @k.l",
        "[8]",
        "llvm.mlir.addressof @k.i",
        "[24]",
    )


def test_buffer_is_an_external_symbol(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    buffer = '"npu.buffer"() {alignment = 64 : i64, bytes = 512 : i64, copies = 2 : i64, sym_name = "k.x"} : () -> ()'
    body = '%x = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<512xi8>'
    output = run_pass("lower-npu-ops", control(body, buffer))
    check(
        output, "llvm.mlir.global external @k.x() {addr_space = 0 : i32, alignment = 64 : i64}", "!llvm.array<512 x i8>"
    )
    check(output, "llvm.mlir.addressof @k.x", "unrealized_conversion_cast", "to memref<512xi8>")


def test_exchange_and_lane_id(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    body = """%x = "npu.exchange"(%v) {step = 2 : i64} : (vector<16xf32>) -> vector<16xf32>
    %l = "npu.lane_id"() : () -> vector<8xi32>"""
    output = run_pass("lower-npu-ops", tile(body))
    check(output, '"llvm.riscv.sf.vc.v.iv"', '"llvm.riscv.sf.vc.v.i"', "(i64, i64, i64, i64) -> vector<8xi32>")
    exchange, lane = numbers(output)
    assert exchange == ["3", "%arg0", "3", "16"]
    assert lane == ["0", "0", "0", "8"]


@pytest.mark.parametrize(("vlen_bits", "group"), [(256, "4"), (128, "8"), (512, "2"), (2048, "1")])
def test_splat_gathers_in_a_register_group(
    run_pass: Callable[..., str], check: Callable[..., None], vlen_bits: int, group: str
) -> None:
    body = '%s = "npu.splat"(%v) {element = 3 : i64} : (vector<16xf32>) -> vector<16xf32>'
    config = NpuConfig(core=CoreConfig(vlen_bits=vlen_bits, datapath_bits=32))
    check(
        run_pass("lower-npu-ops", tile(body), config),
        "llvm.bitcast %arg0 : vector<16xf32> to vector<16xi32>",
        f"llvm.mlir.poison : vector<[{group}]xi32>",
        "llvm.intr.vector.insert",
        '"llvm.riscv.vrgather.vx"',
        "llvm.intr.vector.extract",
        "to vector<16xf32>",
    )


def test_splat_of_bf16_moves_integers(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    body = '%s = "npu.splat"(%h) {element = 3 : i64} : (vector<16xbf16>) -> vector<16xbf16>'
    check(run_pass("lower-npu-ops", tile(body)), "vector<16xi16>", "vector<[4]xi16>")


def test_splat_of_a_short_vector_fills_a_longer_one(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    body = """%p = vector.extract_strided_slice %v {offsets = [0], sizes = [2], strides = [1]}
        : vector<16xf32> to vector<2xf32>
    %s = "npu.splat"(%p) {element = 0 : i64} : (vector<2xf32>) -> vector<16xf32>"""
    check(run_pass("lower-npu-ops", tile(body)), "vector<2xi32> into vector<[4]xi32>", '"llvm.riscv.vrgather.vx"')


@pytest.mark.parametrize(("vlen_bits", "first"), [(256, "llvm.intr.vector.extract"), (1024, "llvm.intr.vector.insert")])
def test_largest_is_one_reduction(
    run_pass: Callable[..., str], check: Callable[..., None], vlen_bits: int, first: str
) -> None:
    """The other operand is one register: the first of the group, or the only one."""
    body = '%s = "npu.largest"(%v) : (vector<16xf32>) -> vector<2xf32>'
    config = NpuConfig(core=CoreConfig(vlen_bits=vlen_bits, datapath_bits=32))
    output = run_pass("lower-npu-ops", tile(body), config)
    check(output, "llvm.intr.vector.insert", first, '"llvm.riscv.vfredmax"', "vector<2xf32> from vector<[2]xf32>")


def test_keep_is_no_instruction(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    """Vectors of any type."""
    body = """"npu.keep"(%v, %v) : (vector<16xf32>, vector<16xf32>) -> ()
    "npu.keep"(%h) : (vector<16xbf16>) -> ()"""
    output = run_pass("lower-npu-ops", tile(body))
    check(output, *['"llvm.fake.use"(%arg0)'] * 2, '"llvm.fake.use"(%arg1)')


def test_arrays(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    body = """"npu.push_weights"(%v) {array = 1 : i64, first = true, dtype = "float32"} : (vector<16xf32>) -> ()
    "npu.push_weights"(%h) {array = 1 : i64, first = false, dtype = "bfloat16"} : (vector<16xbf16>) -> ()
    "npu.push_inputs"(%h) {arrays = 3 : i64, dtype = "bfloat16"} : (vector<16xbf16>) -> ()
    %r = "npu.pop"() {array = 1 : i64, dtype = "int32"} : () -> vector<8xi32>"""
    output = run_pass("lower-npu-ops", tile(body))
    check(output, *['"llvm.riscv.sf.vc.iv.se"'] * 3, '"llvm.riscv.sf.vc.v.i.se"', "-> vector<8xi32>")
    # op, rd, vector, element type, vl; the first push sets bit 4 of rd.
    assert numbers(output) == [
        ["0", "17", "%arg0", "0", "16"],
        ["0", "1", "%arg1", "2", "16"],
        ["1", "3", "%arg1", "2", "16"],
        ["1", "1", "7", "8"],
    ]


def _unescaped(text: str) -> bytes:
    """The bytes of an MLIR string literal: `\\XX` in hex, `\\"` and `\\\\`, all else itself."""
    data, position = bytearray(), 0
    while position < len(text):
        if text[position] != "\\":
            data.append(ord(text[position]))
            position += 1
        elif text[position + 1] in '\\"':
            data.append(ord(text[position + 1]))
            position += 2
        else:
            data.append(int(text[position + 1 : position + 3], 16))
            position += 3
    return bytes(data)
