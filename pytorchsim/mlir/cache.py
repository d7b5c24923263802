"""The on-disk cache of compiled objects, keyed by content.

In: everything an object depends on (LLVM IR, LLVM's version and features, the sources that drive LLVM). Out: what
LLVM made of it last time. An entry carries its own digest and is written under another name first, so a torn, corrupt
or foreign file is a miss, never a wrong result. A folder that cannot be used costs one warning.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import threading
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path

from pytorchsim.config.environment import read_environment
from pytorchsim.errors import PyTorchSimWarning
from pytorchsim.mlir.workers import LlvmOutput, features_for

__all__ = ["ObjectCache", "object_key", "shared_cache"]

_MAGIC = b"pytorchsim object 1\n"
_DIGEST_BYTES = 32
_SOURCES = ("llvm_worker.py", "workers.py", "cache.py")


def object_key(ir_text: str, vlen_bits: int) -> str:
    """The key of a module: 64 hex digits."""
    parts = (ir_text, features_for(vlen_bits), _llvm_version(), _sources_digest())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class ObjectCache:
    """A folder of objects. `read` and `write` never raise for what the folder does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = threading.Event()

    def read(self, key: str) -> LlvmOutput | None:
        """What LLVM made of the module with `key`, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("read", error)
            return None
        output = _decode(data)
        if output is None:
            self._warn("use", f"{path.name} is damaged")
        return output

    def write(self, key: str, output: LlvmOutput) -> None:
        """Keep `output` under `key`."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_encode(output))
                os.replace(name, path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            self._warn("write", error)

    def _path(self, key: str) -> Path:
        return self.folder / "objects" / key[:2] / key[2:]

    def _warn(self, what: str, reason: object) -> None:
        if self._warned.is_set():
            return
        self._warned.set()
        warnings.warn(
            f"cannot {what} the cache of compiled objects in {self.folder} ({reason}); compiling without it."
            " Set PYTORCHSIM_CACHE_DIR to a usable folder, or PYTORCHSIM_NO_CACHE=1.",
            PyTorchSimWarning,
            stacklevel=3,
        )


_caches: dict[Path, ObjectCache] = {}


def shared_cache() -> ObjectCache | None:
    """The cache that the environment names, None when it is switched off. One per folder, so that it warns once."""
    environment = read_environment()
    if environment.no_cache:
        return None
    return _caches.setdefault(environment.cache_dir, ObjectCache(environment.cache_dir))


@cache
def _llvm_version() -> str:
    return version("llvmlite")


@cache
def _sources_digest() -> str:
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join(folder.joinpath(name).read_bytes() for name in _SOURCES)).hexdigest()


def _encode(output: LlvmOutput) -> bytes:
    texts = json.dumps({"assembly": output.assembly, "optimised": output.optimised}).encode()
    payload = struct.pack("<Q", len(texts)) + texts + output.object_bytes
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def _decode(data: bytes) -> LlvmOutput | None:
    start = len(_MAGIC) + _DIGEST_BYTES
    payload = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
        return None
    (length,) = struct.unpack_from("<Q", payload)
    texts = json.loads(payload[8 : 8 + length])
    return LlvmOutput(payload[8 + length :], texts["assembly"], texts["optimised"])
