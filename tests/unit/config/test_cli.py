"""The `pytorchsim` command."""

from __future__ import annotations

import pytest
import yaml

import pytorchsim
from pytorchsim import cli
from pytorchsim.config import load_config, preset_names


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["pytorchsim", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


def test_config_list_names_every_preset(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "config", "list") == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == list(preset_names())
    assert next(line for line in printed if line.endswith("(default)")).startswith("tpuv3")


def test_config_show_prints_what_loads_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "config", "show", "mobile") == 0
    printed = capsys.readouterr().out
    assert load_config("mobile").digest() in printed
    assert load_config(yaml.safe_load(printed)) == load_config("mobile")


def test_errors_are_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "config", "show", "mobil") == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("pytorchsim: unknown config 'mobil'")
    assert "Traceback" not in captured.err


def test_doctor_reports_every_tool(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "doctor") == 0, capsys.readouterr().out
    names = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert names == ["python", "torch", "mlir", "llvm", "linker", "spike", "engine", "cache", "gem5"]


def test_doctor_fails_without_a_linker(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PYTORCHSIM_LLD", "no-such-linker")
    assert run(monkeypatch, "doctor") == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "linker" in line)
    assert line.startswith("MISSING")
    assert "apt-get install lld" in line


def test_version_is_the_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"pytorchsim {pytorchsim.__version__}\n"
