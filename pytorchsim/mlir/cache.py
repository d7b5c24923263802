"""The content store on disk: bytes under keys that name everything those bytes depend on.

In: a section ("kernels", "latencies", ...), a key, a payload. Out: the payload that was last written there, or None.
An entry carries a digest of its place and payload and is written under another name first, so a torn, corrupt, foreign
or moved file is a miss, never a wrong result. Threads and processes share a folder. A folder that cannot be used costs
one warning and no error. Assumes: keys are hex digits; two writers of one key write equal payloads, or use `update`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytorchsim.config.environment import read_environment
from pytorchsim.errors import PyTorchSimWarning

__all__ = ["ContentStore", "shared_store"]

_MAGIC = b"pytorchsim entry 2\n"
_DIGEST_BYTES = 32

_INCOMING = "incoming"
"""The folder of files that are being written: on the same file system, so that a rename is atomic."""

_ABANDONED_SECONDS = 3600.0
"""An incoming file older than this belongs to a process that was killed in the middle of a write."""

_LOCK_SECONDS = 0.2
"""How long an update waits for another one. After that it goes ahead: what may be lost is an entry, a later miss."""


class ContentStore:
    """A folder of entries. No method raises for what the folder does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()  # of what follows
        self._warned = self._swept = False

    def read(self, section: str, key: str) -> bytes | None:
        """The payload under `key`, or None."""
        path = self._path(section, key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("read", error)
            return None
        start = len(_MAGIC) + _DIGEST_BYTES
        if not data.startswith(_MAGIC) or _digest(section, key, data[start:]) != data[len(_MAGIC) : start]:
            self._warn("use", f"{section}/{path.name} is damaged")
            return None
        return data[start:]

    def write(self, section: str, key: str, payload: bytes) -> None:
        """Keep `payload` under `key`; the entry appears whole or not at all."""
        try:
            self._write(section, key, payload)
        except OSError as error:
            self._warn("write", error)

    def update(self, section: str, key: str, merge: Callable[[bytes | None], bytes]) -> None:
        """Replace the payload under `key` by `merge(payload or None)`, one process and thread after another."""
        try:
            with self._exclusive(section, key):
                self._write(section, key, merge(self.read(section, key)))
        except OSError as error:
            self._warn("write", error)

    def _write(self, section: str, key: str, payload: bytes) -> None:
        path, incoming = self._path(section, key), self._incoming()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=incoming)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _digest(section, key, payload) + payload)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _incoming(self) -> Path:
        """Where files are written; the first time what killed processes left there is deleted."""
        folder = self.folder / _INCOMING
        folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            swept, self._swept = self._swept, True
        if not swept:
            for path in folder.iterdir():
                with suppress(OSError):  # another process sweeps, too
                    if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                        path.unlink()
        return folder

    @contextmanager
    def _exclusive(self, section: str, key: str) -> Iterator[None]:
        """Hold the lock file of `key`, or give up after a while. The kernel frees it when its holder dies."""
        # Lock files stay: deleting one would give two holders two different files.
        path = self.folder / "locks" / hashlib.sha256(f"{section}/{key}".encode()).hexdigest()[:2]
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            deadline = time.monotonic() + _LOCK_SECONDS
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.002)
                except OSError:
                    break  # a file system without locks
            yield
        finally:
            os.close(handle)

    def _path(self, section: str, key: str) -> Path:
        return self.folder / section / key[:2] / key[2:]

    def _warn(self, what: str, reason: object) -> None:
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned:
            warnings.warn(
                f"cannot {what} the cache in {self.folder} ({reason}); working without it."
                " Set PYTORCHSIM_CACHE_DIR to a usable folder, or PYTORCHSIM_NO_CACHE=1.",
                PyTorchSimWarning,
                stacklevel=3,
            )


_stores: dict[Path, ContentStore] = {}


def shared_store() -> ContentStore | None:
    """The store that the environment names, None when it is switched off. One per folder, so that it warns once."""
    environment = read_environment()
    if environment.no_cache:
        return None
    return _stores.setdefault(environment.cache_dir, ContentStore(environment.cache_dir))


def _digest(section: str, key: str, payload: bytes) -> bytes:
    return hashlib.sha256(f"{section}/{key}\n".encode() + payload).digest()


def _forget_locks() -> None:
    # A fork may have been made while another thread held one.
    for store in _stores.values():
        store._lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_locks)
