"""Kernels and programs as the runtime asks for them: from the content store, else made.

In: a kernel's text, a graph's kernels. Out: a future `CompiledKernel`, a `Program`. What the store has needs neither
MLIR nor LLVM nor the linker, and none of them is imported or started for it. What it does not have is compiled on
threads of ours. `cancel_builds` ends all of that at once, for Ctrl-C and at exit.
Assumes: with a dump folder the user wants to see every stage, so the store is not asked.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from weakref import WeakValueDictionary

from pytorchsim.config.environment import read_environment
from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import CompileError
from pytorchsim.mlir.cache import ContentStore, shared_store
from pytorchsim.mlir.compiled_kernel import CompiledKernel
from pytorchsim.mlir.program import Program
from pytorchsim.mlir.stored import keep_kernel, keep_program, kernel_key, program_key, stored_kernel, stored_program

__all__ = ["build_kernel", "build_program", "cancel_builds"]

_GRACE_SECONDS = 2.0
"""How long the exit of the process waits for a thread that is inside of MLIR."""


def build_kernel(name: str, mlir_text: str, config: NpuConfig, dump_dir: Path | None = None) -> Future[CompiledKernel]:
    """`compiler.compile_kernel`, whose errors come with the future, or the same kernel from the store.

    As many kernels are compiled at a time as there are LLVM workers. As long as somebody holds a kernel's future that
    did not fail, the same thread gets the same one again.
    """
    store = shared_store()
    key = kernel_key(name, mlir_text, config)
    held = (threading.get_ident(), key, dump_dir)
    future = _held.get(held)
    if future is None or (future.done() and (future.cancelled() or future.exception() is not None)):
        future = _held[held] = _build(name, mlir_text, config, dump_dir, store, key)
    return future


_held: WeakValueDictionary[tuple[int, str, Path | None], Future[CompiledKernel]] = WeakValueDictionary()
"""By thread, because whoever gives up a kernel may cancel it."""


def _build(
    name: str, mlir_text: str, config: NpuConfig, dump_dir: Path | None, store: ContentStore | None, key: str
) -> Future[CompiledKernel]:
    if store is not None and dump_dir is None and (known := stored_kernel(store, key)) is not None:
        done: Future[CompiledKernel] = Future()
        done.set_result(known)
        return done

    threads, begun = _threads, _threads.cancellations

    def compile_and_keep() -> CompiledKernel:
        from pytorchsim.mlir.compiler import compile_kernel

        kernel = compile_kernel(name, mlir_text, config, dump_dir, wanted=lambda: threads.cancellations == begun)
        if store is not None:
            keep_kernel(store, key, kernel)
        return kernel

    return _threads.submit(compile_and_keep, read_environment().workers)


def build_program(kernels: Sequence[CompiledKernel], config: NpuConfig) -> Program:
    """`compiler.link_program`, with its errors, or the same program from the store."""
    store = shared_store()
    key = program_key(kernels, config)
    if store is not None and (known := stored_program(store, key)) is not None:
        return known
    from pytorchsim.mlir.compiler import link_program

    program = link_program(kernels, config)
    if store is not None:
        keep_program(store, key, program)
    return program


def cancel_builds() -> None:
    """Give up every kernel that is waiting, on its way to LLVM or there: their futures raise a CompileError.

    The next `build_kernel` works as ever, with new workers.
    """
    _threads.cancel()
    _held.clear()  # what is on its way to LLVM just now is not waited for again
    workers = sys.modules.get("pytorchsim.mlir.workers")
    if workers is not None:
        workers.interrupt_shared_pool()


class _CompileThreads:
    """Threads that start when there is work and end when there is none.

    They are daemons, since the interpreter waits for others before anything can end them; `finish` waits instead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[CompiledKernel], Callable[[], CompiledKernel]]] = deque()
        self._running: set[threading.Thread] = set()
        self.cancellations = 0

    def submit(self, work: Callable[[], CompiledKernel], most: int) -> Future[CompiledKernel]:
        """Run `work` on one of at most `most` threads."""
        future: Future[CompiledKernel] = Future()
        with self._lock:
            self._waiting.append((future, work))
            if len(self._running) < most:
                thread = threading.Thread(target=self._run, name="pytorchsim-compile", daemon=True)
                self._running.add(thread)
                thread.start()
        return future

    def cancel(self) -> None:
        """What has not begun does not begin."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self.cancellations += 1
        for future, _ in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(CompileError("its compilation was interrupted"))

    def finish(self) -> None:
        """Wait a little for the threads to end."""
        with self._lock:
            running = list(self._running)
        for thread in running:
            thread.join(_GRACE_SECONDS)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running.discard(threading.current_thread())
                    return
                future, work = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  whoever waits for the future raises it
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, work  # nothing is kept alive while this thread looks for more


_threads = _CompileThreads()


def _end() -> None:
    cancel_builds()
    _threads.finish()


def _forget_threads() -> None:
    global _threads  # noqa: PLW0603 one per process, like the workers they drive
    _threads = _CompileThreads()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget_threads)
