"""DMA, network, DRAM and cores against closed formulas, with the arithmetic in comments.

Figures (preset tpuv3): descriptor 4 cycles, network 10 cycles each way, DRAM 100 cycles and 512 bytes per cycle in
bursts of 32 bytes, scratchpad side 4096 bytes per cycle. One transfer of B bytes: 4 + 10 + 100 + B / 512 + 10.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.errors import TimingError
from pytorchsim.simulator.timing import LaunchTiming, simulate

DECODE, NETWORK, DRAM, BYTES_PER_CYCLE, BURST = 4, 10, 100, 512, 32
ROUND_TRIP = 2 * NETWORK + DRAM


def machine(cores: int = 1, **sections: dict[str, Any]) -> NpuConfig:
    return load_config({"cores": cores, **sections})


def contiguous(size_bytes: int, base: int = 0) -> list[tuple[int, int, list[tuple[int, int]]]]:
    return [(base, size_bytes, [])]


def one_transfer(size_bytes: int, *, base: int = 0, scratchpad_bytes: int | None = None) -> _native.Trace:
    trace = _native.Trace()
    trace.start(0, False, contiguous(size_bytes, base), scratchpad_bytes)
    trace.wait(0)
    return trace


def check_conservation(timing: LaunchTiming) -> None:
    for core in timing.cores:
        parts = core.busy_cycles + core.load_wait_cycles + core.store_wait_cycles + core.idle_cycles
        assert parts == timing.cycles - timing.launch_cycles


@pytest.mark.parametrize("size_bytes", [32, 512, 4096, 131_072, 131_104])
def test_one_load(size_bytes: int) -> None:
    timing = simulate([one_transfer(size_bytes)], machine())
    # Whole bursts move; a cycle that is begun counts. 131104: 4 + 120 + 256.06 -> 381
    assert timing.cycles == math.ceil(DECODE + ROUND_TRIP + size_bytes / BYTES_PER_CYCLE)
    assert timing.cores[0].load_wait_cycles == timing.cycles
    assert (timing.bytes_read, timing.bytes_written, timing.burst_bytes_read) == (size_bytes, 0, size_bytes)
    assert timing.dram_busy_cycles == math.ceil(size_bytes / BYTES_PER_CYCLE)
    check_conservation(timing)


def test_one_store_then_wait() -> None:
    trace = _native.Trace()
    trace.tile(0, 50)
    trace.start(1, True, contiguous(51_200))
    trace.scalar(7)
    trace.wait(1)
    timing = simulate([trace], machine())
    # 50 + (4 + 120 + 100), of which 7 pass in the control function
    assert timing.cycles == 50 + DECODE + ROUND_TRIP + 100
    core = timing.cores[0]
    assert (core.tile_cycles, core.scalar_cycles, core.load_wait_cycles) == (50, 7, 0)
    assert core.store_wait_cycles == DECODE + ROUND_TRIP + 100 - 7
    assert (timing.bytes_written, timing.bytes_read) == (51_200, 0)
    check_conservation(timing)


def test_partial_bursts_cost_whole_ones() -> None:
    # 1024 runs of 4 bytes, 64 bytes apart: 1024 bursts = 32768 bytes = 64 cycles for 4096 useful bytes.
    trace = _native.Trace()
    trace.start(0, False, [(0, 4, [(1024, 64)])])
    trace.wait(0)
    timing = simulate([trace], machine())
    assert (timing.bytes_read, timing.burst_bytes_read) == (4096, 32_768)
    assert timing.cycles == DECODE + ROUND_TRIP + 64


def test_unaligned_transfer_touches_one_burst_more() -> None:
    timing = simulate([one_transfer(16_384, base=4)], machine())
    assert timing.burst_bytes_read == 16_384 + BURST
    assert timing.cycles == math.ceil(DECODE + ROUND_TRIP + (16_384 + BURST) / BYTES_PER_CYCLE)  # 156.06 -> 157


def test_transfers_follow_one_another_and_share_the_latency() -> None:
    # Both start in cycle 0. The second descriptor is decoded in 8, while the first streams (128 cycles): no gap.
    trace = _native.Trace()
    trace.start(0, False, contiguous(65_536))
    trace.start(1, False, contiguous(65_536, 65_536))
    trace.wait(0)
    trace.wait(1)
    timing = simulate([trace], machine())
    assert timing.cycles == DECODE + ROUND_TRIP + 128 + 128


def test_small_transfers_are_bound_by_descriptor_decoding() -> None:
    # 100 transfers of one burst: decoded every 4 cycles; the last one starts in 400: 400 + 120 + 1/16 -> 521
    trace = _native.Trace()
    for number in range(100):
        trace.start(0, False, contiguous(32, 32 * number))
    trace.wait(0)
    assert simulate([trace], machine()).cycles == 100 * DECODE + ROUND_TRIP + 1


def test_load_overlaps_with_compute() -> None:
    # Double buffering over 8 tiles: load 128 cycles, compute 300. Only the first load is waited for.
    # Load i + 1 starts with compute i and takes 4 + 120 + 128 = 252 < 300.
    trace = _native.Trace()
    trace.start(0, False, contiguous(65_536))
    for tile in range(8):
        if tile < 7:
            trace.start((tile + 1) % 2, False, contiguous(65_536, 65_536 * (tile + 1)))
        trace.wait(tile % 2)
        trace.tile(0, 300)
    timing = simulate([trace], machine())
    assert timing.cycles == DECODE + ROUND_TRIP + 128 + 8 * 300
    assert timing.cores[0].load_wait_cycles == DECODE + ROUND_TRIP + 128
    check_conservation(timing)


def test_compute_overlaps_with_load() -> None:
    # The other way round: compute 10, load 128 and two loads under way: DRAM streams without a gap.
    trace = _native.Trace()
    trace.start(0, False, contiguous(65_536))
    for tile in range(8):
        if tile < 7:
            trace.start((tile + 1) % 2, False, contiguous(65_536, 65_536 * (tile + 1)))
        trace.wait(tile % 2)
        trace.tile(0, 10)
    timing = simulate([trace], machine())
    # Tile i is there in D(i); load i + 2 is started in D(i) + 10, so it can flow from D(i) + 10 + 4 + 110 on, while
    # load i + 1 flows from D(i) - 10 to D(i) + 118. So load i + 2 flows from D(i) + 124: D(i + 2) = D(i) + 262.
    # D(0) = 252, D(1) = 380, D(6) = D(0) + 3 x 262, D(7) = D(1) + 3 x 262 = 1166, then the last tile.
    assert timing.cycles == 1166 + 10


def test_two_cores_share_the_bandwidth() -> None:
    timing = simulate([one_transfer(65_536), one_transfer(65_536, base=65_536)], machine(cores=2))
    # 2 x 128 cycles of data over one DRAM
    assert timing.cycles == DECODE + ROUND_TRIP + 256
    assert [core.idle_cycles for core in timing.cores] == [0, 0]
    check_conservation(timing)


def test_a_finished_core_leaves_its_share() -> None:
    # 16 KiB and 112 KiB: both at half rate until the small one is done (2 x 32 cycles), then the rest at full rate.
    timing = simulate([one_transfer(16_384), one_transfer(114_688, base=16_384)], machine(cores=2))
    assert timing.cycles == DECODE + ROUND_TRIP + 256
    assert timing.cores[0].load_wait_cycles == DECODE + ROUND_TRIP + 64
    assert timing.cores[0].idle_cycles == 256 - 64
    check_conservation(timing)


def test_scratchpad_side_limits_a_multicast() -> None:
    # 4096 bytes from DRAM into each of 128 lanes: 524288 bytes at 4096 per cycle = 128 cycles, not 8.
    timing = simulate([one_transfer(4096, scratchpad_bytes=4096 * 128)], machine())
    assert timing.cycles == DECODE + ROUND_TRIP + 128


def test_slow_scratchpad_leaves_bandwidth_to_the_other_core() -> None:
    # Core 0 takes 32 bytes per cycle of 512 (4096 in 128 cycles), core 1 the other 480: 61440 in 128 cycles.
    timing = simulate(
        [one_transfer(4096, scratchpad_bytes=4096 * 128), one_transfer(61_440, base=4096)], machine(cores=2)
    )
    assert timing.cycles == DECODE + ROUND_TRIP + 128


def test_outstanding_bursts_limit_the_rate() -> None:
    # 15 bursts in 120 cycles: 15 x 32 / 120 = 4 bytes per cycle; 4096 bytes take 1024 cycles.
    timing = simulate([one_transfer(4096)], machine(dma={"max_outstanding": 15}))
    assert timing.cycles == DECODE + ROUND_TRIP + 1024


def test_transfer_without_dram_bytes_stays_in_the_core() -> None:
    trace = _native.Trace()
    trace.start(0, False, [], 40_960)  # all fill: 10 cycles of the scratchpad's port
    trace.wait(0)
    timing = simulate([trace], machine())
    assert timing.cycles == DECODE + 10
    assert timing.bytes_read == 0


def test_empty_trace_costs_the_launch_only() -> None:
    timing = simulate([_native.Trace()], machine(core={"launch_cycles": 1000}))
    assert (timing.cycles, timing.launch_cycles) == (1000, 1000)


def test_wait_for_an_idle_tag_is_free() -> None:
    trace = _native.Trace()
    trace.wait(5)
    trace.tile(0, 3)
    assert simulate([trace], machine()).cycles == 3


def test_wait_covers_every_transfer_of_its_tag() -> None:
    trace = _native.Trace()
    trace.start(2, False, contiguous(512))
    trace.start(2, True, contiguous(51_200, 512))
    trace.wait(2)
    timing = simulate([trace], machine())
    # 4 + 120 + 1 for the load; the store's descriptor is decoded in 8: 8 + 120 + 100. It ends last: a store wait.
    assert timing.cycles == 2 * DECODE + ROUND_TRIP + 100
    assert timing.cores[0].store_wait_cycles == timing.cycles


def test_bandwidth_that_is_no_whole_number_of_bytes_per_cycle() -> None:
    # tpuv2: 350 GB/s at 700 MHz = 500 bytes per cycle; tpuv4 600 GB/s at 1050 MHz = 571.43.
    for name, bytes_per_cycle in (("tpuv2", 500.0), ("tpuv4", 600e3 / 1050)):
        config = load_config(name)
        assert config.dram_bytes_per_cycle == pytest.approx(bytes_per_cycle)
        expected = DECODE + ROUND_TRIP + 1_048_576 / bytes_per_cycle
        assert simulate([one_transfer(1_048_576)], config).cycles == math.ceil(expected)


def test_same_traces_same_cycles() -> None:
    config = machine(cores=2)
    runs = [simulate([one_transfer(12_345, base=7), one_transfer(99_999, base=13)], config) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("tag", [32, 1 << 20])
def test_tag_out_of_range(tag: int) -> None:
    trace = _native.Trace()
    trace.wait(tag)
    with pytest.raises(TimingError, match=f"tag {tag}"):
        simulate([trace], machine())


def test_more_traces_than_cores() -> None:
    with pytest.raises(TimingError, match="2 traces for 1 cores"):
        simulate([_native.Trace(), _native.Trace()], machine())
