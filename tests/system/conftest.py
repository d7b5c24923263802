"""What the system tests share: logs of which kernels were launched, ours (by machine) and plain Inductor's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.cpu_vec_isa import VecISA

import pytorchsim.runtime


@dataclass
class LaunchLog:
    """Every graph that was loaded and every kernel that was launched, with the preset they belong to."""

    loaded: list[tuple[str, str]] = field(default_factory=list)
    launched: list[tuple[str, str]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def presets(self) -> list[str]:
        """The machine of every launch, in order."""
        return [preset for preset, _ in self.launched]


class _LoggedKernel:
    def __init__(self, kernel: Any, log: LaunchLog, preset: str, name: str) -> None:
        self._kernel, self._log, self._entry = kernel, log, (preset, name)

    def run(self, *args: Any) -> None:
        self._log.launched.append(self._entry)
        self._kernel.run(*args)


class _LoggedGraph:
    def __init__(self, graph: Any, log: LaunchLog, preset: str) -> None:
        self._graph, self._log, self._preset = graph, log, preset

    def kernel(self, name: str, text: str, metadata: str) -> _LoggedKernel:
        return _LoggedKernel(self._graph.kernel(name, text, metadata), self._log, self._preset, name)

    def link(self) -> None:
        self._graph.link()

    def begin(self) -> None:
        self._log.begun.append(self._preset)
        self._graph.begin()

    def end(self) -> None:
        self._log.ended.append(self._preset)
        self._graph.end()


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> LaunchLog:
    """A log of what the graphs loaded during the test do. They run as ever."""
    log = LaunchLog()
    load_graph = pytorchsim.runtime.load_graph

    def logged_load_graph(*, name: str, config: str, options: str, facts: str) -> _LoggedGraph:
        preset = json.loads(config)["name"]
        log.loaded.append((preset, name))
        return _LoggedGraph(load_graph(name=name, config=config, options=options, facts=facts), log, preset)

    monkeypatch.setattr(pytorchsim.runtime, "load_graph", logged_load_graph)
    return log


@pytest.fixture
def stock_launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plain Inductor without a C++ compiler: each kernel it launches is logged and computes nothing."""
    launched: list[str] = []

    def cpp_pybinding(_self: AsyncCompile, _argtypes: list[str], source: str) -> Any:
        return lambda *_args: launched.append(source)

    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", cpp_pybinding)
    monkeypatch.setattr(VecISA, "check_build", lambda _self, _code: True)
    return launched
