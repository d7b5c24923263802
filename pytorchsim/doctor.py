"""Checks of everything a compile and a run need, for `pytorchsim doctor`.

In: the installed packages and the environment variables. Out: one `Check` per tool, never an exception.
Assumes: called on demand only; it loads MLIR and LLVM.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from pytorchsim.config import read_environment
from pytorchsim.errors import SetupError

__all__ = ["Check", "run_checks"]

ENGINE_MODULE = "pytorchsim._native"
REINSTALL = "reinstall with `pip install --force-reinstall pytorchsim`, or `make build` in a checkout"


@dataclass(frozen=True)
class Check:
    """One line of the report. `found` says what was found, or what to do."""

    name: str
    ok: bool
    found: str


def run_checks() -> list[Check]:
    """Run every check, in the order of the compile path."""
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{sys.version.split()[0]} at {sys.executable}"),
        ("torch", lambda: _pinned("torch")),
        ("mlir", _mlir),
        ("llvm", _llvm),
        ("linker", _linker),
        ("spike", lambda: _pinned("spike")),
        ("engine", _engine),
        ("cache", _cache),
        ("gem5", _gem5),
    ]
    return [_run(name, check) for name, check in checks]


def _run(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except Exception as error:  # noqa: BLE001  whatever a broken installation raises is the finding
        return Check(name, False, f"{type(error).__name__}: {error}")


def _pinned(package: str) -> str:
    """The installed version, held against the exact pin of our own metadata."""
    installed = importlib.metadata.version(package)
    for requirement in _requirements():
        match = re.match(rf"{re.escape(package)}==([^\s;]+)", requirement)
        if match and installed.split("+")[0] != match[1]:
            raise SetupError(f"version {installed} is installed, {match[1]} is needed: pip install {match[0]}")
    return installed


def _requirements() -> list[str]:
    try:
        return importlib.metadata.requires("pytorchsim") or []
    except importlib.metadata.PackageNotFoundError:
        return []  # imported from a checkout that is not installed: the engine's check says so


def _mlir() -> str:
    importlib.import_module("mlir.ir")
    return _pinned("xtc-mlir-python-bindings")


def _llvm() -> str:
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.Target.from_triple("riscv64-unknown-elf")
    return f"{'.'.join(map(str, llvm.llvm_version_info))} with riscv64 (llvmlite {_pinned('llvmlite')})"


def _linker() -> str:
    lld = read_environment().lld
    path = shutil.which(lld)
    if path is None:
        raise SetupError(f"{lld} not found: apt-get install lld, or name one with PYTORCHSIM_LLD")
    result = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=30)
    return f"{result.stdout.strip()} at {path}"


def _engine() -> str:
    try:
        module = importlib.import_module(ENGINE_MODULE)
    except ImportError as error:
        raise SetupError(f"{error}; {REINSTALL}") from error
    return str(module.__file__)


def _cache() -> str:
    environment = read_environment()
    if environment.no_cache:
        return "switched off by PYTORCHSIM_NO_CACHE"
    nearest = environment.cache_dir
    while not nearest.exists():
        nearest = nearest.parent
    if not os.access(nearest, os.W_OK):
        raise SetupError(f"{nearest} is not writable: name another directory with PYTORCHSIM_CACHE_DIR")
    return str(environment.cache_dir)


def _gem5() -> str:
    from pytorchsim.simulator.gem5 import gem5_version, read_pin

    binary, pin = read_environment().gem5, read_pin()
    if binary is None:
        return f"none (optional; PYTORCHSIM_GEM5 names one; pinned {pin.version})"
    return f"{gem5_version(binary)} at {binary} (pinned {pin.version})"
