"""verify-kernel refuses, with these words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytorchsim.errors import IRVerificationError

VECTOR = "%i = arith.constant 0 : index\n %v = vector.load %x[%i] : memref<64xf32>, vector<16xf32>\n"

TILE = {
    "transfer": (
        (
            '%t = arith.constant 0 : index "npu.transfer"(%x, %t) {descriptor = @k.load, set_indices = array<i64>}'
            " : (memref<64xf32>, index) -> ()"
        ),
        "'npu.transfer' in @k__body at .*: a tile function has no DMA",
    ),
    "wait": (
        '%t = arith.constant 0 : index "npu.wait"(%t) : (index) -> ()',
        "'npu.wait' in @k__body at .*: a wait and an access of a tile never share a function",
    ),
    "scalar load": (
        "%i = arith.constant 0 : index %s = memref.load %x[%i] : memref<64xf32>",
        "'memref.load' in @k__body at .*: a scalar load would see one lane only",
    ),
    "scalar store": (
        "%i = arith.constant 0 : index %s = arith.constant 0.0 : f32 memref.store %s, %x[%i] : memref<64xf32>",
        "'memref.store' .*: a scalar store has no lane",
    ),
    "reduction": (
        VECTOR + "%s = vector.reduction <add>, %v : vector<16xf32> into f32",
        "fold with shuffles in the lane",
    ),
    "extract": (VECTOR + "%s = vector.extract %v[3] : f32 from vector<16xf32>", "it gives a scalar; use npu.splat"),
    "splat by shuffle": (
        VECTOR + "%s = vector.shuffle %v, %v [3, 3, 3, 3] : vector<16xf32>, vector<16xf32>",
        "use npu.splat: a shuffle that repeats one element becomes a scalar load",
    ),
    "splat by a shuffle of one vector": (
        VECTOR + "%s = vector.shuffle %v, %v [3, 19, 3, 19] : vector<16xf32>, vector<16xf32>",
        "use npu.splat",
    ),
    "splat into a shorter vector": (
        VECTOR + '%s = "npu.splat"(%v) {element = 0 : i64} : (vector<16xf32>) -> vector<8xf32>',
        "vector<8xf32> is not vector<16xf32>, nor a longer vector of its elements",
    ),
    "largest of integers": (
        '%v = arith.constant dense<1> : vector<16xi32> %s = "npu.largest"(%v) : (vector<16xi32>) -> vector<2xi32>',
        "takes a vector of f32 and gives vector<2xf32>, not vector<16xi32> and vector<2xi32>",
    ),
    "load past the end": (
        "%i = arith.constant 49 : index %v = vector.load %x[%i] : memref<64xf32>, vector<16xf32>",
        r"'vector.load' in @k__body at .*: elements 49\.\.64 of memref<64xf32>",
    ),
    "store past the end in a loop": (
        """%v = arith.constant dense<0.0> : vector<16xf32>
        %a = arith.constant 0 : index
        %b = arith.constant 64 : index
        %c = arith.constant 16 : index
        scf.for %i = %a to %b step %c {
          %j = arith.addi %i, %c : index
          vector.store %v, %x[%j] : memref<64xf32>, vector<16xf32>
        }""",
        r"'vector.store' .*: elements 16\.\.79 of memref<64xf32>",
    ),
    "load before the start": (
        "%i = arith.constant -1 : index %v = vector.load %x[%i] : memref<64xf32>, vector<16xf32>",
        r"elements -1\.\.14 of memref<64xf32>",
    ),
    "one element": (
        "%v = arith.constant dense<1.0> : vector<1xf32>",
        "vector<1xf32>: a vector's length is a power of two from 2",
    ),
    "six elements": (
        "%v = arith.constant dense<1.0> : vector<6xf32>",
        "vector<6xf32>: a vector's length is a power of two",
    ),
    "LMUL 16": (
        "%v = arith.constant dense<1.0> : vector<128xf32>",
        "vector<128xf32>: longer than a group of 8 registers, at most 64 elements",
    ),
    "two dimensions": (
        "%v = arith.constant dense<1.0> : vector<2x4xf32>",
        "vectors have one dimension and a fixed length",
    ),
    "scalable": ("%v = arith.constant dense<1.0> : vector<[4]xf32>", "vectors have one dimension and a fixed length"),
    "remf": (VECTOR + "%s = arith.remf %v, %v : vector<16xf32>", "it becomes a call of fmod"),
    "exchange over all lanes": (
        VECTOR + '%s = "npu.exchange"(%v) {step = 7 : i64} : (vector<16xf32>) -> vector<16xf32>',
        "step 7: 2\\^step is below the number of lanes, 128",
    ),
    "splat outside": (
        VECTOR + '%s = "npu.splat"(%v) {element = 16 : i64} : (vector<16xf32>) -> vector<16xf32>',
        "element 16 is not in 0..15",
    ),
    "lane id in floats": ('%s = "npu.lane_id"() : () -> vector<8xf32>', "elements are integers that hold 128 lanes"),
    "unknown array": (
        '%s = "npu.pop"() {array = 2 : i64, dtype = "float32"} : () -> vector<8xf32>',
        "array 2 is not in 0..1",
    ),
    "pop of another type": (
        '%s = "npu.pop"() {array = 0 : i64, dtype = "int32"} : () -> vector<8xf32>',
        "int32 has elements i32, not f32",
    ),
    "no array": (
        VECTOR + '"npu.push_inputs"(%v) {arrays = 0 : i64, dtype = "float32"} : (vector<16xf32>) -> ()',
        "arrays 0x0 is a mask of 2 arrays",
    ),
    "unknown dtype": (
        VECTOR + '"npu.push_inputs"(%v) {arrays = 1 : i64, dtype = "float31"} : (vector<16xf32>) -> ()',
        "no machine dtype 'float31'",
    ),
    "allocation": ("%a = memref.alloca() : memref<64xf32>", "'memref.alloca' .*: not allowed in a tile function"),
}

CONTROL = {
    "vector": ("%v = arith.constant dense<1.0> : vector<8xf32>", "a control function has no vectors"),
    "scalar load": (
        '%b = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<512xi8> %s = memref.load %b[%core] : memref<512xi8>',
        "'memref.load' in @k at .*: not allowed in a control function",
    ),
    "unknown buffer": (
        '%b = "npu.buffer_ref"() {buffer = @k.y} : () -> memref<512xi8>',
        "there is no npu.buffer 'k.y'",
    ),
    "wrong size": (
        '%b = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<256xi8>',
        "the bytes of 'k.x' are memref<512xi8>, not memref<256xi8>",
    ),
    "unaligned view": (
        (
            '%b = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<512xi8> %s = arith.constant 32 : index'
            " %x = memref.view %b[%s][] : memref<512xi8> to memref<64xf32>"
        ),
        "'memref.view' .*: byte shift 32 is no multiple of 64",
    ),
    "view past the end": (
        (
            '%b = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<512xi8> %s = arith.constant 320 : index'
            " %x = memref.view %b[%s][] : memref<512xi8> to memref<64xf32>"
        ),
        "bytes 320..575 are not in the buffer of 512",
    ),
    "dynamic view": (
        (
            '%b = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<512xi8> %s = arith.constant 0 : index'
            " %x = memref.view %b[%s][%core] : memref<512xi8> to memref<?xf32>"
        ),
        "a view of a buffer has a static shape",
    ),
    "tag": ('%t = arith.constant 32 : index "npu.wait"(%t) : (index) -> ()', "tag 32 is not in 0..31"),
    "unknown function": ("func.call @other() : () -> ()", "'other' is not a tile function of this kernel"),
}

TRANSFER = {
    "unknown descriptor": ("@k.no", "array<i64>", "there is no npu.descriptor 'k.no'"),
    "axis": ("@k.load", "array<i64: 2>", r"set_indices \[2\]: the descriptor has axes 0..1 and 0 index tiles"),
    "index tile": ("@k.load", "array<i64: 10>", r"set_indices \[10\]"),
    "twice": ("@k.load", "array<i64: 1, 1>", r"set_indices \[1, 1\] sets a value twice"),
    "count": ("@k.load", "array<i64: 0, 1, 8>", "names 3 values, there are"),
    "i32": ("@k.load", "array<i32: 0>", "set_indices is array<i64: ...>"),
}


def refused(run_pass: Callable[..., str], text: str, words: str) -> None:
    with pytest.raises(IRVerificationError, match=words) as caught:
        run_pass("verify-kernel", text)
    assert caught.value.kernel == "k"
    assert caught.value.stage == "verify-kernel"


@pytest.mark.parametrize("case", TILE)
def test_tile_function(run_pass: Callable[..., str], kernel_text: Callable[..., str], case: str) -> None:
    body, words = TILE[case]
    refused(run_pass, kernel_text(tile=body), words)


@pytest.mark.parametrize("case", CONTROL)
def test_control_function(run_pass: Callable[..., str], kernel_text: Callable[..., str], case: str) -> None:
    body, words = CONTROL[case]
    extra = "func.func private @other()" if "@other" in body else ""
    refused(run_pass, kernel_text(control=body, extra=extra), words)


@pytest.mark.parametrize("case", TRANSFER)
def test_transfer(run_pass: Callable[..., str], kernel_text: Callable[..., str], case: str) -> None:
    descriptor, indices, words = TRANSFER[case]
    count = 2 if case == "twice" else int(case != "unknown descriptor")
    operands, types = ", %core" * count, ", index" * count
    control = f"""
    %bytes = "npu.buffer_ref"() {{buffer = @k.x}} : () -> memref<512xi8>
    "npu.transfer"(%bytes, %core{operands}) {{descriptor = {descriptor}, set_indices = {indices}}}
      : (memref<512xi8>, index{types}) -> ()"""
    refused(run_pass, kernel_text(control=control), words)


def test_aliased_pointers(run_pass: Callable[..., str], kernel_text: Callable[..., str]) -> None:
    control = """
    %z = arith.constant 0 : index
    %bytes = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<512xi8>
    %x = memref.view %bytes[%z][] : memref<512xi8> to memref<64xf32>
    func.call @k__body(%x, %x) : (memref<64xf32>, memref<64xf32>) -> ()"""
    arguments = "%x: memref<64xf32>, %y: memref<64xf32>"
    refused(run_pass, kernel_text(control=control, tile_arguments=arguments), "the same memory is passed twice")


@pytest.mark.parametrize(
    ("left", "right"),
    [("%z", "%z"), ("%z", "%half"), ("%core", "%core")],  # same constant, overlapping constants, same unknown shift
)
def test_aliased_views(run_pass: Callable[..., str], kernel_text: Callable[..., str], left: str, right: str) -> None:
    control = f"""
    %z = arith.constant 0 : index
    %half = arith.constant 128 : index
    %a = "npu.buffer_ref"() {{buffer = @k.x}} : () -> memref<512xi8>
    %b = "npu.buffer_ref"() {{buffer = @k.x}} : () -> memref<512xi8>
    %x = memref.view %a[{left}][] : memref<512xi8> to memref<64xf32>
    %y = memref.view %b[{right}][] : memref<512xi8> to memref<64xf32>
    func.call @k__body(%x, %y) : (memref<64xf32>, memref<64xf32>) -> ()"""
    arguments = "%x: memref<64xf32>, %y: memref<64xf32>"
    refused(run_pass, kernel_text(control=control, tile_arguments=arguments), "the same memory is passed twice")


REACH = [
    # The view has 256 bytes: 4 elements of 4 bytes in each of 1 slot (128 of 128 lanes).
    (
        "size = 4 : i64, spad_stride = 1",
        "size = 65 : i64, spad_stride = 1",
        r"'k\.load' touches bytes 0\.\.259 of memory",
    ),
    ("size = 4 : i64, spad_stride = 1", "size = 4 : i64, spad_stride = 32", r"bytes 0\.\.387 of memory of 256"),
    ("size = 4 : i64, spad_stride = 1", "size = 4 : i64, spad_stride = -1", r"bytes -12\.\.3 of memory"),
    # 2049 of 128 lanes: 17 slots of 4 elements.
    ("size = 128 : i64, spad_stride = 4", "size = 2049 : i64, spad_stride = 4", r"bytes 0\.\.271 of memory of 256"),
    (
        "index_tiles = []",
        (
            "index_tiles = [{spad_address = 500 : i64, wide = false, axes = array<i64: 1>, dram_stride = 1 : i64,"
            " extent = 4 : i64, wrap = false, buffer = @k.x}]"
        ),
        r"index tile 0 of 'k\.load' ends at byte 516 of 'k\.x', which has 512",
    ),
]


@pytest.mark.parametrize(("replaced", "by", "words"), REACH)
def test_reach_of_a_transfer(
    run_pass: Callable[..., str], kernel_text: Callable[..., str], replaced: str, by: str, words: str
) -> None:
    text = kernel_text()
    assert replaced in text
    refused(run_pass, text.replace(replaced, by, 1), words)


@pytest.mark.parametrize(
    ("replaced", "by", "words"),
    [
        (
            "bytes = 512",
            "bytes = 500",
            r"bytes \(500\) is copies \(2\) times a positive multiple of the alignment \(64\)",
        ),
        ("alignment = 64", "alignment = 48", "alignment is a power of two from 64, not 48"),
        ("alignment = 64", "alignment = 32", "alignment is a power of two from 64, not 32"),
        ("copies = 2", "copies = 0", "copies"),
    ],
)
def test_buffer(
    run_pass: Callable[..., str], kernel_text: Callable[..., str], replaced: str, by: str, words: str
) -> None:
    refused(run_pass, kernel_text().replace(replaced, by), words)


@pytest.mark.parametrize(
    ("replaced", "by", "words"),
    [
        ("slot = 0", "slot = 65536", "slot 65536 is not in 0..65535"),
        ("slot = 0", "slot = -1", "slot -1 is not in"),
        ('dtype = "float32"', 'dtype = "float31"', "no machine dtype 'float31'; known: float32"),
        ("lane_stride = 1", "lane_stride = 0", "lane_stride is at least 1"),
        (
            "axes = [{dram_stride = 1 : i64, lane",
            "axes = [{stride = 1 : i64, lane",
            "an entry of axes lacks dram_stride",
        ),
        ("axes = [{dram_stride", "axes = [{other = 1 : i64, dram_stride", "an entry of axes has unknown fields other"),
        ("lane = true", "lane = 1 : i64", "field 'lane' of an axis is a boolean"),
        ("index_tiles = []", "index_tiles = [1 : i64]", "index_tiles holds dictionaries"),
        ('local_buffer = ""', 'local_buffer = "k.z"', "there is no npu.buffer 'k.z'"),
        ("size = 4", "size = 4294967296", "k.load"),
        (
            "index_tiles = []",
            (
                "index_tiles = [{spad_address = 0 : i64, wide = true, axes = array<i64: 5>, dram_stride = 1 : i64,"
                " extent = 4 : i64, wrap = false}]"
            ),
            r"index tile 0 runs over axes \[5\], the transfer has 2",
        ),
        (
            "index_tiles = []",
            (
                "index_tiles = [{spad_address = 0 : i64, wide = true, axes = array<i64: 0>, dram_stride = 1 : i64,"
                " extent = 4 : i64, wrap = false, buffer = @k.q}]"
            ),
            "there is no npu.buffer 'k.q'",
        ),
    ],
)
def test_descriptor(
    run_pass: Callable[..., str], kernel_text: Callable[..., str], replaced: str, by: str, words: str
) -> None:
    text = kernel_text()
    assert replaced in text
    refused(run_pass, text.replace(replaced, by, 1), words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tile_name": "other", "control": ""}, "a tile function's name starts with 'k__'"),
        ({"control_name": "m"}, "the control function has the kernel's name 'k'"),
        ({"tile_attributes": "", "control": ""}, "a function is marked npu.control or npu.tile"),
        ({"tile_arguments": "%x: memref<8x8xf32>", "tile": "", "control": ""}, "a tile argument is memref<N x T>"),
        ({"tile_arguments": "%x: memref<64xi1>", "tile": "", "control": ""}, "bools lie in memory as i8"),
        ({"tile_arguments": "%x: vector<8xf32>", "tile": "", "control": ""}, "memory and scalar arguments, not vector"),
        (
            {"tile_arguments": "%s: f32, %x: memref<64xf32>", "tile": "", "control": ""},
            "memory arguments come before scalar ones",
        ),
        (
            {"extra": "memref.global @g : memref<4xf32>"},
            "a kernel module holds npu.buffer, npu.descriptor and func.func",
        ),
    ],
)
def test_structure(
    run_pass: Callable[..., str], kernel_text: Callable[..., str], changes: dict[str, str], words: str
) -> None:
    refused(run_pass, kernel_text(**changes), words)


def test_two_control_functions(run_pass: Callable[..., str], kernel_text: Callable[..., str]) -> None:
    text = kernel_text(extra="func.func @m(%a: index, %b: index) attributes {npu.control} { return }")
    refused(run_pass, text, "a kernel has one control function, not 2")


def test_no_kernel_name(run_pass: Callable[..., str], kernel_text: Callable[..., str]) -> None:
    with pytest.raises(IRVerificationError, match=r"a kernel module has the attribute npu\.kernel"):
        run_pass("verify-kernel", kernel_text(module_attributes=""))


def test_every_problem_is_listed(run_pass: Callable[..., str], kernel_text: Callable[..., str]) -> None:
    body = "".join(f"%v{n} = arith.constant dense<1.0> : vector<1xf32>\n" for n in range(13))
    with pytest.raises(IRVerificationError) as caught:
        run_pass("verify-kernel", kernel_text(tile=body))
    assert str(caught.value).count("power of two from 2") == 10
    assert "and 3 more" in str(caught.value)
