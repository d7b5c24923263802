"""The compiler: a kernel module's text in, a linked `Program` out.

`compile_kernel` runs the pipeline, then LLVM (in worker processes, with stored objects before it), then the audit.
`link_program` places the buffers of each kernel in the scratchpad, checks the budget and links a graph's kernels once.
Threads, and the store of whole kernels and programs, are in front of both: `build.py`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from mlir import ir
from mlir.dialects import llvm

from pytorchsim.config.environment import read_environment
from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import CompileError, IRVerificationError
from pytorchsim.mlir.audit import audit_control_function, audit_tile_function, stack_frame_bytes
from pytorchsim.mlir.cache import shared_store
from pytorchsim.mlir.compiled_kernel import BufferLayout, CompiledKernel, check_budget, place_buffers
from pytorchsim.mlir.dialect import ORIGINS_ATTRIBUTE, TILE_SHAPE_ATTRIBUTE, npu_context
from pytorchsim.mlir.dump import Dump
from pytorchsim.mlir.link import link
from pytorchsim.mlir.object_digest import object_digest
from pytorchsim.mlir.passes.walk import kernel_name
from pytorchsim.mlir.pipeline import PASSES, run_pipeline
from pytorchsim.mlir.program import Program, read_image
from pytorchsim.mlir.stored import LlvmOutput, keep_output, output_key, stored_output
from pytorchsim.mlir.workers import WorkerError, features_for, shared_pool

__all__ = [
    "BufferLayout",
    "CompiledKernel",
    "check_budget",
    "compile_kernel",
    "link_program",
    "place_buffers",
]


def compile_kernel(
    name: str,
    mlir_text: str,
    config: NpuConfig,
    dump_dir: Path | None = None,
    wanted: Callable[[], bool] = lambda: True,
) -> CompiledKernel:
    """Compile one kernel module.

    Args:
        name: the kernel's name; the module's `npu.kernel` must be the same.
        mlir_text: the module as `KernelBuilder.text` gives it.
        config: the machine.
        dump_dir: where every stage is written, numbered; nothing is written without it.
        wanted: asked before LLVM is; a CompileError where the kernel is not wanted any more.

    Raises:
        IRVerificationError: the module breaks a rule. AssemblyAuditError: LLVM's code would leave the lanes.
        CompileError: a pass or LLVM failed; the IR is in `dump_dir`, or in a folder of the cache, which the error
        names. SpadOverflowError: see `check_budget`.
    """
    with npu_context(), ir.Location.name(name):
        try:
            module = ir.Module.parse(mlir_text)
        except ir.MLIRError as error:
            raise IRVerificationError(str(error), kernel=name, stage="parse") from error
        facts = _facts(name, module)
        seconds = run_pipeline(module, config, dump_dir=dump_dir)
        started = time.perf_counter()
        translated = {
            str(ir.StringAttr(view.operation.attributes["sym_name"]).value): llvm.translate_module_to_llvmir(
                view.operation
            )
            for view in module.body.operations
        }
        seconds["translate"] = time.perf_counter() - started
    names = [name, *(function for function in translated if function != name)]
    started = time.perf_counter()
    dump = Dump(dump_dir)
    if not wanted():
        raise CompileError("its compilation was interrupted", kernel=name)
    outputs = {function: _run_llvm(name, function, translated[function], config, dump) for function in names}
    _audit(name, outputs, dump)
    seconds["llvm"] = time.perf_counter() - started
    kernel = CompiledKernel(
        name=name,
        objects={function: output.object_bytes for function, output in outputs.items()},
        tile_digests={function: object_digest(outputs[function].object_bytes) for function in names[1:]},
        frame_bytes={function: _frame_bytes(name, function, output, dump) for function, output in outputs.items()},
        ir_digest=hashlib.sha256(mlir_text.encode()).hexdigest()[:16],
        vlen_bits=config.core.vlen_bits,
        seconds=seconds,
        **facts,
    )
    check_budget(kernel, config)
    return kernel


def link_program(kernels: Sequence[CompiledKernel], config: NpuConfig) -> Program:
    """Link a graph's kernels, in order, to one program.

    ValueError: two kernels of one name, or a kernel compiled for another vector length. SetupError: no linker.
    SpadOverflowError: see `check_budget`. CompileError: what the linker refuses.
    """
    objects: dict[str, bytes] = {}
    addresses: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for kernel in kernels:
        if kernel.vlen_bits != config.core.vlen_bits:
            raise ValueError(
                f"kernel {kernel.name!r} has vectors of {kernel.vlen_bits} bits, not {config.core.vlen_bits}"
            )
        if twice := sorted(kernel.objects.keys() & objects.keys()):
            raise ValueError(f"two kernels of the program define {', '.join(twice)}")
        check_budget(kernel, config)
        objects.update(kernel.objects)
        places = place_buffers(kernel.buffers)
        addresses.update({symbol: start for symbol, (start, _) in places.items()})
        sizes.update({buffer.symbol: buffer.bytes for buffer in kernel.buffers})
    segments, symbols = read_image(link(objects, addresses))
    return Program(
        segments=segments,
        symbols={symbol: (start, sizes.get(symbol, size)) for symbol, (start, size) in symbols.items()},
        kernels=tuple(kernel.name for kernel in kernels),
        tile_functions=tuple(function for kernel in kernels for function in kernel.tile_functions),
        tile_digests={function: digest for kernel in kernels for function, digest in kernel.tile_digests.items()},
        spad_bytes={kernel.name: kernel.buffer_bytes for kernel in kernels},
    )


class _Facts(TypedDict):
    """What the module says before it is lowered; named as the fields of CompiledKernel."""

    buffers: tuple[BufferLayout, ...]
    slots: int
    origins: tuple[str, ...]
    tile_shape: dict[str, int]


def _facts(name: str, module: ir.Module) -> _Facts:
    attributes = module.operation.attributes
    if (said := kernel_name(module)) != name:
        raise IRVerificationError(f"the module is of kernel {said!r}", kernel=name, stage="parse")
    buffers, slots = [], 0
    for view in module.body.operations:
        operation = view.operation
        if operation.name == "npu.buffer":
            symbol = str(ir.StringAttr(operation.attributes["sym_name"]).value)
            numbers = [int(ir.IntegerAttr(operation.attributes[key]).value) for key in ("bytes", "copies", "alignment")]
            buffers.append(BufferLayout(symbol, *numbers))
        elif operation.name == "npu.descriptor":
            slots = max(slots, int(ir.IntegerAttr(operation.attributes["slot"]).value) + 1)
    origins: tuple[str, ...] = ()
    shape: dict[str, int] = {}
    if ORIGINS_ATTRIBUTE in attributes:
        origins = tuple(str(ir.StringAttr(item).value) for item in ir.ArrayAttr(attributes[ORIGINS_ATTRIBUTE]))
    if TILE_SHAPE_ATTRIBUTE in attributes:
        shape = {
            item.name: int(ir.IntegerAttr(item.attr).value) for item in ir.DictAttr(attributes[TILE_SHAPE_ATTRIBUTE])
        }
    return {"buffers": tuple(buffers), "slots": slots, "origins": origins, "tile_shape": shape}


def _run_llvm(kernel: str, function: str, ir_text: str, config: NpuConfig, dump: Dump) -> LlvmOutput:
    """Object and assembly of one function, from the cache or from a worker."""
    store = shared_store()
    key = output_key(ir_text, features_for(config.core.vlen_bits))
    first = len(PASSES) + 1
    dump.write(f"{first:02d}-llvm-{function}.ll", lambda: ir_text)
    output = stored_output(store, key) if store else None
    if output is None:
        try:
            output = shared_pool(read_environment().workers).compile(ir_text, config.core.vlen_bits)
        except WorkerError as error:
            where = _keep_failure(dump, function, key, ir_text)
            raise CompileError(f"function {function!r}: {error}", kernel=kernel, stage="llvm", dump=where) from error
        if store:
            keep_output(store, key, output)
    dump.write(f"{first + 1:02d}-optimised-{function}.ll", lambda: output.optimised)
    dump.write(f"{first + 2:02d}-assembly-{function}.s", lambda: output.assembly)
    dump.write(f"{first + 3:02d}-object-{function}.o", lambda: output.object_bytes)
    return output


def _audit(kernel: str, outputs: Mapping[str, LlvmOutput], dump: Dump) -> None:
    tiles = [function for function in outputs if function != kernel]
    audit_control_function(outputs[kernel].assembly, tiles, kernel=kernel, dump=dump.location)
    for function in tiles:
        audit_tile_function(outputs[function].assembly, function, kernel=kernel, dump=dump.location)


def _frame_bytes(kernel: str, function: str, output: LlvmOutput, dump: Dump) -> int:
    try:
        return stack_frame_bytes(output.assembly)
    except ValueError as error:
        text = f"function {function!r}: {error}"
        raise CompileError(text, kernel=kernel, stage="llvm", dump=dump.location) from error


def _keep_failure(dump: Dump, function: str, key: str, ir_text: str) -> str:
    """Write the IR that LLVM failed on where the user can find it; the folder, or "" if none can be written."""
    if dump.folder is not None:
        return dump.location  # it is there already
    folder = read_environment().cache_dir / "failed" / key[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath(f"{function}.ll").write_text(ir_text, encoding="utf-8")
    except OSError:
        return ""
    return str(folder)
