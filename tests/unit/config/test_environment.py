"""`read_environment`: types, defaults, and what a wrong value or name says."""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from pathlib import Path

import pytest

from pytorchsim.config.environment import VARIABLES, Environment, read_environment
from pytorchsim.errors import ConfigError, PyTorchSimWarning


def test_the_table_has_one_variable_per_field_and_the_read_is_complete() -> None:
    assert [v.field for v in VARIABLES] == [f.name for f in dataclasses.fields(Environment)]
    assert all(v.name == f"PYTORCHSIM_{v.field.upper()}" for v in VARIABLES)


def test_defaults() -> None:
    environment = read_environment({})
    assert environment.cache_dir.is_absolute()
    assert environment.cache_dir.name == "pytorchsim"
    assert 1 <= environment.workers <= 8
    assert environment == dataclasses.replace(
        environment, dump_dir=None, lld="ld.lld", log="warning", no_cache=False, gem5=None
    )


def test_empty_means_unset() -> None:
    assert read_environment({v.name: "  " for v in VARIABLES}) == read_environment({})


def test_values(tmp_path: Path) -> None:
    environment = read_environment(
        {
            "PYTORCHSIM_CACHE_DIR": str(tmp_path / "new"),
            "PYTORCHSIM_DUMP_DIR": str(tmp_path),
            "PYTORCHSIM_WORKERS": "3",
            "PYTORCHSIM_LLD": "ld.lld-14",
            "PYTORCHSIM_LOG": "DEBUG",
            "PYTORCHSIM_NO_CACHE": "yes",
            "PYTORCHSIM_GEM5": sys.executable,
            "HOME": "/",
        }
    )
    assert environment == Environment(
        cache_dir=tmp_path / "new",
        dump_dir=tmp_path,
        workers=3,
        lld="ld.lld-14",
        log="debug",
        no_cache=True,
        gem5=Path(sys.executable),
    )


@pytest.mark.parametrize("text", ["1", "true", "Yes", "ON"])
def test_flags_on(text: str) -> None:
    assert read_environment({"PYTORCHSIM_NO_CACHE": text}).no_cache


@pytest.mark.parametrize("text", ["0", "false", "No", "OFF"])
def test_flags_off(text: str) -> None:
    assert not read_environment({"PYTORCHSIM_NO_CACHE": text}).no_cache


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("PYTORCHSIM_WORKERS", "0", r"PYTORCHSIM_WORKERS='0': expected a whole number, at least 1"),
        ("PYTORCHSIM_WORKERS", "two", r"PYTORCHSIM_WORKERS='two'"),
        ("PYTORCHSIM_LOG", "loud", r"PYTORCHSIM_LOG='loud': expected one of debug, info, warning, error"),
        ("PYTORCHSIM_NO_CACHE", "maybe", r"PYTORCHSIM_NO_CACHE='maybe': expected 1, true, yes"),
        ("PYTORCHSIM_CACHE_DIR", __file__, r"PYTORCHSIM_CACHE_DIR=.*is not a directory"),
        ("PYTORCHSIM_GEM5", "/no/such/gem5", r"PYTORCHSIM_GEM5=.*is not an executable file"),
    ],
)
def test_refusals_name_the_variable(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_environment({name: text})


def test_unknown_variables_are_a_warning_that_suggests() -> None:
    with pytest.warns(PyTorchSimWarning, match=r"PYTORCHSIM_WORKER; did you mean PYTORCHSIM_WORKERS\?"):
        read_environment({"PYTORCHSIM_WORKER": "3"})
    with pytest.warns(PyTorchSimWarning, match=r"PYTORCHSIM_Q; known: PYTORCHSIM_CACHE_DIR, "):
        read_environment({"PYTORCHSIM_Q": "3"})


def test_other_variables_are_no_concern() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_environment({"TORCH_LOGS": "x", "PYTORCH_SIM": "y"})


def test_the_process_environment_is_read_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTORCHSIM_DUMP_DIR", str(tmp_path))
    assert read_environment().dump_dir == tmp_path
    monkeypatch.delenv("PYTORCHSIM_DUMP_DIR")
    assert read_environment().dump_dir is None


def test_tests_do_not_use_the_users_cache() -> None:
    assert read_environment().cache_dir == Path(os.environ["PYTORCHSIM_CACHE_DIR"])
    assert Path.home() not in read_environment().cache_dir.parents
