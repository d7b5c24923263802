"""Timing of a launch: from the traces of its cores to cycles, by the C++ simulator in `togsim/`.

In: one `Trace` per core (the functional engine records them) and the machine. Out: `LaunchTiming`, plain numbers.
Assumes: traces of one launch; launches follow one another, so each starts on an idle machine. docs/timing_model.md has
the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from pytorchsim.errors import TimingError

if TYPE_CHECKING:
    from pytorchsim import _native
    from pytorchsim.config.model import NpuConfig

__all__ = ["CoreTiming", "L2State", "LaunchTiming", "lane_core_params", "simulate"]


@dataclass(frozen=True)
class CoreTiming:
    """Where one core's cycles went. The parts add up to the launch's cycles without `launch_cycles`."""

    tile_cycles: int
    scalar_cycles: int
    load_wait_cycles: int
    store_wait_cycles: int
    idle_cycles: int

    def plus(self, other: CoreTiming) -> CoreTiming:
        """The sums of both."""
        return CoreTiming(*(getattr(self, name) + getattr(other, name) for name in _names(self)))

    @property
    def busy_cycles(self) -> int:
        """Cycles in which the core executed instructions."""
        return self.tile_cycles + self.scalar_cycles


@dataclass(frozen=True)
class LaunchTiming:
    """One launch of one kernel, or the sums over several of them (`plus`).

    `bytes_*` are the bytes that exist in the tensors, each once per transfer; `burst_bytes_*` what DRAM moved for them.
    """

    cycles: int
    launch_cycles: int
    cores: tuple[CoreTiming, ...]
    transfers: int
    bytes_read: int
    bytes_written: int
    burst_bytes_read: int
    burst_bytes_written: int
    dram_busy_cycles: int
    network_bytes: int = 0
    """Bursts that the engines moved, in bytes: what DRAM moved where there is no L2."""
    scratchpad_bytes: int = 0
    """What transfers wrote to and read from the scratchpads, over all lanes: a multicast once per lane."""
    statistics: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    """Counters by component, such as `dma 0` and `dram channel 3`: docs/timing_model.md."""

    def plus(self, other: LaunchTiming) -> LaunchTiming:
        """The sums over both, core by core and counter by counter; components in order of appearance."""
        numbers = {
            name: getattr(self, name) + getattr(other, name)
            for name in _names(self)
            if name not in ("cores", "statistics")
        }
        cores = tuple(one.plus(two) for one, two in zip(self.cores, other.cores, strict=True))
        statistics = {component: dict(counters) for component, counters in self.statistics.items()}
        for component, counters in other.statistics.items():
            sums = statistics.setdefault(component, {})
            for name, value in counters.items():
                sums[name] = sums.get(name, 0) + value
        return LaunchTiming(**numbers, cores=cores, statistics=statistics)


def _names(values: CoreTiming | LaunchTiming) -> list[str]:
    return [entry.name for entry in fields(values)]


def lane_core_params(config: NpuConfig) -> _native.LaneCoreParams:
    """The lane core's figures for the engine, whose scoreboard runs along with the functional execution."""
    from pytorchsim.simulator.native import _native

    core = config.core
    params = _native.LaneCoreParams()
    params.lanes = core.lanes
    params.vlen_bits = core.vlen_bits
    params.datapath_bits = core.datapath_bits
    params.issue_width = core.issue_width
    params.load_ports = core.scratchpad_load_ports
    params.store_ports = core.scratchpad_store_ports
    params.port_bytes = core.scratchpad_port_bytes
    params.sfu_elements_per_cycle = core.sfu_elements_per_cycle
    params.array_count = config.array.count
    params.array_queue_entries = config.array.queue_entries
    for name, value in config.latency.model_dump().items():
        setattr(params, name, value)
    params.use_minor = config.core.pipeline == "minor"
    minor = _native.MinorParams()
    for name, value in config.minor.model_dump().items():
        setattr(minor, name, value)
    params.minor = minor
    return params


