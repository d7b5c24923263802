"""Conservation in what a user sees: the figures of `report().to_dict()` add up on every kind of machine."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import pytorchsim

L2 = {"kind": "shared", "sets": 512, "ways": 4}  # 256 KiB, about one of the tensors: some lines leave, some stay
MACHINES: dict[str, dict[str, Any]] = {
    "ideal": {},
    "launch cost, two cores": {"cores": 2, "core": {"launch_cycles": 50}},
    "banked": {"dram": {"kind": "banked"}},
    "banked, fast, two cores": {"cores": 2, "fidelity": "fast", "dram": {"kind": "banked"}},
    "crossbar": {"network": {"kind": "crossbar", "link_bytes_per_cycle": 64}},
    "crossbar, fast": {"fidelity": "fast", "network": {"kind": "crossbar", "link_bytes_per_cycle": 64}},
    "L2, fast": {"fidelity": "fast", "l2": L2},
    "mesh, L2, banked, two cores": {
        "cores": 2,
        "core": {"launch_cycles": 50},
        "network": {"kind": "mesh"},
        "l2": L2,
        "dram": {"kind": "banked"},
    },
}
STATES = {
    "dma": ("decode", "send", "outstanding_limit", "network_full", "wait", "idle"),
    "dram": (
        "busy", "row_stall", "bank_group_stall", "turnaround_stall", "refresh_stall", "idle"
    ),
    "link": ("busy", "buffer_full_stall", "idle"),
}  # fmt: skip
"""What the cycles of a component are divided into, where it tells them apart; `_cycles` is left out."""

LANE_CORE = ("issue", "branch", "drain", "scalar_wait", "vector_wait", "unit_wait", "array_wait")


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x @ w, -1) + x
    return torch.softmax(y @ w, -1) + y  # kernels that are launched twice, and what the next one reads


@cache
def report(machine: str) -> dict[str, Any]:
    torch._dynamo.reset()
    options = {"config": MACHINES[machine], "strict": True, "mode": "timing"}
    torch.compile(model, backend="pytorchsim", options=options)(torch.ones(300, 200), torch.ones(200, 200))
    return pytorchsim.report().to_dict()


def kernels(machine: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report(machine)["kernels"]
    assert any(kernel["launches"] > 1 for kernel in found)
    return found


def components(kernel: dict[str, Any], kind: str) -> list[dict[str, int]]:
    return [counters for name, counters in kernel["statistics"].items() if name.split()[0] == kind]


def bursts(counters: list[dict[str, int]], *names: str) -> int:
    return sum(each[f"{name}_bursts"] for each in counters for name in names)


@pytest.mark.parametrize("machine", MACHINES)
def test_cycles_of_cores(machine: str) -> None:
    config = report(machine)["config"]
    for kernel in kernels(machine):
        # A launch: from the first cycle to the barrier, and the launch cost behind it.
        running = kernel["cycles"] - kernel["launches"] * config["core"]["launch_cycles"]
        parts = kernel["core_cycles"]
        assert sum(parts.values()) == running * config["cores"]
        causes = sum(core[f"{cause}_cycles"] for core in components(kernel, "lane") for cause in LANE_CORE)
        assert causes == parts["tile"] + parts["scalar"]


@pytest.mark.parametrize("machine", MACHINES)
def test_cycles_of_components(machine: str) -> None:
    told = set()
    for kernel in kernels(machine):
        running = kernel["cycles"] - kernel["launches"] * report(machine)["config"]["core"]["launch_cycles"]
        for kind, states in STATES.items():
            for counters in components(kernel, kind):
                parts = [counters[f"{state}_cycles"] for state in states if f"{state}_cycles" in counters]
                if parts:
                    told.add(kind)
                    assert sum(parts) == running, (kernel["name"], kind, counters)
    assert "dram" in told
    assert "link" in told or "network" not in MACHINES[machine]


@pytest.mark.parametrize("machine", MACHINES)
def test_bytes_asked_for_are_served(machine: str) -> None:
    burst = report(machine)["config"]["dram"]["burst_bytes"]
    for kernel in kernels(machine):
        engines, channels = components(kernel, "dma"), components(kernel, "dram")
        asked = {name: bursts(engines, name) for name in ("read", "written")}
        served = {name: bursts(channels, name) for name in ("read", "written")}
        assert kernel["bytes_read"] <= burst * asked["read"]
        assert kernel["bytes_written"] <= burst * asked["written"]
        assert kernel["transfers"] == sum(engine["transfers"] for engine in engines)
        assert kernel["network"]["bytes"] == burst * sum(asked.values())
        assert kernel["burst_bytes"] == burst * sum(served.values())
        l2 = kernel["l2"]
        if l2 is None:
            assert served == asked
            continue
        assert l2["read_hits"] + l2["read_misses"] == asked["read"]
        assert l2["write_hits"] + l2["write_misses"] == asked["written"]
        assert l2["hits"] + l2["misses"] == sum(asked.values())
        assert l2["read_misses"] == served["read"]
        assert l2["write_backs"] + l2["writes_around"] == served["written"]
        assert l2["hit_bytes"] == burst * l2["hits"]
        assert (l2["dram_read_bytes"], l2["dram_written_bytes"]) == (burst * served["read"], burst * served["written"])
    if "l2" in MACHINES[machine]:  # else the above would hold of nothing
        assert min(sum(kernel["l2"][name] for kernel in kernels(machine)) for name in ("hits", "write_backs")) > 0


@pytest.mark.parametrize("machine", [name for name in MACHINES if "network" in MACHINES[name]])
def test_links_carry_what_engines_ask_for(machine: str) -> None:
    burst = report(machine)["config"]["dram"]["burst_bytes"]
    for kernel in kernels(machine):
        engines = components(kernel, "dma")
        ends = {(node, way): 0 for node in ("core", "memory") for way in ("in", "out")}
        for name, counters in kernel["statistics"].items():
            words = name.split()
            if words[0] == "link" and (words[1], words[-1]) in ends:
                ends[words[1], words[-1]] += counters["payload_bytes"]
        read, written = (burst * bursts(engines, name) for name in ("read", "written"))
        assert ends == {
            ("core", "in"): read,
            ("core", "out"): written,
            ("memory", "in"): written,
            ("memory", "out"): read,
        }
        assert kernel["network"]["busiest_link"] in {name.removeprefix("link ") for name in kernel["statistics"]}


@pytest.mark.parametrize("machine", MACHINES)
def test_totals_are_the_sums_of_kernels(machine: str) -> None:
    totals, rows = report(machine)["totals"], kernels(machine)
    for name in ("cycles", "launches", "bytes_read", "bytes_written"):
        assert totals[name] == sum(row[name] for row in rows)
    assert totals["network"]["bytes"] == sum(row["network"]["bytes"] for row in rows)
    for place, energy in totals["energy_picojoules"].items():
        assert energy == pytest.approx(sum(row["energy_picojoules"][place] for row in rows))
    if totals["l2"] is None:
        assert all(row["l2"] is None for row in rows)
    else:
        for name in ("hits", "misses", "write_backs", "hit_bytes", "dram_read_bytes", "dram_written_bytes"):
            assert totals["l2"][name] == sum(row["l2"][name] for row in rows)


def test_a_narrow_link_is_what_bounds() -> None:
    # One core's link takes 64 bytes per cycle, an eighth of the DRAM's bandwidth: waits are for the network.
    (machine,) = (name for name in MACHINES if name == "crossbar")
    product = max(kernels(machine), key=lambda kernel: kernel["cycles"])
    assert product["bound_by"] == "network"
    assert product["network"]["busiest_link"].startswith("core 0 ")
    assert product["network"]["utilisation"] > 0.5
    assert product["dram_utilisation"] < 0.25


def test_a_narrow_l2_is_what_bounds() -> None:
    # 64 bytes per cycle for all slices, where the DRAM moves 512; nothing is read twice.
    torch._dynamo.reset()
    options = {"config": {"l2": {"kind": "shared", "bytes_per_cycle": 64}}, "strict": True, "mode": "timing"}
    torch.compile(torch.relu, backend="pytorchsim", options=options)(torch.ones(300, 200))
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    assert kernel["bound_by"] == "l2"
    # 240,000 bytes each way at 64 per cycle are 7,500 cycles.
    assert kernel["l2"]["utilisation"] == pytest.approx(7_500 / kernel["cycles"], abs=1e-3)
    assert kernel["l2"]["hits"] == 0
