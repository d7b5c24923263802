"""From a module's text to a program: what a compiled kernel says, errors, budget, caching, threads, encodings."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as mlir_math

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.errors import CompileError, ConfigError, IRVerificationError, SpadOverflowError
from pytorchsim.mlir import builders, compiler, vcix
from pytorchsim.mlir.build import build_kernel
from pytorchsim.mlir.compiler import (
    BufferLayout,
    CompiledKernel,
    check_budget,
    compile_kernel,
    link_program,
    place_buffers,
)
from pytorchsim.mlir.workers import WorkerError
from pytorchsim.target import dtypes
from pytorchsim.target.memory_map import SCRATCHPAD_BASE, TEXT_BASE
from tests.unit.mlir.kernels import add_kernel, custom_words, name_of, tile_kernel, unary

CONFIG = NpuConfig()


def test_what_a_compiled_kernel_says() -> None:
    kernel = compile_kernel("add", add_kernel(), CONFIG)
    assert list(kernel.objects) == ["add", "add__body"]
    assert kernel.tile_functions == ("add__body",)
    assert kernel.buffers == (BufferLayout("add.b0", 512, 2, 64), BufferLayout("add.b1", 512, 2, 64))
    assert kernel.buffer_bytes == 1024
    assert kernel.slots == 2
    assert kernel.origins == ("test",)
    assert kernel.tile_shape == {"i": 64}
    assert kernel.frame_bytes["add__body"] == 0
    assert kernel.stack_bytes == kernel.frame_bytes["add"] > 0
    assert set(kernel.tile_digests) == {"add__body"}


def test_kernels_of_a_program_share_the_scratchpad() -> None:
    kernels = [compile_kernel(name, add_kernel(name), CONFIG) for name in ("add", "more")]
    program = link_program(kernels, CONFIG)
    assert program.kernels == ("add", "more")
    assert program.tile_functions == ("add__body", "more__body")
    assert program.symbols["add"][0] == TEXT_BASE
    # Kernels run one after another: each has the scratchpad from its start.
    assert program.symbols["add.b0"] == program.symbols["more.b0"] == (SCRATCHPAD_BASE, 512)
    assert program.symbols["more.b1"] == (SCRATCHPAD_BASE + 512, 512)
    assert program.spad_bytes == {"add": 1024, "more": 1024}
    assert program.tile_digests["add__body"] == program.tile_digests["more__body"]


def test_custom_instructions_are_those_of_the_table() -> None:
    words = custom_words(compile_kernel("add", add_kernel(), CONFIG).objects["add"])
    names = [name_of(word) for word in words]
    load = ["dma.set", "dma.set", "dma.set", "dma.start", "dma.wait"]  # origin, address, dynamic tag
    store = ["dma.set", "dma.set", "dma.start", "dma.wait"]
    assert names == load + store
    rd = [word >> 7 & 31 for word in words]
    assert rd == [1, 8, 9, 0, 0, 1, 8, 8, 0]


@pytest.mark.parametrize("function", sorted(vcix.SPECIAL_FUNCTIONS))
def test_special_functions_are_encoded_as_the_table_says(function: str) -> None:
    build = getattr(mlir_math, function.removeprefix("math."))
    kernel = compile_kernel("k", tile_kernel("k", unary(build)), CONFIG)
    assert [name_of(word) for word in custom_words(kernel.objects["k__body"])] == [
        vcix.SPECIAL_FUNCTIONS[function].name
    ]


def test_other_instructions_are_encoded_as_the_table_says() -> None:
    def build(value: ir.Value) -> ir.Value:
        builders.push_weights(value, array=1, dtype=dtypes.F32, first=True)
        builders.push_inputs(value, arrays=[0, 1], dtype=dtypes.F32)
        popped = builders.pop(16, array=1, dtype=dtypes.F32)
        lane = arith.sitofp(value.type, builders.lane_id(16))
        return builders.exchange(builders.splat(arith.addf(popped, lane), 3), 6)

    words = custom_words(compile_kernel("k", tile_kernel("k", unary(build)), CONFIG).objects["k__body"])
    fields = {name_of(word): word for word in words}
    assert set(fields) == {"array.push_weights", "array.push_inputs", "array.pop", "lane.id", "xlu.exchange"}
    assert fields["array.push_weights"] >> 7 & 31 == 17
    assert fields["array.push_inputs"] >> 7 & 31 == 3
    assert fields["array.pop"] >> 20 & 31 == 1
    assert fields["xlu.exchange"] >> 15 & 31 == 7
    order = [name_of(word) for word in words if name_of(word).startswith("array.")]
    assert order == ["array.push_weights", "array.push_inputs", "array.pop"]


def test_dump_is_numbered_through_to_the_object(tmp_path: Path) -> None:
    compile_kernel("add", add_kernel(), CONFIG, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    first = len(compiler.PASSES)
    assert names[0] == "00-input.mlir"
    assert names[first + 1 :] == [
        f"{first + 1}-llvm-add.ll",
        f"{first + 1}-llvm-add__body.ll",
        f"{first + 2}-optimised-add.ll",
        f"{first + 2}-optimised-add__body.ll",
        f"{first + 3}-assembly-add.s",
        f"{first + 3}-assembly-add__body.s",
        f"{first + 4}-object-add.o",
        f"{first + 4}-object-add__body.o",
    ]
    assert "vfadd.vv" in (tmp_path / f"{first + 3}-assembly-add__body.s").read_text()


def test_a_dump_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write 00-input\.mlir to the dump folder .*PYTORCHSIM_DUMP_DIR"):
        compile_kernel("add", add_kernel(), CONFIG, tmp_path / "file" / "dump")


def test_unreadable_text() -> None:
    with pytest.raises(IRVerificationError, match=r"(?s)kernel 'k': .*custom op 'nonsense'") as caught:
        compile_kernel("k", "nonsense", CONFIG)
    assert caught.value.stage == "parse"


def test_symbol_defined_twice() -> None:
    text = add_kernel().replace('sym_name = "add.b1"', 'sym_name = "add.b0"')
    with pytest.raises(IRVerificationError, match=r"redefinition of symbol named 'add\.b0'"):
        compile_kernel("add", text, CONFIG)


def test_another_kernels_module() -> None:
    with pytest.raises(IRVerificationError, match="the module is of kernel 'add'"):
        compile_kernel("k", add_kernel(), CONFIG)


def test_an_llvm_abort_is_a_compile_error_with_the_ir_and_the_next_call_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM aborts on a special function of six elements; verify-kernel would refuse it, so it is put in behind."""
    monkeypatch.setenv("PYTORCHSIM_CACHE_DIR", str(tmp_path / "cache"))
    translate = compiler.llvm.translate_module_to_llvmir

    def broken(module: ir.Operation) -> str:
        text: str = translate(module)
        return text.replace("<16 x float>", "<6 x float>").replace("v16f32", "v6f32").replace("i64 16)", "i64 6)")

    text = tile_kernel("k", unary(mlir_math.exp))
    monkeypatch.setattr(compiler.llvm, "translate_module_to_llvmir", broken)
    with pytest.raises(CompileError, match=r"kernel 'k': function 'k__body': the LLVM worker died .signal 6") as caught:
        compile_kernel("k", text, CONFIG)
    assert "LLVM ERROR: Do not know how to widen" in str(caught.value)
    assert (caught.value.kernel, caught.value.stage) == ("k", "llvm")
    assert "<6 x float>" in (Path(caught.value.dump) / "k__body.ll").read_text()
    with pytest.raises(CompileError) as caught:
        compile_kernel("k", text, CONFIG, tmp_path / "dump")
    assert caught.value.dump == str(tmp_path / "dump")
    monkeypatch.undo()
    assert compile_kernel("k", text, CONFIG).objects


