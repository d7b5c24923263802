"""Known latencies of tile functions, shared by all threads of the process.

A tile function's cycles depend on its code, its scalar arguments and the machine, on nothing else; so they are measured
once. Key: digest of the object before linking, arguments, digest of the config.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

__all__ = ["TILE_LATENCIES", "LatencyTable"]

Arguments = tuple[int, ...]


class LatencyTable:
    """Thread-safe; entries are only ever added."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cycles: dict[tuple[str, str], dict[Arguments, int]] = {}

    def known(self, config_digest: str, object_digest: str) -> dict[Arguments, int]:
        """Cycles by arguments for one tile function; a copy."""
        with self._lock:
            return dict(self._cycles.get((config_digest, object_digest), {}))

    def add(self, config_digest: str, object_digest: str, measured: Mapping[Arguments, int]) -> None:
        """Adds measurements.

        Raises:
            RuntimeError: another value is known already: a latency depends on something that is not in the key.
        """
        with self._lock:
            known = self._cycles.setdefault((config_digest, object_digest), {})
            for arguments, cycles in measured.items():
                if known.setdefault(arguments, cycles) != cycles:
                    raise RuntimeError(
                        f"tile function {object_digest} took {cycles} cycles with arguments {arguments} and"
                        f" {known[arguments]} before; its latency must depend on code, arguments and machine only"
                    )

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._cycles.values()))


TILE_LATENCIES = LatencyTable()
"""The process's table."""
