"""gem5 configuration: `gem5.fast lane_core.py MACHINE.json BINARY`; without arguments, gem5 only prints its banner.

MACHINE.json (written by `pytorchsim/simulator/gem5_machine.py`): `cpu`, parameters of `BaseMinorCPU` by their names
there; `units`, each `{op_classes, count, latency, interval, early, assumed}`; `vlen_bits`; `cache`, `{size, latency}`.
Prints `TICKS <ticks> <cause>`; the clock is 1 GHz, so a cycle is 1000 ticks.
"""

from __future__ import annotations

import json
import sys

if len(sys.argv) == 1:
    sys.exit(0)

import m5
from m5.objects import (
    Cache,
    MinorFU,
    MinorFUPool,
    MinorFUTiming,
    Process,
    RiscvMinorCPU,
    Root,
    SEWorkload,
    SimpleMemory,
    SrcClockDomain,
    System,
    SystemXBar,
    VoltageDomain,
)
from m5.objects.BaseMinorCPU import minorMakeOpClassSet
from m5.params import AddrRange

with open(sys.argv[1]) as file:
    machine = json.load(file)
binary = sys.argv[2]


def unit(description: dict[str, object]) -> MinorFU:
    """One functional unit. Without `early` its sources must be complete at issue."""
    timings = []
    if description["early"] or description["assumed"]:
        timings = [
            MinorFUTiming(
                description="unit",
                srcRegsRelativeLats=[description["early"]],
                extraAssumedLat=description["assumed"],
            )
        ]
    return MinorFU(
        opClasses=minorMakeOpClassSet(description["op_classes"]),
        opLat=description["latency"],
        issueLat=description["interval"],
        timings=timings,
    )


def cache() -> Cache:
    """Hits in `latency` cycles once a line has been touched."""
    latency = machine["cache"]["latency"]
    return Cache(
        size=machine["cache"]["size"],
        assoc=8,
        tag_latency=latency,
        data_latency=latency,
        response_latency=latency,
        mshrs=16,
        tgts_per_mshr=20,
    )


system = System(mem_mode="timing", mem_ranges=[AddrRange("512MiB")])
system.clk_domain = SrcClockDomain(clock="1GHz", voltage_domain=VoltageDomain())
cpu = RiscvMinorCPU(**machine["cpu"])
cpu.executeFuncUnits = MinorFUPool(
    funcUnits=[unit(description) for description in machine["units"] for _ in range(description["count"])]
)
system.cpu = cpu
cpu.ArchISA.vlen = machine["vlen_bits"]
system.membus = SystemXBar()
cpu.icache = cache()
cpu.dcache = cache()
cpu.icache.cpu_side = cpu.icache_port
cpu.dcache.cpu_side = cpu.dcache_port
cpu.icache.mem_side = system.membus.cpu_side_ports
cpu.dcache.mem_side = system.membus.cpu_side_ports
cpu.createInterruptController()
system.mem = SimpleMemory(range=system.mem_ranges[0], latency="10ns")
system.mem.port = system.membus.mem_side_ports
system.system_port = system.membus.cpu_side_ports
system.workload = SEWorkload.init_compatible(binary)
cpu.workload = Process(cmd=[binary])
cpu.createThreads()
root = Root(full_system=False, system=system)
m5.instantiate()
event = m5.simulate()
print("TICKS", m5.curTick(), event.getCause())  # noqa: T201  what the driver reads
