"""The pipeline: from a kernel module to modules in the llvm dialect, one per function. Read `PASSES` top to bottom.

In: the module that a template built. Out: the same object, rewritten. After every pass the module is verified, the
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
from pytorchsim.mlir.dump import Dump
from pytorchsim.mlir.passes.freeze_shuffled_loads import freeze_shuffled_loads
from pytorchsim.mlir.passes.lower_npu_ops import lower_npu_ops
from pytorchsim.mlir.passes.lower_special_functions import lower_special_functions
from pytorchsim.mlir.passes.pin_divisions import pin_divisions
from pytorchsim.mlir.passes.predicate_short_accesses import predicate_short_accesses
from pytorchsim.mlir.passes.set_function_attributes import set_function_attributes
from pytorchsim.mlir.passes.split_functions import split_functions
from pytorchsim.mlir.passes.verify_kernel import verify_kernel
from pytorchsim.mlir.passes.verify_llvm import verify_llvm
from pytorchsim.mlir.passes.walk import BrokenRules, kernel_name
from pytorchsim.mlir.passes.widen_bf16_conversions import widen_bf16_conversions

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
    Pass("widen-bf16-conversions", widen_bf16_conversions),
    Pass("pin-divisions", pin_divisions),
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
    Pass("freeze-shuffled-loads", freeze_shuffled_loads),
    Pass("set-function-attributes", set_function_attributes),
)


def run_pipeline(
    module: ir.Module, config: NpuConfig, *, dump_dir: Path | None = None, passes: tuple[Pass, ...] = PASSES
) -> dict[str, float]:
    """Run `passes` on `module` in place and return the seconds of each (`NN-name`).

    IRVerificationError: a rule is broken, or a pass left invalid IR. CompileError: a pass failed. Both name the pass.
    """
    kernel, seconds, dump = kernel_name(module), {}, Dump(dump_dir)
    dump.write("00-input.mlir", lambda: _text(module))
    for number, step in enumerate(passes, 1):
        label = f"{number:02d}-{step.name}"
        start = time.perf_counter()
        try:
            step.run(module, config)
        except ir.MLIRError as error:
            dump.write(f"{label}-failed.mlir", lambda: _text(module))
            raise CompileError(str(error), kernel=kernel, stage=step.name, dump=dump.location) from error
        except BrokenRules as error:
            raise IRVerificationError(str(error), kernel=kernel, stage=step.name, dump=dump.location) from error
        seconds[label] = time.perf_counter() - start
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            dump.write(f"{label}-invalid.mlir", lambda: _text(module))
            raise IRVerificationError(str(error), kernel=kernel, stage=step.name, dump=dump.location) from error
        dump.write(f"{label}.mlir", lambda: _text(module))
    return seconds


def _text(module: ir.Module) -> str:
    # An invalid module still prints, in generic form.
    return str(module.operation.get_asm(assume_verified=False))
