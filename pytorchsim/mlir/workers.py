"""The pool of LLVM worker processes.

In: LLVM IR of one module. Out: object, assembly, optimised IR. LLVM is in another process because it holds a global
lock and aborts on what it cannot compile; a worker's death is a `WorkerError` for the one request, and the next
request gets a new worker. Threads share the pool; each request blocks its thread. A fork of this process starts with
an empty pool.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytorchsim.mlir.dialect import TARGET_TRIPLE

__all__ = ["LlvmOutput", "WorkerError", "WorkerPool", "features_for", "shared_pool"]

_SCRIPT = Path(__file__).with_name("llvm_worker.py")
_CPU = "generic-rv64"
_TIMEOUT_SECONDS = 600.0
_GRACE_SECONDS = 2.0
_STDERR_TAIL_BYTES = 4000


class WorkerError(Exception):
    """LLVM refused the IR, aborted, or took too long. The text says which, with what LLVM printed."""


class _KilledError(WorkerError):
    """A worker was killed from outside while a request was with it."""


@dataclass(frozen=True)
class LlvmOutput:
    """What LLVM made of a module. `optimised` is the IR after the O3 pipeline."""

    object_bytes: bytes
    assembly: str
    optimised: str


def features_for(vlen_bits: int) -> str:
    """LLVM's feature string for a lane with vector registers of `vlen_bits`."""
    return f"+m,+a,+f,+d,+v,+zvl{vlen_bits}b,+zvfh,+zfh,+zvfbfmin,+zfbfmin,+xsfvcp,-c,-relax"


class _Worker:
    """One child process and its pipes."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the worker
        self.process = subprocess.Popen(
            [sys.executable, str(_SCRIPT), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def request(self, message: dict[str, str], timeout_seconds: float) -> dict[str, object]:
        """Send and wait. EOFError: the worker died. TimeoutError: it did not answer in time."""
        data = pickle.dumps(message)
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(struct.pack("<Q", len(data)) + data)
            stdin.flush()
        except OSError as error:
            raise EOFError from error
        deadline = time.monotonic() + timeout_seconds
        (length,) = struct.unpack("<Q", self._read(stdout, 8, deadline))
        reply = pickle.loads(self._read(stdout, length, deadline))
        assert isinstance(reply, dict)
        return reply

    def died(self) -> str:
        """How the worker ended and what it printed last."""
        try:
            code = self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:  # its output ended, it did not
            self.process.kill()
            code = self.process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _STDERR_TAIL_BYTES))
        printed = self._errors.read().decode(errors="replace").strip()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}; it printed: {printed or 'nothing'}"

    def close(self) -> None:
        """End the process. It keeps nothing, so it is killed rather than asked."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):  # unsent bytes to a dead worker
                    stream.close()
        self._errors.close()

    def forget(self) -> None:
        """In a fork: give up our copies of the pipes. The process is the parent's, and answers it."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.raw.close()  # type: ignore[attr-defined]  # without a flush
        self.process.returncode = 0

    @staticmethod
    def _read(stream: IO[bytes], count: int, deadline: float) -> bytes:
        parts = []
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while count:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                part = os.read(stream.fileno(), min(count, 1 << 20))
                if not part:
                    raise EOFError
                parts.append(part)
                count -= len(part)
        return b"".join(parts)


class WorkerPool:
    """At most `workers` child processes, started when needed, kept until `close`."""

    def __init__(self, workers: int, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        self.workers = workers
        self.timeout_seconds = timeout_seconds
        self._free = threading.Semaphore(workers)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._started: set[_Worker] = set()
        self._closed = False

    def compile(self, ir_text: str, vlen_bits: int) -> LlvmOutput:
        """Object, assembly and optimised IR of one module. WorkerError: LLVM refused, aborted or hung."""
        message = {"ir": ir_text, "triple": TARGET_TRIPLE, "cpu": _CPU, "features": features_for(vlen_bits)}
        with self._free:
            try:
                reply = self._request(self._take(), message)
            except _KilledError:
                # By the system or a user, not by LLVM, and perhaps before this request: it gets a new worker.
                reply = self._request(self._start(), message)
        if "error" in reply:
            raise WorkerError(str(reply["error"]))
        object_bytes = reply["object"]
        assert isinstance(object_bytes, bytes)
        return LlvmOutput(object_bytes, str(reply["assembly"]), str(reply["optimised"]))

    def process_ids(self) -> tuple[int, ...]:
        """The idle workers' process ids, for tests."""
        with self._lock:
            return tuple(worker.process.pid for worker in self._idle)

    def close(self) -> None:
        """End every idle worker; busy ones end when their request does."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            self._end(worker)

    def forget(self) -> None:
        """In a fork: the workers are the parent's."""
        for worker in self._started:
            worker.forget()

    def _request(self, worker: _Worker, message: dict[str, str]) -> dict[str, object]:
        """Ask `worker` and put it back; one that did not answer is ended, with a WorkerError."""
        try:
            reply = worker.request(message, self.timeout_seconds)
        except EOFError:
            how = worker.died()
            killed = worker.process.returncode in (-signal.SIGKILL, -signal.SIGTERM)
            self._end(worker)
            raise (_KilledError if killed else WorkerError)(f"the LLVM worker died ({how})") from None
        except TimeoutError:
            self._end(worker)
            raise WorkerError(f"LLVM did not finish in {self.timeout_seconds:g} s") from None
        except BaseException:  # interrupted in the middle of a reply: this pipe is of no use any more
            self._end(worker)
            raise
        self._give_back(worker)
        return reply

    def _take(self) -> _Worker:
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        return self._start() if idle is None else idle

    def _start(self) -> _Worker:
        try:
            worker = _Worker()
        except OSError as error:
            raise WorkerError(f"an LLVM worker could not be started: {error}") from error
        with self._lock:
            self._started.add(worker)
        return worker

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
        self._end(worker)

    def _end(self, worker: _Worker) -> None:
        worker.close()
        with self._lock:
            self._started.discard(worker)


_shared: WorkerPool | None = None
_shared_lock = threading.Lock()


def shared_pool(workers: int) -> WorkerPool:
    """The process's pool. `workers` counts when it is first asked for, and after a change makes a new pool."""
    global _shared  # noqa: PLW0603 one pool per process, by design
    with _shared_lock:
        if _shared is None or _shared.workers != workers:
            if _shared is not None:
                _shared.close()
            _shared = WorkerPool(workers)
        return _shared


def _close_shared() -> None:
    with _shared_lock:
        if _shared is not None:
            _shared.close()


def _forget_shared() -> None:
    # The parent's workers answer the parent. Its locks may be held by threads that this fork does not have.
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


atexit.register(_close_shared)
os.register_at_fork(after_in_child=_forget_shared)
