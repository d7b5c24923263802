"""Latencies on disk: what one process measures another one knows, and nothing but a content key connects them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from pytorchsim.errors import PyTorchSimWarning
from pytorchsim.mlir.cache import ContentStore
from pytorchsim.runtime import latencies
from pytorchsim.runtime.latencies import LatencyTable, TileKey
from pytorchsim.simulator.tile_cost import TileCost

TILE = TileKey("code", 16)


def test_another_process_knows(tmp_path: Path) -> None:
    LatencyTable().add("machine", TILE, {(1, 2): TileCost(30, (5, 0))}, ContentStore(tmp_path))
    table, store = LatencyTable(), ContentStore(tmp_path)
    assert table.known("machine", TILE, store) == {(1, 2): TileCost(30, (5, 0))}
    assert table.known("machine", TileKey("code"), store) == {}
    assert table.known("another", TILE, store) == {}
    with pytest.raises(RuntimeError, match="31 cycles"):
        table.add("machine", TILE, {(1, 2): TileCost(31)}, store)


def test_without_a_store_nothing_is_read_or_written(tmp_path: Path) -> None:
    LatencyTable().add("machine", TILE, {(): TileCost(1)})
    assert not list(tmp_path.iterdir())
    LatencyTable().add("machine", TILE, {(): TileCost(1)}, ContentStore(tmp_path))
    assert LatencyTable().known("machine", TILE) == {}


def test_what_several_processes_measure_is_merged(tmp_path: Path) -> None:
    tables = [LatencyTable() for _ in range(3)]
    for table in tables:  # each has read before any wrote
        assert table.known("machine", TILE, ContentStore(tmp_path)) == {}
    for number, table in enumerate(tables):
        table.add("machine", TILE, {(number,): TileCost(number), (9,): TileCost(9)}, ContentStore(tmp_path))
    known = LatencyTable().known("machine", TILE, ContentStore(tmp_path))
    assert known == {(number,): TileCost(number) for number in (0, 1, 2, 9)}


def test_another_timing_model_measures_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LatencyTable().add("machine", TILE, {(): TileCost(1)}, ContentStore(tmp_path))
    monkeypatch.setattr(latencies, "timing_model_digest", lambda: "edited")
    assert LatencyTable().known("machine", TILE, ContentStore(tmp_path)) == {}


def test_only_news_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, store, updates = LatencyTable(), ContentStore(tmp_path), []
    update = ContentStore.update
    monkeypatch.setattr(ContentStore, "update", lambda *arguments: updates.append(1) or update(*arguments))
    for _ in range(3):
        table.add("machine", TILE, {(): TileCost(1)}, store)
        table.clear()
    assert len(updates) == 1
    assert table.known("machine", TILE, store) == {}  # forgotten: it is measured again


def test_a_damaged_entry_is_measured_again(tmp_path: Path) -> None:
    LatencyTable().add("machine", TILE, {(): TileCost(1)}, ContentStore(tmp_path))
    (path,) = (path for path in (tmp_path / "latencies").rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1])
    table, store = LatencyTable(), ContentStore(tmp_path)
    with pytest.warns(PyTorchSimWarning, match="is damaged"):
        assert table.known("machine", TILE, store) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.add("machine", TILE, {(): TileCost(1)}, store)
    assert LatencyTable().known("machine", TILE, ContentStore(tmp_path)) == {(): TileCost(1)}
