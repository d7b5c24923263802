"""The gem5 driver against a program that answers as gem5 does: programs, parsing, caching, every error."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytorchsim.config import load_config
from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import ConfigError, Gem5Error, Gem5VersionWarning, SetupError
from pytorchsim.mlir.cache import ContentStore
from pytorchsim.simulator import gem5 as driver
from pytorchsim.simulator.gem5_program import TileCall
from tests.unit.gem5 import fake_gem5

CALL = TileCall("npu_add_0__body", 0x10030, ((0x10030, b"\x67\x80\x00\x00", 4, 5),), (0x2000_0000,), 0x2001_0000)
CYCLES = 1234


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NpuConfig:
    monkeypatch.setenv("FAKE_GEM5_LOG", str(tmp_path / "log"))
    binary = fake_gem5.install(tmp_path, sys.executable)
    driver.gem5_version.cache_clear()
    return load_config({"gem5": str(binary), "core": {"lanes": 8}})


def runs(config: NpuConfig) -> int:
    log = Path(config.gem5).parent / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_cycles_are_the_difference_of_repetitions(config: NpuConfig) -> None:
    gem5 = driver.Gem5(config)
    assert gem5.cycles(CALL) == CYCLES
    assert runs(config) == 2


def test_fill_and_drain_of_arrays_are_added_by_closed_form(config: NpuConfig) -> None:
    # 8 lanes: first weights 8, last row 2 x 8 - 1.
    call = TileCall(**{**CALL.__dict__, "custom": frozenset({"array.push_weights", "array.push_inputs", "array.pop"})})
    assert driver.Gem5(config).cycles(call) == CYCLES + 8 + 15


def test_results_are_kept_by_content(config: NpuConfig, tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    for _ in range(2):
        assert driver.Gem5(config, store).cycles(CALL) == CYCLES
    assert runs(config) == 2
    driver.Gem5(config, store).cycles(TileCall(**{**CALL.__dict__, "arguments": (4,)}))
    assert runs(config) == 4
    wider = load_config({"gem5": config.gem5, "core": {"lanes": 8, "issue_width": 4}})
    driver.Gem5(wider, store).cycles(CALL)
    assert runs(config) == 6


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("crash", r"ended with code -6 for tile function 'npu_add_0__body'(.|\n)*Unknown instruction 0x5b"),
        ("silent", r"no result for tile function 'npu_add_0__body'(.|\n)*gem5 version"),
        ("early", r"stopped tile function 'npu_add_0__body' early: a thread reached"),
        ("slow", r"did not finish tile function 'npu_add_0__body' within 1 s(.|\n)*still running"),
    ],
)
def test_failures_name_the_tile_function_and_keep_the_last_lines(
    config: NpuConfig, monkeypatch: pytest.MonkeyPatch, behaviour: str, message: str
) -> None:
    gem5 = driver.Gem5(config)
    monkeypatch.setenv("FAKE_GEM5", behaviour)
    if behaviour == "slow":
        monkeypatch.setattr(driver, "_TIMEOUT_SECONDS", 1)
    with pytest.raises(Gem5Error, match=message):
        gem5.cycles(CALL)
    monkeypatch.delenv("FAKE_GEM5")
    monkeypatch.setattr(driver, "_TIMEOUT_SECONDS", 60)
    assert gem5.cycles(CALL) == CYCLES


def test_a_time_out_ends_gem5_behind_a_script(
    config: NpuConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "wrapper"
    script.write_text(f'#!/bin/sh\n"{config.gem5}" "$@"\nexit 1\n', encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(driver, "gem5_version", lambda _: driver.read_pin().version)
    gem5 = driver.Gem5(load_config({"gem5": str(script), "core": {"lanes": 8}}))
    monkeypatch.setenv("FAKE_GEM5", "slow")
    monkeypatch.setattr(driver, "_TIMEOUT_SECONDS", 3)
    with pytest.raises(Gem5Error, match=r"did not finish(.|\n)*still running"):
        gem5.cycles(CALL)
    started = int((tmp_path / "log.pid").read_text(encoding="utf-8"))
    for _ in range(100):
        state = Path(f"/proc/{started}/stat")
        if not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("gem5 goes on behind the script that was stopped")


def test_another_version_is_a_warning_with_both(config: NpuConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GEM5", "old")
    with pytest.warns(Gem5VersionWarning, match=r"23\.1\.0\.0 is not the pinned 24\.0\.0\.1"):
        assert driver.Gem5(config).cycles(CALL) == CYCLES


def test_no_binary_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCHSIM_GEM5", raising=False)
    with pytest.raises(SetupError, match=r"set PYTORCHSIM_GEM5 .* 24\.0\.0\.1 .* third_party/gem5/README\.md"):
        driver.find_gem5(load_config("tpuv3"))
    with pytest.raises(SetupError, match=r"/no/such/gem5 \(config key 'gem5'\) is not an executable file"):
        driver.find_gem5(load_config({"gem5": "/no/such/gem5"}))


@pytest.mark.parametrize("path", ["~nosuchuser0/gem5", "/", __file__])
def test_a_path_that_is_no_program_is_a_typed_error(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.delenv("PYTORCHSIM_GEM5", raising=False)
    with pytest.raises(SetupError, match=r"config key 'gem5'\) is not an executable file"):
        driver.find_gem5(load_config({"gem5": path}))
    monkeypatch.setenv("PYTORCHSIM_GEM5", path)
    with pytest.raises(ConfigError, match=r"PYTORCHSIM_GEM5.*is not an executable file"):
        driver.find_gem5()


def test_output_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\nprintf 'garbage \\377\\376\\n'\nexit 1\n")
    other.chmod(0o755)
    with pytest.raises(Gem5Error, match=r"code 1 for its version; its last lines:\n  garbage \ufffd"):
        driver.gem5_version(other)


def test_something_else_than_gem5_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    with pytest.raises(Gem5Error, match=r"does not say its version; is it gem5\?\n  hello"):
        driver.gem5_version(other)


def test_the_pin_is_the_version_of_the_reference() -> None:
    assert driver.read_pin() == ("24.0.0.1", "b1a44b89c7bae73fae2dc547bc1f871452075b85")


@pytest.mark.parametrize("text", ["", "TICKS x", "TICKS 12"])
def test_output_without_a_result_is_an_error(text: str) -> None:
    with pytest.raises(Gem5Error, match="printed no result"):
        driver.parse_ticks(text, "t")


def test_the_machine_is_what_the_config_says(config: NpuConfig) -> None:
    import json

    from pytorchsim.simulator.gem5_machine import machine_json

    def unit(machine: dict[str, Any], op_class: str) -> dict[str, Any]:
        (found,) = [unit for unit in machine["units"] if op_class in unit["op_classes"]]
        return dict(found)

    lane = json.loads(machine_json(config))
    assert lane["cpu"]["executeIssueLimit"] == 2
    assert (unit(lane, "SimdFloatMultAcc")["latency"], unit(lane, "SimdAlu")["latency"]) == (4, 2)
    # A register of 8 elements, one per cycle; 8 places in front, each free again after 8 x 8 cycles.
    special = unit(lane, "SimdFloatSqrt")
    assert (special["count"], special["interval"], special["latency"]) == (8, 64, 15)
    minor = json.loads(machine_json(load_config("gem5_minor")))
    assert unit(minor, "SimdFloatAdd") == {
        **unit(minor, "SimdFloatAdd"),
        "count": 1,
        "latency": 6,
        "interval": 1,
        "early": 2,
    }
    assert (unit(minor, "MemRead")["early"], unit(minor, "MemRead")["assumed"]) == (1, 2)
    for machine in (lane, minor):
        classes = [name for entry in machine["units"] for name in entry["op_classes"]]
        assert len(classes) == len(set(classes)), "an operation class has one kind of unit"
    assert {name for entry in lane["units"] for name in entry["op_classes"]} == {
        name for entry in minor["units"] for name in entry["op_classes"]
    }
