"""What lies between scratchpads and DRAM in figures: bytes and busy links of the network, hits and misses of the L2.

In: the timing of a kernel's launches, the machine. Out: sums that can be added up, their shares, and JSON types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig
    from pytorchsim.simulator.timing import LaunchTiming

__all__ = ["L2_COUNTERS", "L2Traffic", "NetworkTraffic"]

_LINK = "link "
_L2 = "l2"

L2_COUNTERS = (
    "read_hits", "read_misses", "write_hits", "write_misses", "reads_around", "writes_around", "write_backs",
    "hit_bytes", "dram_read_bytes", "dram_written_bytes",
)  # fmt: skip
"""Counters of the L2 (`togsim/l2_tags.h`). Hits and misses are bursts; those `around` are part of the misses."""


@dataclass(frozen=True)
class NetworkTraffic:
    """Sums over launches that took `cycles`. `bytes`: of bursts between scratchpads and memory, both ways.

    `link_busy_cycles` by link; an ideal network has none.
    """

    cycles: int = 0
    bytes: int = 0
    link_busy_cycles: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, timing: LaunchTiming) -> NetworkTraffic:
        """The network's part of a timing."""
        links = {
            component.removeprefix(_LINK): counters["busy_cycles"]
            for component, counters in timing.statistics.items()
            if component.startswith(_LINK)
        }
        return cls(timing.cycles, timing.network_bytes, links)

    def plus(self, other: NetworkTraffic) -> NetworkTraffic:
        """The sums of both."""
        return NetworkTraffic(
            self.cycles + other.cycles,
            self.bytes + other.bytes,
            _added(self.link_busy_cycles, other.link_busy_cycles),
        )

    @property
    def busiest_link(self) -> str | None:
        """The link that was busy for longest, the first of equals; None: there is none."""
        return max(self.link_busy_cycles, key=self.link_busy_cycles.__getitem__, default=None)

    @property
    def utilisation(self) -> float | None:
        """Share of cycles in which the busiest link was busy; None: there is no link."""
        link = self.busiest_link
        return None if link is None else _share(self.link_busy_cycles[link], self.cycles)

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {"bytes": self.bytes, "busiest_link": self.busiest_link, "utilisation": self.utilisation}


@dataclass(frozen=True)
class L2Traffic:
    """Sums over launches that took `cycles`: `counts` by name (`L2_COUNTERS`).

    `busy_cycles`: what all slices together take for the bursts that were asked for.
    """

    cycles: int
    busy_cycles: int
    counts: Mapping[str, int]

    @classmethod
    def of(cls, timing: LaunchTiming, config: NpuConfig) -> L2Traffic | None:
        """The L2's part of a timing; None where the machine has no L2."""
        counters = timing.statistics.get(_L2)
        if config.l2.kind == "none" or counters is None:
            return None
        counts = {name: counters[name] for name in L2_COUNTERS}
        asked_bytes = config.dram.burst_bytes * _requests(counts)
        return cls(timing.cycles, -(-asked_bytes // config.l2.bytes_per_cycle), counts)

    def plus(self, other: L2Traffic) -> L2Traffic:
        """The sums of both."""
        return L2Traffic(
            self.cycles + other.cycles, self.busy_cycles + other.busy_cycles, _added(self.counts, other.counts)
        )

    @property
    def hits(self) -> int:
        """Bursts that the L2 had."""
        return self.counts["read_hits"] + self.counts["write_hits"]

    @property
    def misses(self) -> int:
        """Bursts that it had not."""
        return _requests(self.counts) - self.hits

    @property
    def hit_rate(self) -> float | None:
        """Hits of all bursts that were asked for; None: none was."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else None

    @property
    def utilisation(self) -> float:
        """Share of its bandwidth that was used."""
        return _share(self.busy_cycles, self.cycles)

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {
            "hits": self.hits,
            "misses": self.misses,
            "hit_rate": self.hit_rate,
            "utilisation": self.utilisation,
            **self.counts,
        }


def _requests(counts: Mapping[str, int]) -> int:
    return sum(counts[name] for name in ("read_hits", "read_misses", "write_hits", "write_misses"))


def _added(one: Mapping[str, int], two: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + two.get(name, 0) for name in dict.fromkeys((*one, *two))}


def _share(part: int, whole: int) -> float:
    return min(1.0, part / whole) if whole else 0.0
