"""Ctrl-C stops within half a second in every phase, leaves no process behind, and the next call works."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

STOPS_WITHIN_SECONDS = 0.5
"""From the signal until the call has raised."""

ENDS_WITHIN_SECONDS = 20
"""From the signal until a process that does not catch it is gone. Every phase here is endless; what takes seconds on a
busy machine is the interpreter's own end."""

PROCESS = """
import sys, threading, time
import torch
import pytorchsim
from pytorchsim.runtime import graph, session
from pytorchsim.simulator import functional, timing

phase = sys.argv[1]
options = {"config": "tiny", "strict": True}

def announce():  # the signal comes while the phase that follows is at work
    print("ready", flush=True)

armed = True
def announcing(function):
    def wrapped(*arguments, **named):
        global armed
        if armed:
            armed = False
            announce()
        return function(*arguments, **named)
    return wrapped

x = torch.randn(64, 64)
if phase == "compile":
    # LLVM that takes long: every worker is stopped while it has work.
    import os, signal
    from pytorchsim.mlir import workers
    request = workers._Worker.request
    def stopped(self, *arguments):
        os.kill(self.process.pid, signal.SIGSTOP)
        return request(self, *arguments)
    workers._Worker.request = stopped
    from pytorchsim.frontend.graph_compilation import GraphCompilation
    GraphCompilation.settle = announcing(GraphCompilation.settle)
elif phase == "link":
    graph.build_program = announcing(graph.build_program)
elif phase == "functional":
    x = torch.randn(3000, 3000)
    functional.Machine.launch = announcing(functional.Machine.launch)
elif phase == "timing":
    # Ten million events: transfers of a trace that no kernel of a test's size has.
    simulate = timing.simulate
    from pytorchsim import _native
    trace = _native.Trace()
    for number in range(600_000):
        trace.start(0, False, [(number * 64, 64, [])])
        trace.wait(0)
    def long(traces, config):
        if not armed:
            return simulate(traces, config)
        announce()
        disarm()
        while True:
            simulate([trace], config)
    def disarm():
        global armed
        armed = False
    timing.simulate = long

function = torch.compile(lambda x: torch.sin(torch.exp(x) + x).softmax(-1) if phase == "functional" else x + 1,
                         backend="pytorchsim", options=options)
try:
    while True:
        function(x)
except KeyboardInterrupt:
    if sys.argv[2] == "ends":
        raise
    print("stopped", flush=True)
if phase == "compile":
    workers._Worker.request = request
elif phase == "link":
    import os
    os.environ.pop("PYTORCHSIM_LLD")
y = torch.randn(5, 9)
torch.testing.assert_close(torch.compile(lambda y: y * y, backend="pytorchsim", options=options)(y), y * y)
torch.testing.assert_close(function(y.new_zeros(64, 64)), torch.ones(64, 64)) if phase != "functional" else None
print("works", flush=True)
"""


def _start(phase: str, then: str, tmp_path: Path) -> subprocess.Popen[str]:
    slow = tmp_path / "slow-linker"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PYTORCHSIM_CACHE_DIR": str(tmp_path / "pytorchsim"), "PYTORCHSIM_WORKERS": "2"}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "inductor")
    if phase == "link":
        environment["PYTORCHSIM_LLD"] = str(slow)
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, phase, then],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "ready\n", process.communicate()[1]
    time.sleep(0.3)  # well inside the phase
    return process


def _alive(group: int) -> list[str]:
    """Command lines of the processes of a session, without the dead that nobody has waited for."""
    lines = subprocess.run(["ps", "-eo", "sess=,stat=,args="], capture_output=True, text=True, check=True).stdout
    fields = [line.split(maxsplit=2) for line in lines.splitlines()]
    return [command for session, state, command in fields if session == str(group) and not state.startswith("Z")]


@pytest.mark.parametrize("phase", ["compile", "link", "functional", "timing"])
def test_the_call_stops_and_the_next_one_works(phase: str, tmp_path: Path) -> None:
    process = _start(phase, "goes on", tmp_path)
    assert process.stdout is not None
    started = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    line = process.stdout.readline()
    seconds = time.monotonic() - started
    output, errors = process.communicate(timeout=60)
    assert line == "stopped\n", errors
    assert seconds < STOPS_WITHIN_SECONDS
    assert output == "works\n", errors
    assert _alive(process.pid) == []


@pytest.mark.parametrize("phase", ["compile", "link", "functional", "timing"])
def test_the_process_ends_and_leaves_none_behind(phase: str, tmp_path: Path) -> None:
    process = _start(phase, "ends", tmp_path)
    started = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    seconds = time.monotonic() - started
    assert "KeyboardInterrupt" in errors
    assert process.returncode == -signal.SIGINT
    assert seconds < ENDS_WITHIN_SECONDS
    assert _alive(process.pid) == []
