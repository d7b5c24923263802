"""`load_config`: presets, files, mappings; what is refused and what the refusal says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytorchsim.config import DEFAULT_PRESET, NpuConfig, load_config, preset_names
from pytorchsim.config.load import key_paths
from pytorchsim.errors import ConfigError


def test_presets_are_the_six() -> None:
    assert preset_names() == ("gem5_minor", "mobile", "tiny", "tpuv2", "tpuv3", "tpuv4")


@pytest.mark.parametrize("name", preset_names())
def test_preset_loads_under_its_own_name(name: str) -> None:
    assert load_config(name).name == name


def test_default_preset_and_model_defaults_are_one_machine() -> None:
    assert load_config() == load_config(DEFAULT_PRESET) == NpuConfig()


def test_digests_of_presets_differ_and_are_stable() -> None:
    digests = [load_config(name).digest() for name in preset_names()]
    assert len(set(digests)) == len(digests)
    assert digests == [load_config(name).digest() for name in preset_names()]


def test_tpuv3_moves_512_bytes_per_cycle() -> None:
    assert load_config("tpuv3").dram_bytes_per_cycle == pytest.approx(512.0)  # 481.28e9 B/s / 940e6 Hz


@pytest.mark.parametrize(("name", "lanes", "slice_bytes"), [("mobile", 8, 32 * 1024), ("tiny", 8, 4 * 1024)])
def test_small_presets(name: str, lanes: int, slice_bytes: int) -> None:
    core = load_config(name).core
    assert (core.lanes, core.scratchpad_bytes_per_lane) == (lanes, slice_bytes)


def test_a_partial_mapping_inherits_from_the_default() -> None:
    config = load_config({"core": {"lanes": 8}})
    assert config.core.lanes == 8
    assert config.core.frequency_mhz == NpuConfig().core.frequency_mhz
    assert config.name == "tpuv3-custom"


def test_a_mapping_names_its_base() -> None:
    config = load_config({"base": "mobile", "name": "m16", "core": {"lanes": 16}})
    mobile = load_config("mobile")
    assert config == mobile.model_copy(update={"name": "m16", "core": mobile.core.model_copy(update={"lanes": 16})})


def test_a_base_alone_is_that_preset() -> None:
    assert load_config({"base": "mobile"}) == load_config("mobile")
    assert load_config({}) == NpuConfig()


def test_a_file_is_named_after_itself_and_may_build_on_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text("base: mobile\ncore: {lanes: 16}\n")
    folder = tmp_path / "nested"
    folder.mkdir()
    (folder / "smaller.yaml").write_text("base: ../small.yaml\ncore: {frequency_mhz: 500}\n")
    config = load_config(folder / "smaller.yaml")
    assert (config.name, config.core.lanes, config.core.frequency_mhz) == ("smaller", 16, 500)
    assert load_config(str(folder / "smaller.yaml")) == config


def test_an_empty_file_is_the_default_machine(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing\n")
    assert load_config(path) == NpuConfig()


def test_a_config_passes_through_and_is_checked_again() -> None:
    config = load_config("mobile")
    assert load_config(config) == config
    unchecked = config.model_copy(update={"cores": 0})  # pydantic's copy checks nothing
    with pytest.raises(ConfigError, match=r"cores: .*greater than or equal to 1, got 0"):
        load_config(unchecked)


def test_a_dump_loads_to_the_same_machine() -> None:
    for name in preset_names():
        config = load_config(name)
        assert load_config(config.model_dump()) == config


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("tpuv5", r"unknown config 'tpuv5'.*Did you mean 'tpuv4'\?"),
        ("nonsense-name", r"unknown config 'nonsense-name': neither a preset \(gem5_minor, mobile, tiny"),
        ("no/such.yaml", r"no/such\.yaml does not exist"),
        ({"base": "mobil"}, r"Did you mean 'mobile'\?"),
        ({"base": "nope"}, r"unknown config 'nope'.*nor a file\.$"),
        ({"base": 3}, r"base: expected a preset's name or a path, not 3"),
        ({"core": {"lane": 8}}, r"unknown key 'core\.lane'\. Did you mean 'core\.lanes'\?"),
        ({"lanes": 8}, r"unknown key 'lanes'\. Did you mean 'core\.lanes'\?"),
        ({"latency_cycles": 8}, r"'network\.latency_cycles' or 'l2\.latency_cycles' or 'dram\.latency_cycles'\?"),
        ({"cor": {}}, r"unknown key 'cor'\. Did you mean 'core'\?"),
        ({"core": {"lanez_count_x": 8}}, r"unknown key 'core\.lanez_count_x'"),
        ({"zzz": 8}, r"unknown key 'zzz'\. Known keys: name, cores, core\.frequency_mhz"),
        ({"core": 3}, r"core: .*got 3"),
        ({"core": None}, r"core: .*got None"),
        (5, r"not int: 5"),
        (None, r"not NoneType: None"),
    ],
)
def test_refusals_say_where_and_what_instead(source: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(source)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"core": {"lanes": "8"}}, r"core\.lanes: .*integer, got '8'"),
        ({"core": {"lanes": 8.0}}, r"core\.lanes: .*integer, got 8\.0"),
        ({"core": {"lanes": True}}, r"core\.lanes: .*integer, got True"),
        ({"core": {"lanes": 12}}, r"core\.lanes: must be a power of two, got 12"),
        ({"core": {"lanes": 1}}, r"core\.lanes: .*greater than or equal to 2, got 1"),
        ({"core": {"vlen_bits": 384}}, r"core\.vlen_bits: must be a power of two"),
        ({"core": {"datapath_bits": 512}}, r"datapath_bits \(512\) must not exceed vlen_bits \(256\)"),
        ({"core": {"scratchpad_bytes_per_lane": 5000}}, r"core\.scratchpad_bytes_per_lane: .*multiple of 4096"),
        ({"core": {"stack_reserve_bytes": 65536}}, r"core: stack_reserve_bytes \(65536\) must be less than half"),
        ({"dram": {"bandwidth_gb_per_s": "fast"}}, r"dram\.bandwidth_gb_per_s: .*number, got 'fast'"),
        ({"dram": {"bandwidth_gb_per_s": 481280.0}}, r"512000 bytes per cycle.*Check the units"),
        ({"dram": {"bandwidth_gb_per_s": float("nan")}}, r"dram\.bandwidth_gb_per_s: .*finite"),
        ({"dram": {"kind": "hbm9"}}, r"dram\.kind: .*got 'hbm9'"),
        ({"name": ""}, r"name: .*at least 1 character"),
        ({"dma": {"issue_cycles": 1 << 32}}, r"dma\.issue_cycles: at most 1,048,576; check the unit, got 4294967296"),
        ({"energy": {"mac_int8_pj": 1e9}}, r"energy\.mac_int8_pj: at most 1,048,576"),
        ({"core": {"scratchpad_load_ports": 9}}, r"core\.scratchpad_load_ports: .*less than or equal to 8, got 9"),
        ({"array": {"queue_entries": 1}}, r"array\.queue_entries: .*greater than or equal to 2, got 1"),
    ],
)
def test_values_are_checked_and_never_coerced(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(values)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"core": {"lanes": 12, "lame": 1}, "cores": 0})
    assert all(part in str(caught.value) for part in ("core.lanes", "core.lame", "cores"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("core: {lanes: 8\n", r"(?s)bad\.yaml is not valid YAML: .*line 2"),
        ("- 1\n- 2\n", r"bad\.yaml: expected keys of a config, found list"),
        ("cores: 1\ncores: 2\n", r"bad\.yaml, line 2: key 'cores' is given twice"),
        ("core:\n  lanes: 8\n  lanes: 16\n", r"bad\.yaml, line 3: key 'lanes' is given twice"),
        ("base: bad.yaml\n", r"form a circle"),
        ("1: 2\n", r"bad\.yaml: 1: Keys should be strings, got 1"),
    ],
)
def test_files_are_refused_with_their_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_a_circle_over_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: b.yaml\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")
    with pytest.raises(ConfigError, match=r"circle: .*a\.yaml -> .*b\.yaml -> .*a\.yaml"):
        load_config(tmp_path / "a.yaml")


def test_a_config_is_frozen_and_hashable() -> None:
    config = load_config("tiny")
    with pytest.raises(ValueError, match="frozen"):
        config.cores = 2  # type: ignore[misc]
    assert hash(config) == hash(load_config("tiny"))


def is_figure(path: str) -> bool:
    value: Any = load_config()
    for part in path.split("."):
        value = getattr(value, part)
    return not isinstance(value, str | bool)


@pytest.mark.parametrize("figure", [-1, 1 << 64, 10**30, float("nan"), float("inf"), 1e308])
@pytest.mark.parametrize("path", [path for path in key_paths() if is_figure(path)])
def test_no_key_takes_a_figure_of_no_machine(path: str, figure: float) -> None:
    """What would overflow the simulator's numbers, or run without end, is refused before anything runs."""
    values: Any = figure
    for part in reversed(path.split(".")):
        values = {part: values}
    with pytest.raises(ConfigError, match=path.replace(".", r"\.")):
        load_config(values)


@given(st.sampled_from(sorted(set(key_paths()) - {"name", "gem5"})), st.text(max_size=8))
def test_no_key_takes_text(path: str, text: str) -> None:
    """Every figure is a number, a flag or one of a few words: text from a user's shell must not slip in."""
    values: Any = text
    for part in reversed(path.split(".")):
        values = {part: values}
    if text in ("ideal", "both", "gem5", "lanes", "minor", "builtin"):
        return
    with pytest.raises(ConfigError, match=path.replace(".", r"\.")):
        load_config(values)
