"""What bounds a kernel, from where the cores' cycles went.

Rule (docs/timing_model.md): of the cycles in which cores were not done yet, take the largest share.
- tile functions -> `compute`; the control function -> `scalar`;
- waits for transfers -> whichever was busiest of the DRAM's data bus (`dram`), the shared L2 (`l2`) and a link of the
  network (`network`), if that was busy for at least half of the launch, else `latency` (round trips, descriptor
  decoding, too few transfers at once).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pytorchsim.report.memory_path import L2Traffic, NetworkTraffic
    from pytorchsim.simulator.timing import LaunchTiming

__all__ = ["BoundBy", "CycleShares", "bound_by"]

BoundBy: TypeAlias = Literal["compute", "dram", "l2", "network", "scalar", "latency"]

_BUSY = 0.5


@dataclass(frozen=True)
class CycleShares:
    """Sums over cores and launches. `total_cycles`: cores x cycles of a launch; what is in no part is launch cost."""

    total_cycles: int = 0
    tile_cycles: int = 0
    scalar_cycles: int = 0
    load_wait_cycles: int = 0
    store_wait_cycles: int = 0
    idle_cycles: int = 0
    dram_busy_cycles: int = 0
    sequential_cycles: int = 0

    @classmethod
    def of(cls, timing: LaunchTiming) -> CycleShares:
        """The shares of a kernel's timing."""
        cores = timing.cores
        return cls(
            total_cycles=timing.cycles * len(cores),
            tile_cycles=sum(core.tile_cycles for core in cores),
            scalar_cycles=sum(core.scalar_cycles for core in cores),
            load_wait_cycles=sum(core.load_wait_cycles for core in cores),
            store_wait_cycles=sum(core.store_wait_cycles for core in cores),
            idle_cycles=sum(core.idle_cycles for core in cores),
            dram_busy_cycles=timing.dram_busy_cycles,
            sequential_cycles=timing.cycles,
        )

    @property
    def compute_utilisation(self) -> float:
        """Share of core cycles spent in tile functions, 0 to 1."""
        return self.tile_cycles / self.total_cycles if self.total_cycles else 0.0

    @property
    def dram_utilisation(self) -> float:
        """Share of launch cycles in which the DRAM's data bus was busy, 0 to 1."""
        return min(1.0, self.dram_busy_cycles / self.sequential_cycles) if self.sequential_cycles else 0.0


def bound_by(shares: CycleShares, network: NetworkTraffic | None = None, l2: L2Traffic | None = None) -> BoundBy:
    """The rule above. A tie goes to the earlier of compute, scalar, waiting, and of DRAM, L2, network."""
    waiting = shares.load_wait_cycles + shares.store_wait_cycles
    largest = max(shares.tile_cycles, shares.scalar_cycles, waiting)
    if shares.tile_cycles == largest:
        return "compute"
    if shares.scalar_cycles == largest:
        return "scalar"
    busy: dict[BoundBy, float] = {
        "dram": shares.dram_utilisation,
        "l2": l2.utilisation if l2 else 0.0,
        "network": (network.utilisation or 0.0) if network else 0.0,
    }
    busiest = max(busy, key=busy.__getitem__)
    return busiest if busy[busiest] >= _BUSY else "latency"
