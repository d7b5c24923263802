"""Known latencies of tile functions, shared by all threads of the process.

A tile function's cycles depend on its code, the arguments it reads, where its stack begins and the machine, on nothing
else; so they are measured once. Key: `TileKey`, arguments, digest of the config.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

__all__ = ["TILE_LATENCIES", "Arguments", "LatencyTable", "TileKey"]

Arguments: TypeAlias = tuple[int, ...]


class TileKey(NamedTuple):
    """The code, as the digest of its object before linking, and its stack pointer modulo a scratchpad port's width."""

    object_digest: str
    stack_alignment_bytes: int = 0


class LatencyTable:
    """Thread-safe; entries are only ever added."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cycles: dict[tuple[str, TileKey], dict[Arguments, int]] = {}

    def known(self, config_digest: str, tile: TileKey) -> dict[Arguments, int]:
        """Cycles by arguments for one tile function; a copy."""
        with self._lock:
            return dict(self._cycles.get((config_digest, tile), {}))

    def add(self, config_digest: str, tile: TileKey, measured: Mapping[Arguments, int]) -> None:
        """Adds measurements.

        Raises:
            RuntimeError: another value is known already: a latency depends on something that is not in the key.
        """
        with self._lock:
            known = self._cycles.setdefault((config_digest, tile), {})
            for arguments, cycles in measured.items():
                if known.setdefault(arguments, cycles) != cycles:
                    raise RuntimeError(
                        f"tile function {tile} took {cycles} cycles with arguments {arguments} and {known[arguments]}"
                        " before: its latency depends on something that is not in the key"
                    )

    def clear(self) -> None:
        """Forget everything: the next launches measure again."""
        with self._lock:
            self._cycles.clear()

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._cycles.values()))


TILE_LATENCIES = LatencyTable()
"""The process's table."""
