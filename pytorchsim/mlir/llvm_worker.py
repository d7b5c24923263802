"""The LLVM worker: a child process that turns LLVM IR into RISC-V objects. Run as a script, never imported.

In: requests on standard input; out: replies on the standard output it was started with. Both are a length (8 bytes,
little endian) and a pickled dictionary; both ends are ours. It imports llvmlite and the standard library only, so it
starts fast and never runs the user's `__main__`. LLVM may abort this process; the pool in `workers.py` notices and
starts another. It leaves when its input ends or its parent has died.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import time
from typing import BinaryIO

_PARENT_POLL_SECONDS = 1.0


def _compile(request: dict[str, str]) -> dict[str, object]:
    """Optimise and emit one module. A problem that LLVM reports (rather than aborts on) comes back as `error`."""
    import llvmlite.binding as llvm

    started = time.perf_counter()
    try:
        module = llvm.parse_assembly(request["ir"])
        module.verify()
    except RuntimeError as error:
        return {"error": f"LLVM refuses the IR: {error}"}
    target = llvm.Target.from_triple(request["triple"])
    # Small code model: every address is below 2 GiB, and where LLVM is short of registers it makes `lui` + `addi` anew.
    # What the medium model computes from pc it keeps on the stack instead, and the stack is scratchpad.
    machine = target.create_target_machine(
        cpu=request["cpu"], features=request["features"], opt=3, reloc="static", codemodel="small"
    )
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    # Vector code is written by the kernels; LLVM's own would mean something else on this machine. Unrolled loops grow
    # the code of in-order lanes for nothing.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return {
        "optimised": str(module),
        "assembly": machine.emit_assembly(module),
        "object": machine.emit_object(module),
        "seconds": time.perf_counter() - started,
    }


def _watch_parent(parent: int) -> None:
    # The pipe's other end may live on in a fork of a dead parent, so the end of input alone is not enough.
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_SECONDS)
    os._exit(0)


def _read(stream: BinaryIO) -> dict[str, str] | None:
    header = stream.read(8)
    if len(header) < 8:
        return None
    (length,) = struct.unpack("<Q", header)
    data = stream.read(length)
    return pickle.loads(data) if len(data) == length else None


def _main(parent: int) -> None:
    # Replies go to the pipe; anything that a library prints goes to standard error.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
    import llvmlite.binding as llvm

    # Functions keep the order in which they were written. The core issues in order, and LLVM knows its queues and units
    # no better than its latencies: its scheduler brings each use next to what it waits for.
    llvm.set_option("pytorchsim", "-enable-misched=false")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    while (request := _read(sys.stdin.buffer)) is not None:
        data = pickle.dumps(_compile(request))
        replies.write(struct.pack("<Q", len(data)) + data)
        replies.flush()


if __name__ == "__main__":
    if sys.path[:1] == [os.path.dirname(__file__)]:
        del sys.path[0]  # the folder's modules are not meant to be found by plain names
    _main(int(sys.argv[1]))
