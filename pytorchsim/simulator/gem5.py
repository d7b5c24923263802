"""gem5 as a second source of a tile function's cycles.

In: a call of a tile function, the machine, a gem5 binary that the user names. Out: cycles of one call: the difference
between eleven calls and one, divided by ten, so that start-up and the first touch of caches do not count. Results are
kept by content. Assumes: gem5's syscall emulation of a static RISC-V binary; nothing of gem5 is part of this project.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytorchsim.config.environment import read_environment
from pytorchsim.config.model import NpuConfig
from pytorchsim.config.paths import user_path
from pytorchsim.errors import Gem5Error, Gem5VersionWarning, SetupError
from pytorchsim.mlir.cache import ContentStore
from pytorchsim.simulator.gem5_machine import fill_and_drain_cycles, machine_json
from pytorchsim.simulator.gem5_program import TileCall, executable

__all__ = ["Gem5", "Pin", "find_gem5", "gem5_version", "parse_ticks", "read_pin", "support_file"]

_REPETITIONS = 11
_TICKS_PER_CYCLE = 1000  # of the script's clock, 1 GHz
_TIMEOUT_SECONDS = 600
_TAIL_LINES = 12
_SECTION = "gem5"


class Pin(NamedTuple):
    """The version that the driver was written for."""

    version: str
    commit: str


def support_file(name: str) -> Path:
    """A file of `third_party/gem5/`: beside the package where it is installed, in the source tree otherwise."""
    package = Path(__file__).parents[1]
    for folder in (package / "third_party" / "gem5", package.parent / "third_party" / "gem5"):
        if (folder / name).is_file():
            return folder / name
    raise SetupError(
        f"{name} of third_party/gem5 is missing; reinstall with `pip install --force-reinstall pytorchsim`"
    )


def read_pin() -> Pin:
    """Version and commit from `pin.toml`."""
    text = support_file("pin.toml").read_text(encoding="utf-8")
    values = dict(re.findall(r'^(\w+) = "([^"]*)"$', text, re.MULTILINE))
    return Pin(values["version"], values["commit"])


def find_gem5(config: NpuConfig | None = None) -> Path:
    """The binary that the config or `PYTORCHSIM_GEM5` names.

    Raises:
        SetupError: neither names one, or the config's is not an executable file.
    """
    if config is not None and config.gem5:
        path = user_path(config.gem5)
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise SetupError(f"gem5: {path} (config key 'gem5') is not an executable file; name the gem5 binary")
        return path
    binary = read_environment().gem5
    if binary is None:
        raise SetupError(
            f"latency_source asks for gem5 and none is named: set PYTORCHSIM_GEM5 (or the config key 'gem5') to a gem5"
            f" {read_pin().version} binary, see third_party/gem5/README.md, or use latency_source 'builtin'"
        )
    return binary


@cache
def gem5_version(binary: Path) -> str:
    """What the binary says of itself, in the banner before it runs a script (24.0's `--build-info` fails).

    Raises:
        Gem5Error: it does not run, or does not say.
    """
    with tempfile.TemporaryDirectory(prefix="pytorchsim-gem5-") as folder:
        command = [str(binary), "--outdir", f"{folder}/out", str(support_file("lane_core.py"))]
        output = _run(command, "its version", 60)
    found = re.search(r"^gem5 version (\S+)", output, re.MULTILINE)
    if found is None:
        raise Gem5Error(f"{binary} does not say its version; is it gem5?\n{_tail(output)}")
    return found[1]


class Gem5:
    """One machine on one binary."""

    def __init__(self, config: NpuConfig, store: ContentStore | None = None) -> None:
        """Another version than the pinned one is a `Gem5VersionWarning`.

        Raises:
            SetupError: no binary is named.
            Gem5Error: it does not run.
        """
        self.config, self._store = config, store
        self.binary = find_gem5(config)
        self.version = gem5_version(self.binary)
        pin = read_pin()
        if self.version != pin.version:
            warnings.warn(
                f"gem5 {self.version} is not the pinned {pin.version}: cycles may differ from the documented ones",
                Gem5VersionWarning,
                stacklevel=2,
            )
        self._machine = machine_json(config)

    def cycles(self, call: TileCall) -> int:
        """Cycles of one call, fill and drain of arrays included.

        Raises:
            Gem5Error: gem5 failed, timed out, or printed no result; its last lines are in the message.
        """
        programs = {repetitions: executable(call, repetitions) for repetitions in (1, _REPETITIONS)}
        digest = hashlib.sha256(f"gem5 {self.version}\n{self._machine}\n".encode())
        for content in (support_file("lane_core.py").read_bytes(), *programs.values()):
            digest.update(hashlib.sha256(content).digest())
        key = digest.hexdigest()
        stored = None if self._store is None else self._store.read(_SECTION, key)
        if stored is None:
            ticks = {n: self.ticks(call.name, program) for n, program in programs.items()}
            difference = ticks[_REPETITIONS] - ticks[1]
            stored = str(round(difference / (_REPETITIONS - 1) / _TICKS_PER_CYCLE)).encode()
            if self._store is not None:
                self._store.write(_SECTION, key, stored)
        return int(stored) + fill_and_drain_cycles(self.config, call.custom)

    def ticks(self, name: str, program: bytes) -> int:
        """Ticks that a static executable takes from start to exit; `name` is for messages."""
        script = support_file("lane_core.py")
        with tempfile.TemporaryDirectory(prefix="pytorchsim-gem5-") as folder:
            machine, binary = Path(folder) / "machine.json", Path(folder) / "tile"
            try:
                machine.write_text(self._machine, encoding="utf-8")
                binary.write_bytes(program)
                binary.chmod(0o755)
            except OSError as error:
                raise Gem5Error(f"{folder} cannot hold tile function {name!r} for gem5: {error}; see TMPDIR") from error
            command = [str(self.binary), "--outdir", f"{folder}/out", str(script), str(machine), str(binary)]
            return parse_ticks(_run(command, f"tile function {name!r}", _TIMEOUT_SECONDS), name)


def parse_ticks(output: str, name: str) -> int:
    """The result line of the script. Raises Gem5Error if it is missing or the program did not exit by itself."""
    found = re.search(r"^TICKS (\d+) (.*)$", output, re.MULTILINE)
    if found is None:
        raise Gem5Error(f"gem5 printed no result for tile function {name!r}; its last lines:\n{_tail(output)}")
    if "exiting with last active thread context" not in found[2]:
        raise Gem5Error(f"gem5 stopped tile function {name!r} early: {found[2]}\n{_tail(output)}")
    return int(found[1])


def _run(command: list[str], what: str, timeout_seconds: int) -> str:
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",  # of a crash, anything may be the last line
            start_new_session=True,
        )
    except OSError as error:
        raise Gem5Error(f"gem5 cannot be started for {what}: {error}") from error
    try:
        output, _ = process.communicate(timeout=timeout_seconds)
    except BaseException as error:  # also an interrupt: what was started must not go on
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the named binary may be a script around gem5
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise Gem5Error(
            f"gem5 did not finish {what} within {timeout_seconds} s; its last lines:\n{_tail(output)}"
        ) from error
    if process.returncode != 0:
        raise Gem5Error(f"gem5 ended with code {process.returncode} for {what}; its last lines:\n{_tail(output)}")
    return output


def _tail(output: str) -> str:
    """The last lines, without the list of return addresses that gem5 ends with when it aborts, and without its warnings
    about classes of operations that our units lack (cryptography, matrices)."""
    lines = re.sub(r"^--- BEGIN LIBC BACKTRACE ---$.*", "", output, flags=re.MULTILINE | re.DOTALL).splitlines()
    lines = [line for line in lines if line.strip() and "No functional unit for OpClass" not in line][-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines) or "  (no output)"
