"""What the compiler keeps: keys that name everything, values that come back equal, and no tool that runs for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.mlir import build, compiler, stored
from pytorchsim.mlir.build import build_kernel, build_program
from pytorchsim.mlir.cache import ContentStore
from pytorchsim.mlir.stored import LlvmOutput, keep_output, kernel_key, output_key, program_key, stored_output
from tests.unit.mlir.kernels import add_kernel

CONFIG = NpuConfig()
OTHER = NpuConfig(core=CoreConfig(vlen_bits=512))
OUTPUT = LlvmOutput(b"\x7fELF\0object", "assembly \u00e4", "ir")


def test_a_stored_object_comes_back(tmp_path: Path) -> None:
    store, key = ContentStore(tmp_path), output_key("ir", "+v")
    assert stored_output(store, key) is None
    keep_output(store, key, OUTPUT)
    assert stored_output(store, key) == OUTPUT


def test_an_objects_key_is_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {output_key("ir", "+v"), output_key("ir2", "+v"), output_key("ir", "+m"), output_key("ir+", "v")}
    monkeypatch.setattr(stored, "_versions", lambda _: "another")
    keys.add(output_key("ir", "+v"))
    monkeypatch.undo()
    monkeypatch.setattr(stored, "_llvm_sources_digest", lambda: "edited")
    keys.add(output_key("ir", "+v"))
    assert len(keys) == 6


def test_a_kernels_key_is_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {kernel_key("k", "text", CONFIG), kernel_key("l", "text", CONFIG), kernel_key("k", "other", CONFIG)}
    keys.add(kernel_key("k", "text", OTHER))
    monkeypatch.setattr(stored, "_versions", lambda _: "another")
    keys.add(kernel_key("k", "text", CONFIG))
    monkeypatch.undo()
    monkeypatch.setattr(stored, "_compiler_sources_digest", lambda: "edited")
    keys.add(kernel_key("k", "text", CONFIG))
    assert len(keys) == 6


def test_a_programs_key_is_its_kernels_in_their_order() -> None:
    one, two = (compiler.compile_kernel(name, add_kernel(name), CONFIG) for name in ("one", "two"))
    kernels = ([one], [two], [one, two], [two, one])
    keys = {program_key(some, CONFIG) for some in kernels} | {program_key([one], OTHER)}
    assert len(keys) == 5


def test_kernels_and_programs_come_back_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_CACHE_DIR", str(tmp_path))
    names = ("one", "two")
    kernels = [build_kernel(name, add_kernel(name), CONFIG).result() for name in names]
    program = build_program(kernels, CONFIG)
    assert kernels == [compiler.compile_kernel(name, add_kernel(name), CONFIG) for name in names]
    assert program == compiler.link_program(kernels, CONFIG)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("this was made already")

    for tool in ("run_pipeline", "shared_pool", "link"):
        monkeypatch.setattr(compiler, tool, refuse)
    again = [build_kernel(name, add_kernel(name), CONFIG).result() for name in names]
    assert again == kernels
    assert [list(kernel.objects) for kernel in again] == [list(kernel.objects) for kernel in kernels]
    relinked = build_program(again, CONFIG)
    assert relinked == program
    assert list(relinked.symbols) == list(program.symbols)
    with pytest.raises(AssertionError):
        build_kernel("one", add_kernel("one"), OTHER).result()
    with pytest.raises(AssertionError):
        build_kernel("one", add_kernel("one"), CONFIG, tmp_path / "dump").result()  # every stage is to be seen
    monkeypatch.setenv("PYTORCHSIM_NO_CACHE", "1")
    with pytest.raises(AssertionError):
        build_kernel("one", add_kernel("one"), CONFIG).result()
    with pytest.raises(AssertionError):
        build_program(kernels, CONFIG)


def test_cancelled_builds_end_and_the_next_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_NO_CACHE", "1")
    futures = [build_kernel(f"k{number}", add_kernel(f"k{number}"), CONFIG) for number in range(8)]
    build.cancel_builds()
    for future in futures:
        assert isinstance(future.exception(30), compiler.CompileError | None)
    assert any(future.exception() for future in futures)
    assert build_kernel("add", add_kernel(), CONFIG).result(30).objects
