"""The shared L2: what it counts, what hits and misses cost, what stays in it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import pytorchsim
from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.errors import ConfigError
from pytorchsim.simulator.timing import L2State, LaunchTiming, simulate

BURST = 32
KIB = 1024


def machine(fidelity: str = "exact", kind: str = "ideal", cores: int = 1, **l2: Any) -> NpuConfig:
    """Two data buses, so that a slice's share is 512 of the L2's 1,024 bytes per cycle."""
    dram = {"kind": kind} if kind == "banked" else {"channels": 1, "bandwidth_gb_per_s": 30.08}
    return load_config({"cores": cores, "fidelity": fidelity, "dram": dram, "l2": {"kind": "shared", **l2}})


def bursts(*steps: tuple[bool, list[int]]) -> _native.Trace:
    """Transfers of whole bursts, by number, each after the one before."""
    trace = _native.Trace()
    for store, numbers in steps:
        trace.start(0, store, [(number * BURST, BURST, []) for number in numbers])
        trace.wait(0)
    return trace


def l2_of(timing: LaunchTiming) -> dict[str, int]:
    return dict(timing.statistics["l2"])


def check_conservation(timing: LaunchTiming) -> None:
    """Requests are hits and misses; what the DRAM moved are fills, write-backs and what went around."""
    l2 = l2_of(timing)
    requests = timing.network_bytes // BURST
    assert l2["read_hits"] + l2["read_misses"] + l2["write_hits"] + l2["write_misses"] == requests
    assert timing.burst_bytes_read == l2["read_misses"] * BURST == l2["dram_read_bytes"]
    assert timing.burst_bytes_written == (l2["write_backs"] + l2["writes_around"]) * BURST == l2["dram_written_bytes"]
    channels = [values for name, values in timing.statistics.items() if name.startswith("dram channel")]
    assert sum(values["read_bursts"] for values in channels) * BURST == timing.burst_bytes_read
    assert sum(values["written_bursts"] for values in channels) * BURST == timing.burst_bytes_written


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_one_miss_and_one_hit(fidelity: str) -> None:
    # Decode 4, way 10, port of a slice 32 / 512 = 1/16, look-up 30, way 10, scratchpad 1/128: a hit takes 54 and a
    # begun cycle. A miss adds the DRAM's latency of 100 and a burst at 16 bytes per cycle on its bus, 2.
    config = machine(fidelity, latency_cycles=30)
    hit = 4 + 10 + 30 + 10 + 1
    miss = hit + 100 + 2
    assert simulate([bursts((False, [0]))], config).cycles == miss
    assert simulate([bursts((False, [0]), (False, [0]))], config).cycles == miss + hit


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_all_hits_come_at_the_bandwidth_of_the_slices(fidelity: str) -> None:
    # 4,096 bursts that a write has left in the L2: 128 KiB at 256 bytes per cycle are 512 cycles. A burst's own way is
    # 4 + 10 + 30 + 10, its last port cycle and scratchpad side are within a cycle more.
    config = machine(fidelity, bytes_per_cycle=256, latency_cycles=30)
    numbers = list(range(4096))
    state = L2State(config)
    simulate([bursts((True, numbers))], config, state)
    timing = simulate([bursts((False, numbers))], config, state)
    assert l2_of(timing)["read_hits"] == 4096
    assert timing.burst_bytes_read == 0
    assert 512 + 54 <= timing.cycles <= 512 + 54 + 2


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_all_misses_come_at_the_bandwidth_of_the_dram(fidelity: str) -> None:
    # 4,096 bursts at 32 bytes per cycle take 4,096 cycles; before them 54 of the way and the L2 and 100 of the DRAM.
    config = machine(fidelity, latency_cycles=30)
    timing = simulate([bursts((False, list(range(4096))))], config)
    assert l2_of(timing)["read_misses"] == 4096
    assert 4096 + 154 <= timing.cycles <= 4096 + 154 + 4


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
@pytest.mark.parametrize("store", [False, True])
def test_one_line_more_than_ways_never_hits(fidelity: str, store: bool) -> None:
    # Lines of one set in turn: each comes back when it has just left. With as many lines as ways only the first round
    # misses. A written line that leaves is written back.
    sets, ways, rounds = 16, 4, 8
    config = machine(fidelity, sets=sets, ways=ways, line_bytes=BURST)
    for lines in (ways, ways + 1):
        trace = bursts(*([(store, [sets * line]) for line in range(lines)] * rounds))
        timing = simulate([trace], config)
        misses = lines if lines == ways else lines * rounds
        l2 = l2_of(timing)
        assert l2["write_misses" if store else "read_misses"] == misses
        assert l2["write_backs"] == (misses - ways if store else 0)
        check_conservation(timing)


def test_a_write_back_holds_the_sectors_that_were_written() -> None:
    # A line of four bursts, two of them written, leaves for another line of its only way.
    config = machine(sets=1, ways=1, line_bytes=4 * BURST)
    timing = simulate([bursts((True, [0, 2]), (False, [1]), (False, [4]))], config)
    assert l2_of(timing) | {"read_misses": 2, "write_misses": 2, "write_backs": 2} == l2_of(timing)
    check_conservation(timing)


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
@pytest.mark.parametrize("kind", ["ideal", "banked"])
def test_a_read_of_what_is_on_its_way_waits_for_it(kind: str, fidelity: str) -> None:
    # Two cores ask for the same 64 bursts at once: the second is a hit, and no sooner there than the first.
    config = machine(fidelity, kind, cores=2)
    alone = simulate([bursts((False, list(range(64))))], config).cycles
    timing = simulate([bursts((False, list(range(64))))] * 2, config)
    assert l2_of(timing)["read_misses"] == 64 == l2_of(timing)["read_hits"]
    assert alone <= timing.cycles <= alone + 2
    assert all(core.load_wait_cycles >= alone - 4 for core in timing.cores)
    check_conservation(timing)


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_a_hit_shortly_before_the_data_waits_for_the_rest(fidelity: str) -> None:
    # A miss takes 157 cycles (above), of which 10 for the way back. The other core asks for the same burst 90 cycles
    # later, is in the L2 at 4 + 10 + 30 + 90 = 134 and waits until the data come at 146: it has them at the same time.
    config = machine(fidelity, latency_cycles=30, cores=2)
    first, second = bursts((False, [0])), _native.Trace()
    second.scalar(90)
    second.start(0, False, [(0, BURST, [])])
    second.wait(0)
    timing = simulate([first, second], config)
    assert (l2_of(timing)["read_misses"], l2_of(timing)["read_hits"]) == (1, 1)
    assert [core.load_wait_cycles for core in timing.cores] == [157, 157 - 90]
    # 20 cycles after the data came there is nothing to wait for: a hit takes 55.
    second = _native.Trace()
    second.scalar(170)
    second.start(0, False, [(0, BURST, [])])
    second.wait(0)
    assert simulate([first, second], config).cores[1].load_wait_cycles == 55


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
@pytest.mark.parametrize("kind", ["ideal", "banked"])
def test_nothing_is_lost(kind: str, fidelity: str) -> None:
    config = machine(fidelity, kind, cores=2, sets=64, ways=2)
    numbers = random.Random(0)
    traces = [
        bursts(*((bool(numbers.randrange(2)), [numbers.randrange(4000) for _ in range(300)]) for _ in range(10)))
        for _ in range(2)
    ]
    timing = simulate(traces, config)
    assert timing == simulate(traces, config)
    check_conservation(timing)
    for component, values in timing.statistics.items():
        if component.startswith("dram"):
            assert sum(value for name, value in values.items() if name.endswith("_cycles")) == timing.cycles, component


def test_fast_follows_exact() -> None:
    trace = bursts((False, list(range(20_000))), (True, list(range(10_000))), (False, list(range(15_000))))
    exact, fast = (simulate([trace], machine(fidelity, "banked", sets=256)) for fidelity in ("exact", "fast"))
    assert fast.cycles == pytest.approx(exact.cycles, rel=0.03)
    assert l2_of(fast) == l2_of(exact)


def test_a_better_l2_is_not_slower() -> None:
    trace = bursts((False, list(range(20_000))), (True, list(range(10_000))), (False, list(range(15_000))))
    before = simulate([trace], machine(kind="banked")).cycles
    for better in ({"bytes_per_cycle": 4096}, {"latency_cycles": 0}, {"ways": 32}):
        assert simulate([trace], machine(kind="banked", **better)).cycles <= 1.02 * before + 1


def test_resident_lines_leave_only_for_each_other() -> None:
    # One set of four ways. Two resident lines stay through a stream; a set full of resident lines takes nothing else.
    config = machine(sets=1, ways=4, line_bytes=BURST)
    state = L2State(config)
    stream = list(range(100, 120))
    timing = simulate([bursts((True, [0, 1]), (False, stream), (False, [0, 1]))], config, state, [(0, 2 * BURST)])
    assert (l2_of(timing)["read_hits"], l2_of(timing)["write_backs"]) == (2, 0)
    timing = simulate([bursts((False, [0, 1, 2, 3]), (False, stream), (True, stream))], config, state, [(0, 4 * BURST)])
    assert l2_of(timing) | {"read_hits": 2, "reads_around": 20, "writes_around": 20} == l2_of(timing)
    check_conservation(timing)
    # Without that they are lines like others.
    timing = simulate([bursts((False, stream), (False, [0, 1]))], config, state)
    assert l2_of(timing)["read_hits"] == 0
    assert l2_of(timing)["write_backs"] == 2


def test_the_next_kernel_finds_what_the_last_one_wrote() -> None:
    # Two products, a kernel each: the second one reads the 256 KiB of the first. The report has the counters.
    def two(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(torch.mm(x, x), x)

    options = {"config": {"l2": {"kind": "shared"}}, "strict": True, "mode": "timing"}
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(two, backend="pytorchsim", options=options)(torch.zeros(256, 256))
    kernels = pytorchsim.report().to_dict()["kernels"]
    first, second = (kernel["statistics"]["l2"] for kernel in kernels)
    assert first["dram_read_bytes"] == first["read_misses"] * BURST >= 256 * KIB
    assert (second["read_misses"], second["dram_read_bytes"]) == (0, 0)
    assert second["read_hits"] * BURST >= 2 * 256 * KIB


@pytest.mark.parametrize(
    ("l2", "message"),
    [
        ({"sets": 100}, r"l2\.sets.*power of two"),
        ({"sets": 0}, r"l2\.sets"),
        ({"ways": 0}, r"l2\.ways"),
        ({"ways": 65}, r"l2\.ways"),
        ({"line_bytes": 96}, r"l2\.line_bytes.*power of two"),
        ({"line_bytes": 16}, r"l2\.line_bytes \(16\) is 0\.5 DRAM bursts"),
        ({"line_bytes": 4096}, r"l2\.line_bytes \(4096\) is 128 DRAM bursts"),
        ({"bytes_per_cycle": 0}, r"l2\.bytes_per_cycle"),
        ({"latency_cycles": -1}, r"l2\.latency_cycles"),
        ({"kind": "private"}, r"l2\.kind"),
        ({"banks": 4}, r"l2\.banks"),
    ],
)
def test_impossible_geometries_are_refused(l2: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config({"l2": {"kind": "shared", **l2}})


@pytest.mark.parametrize("wrong", [{"sets": 0}, {"sets": 3}, {"ways": 0}, {"line_bytes": 48}, {"bytes_per_cycle": 0}])
def test_the_simulator_refuses_them_too(wrong: dict[str, int]) -> None:
    params = _native.TimingParams()
    for name, value in wrong.items():
        setattr(params.l2, name, value)
    with pytest.raises(ValueError, match="L2"):
        _native.L2Tags(params.l2, BURST)


def test_figures_of_an_l2_that_is_not_there_do_not_matter() -> None:
    config = {"base": "tiny", "l2": {"line_bytes": 32}, "dram": {"burst_bytes": 64}}
    compiled = torch.compile(lambda x: x + 1, backend="pytorchsim", options={"config": config, "strict": True})
    assert compiled(torch.zeros(10)).tolist() == [1.0] * 10