def test_second_compile_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_CACHE_DIR", str(tmp_path))
    first = compile_kernel("add", add_kernel(), CONFIG)

    def refuse(workers: int) -> None:
        raise WorkerError(f"no worker of {workers} is needed")

    monkeypatch.setattr(compiler, "shared_pool", refuse)
    assert compile_kernel("add", add_kernel(), CONFIG) == first
    monkeypatch.setenv("PYTORCHSIM_NO_CACHE", "1")
    with pytest.raises(CompileError, match="no worker"):
        compile_kernel("add", add_kernel(), CONFIG)


def test_a_cached_object_is_still_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_CACHE_DIR", str(tmp_path))
    compile_kernel("add", add_kernel(), CONFIG)
    audited: list[str] = []
    monkeypatch.setattr(compiler, "audit_control_function", lambda *_, kernel, **__: audited.append(kernel))
    monkeypatch.setattr(compiler, "audit_tile_function", lambda _, function, **__: audited.append(function))
    compile_kernel("add", add_kernel(), CONFIG)
    assert audited == ["add", "add__body"]


def test_many_at_once_are_what_one_by_one_gives() -> None:
    names = [f"k{number}" for number in range(12)]
    futures = [build_kernel(name, add_kernel(name), CONFIG) for name in names]
    for name, future in zip(names, futures, strict=True):
        assert future.result() == compile_kernel(name, add_kernel(name), CONFIG)


