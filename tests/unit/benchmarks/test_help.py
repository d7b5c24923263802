"""Every benchmark says what it does and refuses what it does not know, before anything is measured."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"
COMMANDS = sorted(path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def run(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [f"benchmarks.{name}", *arguments])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == (0 if arguments == ["--help"] else 2)
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_all_are_found() -> None:
    assert COMMANDS == ["accuracy", "banked", "cycles", "gem5", "length", "memory", "speed"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(name, ["--help"], monkeypatch, capsys)
    assert len(text.splitlines()) > 5
    assert "error: " in run(name, ["--no-such-option"], monkeypatch, capsys)


@pytest.mark.parametrize("name", ["accuracy", "banked", "speed"])
def test_a_case_that_does_not_exist(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "gemm" in run(name, ["--case", "no such case"], monkeypatch, capsys)


@pytest.mark.parametrize("name", ["accuracy", "speed"])
def test_a_config_that_does_not_exist(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Did you mean 'tpuv3'" in run(name, ["--config", "tpuv33"], monkeypatch, capsys)
