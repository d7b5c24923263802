"""Known costs of tile functions, shared by all threads of the process and, on disk, by all processes.

A tile function's cycles and what it does in them depend on its code, the arguments it reads, where its stack begins and
the machine, on nothing else; so they are measured once. Key: `TileKey`, arguments, digest of the config; on disk also a
digest of the timing model itself, which is the C++ extension and what feeds it.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pytorchsim.mlir.cache import ContentStore
from pytorchsim.simulator.tile_cost import TileCost

__all__ = ["TILE_LATENCIES", "Arguments", "LatencyTable", "TileKey", "timing_model_digest"]

Arguments: TypeAlias = tuple[int, ...]

_SECTION = "latencies"


class TileKey(NamedTuple):
    """The code, as the digest of its object before linking, and its stack pointer modulo a scratchpad port's width."""

    object_digest: str
    stack_alignment_bytes: int = 0


class LatencyTable:
    """Thread-safe; entries are only ever added. Where a store is given, it is read and written, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._costs: dict[tuple[str, TileKey], dict[Arguments, TileCost]] = {}
        # What the store is known to have, by its folder: each entry is read once, and written for news only.
        self._stored: dict[tuple[Path, str, TileKey], set[Arguments]] = {}

    def known(
        self, config_digest: str, tile: TileKey, store: ContentStore | None = None
    ) -> Mapping[Arguments, TileCost]:
        """Costs by arguments for one tile function; what is measured later is not added to it."""
        if store is not None and (store.folder, config_digest, tile) not in self._stored:
            self._read(config_digest, tile, store)
        with self._lock:
            # `add` replaces dictionaries, so that nobody needs a copy here.
            return MappingProxyType(self._costs.get((config_digest, tile), {}))

    def add(
        self,
        config_digest: str,
        tile: TileKey,
        measured: Mapping[Arguments, TileCost],
        store: ContentStore | None = None,
    ) -> None:
        """Adds measurements.

        Raises:
            RuntimeError: another value is known already: a latency depends on something that is not in the key.
        """
        with self._lock:
            known = dict(self._costs.get((config_digest, tile), {}))
            for arguments, cost in measured.items():
                if known.setdefault(arguments, cost) != cost:
                    raise RuntimeError(
                        f"tile function {tile} took {cost.cycles} cycles with arguments {arguments} and"
                        f" {known[arguments].cycles} before, or did something else in them: it depends on something"
                        " that is not in the key"
                    )
            self._costs[config_digest, tile] = known
        if store is not None:
            self._write(config_digest, tile, measured, store)

    def clear(self) -> None:
        """Forget everything: the next launches measure again. What was read from disk is not read a second time."""
        with self._lock:
            self._costs.clear()

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._costs.values()))

    def _read(self, config_digest: str, tile: TileKey, store: ContentStore) -> None:
        read = _decode(store.read(_SECTION, _key(config_digest, tile)))
        with self._lock:
            self._stored[store.folder, config_digest, tile] = set(read)
            # What this process measured stands before what it reads; `add` compares later ones with both.
            self._costs[config_digest, tile] = read | self._costs.get((config_digest, tile), {})

    def _write(
        self, config_digest: str, tile: TileKey, measured: Mapping[Arguments, TileCost], store: ContentStore
    ) -> None:
        with self._lock:
            stored = self._stored.setdefault((store.folder, config_digest, tile), set())
            if stored.issuperset(measured):
                return
            stored.update(measured)  # even if the folder takes none: it is not asked for the same again
        store.update(_SECTION, _key(config_digest, tile), lambda payload: _encode({**_decode(payload), **measured}))


def _key(config_digest: str, tile: TileKey) -> str:
    content = f"{config_digest} {tile.object_digest} {tile.stack_alignment_bytes} {timing_model_digest()}"
    return hashlib.sha256(content.encode()).hexdigest()


@cache
def timing_model_digest() -> str:
    """Over the extension, the processor model below it, and the Python that hands them the config."""
    from pytorchsim.simulator import functional, native, timing

    files = [Path(module.__file__) for module in (native._native, functional, timing) if module.__file__]
    digest = hashlib.sha256(f"latencies 2, spike {version('spike')}\n".encode())
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _encode(costs: Mapping[Arguments, TileCost]) -> bytes:
    return json.dumps([[list(key), cost.cycles, list(cost.work)] for key, cost in sorted(costs.items())]).encode()


def _decode(payload: bytes | None) -> dict[Arguments, TileCost]:
    rows = [] if payload is None else json.loads(payload)
    return {tuple(arguments): TileCost(cycles, tuple(work)) for arguments, cycles, work in rows}


TILE_LATENCIES = LatencyTable()
"""The process's table."""
