"""Networks: packets between any two nodes against closed formulas; whole traces with buffers that fill up.

A packet of 32 bytes takes 1/16 cycle of a link of 512 bytes per cycle. Nodes: cores, then data buses of the memory.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.errors import ConfigError, TimingError
from pytorchsim.simulator.timing import LaunchTiming, simulate

CHANNELS = 32
Packet = tuple[int, int, int, bool, int]


def network(kind: str, **values: Any) -> _native.NetworkParams:
    params = _native.TimingParams().network
    params.kind = _native.NetworkKind[kind.upper()]
    for name, value in values.items():
        setattr(params, name, value)
    return params


def one(params: _native.NetworkParams, source: int, target: int, *, cores: int = 2, memories: int = 7) -> int:
    return _native.probe_network(params, cores, memories, [(source, target, 512, False, 100)])[0] - 100


def test_crossbar_latency() -> None:
    # 512 bytes: one cycle into the switch, one out of it, and the latency; core to memory and back, core to core.
    for source, target in ((0, 5), (5, 0), (0, 1)):
        assert one(network("crossbar", latency_cycles=7), source, target) == 1 + 1 + 7


def test_ideal_latency() -> None:
    assert one(network("ideal", latency_cycles=7), 0, 1) == 7


@pytest.mark.parametrize(
    ("source", "target", "hops"),
    [
        # 3 x 3 routers: memories 0 to 2 (nodes 2 3 4), then core 0, core 1, memory 3, then memories 4 to 6.
        (0, 1, 1),  # neighbours
        (0, 2, 1),  # above
        (0, 4, 3),  # two right, one up
        (1, 6, 2),  # below and left
        (0, 8, 3),
        (2, 8, 4),  # corner to corner
    ],
)
def test_mesh_hops(source: int, target: int, hops: int) -> None:
    # A cycle of 512 bytes on every link: injection, hops, ejection; 5 cycles per hop and into the node.
    expected = (1 + hops + 1) + (hops + 1) * 5
    assert one(network("mesh", hop_cycles=5), source, target) == expected
    assert one(network("mesh", hop_cycles=5), target, source) == expected


def test_a_link_is_shared_fairly() -> None:
    # Two cores send 64 packets of 512 bytes each to one target: its link passes one per cycle, in turns.
    packets = [(core, 2, 512, False, 0) for _ in range(64) for core in (0, 1)]
    arrivals = _native.probe_network(network("crossbar", latency_cycles=0), 2, 1, packets)
    assert sorted(arrivals) == list(range(2, 130))
    last = [
        max(arrival for packet, arrival in zip(packets, arrivals, strict=True) if packet[0] == core) for core in (0, 1)
    ]
    assert sorted(last) == [128, 129]


def test_different_targets_do_not_disturb_each_other() -> None:
    packets = [(core, 2 + core, 512, False, 0) for _ in range(64) for core in (0, 1)]
    arrivals = _native.probe_network(network("crossbar", latency_cycles=0), 2, 2, packets)
    assert max(arrivals) == 1 + 64


def test_a_full_buffer_holds_up_the_sender() -> None:
    # The target takes nothing before cycle 1000. Two buffers of four packets fill up; then those at its door are taken
    # at once, and the others follow over its link, one per cycle.
    params = network("crossbar", latency_cycles=0, buffer_packets=4)
    packets: list[Packet] = [(0, 1, 512, False, 0)] * 16
    arrivals = _native.probe_network(params, 1, 1, packets, [(1, 1000)])
    assert arrivals[:4] == [1000] * 4
    assert arrivals[4:] == list(range(1001, 1013))


def test_head_of_line() -> None:
    # The first packet's target is closed and buffers hold one packet: the second one's, for an open target, waits too.
    params = network("crossbar", latency_cycles=0, buffer_packets=1)
    packets = [(0, 1, 512, False, 0), (0, 1, 512, False, 0), (0, 2, 512, False, 0)]
    arrivals = _native.probe_network(params, 1, 2, packets, [(1, 1000)])
    assert arrivals[2] > 1000
    roomy = network("crossbar", latency_cycles=0, buffer_packets=2)
    assert _native.probe_network(roomy, 1, 2, packets, [(1, 1000)])[2] < 10


def test_responses_pass_requests_that_wait() -> None:
    packets: list[Packet] = [(0, 1, 512, False, 0)] * 8 + [(0, 1, 512, True, 0)]
    closed = network("crossbar", latency_cycles=0, buffer_packets=64)
    arrivals = _native.probe_network(closed, 1, 1, packets)
    assert arrivals == sorted(arrivals)


def machine(kind: str, cores: int = 1, memory: str = "banked", fidelity: str = "exact", **values: Any) -> NpuConfig:
    return load_config(
        {"cores": cores, "fidelity": fidelity, "network": {"kind": kind, **values}, "dram": {"kind": memory}}
    )


def stream(core: int = 0, size: int = 1 << 20, store: bool = False) -> _native.Trace:
    trace = _native.Trace()
    trace.start(0, store, [(core << 26, size, [])])
    trace.wait(0)
    return trace


def check(timing: LaunchTiming) -> None:
    for component, values in timing.statistics.items():
        if component.startswith("lane core"):
            continue  # its cycles by cause add up to its busy ones: test_work.py
        spent = [value for name, value in values.items() if name.endswith("_cycles")]
        assert not spent or sum(spent) == timing.cycles, component
    for core in timing.cores:
        assert core.busy_cycles + core.load_wait_cycles + core.store_wait_cycles + core.idle_cycles == timing.cycles


@pytest.mark.parametrize(("kind", "fidelity"), itertools.product(["crossbar", "mesh"], ["exact", "fast"]))
@pytest.mark.parametrize("store", [False, True])
def test_a_narrow_link_bounds_a_stream(kind: str, fidelity: str, store: bool) -> None:
    # 1 MiB over the core's link of 64 bytes per cycle: 16384 cycles, and a way there and back.
    timing = simulate([stream(store=store)], machine(kind, fidelity=fidelity, link_bytes_per_cycle=64))
    assert 16_384 <= timing.cycles <= 16_384 + 400
    busy = timing.statistics["link core 0 out" if store else "link core 0 in"]["busy_cycles"]
    assert 16_384 <= busy <= timing.cycles
    check(timing)


@pytest.mark.parametrize(("kind", "memory"), itertools.product(["crossbar", "mesh"], ["ideal", "banked"]))
def test_fast_follows_exact(kind: str, memory: str) -> None:
    for traces in ([stream()], [stream(store=True)], [stream(core) for core in range(4)]):
        exact, fast = (simulate(traces, machine(kind, len(traces), memory, f)) for f in ("exact", "fast"))
        assert fast.cycles == pytest.approx(exact.cycles, rel=0.05)
        check(exact)
        check(fast)


def test_ideal_memory_behind_a_crossbar() -> None:
    # One burst: decode 4; 8 bytes of header over two links of 512, 10; DRAM 100 and a bus of 16 bytes per cycle, 2;
    # back over two links of 32 bytes, 10: 126.2 and the scratchpad's port.
    assert simulate([stream(size=32)], machine("crossbar", memory="ideal")).cycles == 127


@pytest.mark.parametrize("kind", ["ideal", "crossbar", "mesh"])
def test_better_networks_are_not_slower(kind: str) -> None:
    traces = [stream(core, 1 << 18) for core in range(4)]
    base = simulate(traces, machine(kind, 4, link_bytes_per_cycle=128)).cycles
    for better in (
        {"link_bytes_per_cycle": 256},
        {"link_bytes_per_cycle": 128, "latency_cycles": 2, "hop_cycles": 1},
        {"link_bytes_per_cycle": 128, "buffer_packets": 1024},
    ):
        assert simulate(traces, machine(kind, 4, **better)).cycles <= 1.02 * base + 1


def line(**network: Any) -> NpuConfig:
    """memory 0 - core 0 - core 1 - memory 1 in one row, small buffers."""
    return load_config({
        "cores": 2,
        "network": {"kind": "mesh", "columns": 4, "buffer_packets": 4, **network},
        "dram": {
            "kind": "banked", "channels": 2, "pseudo_channels": 1, "bandwidth_gb_per_s": 30.08, "queue_entries": 2,
        },
    })  # fmt: skip


def crossing() -> list[_native.Trace]:
    """Both cores load and store on both memories at once."""
    traces = []
    for core in range(2):
        trace = _native.Trace()
        for tag in range(4):
            trace.start(tag, tag % 2 == 1, [((4 * core + tag) << 20, 1 << 16, [])])
        for tag in range(4):
            trace.wait(tag)
        traces.append(trace)
    return traces


def test_responses_with_buffers_of_their_own_cannot_deadlock() -> None:
    timing = simulate(crossing(), line())
    assert timing.burst_bytes_read + timing.burst_bytes_written == 8 << 16
    check(timing)


def test_a_deadlock_says_who_waits_for_what() -> None:
    # With one buffer for both, requests that no memory takes stand in the way of the responses that would free it.
    with pytest.raises(TimingError) as raised:
        simulate(crossing(), line(separate_responses=False))
    text = str(raised.value)
    for part in (
        "deadlock: core 0 waits for tag", "its DMA engine has", "waits for room in the network", "core 1 waits for tag",
        "packets wait in the network; link", "the first, a request from core", "waits for link", "dram channel 0 holds",
    ):  # fmt: skip
        assert part in text
    assert simulate(crossing(), line()).cycles > 0  # the next call works


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "torus"}, r"network\.kind: .*got 'torus'"),
        ({"kind": "mesh", "link_bytes_per_cycle": 0}, r"network\.link_bytes_per_cycle: .*greater than or equal to 1"),
        ({"buffer_packets": 0}, r"network\.buffer_packets"),
        ({"hop_cycle": 3}, r"unknown key 'network\.hop_cycle'.*Did you mean 'network\.hop_cycles'"),
    ],
)
def test_impossible_networks_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config({"network": values})
