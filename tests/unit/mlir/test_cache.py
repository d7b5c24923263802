"""The content store: hits, misses, and that no state of the folder can make a wrong result or an error."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytorchsim.errors import PyTorchSimWarning
from pytorchsim.mlir import cache
from pytorchsim.mlir.cache import ContentStore, shared_store

KEY = "ab" * 32
PAYLOAD = b"\x7fELF\0object" * 100


def entry(folder: Path, section: str = "objects") -> Path:
    (path,) = (path for path in (folder / section).rglob("*") if path.is_file())
    return path


def left_over(folder: Path) -> list[Path]:
    return list((folder / "incoming").iterdir())


def test_round_trip(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "new" / "folder")
    assert store.read("objects", KEY) is None
    store.write("objects", KEY, PAYLOAD)
    assert store.read("objects", KEY) == PAYLOAD
    assert store.read("kernels", KEY) is None
    assert not left_over(store.folder)


@pytest.mark.parametrize("damage", ["truncated", "empty", "bit", "foreign", "header", "trailing", "moved"])
def test_a_damaged_entry_is_a_miss_with_one_warning(tmp_path: Path, damage: str) -> None:
    store = ContentStore(tmp_path)
    store.write("objects", KEY, PAYLOAD)
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
    elif damage == "moved":
        other = "ab" + "cd" * 31
        store.write("objects", other, b"another")
        data = bytearray((path.parent / other[2:]).read_bytes())
    else:
        data += b"x"
    path.write_bytes(data)
    with pytest.warns(PyTorchSimWarning, match="cannot use the cache .*is damaged"):
        assert store.read("objects", KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.read("objects", KEY) is None
        store.write("objects", KEY, PAYLOAD)
    assert store.read("objects", KEY) == PAYLOAD


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a file")
    store = ContentStore(tmp_path)
    with pytest.warns(PyTorchSimWarning, match="cannot read the cache"):
        assert store.read("objects", KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.write("objects", KEY, PAYLOAD)
        store.update("objects", KEY, lambda _: PAYLOAD)


@pytest.mark.parametrize("call", ["mkstemp", "replace"])
def test_a_full_disk_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp" if call == "mkstemp" else "os.replace", full)
    store = ContentStore(tmp_path)
    with pytest.warns(
        PyTorchSimWarning, match="cannot write the cache .*No space left on device.*PYTORCHSIM_NO_CACHE=1"
    ):
        store.write("objects", KEY, PAYLOAD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.write("objects", KEY, PAYLOAD)
        store.update("objects", KEY, lambda _: PAYLOAD)
        assert store.read("objects", KEY) is None
    assert not left_over(tmp_path)


@contextmanager
def files_of_at_most_512_bytes() -> Iterator[None]:
    """The kernel refuses to write more to a file: a disk that is full in the middle of a write.

    Around the writes only: pytest's own output may go to a file that is longer.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_in_the_middle_of_a_write(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    assert len(PAYLOAD) > 512
    with files_of_at_most_512_bytes(), pytest.warns(PyTorchSimWarning, match="cannot write the cache .*File too large"):
        store.write("objects", KEY, PAYLOAD)
    assert store.read("objects", KEY) is None
    assert not left_over(tmp_path)
    store.write("objects", KEY, b"small")
    assert store.read("objects", KEY) == b"small"


@pytest.mark.parametrize("call", ["mkdir", "mkstemp"])
def test_an_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    store = ContentStore(tmp_path)
    store.write("objects", KEY, PAYLOAD)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # root in a container may write anywhere, so chmod shows nothing

    monkeypatch.setattr("tempfile.mkstemp" if call == "mkstemp" else "pathlib.Path.mkdir", refuse)
    with pytest.warns(PyTorchSimWarning, match="cannot write the cache .*Permission denied"):
        store.write("objects", "cd" * 32, PAYLOAD)
    assert store.read("objects", KEY) == PAYLOAD


def test_environment_variables_choose_or_switch_off_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_CACHE_DIR", str(tmp_path))
    store = shared_store()
    assert store is not None
    assert store.folder == tmp_path
    assert shared_store() is store
    monkeypatch.setenv("PYTORCHSIM_NO_CACHE", "1")
    assert shared_store() is None


def test_writers_do_not_see_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry appears by a rename: elsewhere until it is complete."""
    store, seen = ContentStore(tmp_path), []
    replace = os.replace

    def spy(source: str, target: Path) -> None:
        seen.append((Path(source).parent.name, target.exists(), Path(source).stat().st_size))
        replace(source, target)

    monkeypatch.setattr("os.replace", spy)
    store.write("objects", KEY, PAYLOAD)
    assert seen == [("incoming", False, entry(tmp_path).stat().st_size)]


KILLED = """
import os, signal, sys
from pathlib import Path
from pytorchsim.mlir.cache import ContentStore
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
ContentStore(Path(sys.argv[1])).update("objects", sys.argv[2], lambda _: b"x" * 1000)
"""


def test_a_process_killed_in_the_middle_of_a_write(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), KEY], check=False)
    assert done.returncode == -9
    (rest,) = left_over(tmp_path)
    store = ContentStore(tmp_path)
    assert store.read("objects", KEY) is None
    store.update("objects", KEY, lambda known: PAYLOAD if known is None else b"")  # its lock died with it
    assert store.read("objects", KEY) == PAYLOAD
    assert left_over(tmp_path) == [rest]  # young: it might be another process's, at work
    os.utime(rest, (time.time() - 7200,) * 2)
    ContentStore(tmp_path).write("objects", KEY, PAYLOAD)
    assert not left_over(tmp_path)


COUNTING = """
import sys
from pathlib import Path
from pytorchsim.mlir import cache
from pytorchsim.mlir.cache import ContentStore
cache._LOCK_SECONDS = 60.0
store = ContentStore(Path(sys.argv[1]))
for _ in range(50):
    store.update("latencies", sys.argv[2], lambda known: str(int(known or b"0") + 1).encode())
"""


def test_processes_and_threads_update_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With patience: on a busy computer an update waits longer for its turn than it otherwise would."""
    monkeypatch.setattr(cache, "_LOCK_SECONDS", 60.0)
    processes = [subprocess.Popen([sys.executable, "-c", COUNTING, str(tmp_path), KEY]) for _ in range(2)]
    store = ContentStore(tmp_path)

    def count() -> None:
        for _ in range(50):
            store.update("latencies", KEY, lambda known: str(int(known or b"0") + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(60) for process in processes] == [0, 0]
    assert store.read("latencies", KEY) == b"200"


def test_a_lock_that_is_never_freed_stops_nobody(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)

    def merge(_: bytes | None) -> bytes:
        ContentStore(tmp_path).update("latencies", KEY, lambda _: b"inner")  # the lock is held by the outer update
        return b"outer"

    store.update("latencies", KEY, merge)
    assert store.read("latencies", KEY) == b"outer"


def test_many_readers_see_whole_entries(tmp_path: Path) -> None:
    """Readers while one entry is replaced again and again by payloads of different lengths."""
    store, bad = ContentStore(tmp_path), []
    store.write("objects", KEY, b"a")
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            payload = store.read("objects", KEY)
            if payload is None or len(set(payload)) != 1:
                bad.append(payload)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(100):
        store.write("objects", KEY, bytes([97 + number % 26]) * (1 + number * 50))
    done.set()
    for thread in threads:
        thread.join()
    assert not bad
