"""LLVM workers: what they return, and what is left of them when LLVM, they or we die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytorchsim.mlir import workers
from pytorchsim.mlir.workers import WorkerError, WorkerPool

GOOD = """
define void @f(ptr %p) {
  %v = load <8 x float>, ptr %p
  %w = fadd <8 x float> %v, %v
  store <8 x float> %w, ptr %p
  ret void
}"""

# LLVM cannot widen the result of this intrinsic, and says so by abort().
ABORTS = """
declare <6 x float> @llvm.riscv.sf.vc.v.iv.v6f32.i64.v6f32.i64.i64(i64, <6 x float>, i64, i64)
define <6 x float> @f(<6 x float> %v) {
  %r = call <6 x float> @llvm.riscv.sf.vc.v.iv.v6f32.i64.v6f32.i64.i64(i64 3, <6 x float> %v, i64 0, i64 6)
  ret <6 x float> %r
}"""

REFUSED = "define void @f() { ret i32 0 }"


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(2)
    yield pool
    pool.close()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"


def wait_until_gone(process: int, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(process)


def test_object_assembly_and_ir(pool: WorkerPool) -> None:
    output = pool.compile(GOOD, 256)
    assert output.object_bytes.startswith(b"\x7fELF")
    assert "vfadd.vv" in output.assembly
    assert "fadd <8 x float>" in output.optimised
    assert "zvl256b" in output.assembly


def test_the_vector_length_is_the_machines(pool: WorkerPool) -> None:
    assert "e32, m1" in pool.compile(GOOD, 256).assembly
    assert "e32, m2" in pool.compile(GOOD, 128).assembly


def test_a_worker_is_reused(pool: WorkerPool) -> None:
    pool.compile(GOOD, 256)
    (process,) = pool.process_ids()
    pool.compile(GOOD, 256)
    assert pool.process_ids() == (process,)


def test_refused_ir_names_the_reason_and_keeps_the_worker(pool: WorkerPool) -> None:
    pool.compile(GOOD, 256)
    before = pool.process_ids()
    with pytest.raises(WorkerError, match=r"(?s)LLVM refuses the IR: .*value doesn't match function result type"):
        pool.compile(REFUSED, 256)
    assert pool.process_ids() == before


def test_an_abort_is_one_error_and_the_next_call_works(pool: WorkerPool) -> None:
    with pytest.raises(
        WorkerError, match=r"(?s)the LLVM worker died \(signal 6; .*LLVM ERROR: Do not know how to widen"
    ):
        pool.compile(ABORTS, 256)
    assert pool.compile(GOOD, 256).object_bytes


def test_a_worker_killed_while_idle_is_replaced(pool: WorkerPool) -> None:
    pool.compile(GOOD, 256)
    (process,) = pool.process_ids()
    os.kill(process, signal.SIGKILL)
    assert wait_until_gone(process)
    assert pool.compile(GOOD, 256).object_bytes
    assert pool.process_ids() != (process,)


def kill_when_it_has_a_request(process: int) -> threading.Timer:
    os.kill(process, signal.SIGSTOP)  # busy for ever
    killer = threading.Timer(0.3, os.kill, (process, signal.SIGKILL))
    killer.start()
    return killer


def test_a_request_whose_worker_is_killed_gets_another(pool: WorkerPool) -> None:
    pool.compile(GOOD, 256)
    (process,) = pool.process_ids()
    killer = kill_when_it_has_a_request(process)
    assert pool.compile(GOOD, 256).object_bytes
    killer.join()
    assert not alive(process)


def test_a_request_whose_every_worker_is_killed_is_an_error(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    start = workers._Worker

    def start_and_kill() -> workers._Worker:
        worker = start()
        started.append((worker.process.pid, kill_when_it_has_a_request(worker.process.pid)))
        return worker

    monkeypatch.setattr(workers, "_Worker", start_and_kill)
    with pytest.raises(WorkerError, match=r"the LLVM worker died .signal 9"):
        pool.compile(GOOD, 256)
    assert len(started) == 2
    for process, killer in started:
        killer.join()
        assert not alive(process)
    monkeypatch.undo()
    assert pool.compile(GOOD, 256).object_bytes


def test_a_worker_that_hangs_is_ended() -> None:
    pool = WorkerPool(1, timeout_seconds=5)
    pool.compile(GOOD, 256)
    pool.timeout_seconds = 0.3
    (process,) = pool.process_ids()
    os.kill(process, signal.SIGSTOP)
    with pytest.raises(WorkerError, match=r"LLVM did not finish in 0\.3 s"):
        pool.compile(GOOD, 256)
    assert not alive(process)
    pool.timeout_seconds = 60
    assert pool.compile(GOOD, 256).object_bytes
    pool.close()


def test_threads_share_the_pool_and_get_their_own_answers(pool: WorkerPool) -> None:
    answers: dict[int, str] = {}

    def run(number: int) -> None:
        answers[number] = pool.compile(GOOD.replace("@f", f"@f{number}"), 256).assembly

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"\nf{number}:\n" in answers[number] for number in range(8))
    assert len(pool.process_ids()) <= 2


def test_close_ends_the_processes(pool: WorkerPool) -> None:
    pool.compile(GOOD, 256)
    (process,) = pool.process_ids()
    pool.close()
    assert not alive(process)


PARENT = """
import os, sys, time
from pytorchsim.mlir.workers import shared_pool
pool = shared_pool(1)
pool.compile({good!r}, 256)
print(pool.process_ids()[0], flush=True)
{then}
"""


def run_parent(then: str) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(good=GOOD, then=then)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_no_orphan_when_the_parent_is_killed() -> None:
    parent, worker = run_parent("time.sleep(60)")
    assert alive(worker)
    parent.kill()
    parent.wait()
    assert wait_until_gone(worker)


def test_no_orphan_when_the_parent_is_killed_and_a_fork_holds_the_pipe() -> None:
    parent, worker = run_parent(
        "if os.fork() == 0:\n    print(os.getpid(), flush=True)\n    time.sleep(30)\nelse:\n    time.sleep(60)"
    )
    assert parent.stdout is not None
    fork = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    gone = wait_until_gone(worker)
    os.kill(fork, signal.SIGKILL)
    assert gone


def test_no_orphan_when_the_parent_ends() -> None:
    parent, worker = run_parent("")
    assert parent.wait(20) == 0
    assert wait_until_gone(worker)


def test_a_fork_has_workers_of_its_own() -> None:
    then = (
        "child = os.fork()\n"
        "pool = shared_pool(1)\n"
        f"print(pool.process_ids(), len(pool.compile({GOOD!r}, 256).object_bytes) > 0, flush=True)\n"
        "os.waitpid(child, 0) if child else os._exit(0)"
    )
    parent, worker = run_parent(then)
    assert parent.stdout is not None
    lines = sorted(parent.stdout.read().splitlines())
    assert parent.wait(20) == 0
    assert lines == sorted(["() True", f"({worker},) True"])
    assert wait_until_gone(worker)


def test_workers_do_not_run_the_users_main(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    script.write_text(
        "import os\n"
        "open('ran', 'a').write('x')\n"
        "from pytorchsim.mlir.workers import shared_pool\n"
        f"shared_pool(1).compile({GOOD!r}, 256)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, env=environment)
    assert (tmp_path / "ran").read_text() == "x"


def test_objects_are_the_same_in_every_process() -> None:
    objects = []
    for _ in range(2):
        pool = WorkerPool(1)
        objects.append(pool.compile(GOOD, 256).object_bytes)
        pool.close()
    assert objects[0] == objects[1]
