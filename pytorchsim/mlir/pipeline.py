"""The pipeline: from a kernel module to modules in the llvm dialect, one per function. Read `PASSES` top to bottom.

In: the module that the scheduler built. Out: the same object, rewritten. After every pass the module is verified, the
pass is timed, and, when a dump directory is given, the module is written there as `NN-pass-name.mlir`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlir import ir
from mlir.passmanager import PassManager

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import CompileError, IRVerificationError
from pytorchsim.mlir.passes.lower_npu_ops import lower_npu_ops
from pytorchsim.mlir.passes.lower_special_functions import lower_special_functions
from pytorchsim.mlir.passes.predicate_short_accesses import predicate_short_accesses
from pytorchsim.mlir.passes.set_function_attributes import set_function_attributes
from pytorchsim.mlir.passes.split_functions import split_functions
from pytorchsim.mlir.passes.verify_kernel import verify_kernel
from pytorchsim.mlir.passes.verify_llvm import verify_llvm
from pytorchsim.mlir.passes.walk import kernel_name

__all__ = ["PASSES", "Pass", "run_pipeline", "upstream"]


@dataclass(frozen=True)
class Pass:
    """One step: `run` rewrites the module in place or raises."""

    name: str
    run: Callable[[ir.Module, NpuConfig], None]


def upstream(name: str, options: str = "") -> Pass:
    """A pass of MLIR itself, run on each function's module."""
    text = (
        f"builtin.module(builtin.module({name}{{{options}}}))" if options else f"builtin.module(builtin.module({name}))"
    )

    def run(module: ir.Module, config: NpuConfig) -> None:
        del config
        PassManager.parse(text).run(module.operation)

    return Pass(name, run)


PASSES: tuple[Pass, ...] = (
    # One kernel module: npu, scf, arith, vector, math, memref.
    Pass("verify-kernel", verify_kernel),
    Pass("lower-special-functions", lower_special_functions),
    # A module per function from here on.
    Pass("split-functions", split_functions),
    Pass("lower-npu-ops", lower_npu_ops),
    # Only upstream dialects from here on.
    upstream("canonicalize"),
    upstream("cse"),
    upstream("convert-scf-to-cf"),
    upstream("convert-vector-to-llvm"),
    upstream("expand-strided-metadata"),
    upstream("lower-affine"),
    upstream("finalize-memref-to-llvm"),
    upstream("convert-func-to-llvm", "use-bare-ptr-memref-call-conv=1"),
    upstream("convert-math-to-llvm"),
    upstream("convert-arith-to-llvm"),
    upstream("convert-index-to-llvm"),
    upstream("convert-cf-to-llvm"),
    upstream("convert-ub-to-llvm"),
    upstream("reconcile-unrealized-casts"),
    upstream("canonicalize"),
    upstream("cse"),
    # Only the llvm dialect from here on.
    Pass("verify-llvm", verify_llvm),
    Pass("predicate-short-accesses", predicate_short_accesses),
    Pass("set-function-attributes", set_function_attributes),
)


def run_pipeline(
    module: ir.Module, config: NpuConfig, *, dump_dir: Path | None = None, passes: tuple[Pass, ...] = PASSES
) -> dict[str, float]:
    """Run `passes` on `module` in place and return the seconds of each (`NN-name`).

    IRVerificationError: a rule is broken, or a pass left invalid IR. CompileError: a pass failed. Both name the pass.
    """
    kernel, seconds = kernel_name(module), {}
    _dump(module, dump_dir, "00-input")
    for number, step in enumerate(passes, 1):
        label = f"{number:02d}-{step.name}"
        start = time.perf_counter()
        try:
            step.run(module, config)
        except ir.MLIRError as error:
            _dump(module, dump_dir, f"{label}-failed")
            raise CompileError(str(error), kernel=kernel, stage=step.name, dump=_shown(dump_dir)) from error
        except IRVerificationError as error:
            error.dump = _shown(dump_dir)
            raise
        seconds[label] = time.perf_counter() - start
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            _dump(module, dump_dir, f"{label}-invalid")
            raise IRVerificationError(str(error), kernel=kernel, stage=step.name, dump=_shown(dump_dir)) from error
        _dump(module, dump_dir, label)
    return seconds


def _dump(module: ir.Module, dump_dir: Path | None, name: str) -> None:
    if dump_dir is None:
        return
    dump_dir.mkdir(parents=True, exist_ok=True)
    # An invalid module still prints, in generic form.
    dump_dir.joinpath(f"{name}.mlir").write_text(module.operation.get_asm(assume_verified=False), encoding="utf-8")


def _shown(dump_dir: Path | None) -> str:
    return "" if dump_dir is None else str(dump_dir)