def test_an_asynchronous_error_arrives_in_the_future() -> None:
    with pytest.raises(IRVerificationError, match="kernel 'k'"):
        build_kernel("k", "nonsense", CONFIG).result()


def test_programs_are_the_same_in_every_process() -> None:
    code = (
        "import hashlib\n"
        "from pytorchsim.config.model import NpuConfig\n"
        "from pytorchsim.mlir.compiler import compile_kernel, link_program\n"
        "from tests.unit.mlir.kernels import add_kernel\n"
        "p = link_program([compile_kernel('add', add_kernel(), NpuConfig())], NpuConfig())\n"
        "print(hashlib.sha256(repr(p).encode()).hexdigest())"
    )
    root = Path(__file__).parents[3]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True,
            env={"PYTORCHSIM_NO_CACHE": "1", "PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1


def test_two_kernels_of_one_name() -> None:
    kernel = compile_kernel("add", add_kernel(), CONFIG)
    with pytest.raises(ValueError, match="two kernels of the program define add, add__body"):
        link_program([kernel, kernel], CONFIG)


def test_another_vector_length() -> None:
    config = NpuConfig(core=CoreConfig(vlen_bits=512))
    with pytest.raises(ValueError, match="'add' has vectors of 256 bits, not 512"):
        link_program([compile_kernel("add", add_kernel(), CONFIG)], config)


def kernel_of(buffers: tuple[BufferLayout, ...], frames: dict[str, int]) -> CompiledKernel:
    return CompiledKernel("k", dict.fromkeys(frames, b""), buffers, {}, frames, "", 256, 1, ("aten.add",), {"i": 8})


def test_buffers_are_placed_in_order_at_their_alignment() -> None:
    places = place_buffers([BufferLayout("a", 64, 1, 64), BufferLayout("b", 512, 2, 256), BufferLayout("c", 64, 1, 64)])
    base = SCRATCHPAD_BASE
    assert places == {"a": (base, base + 64), "b": (base + 256, base + 768), "c": (base + 768, base + 832)}


@pytest.mark.parametrize(
    ("buffer_bytes", "copies", "frame", "used", "budget"),
    [
        # slice 8192, reserve 1024. Fits: 2 x 3584 + 1024 = 8192, and 3584 + 512 = half.
        (7168, 2, 512, None, None),
        # The whole: 7232 + 1024 > 8192.
        (7232, 2, 0, 7232 + 1024, 8192),
        # The stack reserve.
        (64, 1, 1040, 1040, 1024),
        # One tile: 3584 + 528 > 4096.
        (7168, 2, 528, 3584 + 528, 4096),
        # Single buffered, more than half a slice.
        (4160, 1, 0, 4160, 4096),
    ],
)
def test_budget(buffer_bytes: int, copies: int, frame: int, used: int | None, budget: int | None) -> None:
    config = NpuConfig(core=CoreConfig(scratchpad_bytes_per_lane=8192, stack_reserve_bytes=1024))
    kernel = kernel_of((BufferLayout("k.x", buffer_bytes, copies, 64),), {"k": 0, "k__a": frame, "k__b": 0})
    if used is None:
        check_budget(kernel, config)
        return
    with pytest.raises(SpadOverflowError, match=r"kernel 'k' \(from aten\.add\)") as caught:
        check_budget(kernel, config)
    error = caught.value
    assert (error.used_bytes, error.budget_bytes, error.tile) == (used, budget, {"i": 8})
    assert sum(error.shares.values()) == used


def test_budget_is_checked_when_compiling() -> None:
    config = NpuConfig(core=CoreConfig(scratchpad_bytes_per_lane=4096, stack_reserve_bytes=1024))
    text = tile_kernel("k", unary(lambda value: arith.addf(value, value)), elements=256)
    with pytest.raises(SpadOverflowError, match=r"k\.b0 2048, k\.b1 2048, stack reserve 1024"):
        compile_kernel("k", text, config)


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        link_program([compile_kernel("add", add_kernel(), CONFIG)], CONFIG)
