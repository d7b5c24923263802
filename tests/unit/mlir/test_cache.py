"""The object cache: hits, misses, and that no state of the folder can make a wrong result or an error."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from pytorchsim.errors import PyTorchSimWarning
from pytorchsim.mlir import cache
from pytorchsim.mlir.cache import ObjectCache, object_key, shared_cache
from pytorchsim.mlir.workers import LlvmOutput

OUTPUT = LlvmOutput(b"\x7fELF\0object", "assembly \u00e4", "ir")
KEY = object_key("ir", 256)


def entry(folder: Path) -> Path:
    (path,) = (path for path in folder.rglob("*") if path.is_file())
    return path


def test_round_trip(tmp_path: Path) -> None:
    store = ObjectCache(tmp_path / "new" / "folder")
    assert store.read(KEY) is None
    store.write(KEY, OUTPUT)
    assert store.read(KEY) == OUTPUT
    assert [path.name for path in tmp_path.rglob(".new-*")] == []


def test_the_key_is_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {object_key("ir", 256), object_key("ir2", 256), object_key("ir", 128)}
    monkeypatch.setattr(cache, "_llvm_version", lambda: "another")
    keys.add(object_key("ir", 256))
    monkeypatch.undo()
    monkeypatch.setattr(cache, "_sources_digest", lambda: "edited")
    keys.add(object_key("ir", 256))
    assert len(keys) == 5
    monkeypatch.undo()
    assert object_key("ir", 256) == KEY


@pytest.mark.parametrize("damage", ["truncated", "empty", "bit", "foreign", "header", "trailing"])
def test_a_damaged_entry_is_a_miss_with_one_warning(tmp_path: Path, damage: str) -> None:
    store = ObjectCache(tmp_path)
    store.write(KEY, OUTPUT)
    path = entry(tmp_path)
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        data = data[:-1]
    elif damage == "empty":
        data = bytearray()
    elif damage == "bit":
        data[-1] ^= 1
    elif damage == "foreign":
        data = bytearray(b"something else entirely")
    elif damage == "header":
        data[0] ^= 1
    else:
        data += b"x"
    path.write_bytes(data)
    with pytest.warns(PyTorchSimWarning, match="cannot use the cache of compiled objects .*is damaged"):
        assert store.read(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.read(KEY) is None
        store.write(KEY, OUTPUT)
    assert store.read(KEY) == OUTPUT


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a file")
    store = ObjectCache(tmp_path)
    with pytest.warns(PyTorchSimWarning, match="cannot read the cache"):
        assert store.read(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.write(KEY, OUTPUT)


@pytest.mark.parametrize("call", ["mkstemp", "replace"])
def test_a_full_disk_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp" if call == "mkstemp" else "os.replace", full)
    store = ObjectCache(tmp_path)
    with pytest.warns(
        PyTorchSimWarning, match="cannot write the cache .*No space left on device.*PYTORCHSIM_NO_CACHE=1"
    ):
        store.write(KEY, OUTPUT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.write(KEY, OUTPUT)
        assert store.read(KEY) is None
    assert not list(tmp_path.rglob(".new-*"))


def test_an_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # root in a container may write anywhere, so chmod shows nothing

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.warns(PyTorchSimWarning, match="cannot write the cache .*Permission denied"):
        ObjectCache(tmp_path).write(KEY, OUTPUT)


def test_switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_CACHE_DIR", str(tmp_path))
    store = shared_cache()
    assert store is not None
    assert store.folder == tmp_path
    assert shared_cache() is store
    monkeypatch.setenv("PYTORCHSIM_NO_CACHE", "1")
    assert shared_cache() is None


def test_writers_do_not_see_half_a_file(tmp_path: Path) -> None:
    """The entry appears by a rename: another name until it is complete."""
    store, seen = ObjectCache(tmp_path), []
    replace = os.replace

    def spy(source: str, target: Path) -> None:
        seen.append((Path(source).name.startswith(".new-"), target.exists(), Path(source).stat().st_size))
        replace(source, target)

    os.replace = spy  # type: ignore[assignment]
    try:
        store.write(KEY, OUTPUT)
    finally:
        os.replace = replace
    assert seen == [(True, False, entry(tmp_path).stat().st_size)]
