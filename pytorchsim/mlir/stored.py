"""What the compiler keeps in the content store: objects, kernels and programs, their keys and their bytes.

In: values of the compiler, and everything they depend on. Out: the same values in another process, which needs neither
MLIR nor LLVM for them (nothing here imports either). Keys name the machine, the text, the versions of the tools and
the sources of the compiler, so an entry is never stale. The linker is not in a program's key: what it makes of given
objects at given addresses is fixed by our script.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.cache import ContentStore
from pytorchsim.mlir.compiled_kernel import BufferLayout, CompiledKernel
from pytorchsim.mlir.program import Program

__all__ = [
    "LlvmOutput",
    "keep_kernel",
    "keep_output",
    "keep_program",
    "kernel_key",
    "output_key",
    "program_key",
    "stored_kernel",
    "stored_output",
    "stored_program",
]

_LLVM_SOURCES = ("llvm_worker.py", "workers.py", "stored.py")
_LLVM_TOOLS = ("llvmlite",)
_TOOLS = (*_LLVM_TOOLS, "xtc-mlir-python-bindings")


@dataclass(frozen=True)
class LlvmOutput:
    """What LLVM made of a module. `optimised` is the IR after the O3 pipeline."""

    object_bytes: bytes
    assembly: str
    optimised: str


def output_key(ir_text: str, features: str) -> str:
    """The key of one LLVM module: 64 hex digits."""
    return _key(ir_text, features, _versions(_LLVM_TOOLS), _llvm_sources_digest())


def stored_output(store: ContentStore, key: str) -> LlvmOutput | None:
    """What LLVM made of the module with `key`, or None."""
    if (data := store.read("objects", key)) is None:
        return None
    texts, (object_bytes,) = _unpack(data)
    return LlvmOutput(object_bytes, texts["assembly"], texts["optimised"])


def keep_output(store: ContentStore, key: str, output: LlvmOutput) -> None:
    """Keep what LLVM made under `key`."""
    texts = {"assembly": output.assembly, "optimised": output.optimised}
    store.write("objects", key, _pack(texts, [output.object_bytes]))


def kernel_key(name: str, mlir_text: str, config: NpuConfig) -> str:
    """The key of a kernel: 64 hex digits."""
    return _key(name, mlir_text, config.canonical_json(), _versions(_TOOLS), _compiler_sources_digest())


def stored_kernel(store: ContentStore, key: str) -> CompiledKernel | None:
    """The compiled kernel under `key`, or None."""
    if (data := store.read("kernels", key)) is None:
        return None
    values, objects = _unpack(data)
    functions = values.pop("functions")
    return CompiledKernel(
        objects=dict(zip(functions, objects, strict=True)),
        buffers=tuple(BufferLayout(*buffer) for buffer in values.pop("buffers")),
        origins=tuple(values.pop("origins")),
        **values,
    )


def keep_kernel(store: ContentStore, key: str, kernel: CompiledKernel) -> None:
    """Keep a kernel under `key`. How long it took is not kept: it took nothing when it comes from here."""
    values = {
        "name": kernel.name,
        "functions": list(kernel.objects),
        "buffers": [[buffer.symbol, buffer.bytes, buffer.copies, buffer.alignment] for buffer in kernel.buffers],
        "tile_digests": dict(kernel.tile_digests),
        "frame_bytes": dict(kernel.frame_bytes),
        "ir_digest": kernel.ir_digest,
        "vlen_bits": kernel.vlen_bits,
        "slots": kernel.slots,
        "origins": list(kernel.origins),
        "tile_shape": dict(kernel.tile_shape),
    }
    store.write("kernels", key, _pack(values, list(kernel.objects.values())))


def program_key(kernels: Sequence[CompiledKernel], config: NpuConfig) -> str:
    """The key of the program that links `kernels` in this order: 64 hex digits."""
    parts = []
    for kernel in kernels:
        parts += [f"{function} {hashlib.sha256(data).hexdigest()}" for function, data in kernel.objects.items()]
        parts += [repr((kernel.name, kernel.buffers, sorted(kernel.tile_digests.items())))]
    return _key("\n".join(parts), config.canonical_json(), _compiler_sources_digest())


def stored_program(store: ContentStore, key: str) -> Program | None:
    """The linked program under `key`, or None."""
    if (data := store.read("programs", key)) is None:
        return None
    values, segments = _unpack(data)
    places = values["segments"]
    return Program(
        segments=tuple(
            (address, content, size, flags) for (address, size, flags), content in zip(places, segments, strict=True)
        ),
        symbols={symbol: (start, size) for symbol, start, size in values["symbols"]},
        kernels=tuple(values["kernels"]),
        tile_functions=tuple(values["tile_functions"]),
        tile_digests=values["tile_digests"],
        spad_bytes=values["spad_bytes"],
    )


def keep_program(store: ContentStore, key: str, program: Program) -> None:
    """Keep a linked program under `key`."""
    values = {
        "segments": [[address, size, flags] for address, _, size, flags in program.segments],
        "symbols": [[symbol, *place] for symbol, place in program.symbols.items()],
        "kernels": list(program.kernels),
        "tile_functions": list(program.tile_functions),
        "tile_digests": dict(program.tile_digests),
        "spad_bytes": dict(program.spad_bytes),
    }
    store.write("programs", key, _pack(values, [content for _, content, _, _ in program.segments]))


def _key(*parts: str) -> str:
    # Lengths, so that no two lists of parts are one text.
    return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def _pack(values: Mapping[str, Any], blobs: Sequence[bytes]) -> bytes:
    """JSON types, in their order, and byte strings as one byte string."""
    head = json.dumps([values, [len(blob) for blob in blobs]], separators=(",", ":")).encode()
    return struct.pack("<Q", len(head)) + head + b"".join(blobs)


def _unpack(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    (length,) = struct.unpack_from("<Q", data)
    values, sizes = json.loads(data[8 : 8 + length])
    blobs, position = [], 8 + length
    for size in sizes:
        blobs.append(data[position : position + size])
        position += size
    return values, blobs


@cache
def _versions(tools: tuple[str, ...]) -> str:
    return " ".join(f"{tool}={_version(tool)}" for tool in tools)


def _version(tool: str) -> str:
    try:
        return version(tool)
    except PackageNotFoundError:
        return "absent"


@cache
def _llvm_sources_digest() -> str:
    folder = Path(__file__).parent
    return _content_digest([folder / name for name in _LLVM_SOURCES])


@cache
def _compiler_sources_digest() -> str:
    """Over all of the compiler and of the target's tables, which a kernel's code is made from."""
    folder = Path(__file__).parent
    roots = (folder, folder.parent / "target")
    return _content_digest(
        sorted(path for root in roots for path in root.rglob("*") if path.suffix in (".py", ".mlir"))
    )


def _content_digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
