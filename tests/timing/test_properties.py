"""What holds for any trace: conservation, repeatability, and that a better machine is not slower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.simulator.timing import LaunchTiming, simulate

TAGS = 4

# (kind, tag, size): what a random program does. Sizes are bytes or cycles.
Operation = tuple[str, int, int]

operations = st.lists(
    st.one_of(
        st.tuples(st.just("load"), st.integers(0, TAGS - 1), st.integers(1, 200_000)),
        st.tuples(st.just("store"), st.integers(0, TAGS - 1), st.integers(1, 200_000)),
        st.tuples(st.just("wait"), st.integers(0, TAGS - 1), st.just(0)),
        st.tuples(st.just("tile"), st.just(0), st.integers(0, 2000)),
        st.tuples(st.just("scalar"), st.just(0), st.integers(0, 50)),
    ),
    max_size=30,
)
programs = st.lists(operations, min_size=1, max_size=3)


def trace_of(program: Sequence[Operation]) -> _native.Trace:
    trace = _native.Trace()
    for number, (kind, tag, size) in enumerate(program):
        if kind in ("load", "store"):
            trace.start(tag, kind == "store", [(number * 1_000_003, size, [])])
        elif kind == "wait":
            trace.wait(tag)
        elif kind == "tile":
            trace.tile(0, size)
        else:
            trace.scalar(size)
    for tag in range(TAGS):  # a kernel ends with all tags done
        trace.wait(tag)
    return trace


def machine(**sections: dict[str, Any]) -> NpuConfig:
    return load_config({"cores": 3, **sections})


MACHINE = machine()
BETTER = (
    machine(dram={"bandwidth_gb_per_s": 2 * 481.28}, dma={"max_outstanding": 4096}),
    machine(dram={"latency_cycles": 50}),
    machine(network={"latency_cycles": 0}),
    machine(dma={"issue_cycles": 1}),
    machine(dma={"scratchpad_bytes_per_cycle": 8192}),
)


def play(cores: Sequence[Sequence[Operation]], config: NpuConfig = MACHINE) -> LaunchTiming:
    return simulate([trace_of(program) for program in cores], config)


def total(cores: Sequence[Sequence[Operation]], *kinds: str) -> int:
    return sum(size for program in cores for kind, _, size in program if kind in kinds)


@settings(max_examples=150, deadline=None)
@given(programs)
def test_nothing_is_lost(cores: list[list[Operation]]) -> None:
    timing = play(cores)
    assert timing == play(cores)
    for core in timing.cores:
        assert core.busy_cycles + core.load_wait_cycles + core.store_wait_cycles + core.idle_cycles == timing.cycles
    assert sum(core.tile_cycles for core in timing.cores) == total(cores, "tile")
    assert sum(core.scalar_cycles for core in timing.cores) == total(cores, "scalar")
    assert timing.bytes_read == total(cores, "load")
    assert timing.bytes_written == total(cores, "store")
    assert timing.burst_bytes_read >= timing.bytes_read
    assert timing.dram_busy_cycles <= timing.cycles


@settings(max_examples=150, deadline=None)
@given(programs)
def test_never_faster_than_any_of_its_parts(cores: list[list[Operation]]) -> None:
    timing = play(cores)
    bursts = timing.burst_bytes_read + timing.burst_bytes_written
    assert timing.cycles >= bursts / 512
    for program in cores:
        assert timing.cycles >= total([program], "tile", "scalar")


@settings(max_examples=150, deadline=None)
@given(programs)
def test_a_better_machine_is_not_slower(cores: list[list[Operation]]) -> None:
    # Cores that share the bandwidth may meet at other moments, which can cost one of them a little.
    limit = 1.02 * play(cores).cycles + 1
    for better in BETTER:
        assert play(cores, better).cycles <= limit
