"""The pipeline as a whole: order, verification after every pass, dumps, times, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import CompileError, IRVerificationError
from pytorchsim.mlir.dialect import npu_context
from pytorchsim.mlir.pipeline import PASSES, Pass, run_pipeline


def run(text: str, **arguments: object) -> tuple[str, dict[str, float]]:
    with npu_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        seconds = run_pipeline(module, NpuConfig(), **arguments)  # type: ignore[arg-type]
        return str(module), seconds


def test_only_the_llvm_dialect_is_left(kernel_text: Callable[..., str]) -> None:
    output, seconds = run(kernel_text())
    for dialect in ("npu.", "func.", "scf.", "arith.", "vector.", "memref.", "math.", "cf.", "unrealized"):
        assert f" {dialect}" not in output.replace("llvm.", "")
    assert list(seconds) == [f"{number:02d}-{step.name}" for number, step in enumerate(PASSES, 1)]


def test_dumps_are_numbered_in_order(kernel_text: Callable[..., str], tmp_path: Path) -> None:
    run(kernel_text(), dump_dir=tmp_path / "dump")
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names == ["00-input.mlir", *(f"{number:02d}-{step.name}.mlir" for number, step in enumerate(PASSES, 1))]
    assert "npu.transfer" in (tmp_path / "dump" / names[0]).read_text()
    assert "npu.transfer" not in (tmp_path / "dump" / names[-1]).read_text()


def test_the_same_text_gives_the_same_dumps(kernel_text: Callable[..., str], tmp_path: Path) -> None:
    run(kernel_text(), dump_dir=tmp_path / "a")
    run(kernel_text(), dump_dir=tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_pass_that_leaves_invalid_ir_is_named(kernel_text: Callable[..., str], tmp_path: Path) -> None:
    def break_module(module: ir.Module, config: NpuConfig) -> None:
        del config
        del module.body.operations[0].operation.attributes["bytes"]

    passes = (Pass("break-module", break_module), *PASSES)
    with pytest.raises(IRVerificationError, match='attribute "bytes" is expected') as caught:
        run(kernel_text(), passes=passes, dump_dir=tmp_path)
    assert caught.value.stage == "break-module"
    assert caught.value.dump == str(tmp_path)
    assert (tmp_path / "01-break-module-invalid.mlir").exists()


def test_a_pass_that_fails_is_named(kernel_text: Callable[..., str], tmp_path: Path) -> None:
    def fail(module: ir.Module, config: NpuConfig) -> None:
        del module, config
        ir.Module.parse("nonsense")

    with pytest.raises(CompileError, match="nonsense") as caught:
        run(kernel_text(), passes=(PASSES[0], Pass("fail-always", fail)), dump_dir=tmp_path)
    assert (caught.value.kernel, caught.value.stage, caught.value.dump) == ("k", "fail-always", str(tmp_path))
    assert (tmp_path / "02-fail-always-failed.mlir").exists()
