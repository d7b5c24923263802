"""`source_key`: one hash over the package's own sources and tools, a part of every cache key.

Inductor's caches hash torch and the graph, not us: without this, an edited template would be answered with old code.
Assumes: the sources do not change while the process runs (computed once).
"""

from __future__ import annotations

import functools
import hashlib
from importlib import metadata
from pathlib import Path

__all__ = ["source_key"]

# Text of kernels is printed by the bindings; other tools work on that text and have caches of their own.
_TOOLS = ("xtc-mlir-python-bindings",)


@functools.cache
def source_key() -> str:
    """SHA-256 over every source file of the package and the versions of the tools that print kernels, 32 hex digits."""
    root = Path(__file__).resolve().parent.parent
    files = (path for path in root.rglob("*") if path.suffix in (".py", ".mlir", ".yaml"))
    hasher = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
        hasher.update(path.relative_to(root).as_posix().encode() + b"\0")
        hasher.update(path.read_bytes() + b"\0")
    for tool in _TOOLS:
        hasher.update(f"{tool}={_version(tool)}\0".encode())
    return hasher.hexdigest()[:32]


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "absent"
