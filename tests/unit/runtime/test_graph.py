"""What a generated module may say, and what is refused."""

from __future__ import annotations

import json

import pytest

from pytorchsim.config import load_config
from pytorchsim.runtime import Graph, load_graph
from pytorchsim.runtime.kernel import KernelMetadata
from pytorchsim.runtime.latencies import LatencyTable, TileKey
from pytorchsim.simulator.tile_cost import TileCost


def load(name: str = "inference_0", mode: str = "functional") -> Graph:
    config = load_config("mobile")
    options = json.dumps({"mode": mode, "strict": True})
    return load_graph(name=name, config=config.canonical_json(), options=options, facts="{}")


def test_the_config_survives_the_module() -> None:
    assert load().config == load_config("mobile")
    assert load().config_digest == load_config("mobile").digest()


def test_phase_is_part_of_the_name() -> None:
    assert load("backward_12ab").phase == "backward"
    with pytest.raises(ValueError, match="does not start with"):
        load("graph_0")


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="'fast' is none of"):
        load(mode="fast")


def test_a_graph_without_kernels_runs() -> None:
    graph = load()
    graph.link()
    graph.begin()
    graph.end()
    with pytest.raises(RuntimeError, match="is not linked"):
        _ = graph.program


def test_metadata() -> None:
    text = json.dumps(
        {
            "origins": ["add", "relu"],
            "source_lines": ["model.py:3"],
            "shape": [47, 10],
            "tile": {"axis0": 8},
            "slots": ["load", "store", "load-store"],
            "reasons": ["tile 16: too large"],
        }
    )
    metadata = KernelMetadata.parse("k", text)
    assert metadata.writes == (False, True, True)
    assert metadata.facts.origins == ("add", "relu")
    assert metadata.facts.shape == (47, 10)


def test_unknown_direction() -> None:
    with pytest.raises(ValueError, match=r"unknown slot directions \['stor'\]"):
        KernelMetadata.parse("k", json.dumps({"slots": ["load", "stor"]}))


def test_latencies_are_shared_by_content() -> None:
    table = LatencyTable()
    table.add("machine", TileKey("code"), {(1, 2): TileCost(30)})
    table.add("machine", TileKey("code"), {(1, 2): TileCost(30), (1, 3): TileCost(40)})
    assert table.known("machine", TileKey("code")) == {(1, 2): TileCost(30), (1, 3): TileCost(40)}
    assert table.known("other machine", TileKey("code")) == {}
    assert table.known("machine", TileKey("code", 16)) == {}
    assert len(table) == 2
    with pytest.raises(RuntimeError, match="31 cycles"):
        table.add("machine", TileKey("code"), {(1, 2): TileCost(31)})
    with pytest.raises(RuntimeError, match="did something else"):
        table.add("machine", TileKey("code"), {(1, 2): TileCost(30, (1,))})


def test_known_latencies_stay_as_they_were() -> None:
    """A launch reads them in C++ while another thread adds."""
    table = LatencyTable()
    table.add("machine", TileKey("code"), {(): TileCost(1)})
    known = table.known("machine", TileKey("code"))
    table.add("machine", TileKey("code"), {(5,): TileCost(2)})
    assert known == {(): TileCost(1)}
    with pytest.raises(TypeError):
        known[(5,)] = TileCost(2)  # type: ignore[index]


def test_only_functional_mode_is_not_timed() -> None:
    assert [load(mode=mode).timed for mode in ("functional", "functional+timing", "timing")] == [False, True, True]