def _machine_params(config: NpuConfig) -> _native.TimingParams:
    from pytorchsim.simulator.native import _native

    params = _native.TimingParams()
    params.launch_cycles = config.core.launch_cycles
    params.network.kind = _native.NetworkKind[config.network.kind.upper()]
    for name in type(config.network).model_fields:
        if name != "kind":
            setattr(params.network, name, getattr(config.network, name))
    _fill_l2(params.l2, config)
    params.dma_issue_cycles = config.dma.issue_cycles
    params.dma_scratchpad_bytes_per_cycle = config.dma.scratchpad_bytes_per_cycle
    params.dma_max_outstanding = config.dma.max_outstanding
    params.exact = config.fidelity == "exact"
    dram = config.dram
    params.dram_bytes_per_cycle = config.dram_bytes_per_cycle
    params.dram_latency_cycles = dram.latency_cycles
    params.dram_burst_bytes = dram.burst_bytes
    params.dram_banked = dram.kind == "banked"
    params.dram_clock_cycles = config.core.frequency_mhz / dram.clock_mhz
    params.dram_controller_cycles = dram.controller_cycles
    params.dram_queue_entries = dram.queue_entries
    for target in (params.dram_geometry, params.dram_timing):
        for name in dir(target):  # fields that only the native classes have are methods
            if name in type(dram).model_fields and name != "refresh":
                setattr(target, name, getattr(dram, name))
    params.dram_timing.refresh = dram.refresh != "none"
    params.dram_timing.refresh_per_bank = dram.refresh == "per_bank"
    return params


def _fill_l2(params: _native.L2Params, config: NpuConfig) -> None:
    params.shared = config.l2.kind == "shared"
    for name in type(config.l2).model_fields:
        if name != "kind":
            setattr(params, name, getattr(config.l2, name))


class L2State:
    """What a machine's L2 holds, from launch to launch of a call. Empty at first."""

    def __init__(self, config: NpuConfig) -> None:
        from pytorchsim.simulator.native import _native

        params = _native.TimingParams()
        _fill_l2(params.l2, config)
        self._tags = _native.L2Tags(params.l2, config.dram.burst_bytes)

    def begin(self, resident: Sequence[tuple[int, int]]) -> _native.L2Tags:
        """A launch begins. `resident`: ranges of DRAM bytes (first, end) that leave only for each other."""
        self._tags.begin(list(resident))
        return self._tags


def simulate(
    traces: Sequence[_native.Trace],
    config: NpuConfig,
    l2: L2State | None = None,
    resident: Sequence[tuple[int, int]] = (),
) -> LaunchTiming:
    """Play one launch: one trace per core, all starting together, with a barrier at the end.

    Args:
        traces: of the cores that take part.
        config: the machine.
        l2: what its L2 holds from the launches before, and afterwards; None: a launch that begins with an empty one.
        resident: ranges of DRAM bytes (first, end) that are to stay in the L2.

    Raises:
        TimingError: the traces are not of this machine or wait for what never comes; it says which core and tag.
    """
    from pytorchsim.simulator.native import _native

    if not 0 < len(traces) <= config.cores:
        raise TimingError(f"{len(traces)} traces for {config.cores} cores; give one per core that takes part")
    try:
        result = _native.simulate(_machine_params(config), list(traces), None if l2 is None else l2.begin(resident))
    except (RuntimeError, ValueError) as error:
        raise TimingError(f"{error} (config {config.name!r}, {len(traces)} cores)") from error
    end = result.cycles - config.core.launch_cycles
    cores = tuple(
        CoreTiming(
            tile_cycles=core.tile_cycles,
            scalar_cycles=core.scalar_cycles,
            load_wait_cycles=core.load_wait_cycles,
            store_wait_cycles=core.store_wait_cycles,
            idle_cycles=end - core.end_cycle,
        )
        for core in result.cores
    )
    return LaunchTiming(
        cycles=result.cycles,
        launch_cycles=config.core.launch_cycles,
        cores=cores,
        transfers=sum(dma.transfers for dma in result.dma),
        bytes_read=sum(dma.bytes_read for dma in result.dma),
        bytes_written=sum(dma.bytes_written for dma in result.dma),
        burst_bytes_read=result.dram_read_bursts * config.dram.burst_bytes,
        burst_bytes_written=result.dram_written_bursts * config.dram.burst_bytes,
        network_bytes=sum(dma.bursts_read + dma.bursts_written for dma in result.dma) * config.dram.burst_bytes,
        dram_busy_cycles=result.dram_busy_cycles,
        scratchpad_bytes=sum(dma.scratchpad_bytes for dma in result.dma),
        statistics={component: dict(counters) for component, counters in result.components},
    )
