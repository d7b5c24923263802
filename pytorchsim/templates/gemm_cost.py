"""What a tile of a matrix product costs: named rules, each an estimate in cycles, and what does not overlap.

In: a problem, what is fused, a tile, the machine. Out: a `GemmCost`. Pure. The rules rank candidates; the simulator
times them.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pytorchsim.config.model import NpuConfig
from pytorchsim.templates.array_schedule import ArraySchedule
from pytorchsim.templates.batch_step import products_at_once
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand, Part
from pytorchsim.templates.gemm_tile import RESULT, ROWS_AT_ONCE, Block, GemmTile, fused_tile
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.operation_costs import SFU_OPERATIONS
from pytorchsim.templates.stages import plan_stages

__all__ = ["GemmCost", "cost_of"]

_STEP_SCALAR_CYCLES = 60
"""Control per step: origins, `dma.set`s, calls."""

_ROUND_INSTRUCTIONS = 10
"""Addresses, counting and the branch of one round of a loop."""

_FOLD_CYCLES = 12
"""One step of folding a vector: a rotation and an addition with their latencies."""


@dataclass(frozen=True)
class GemmCost:
    """Cycles by rule. `array`: matrices and rows that pass the arrays; `fill`: filling and draining them, once per
    call; `vector`: additions, tails and prologues on the lanes; `dram`: all transfers at full bandwidth; `scalar`:
    control. `total`: their sum without what overlaps. `results`: tails, and what they and the results move, as if
    nothing overlapped with it."""

    array: float
    fill: float
    vector: float
    dram: float
    scalar: float
    total: float
    results: float

    def describe(self) -> str:
        """One line for reports."""
        parts = ", ".join(f"{name} {getattr(self, name):.0f}" for name in ("array", "fill", "vector", "dram", "scalar"))
        return f"{self.total:.0f} cycles ({parts})"


@dataclass(frozen=True)
class _Steps:
    """Of one result tile: how many, what one loads and computes, in cycles, and what the first one does."""

    count: int
    load: float
    compute: float
    first_load: float
    first_compute: float

    @property
    def loads(self) -> float:
        """Of all of them."""
        return self.first_load + (self.count - 1) * self.load

    @property
    def computes(self) -> float:
        """Of all of them."""
        return self.first_compute + (self.count - 1) * self.compute

    def pairs(self) -> list[tuple[float, float]]:
        """(load, compute) of each."""
        return [(self.first_load, self.first_compute), *[(self.load, self.compute)] * (self.count - 1)]


@dataclass(frozen=True)
class _Flow:
    """A tile's steps as the timing sees them, in cycles: of a result tile where the stationary operand is fetched
    (`fresh`) and of one where it is there already (`reused`); `ends`: stores (and loads of the tail) per result tile or
    column."""

    inner: int
    outer: int
    fresh: _Steps
    reused: _Steps
    column: bool
    tail: float
    ends: float
    latency: float

    def cycles(self) -> float:
        """Of all outer tiles: a few are followed step by step, the rest goes on at the rate of the last ones."""
        inner, outer = min(self.inner, 3), min(self.outer, 2 if self.inner > 1 else 4)
        more = self._follow(1, inner) - self._follow(1, inner - 1) if self.inner > inner else 0.0
        more *= self.inner - inner
        time = self._follow(outer, inner) + outer * more
        if self.outer > outer:
            time += (self.outer - outer) * (time - self._follow(outer - 1, inner) - (outer - 1) * more)
        return time

    def _follow(self, outer: int, inner: int) -> float:
        """The DRAM serves transfers in order; a step waits for its loads, which start one step ahead, and the start of
        a result for the stores of the one before the last."""
        results_of = [self.reused if number else self.fresh for _ in range(outer) for number in range(inner)]
        steps = [pair for steps in results_of for pair in steps.pairs()]
        lasts = [k + 1 == steps.count for steps in results_of for k in range(steps.count)]
        if self.column:
            lasts = [last and (number + 1) % (len(steps) // outer) == 0 for number, last in enumerate(lasts)]
        results = 0
        begins = True
        dram = core = 0.0
        loaded = [0.0] * (len(steps) + 1)
        stored = [0.0, 0.0]
        dram = steps[0][0]
        loaded[0] = dram + self.latency
        for number, (_, compute) in enumerate(steps):
            if number + 1 < len(steps):
                dram = max(dram, core) + steps[number + 1][0]
                loaded[number + 1] = dram + self.latency
            core = max(core, loaded[number])
            if begins:
                core = max(core, stored[results % 2])
            core += compute
            begins = lasts[number]
            if begins:
                core += self.tail
                dram = max(dram, core) + self.ends
                stored[results % 2] = dram + self.latency
                results += 1
        return max(core, *stored)


def cost_of(
    problem: GemmProblem, fusion: GemmFusion, tile: GemmTile, config: NpuConfig, enough: float = math.inf
) -> GemmCost:
    """All rules for one candidate. Where no order of events can make it better than `enough`, `total` is a bound."""
    counts_m, counts_n, counts_k = tile.counts(problem)
    inner, outer = (counts_n, counts_m) if tile.outer == "x" else (counts_m, counts_n)
    outer *= tile.batches(problem)
    units = outer if tile.column else outer * inner

    first = tile.leading(problem) if tile.lead else tile
    step = deep = lead = _step_cycles(tile, problem, config)
    if tile.deep > 1:
        deep = _step_cycles(tile.deepened(), problem, config)
    if tile.lead:
        lead = _step_cycles(first, problem, config)
    fill = 3 * tile.lanes - 1 if tile.body == "array" else 0
    tail = _tail_cycles(fusion, tile.block("y", problem), config)
    operands: tuple[Operand, Operand] = ("x", "w")
    streamed = [operand for operand in operands if operand != tile.stationary]
    both, alone = (
        sum(_prologue_cycles(problem, fusion, tile, operand, config) for operand in these)
        for these in (operands, streamed)
    )
    issue = config.dma.issue_cycles
    load = {operand: _operand_cycles(problem, fusion, tile, operand, config) + issue for operand in operands}
    lead_load = load
    if tile.lead:
        lead_load = {operand: _operand_cycles(problem, fusion, first, operand, config) + issue for operand in operands}
    control = both + _STEP_SCALAR_CYCLES
    fetched = _Steps(counts_k, sum(load.values()), step + control, sum(lead_load.values()), lead + control)
    control = alone + _STEP_SCALAR_CYCLES
    kept = [tile.deep * sum(loads[operand] for operand in streamed) for loads in (load, lead_load)]
    deep_lead = lead if tile.lead else deep
    reused = _Steps(counts_k // tile.deep, kept[0], deep + control, kept[1], deep_lead + control)
    repeats = outer * (inner - 1)
    ends = _result_cycles(problem, fusion, tile, config) + issue
    dram = outer * fetched.loads + repeats * reused.loads + units * ends
    compute = outer * fetched.computes + repeats * reused.computes + units * tail
    bound = total = max(dram, compute)
    if bound <= enough:
        latency = config.dram.latency_cycles + 2.0 * config.network.latency_cycles
        flow = _Flow(inner, outer, fetched, reused, tile.column, tail, ends, latency)
        total = max(bound, flow.cycles())
    steps = outer * fetched.count + repeats * reused.count
    on_lanes = units * tail + outer * fetched.count * both + repeats * reused.count * alone
    multiplied = compute - on_lanes - steps * _STEP_SCALAR_CYCLES
    on_arrays = tile.body == "array"
    return GemmCost(
        array=multiplied - steps * fill if on_arrays else 0.0,
        fill=float(steps * fill),
        vector=on_lanes if on_arrays else on_lanes + multiplied,
        dram=dram,
        scalar=float(steps * _STEP_SCALAR_CYCLES),
        total=total,
        results=units * (tail + ends),
    )


def _step_cycles(tile: GemmTile, problem: GemmProblem, config: NpuConfig) -> float:
    """One step; with partial sums two loads, an addition and a store more."""
    if tile.body == "array":
        cycles = _array_step_cycles(ArraySchedule.of(tile, problem.dtype, config), _Queues.of(config))
    else:
        of_body = _batch_step_cycles if tile.body == "batch" else _lane_step_cycles
        cycles = of_body(tile, problem, config)
    if tile.blocked:
        cycles += tile.n_slots * tile.m * problem.accumulator.bits / config.core.datapath_bits + _STEP_SCALAR_CYCLES
    return cycles


class _Queues(NamedTuple):
    """What a step on the arrays depends on: lanes, rows that queue, bits that the lanes add per cycle, instructions
    that issue per cycle."""

    lanes: int
    entries: int
    datapath_bits: int
    issue_width: int

    @classmethod
    def of(cls, config: NpuConfig) -> _Queues:
        """Those of a machine."""
        core = config.core
        return cls(core.lanes, config.array.queue_entries, core.datapath_bits, core.issue_width)


@lru_cache(maxsize=4096)
def _array_step_cycles(plan: ArraySchedule, machine: _Queues) -> float:
    """Follow the pushes and pops of a step through queues, shadow weights and fill, as `array_step` orders them. Long
    steps are continued at the rate of their last matrices, two of which may differ."""
    matrices = min(plan.matrices, plan.steady(accumulate=True) + 4)
    first = _follow(plan, matrices, machine)
    if matrices == plan.matrices:
        return first
    return first + (plan.matrices - matrices) * (first - _follow(plan, matrices - 2, machine)) / 2


def _follow(plan: ArraySchedule, matrices: int, machine: _Queues) -> float:
    """One array: all do the same side by side."""
    lanes, queue, vector = machine.lanes, machine.entries, plan.vector
    arrays = plan.slots * plan.parts
    per_pop = arrays * max(2.0 * vector * plan.sum_bits / machine.datapath_bits, 8 / machine.issue_width)
    now = port_free = taken = loaded = shadow_free = inputs_free = 0.0
    shadow_waits = False
    ready: deque[float] = deque()
    for event in plan.events(matrices):
        if event.kind == "weights":
            first = event.number == 0
            start = max(taken, shadow_free) if first else taken
            now = max(now, port_free, start + plan.piece - queue)
            port_free, start = now + plan.piece, max(start, now)
            loaded = start + lanes if first else loaded
            shadow_waits |= first
            taken = start + plan.piece
            loaded = max(loaded, taken)
        elif event.kind == "inputs":
            start = max(now, inputs_free, loaded)
            now = max(now, start + vector - queue)
            start = max(now, start)
            shadow_free, shadow_waits = (start if shadow_waits else shadow_free), False
            inputs_free = start + vector
            ready.append(start + 2 * lanes - 1)
        else:
            now = max(now + per_pop, ready.popleft())
    return now + vector + per_pop


def _lane_step_cycles(tile: GemmTile, problem: GemmProblem, config: NpuConfig) -> float:
    rows = min(ROWS_AT_ONCE, tile.m)
    beats = max(1.0, tile.vector * problem.accumulator.bits / config.core.datapath_bits)
    narrow = 1.0 if problem.dtype != problem.accumulator else 0.0
    loads = (1 + rows) * beats / config.core.scratchpad_load_ports
    issue = (3 * rows + 4) / config.core.issue_width
    walk = max(loads, (rows * (1 + narrow) + narrow) * beats, issue, float(config.latency.vector_fp_cycles))
    folds = rows * (tile.vector.bit_length() - 1) * _FOLD_CYCLES * beats
    return tile.n_slots * (tile.m / rows) * (tile.k / tile.vector * walk + folds)


def _batch_step_cycles(tile: GemmTile, problem: GemmProblem, config: NpuConfig) -> float:
    at_once, core = tile.vectors_at_once, config.core
    beats = max(1.0, tile.vector * problem.accumulator.bits / core.datapath_bits)
    narrow = 1.0 if problem.dtype != problem.accumulator else 0.0
    loads = (1 + at_once) * beats / core.scratchpad_load_ports
    issue = (4 * at_once + 3 + _ROUND_INSTRUCTIONS / products_at_once(tile)) / core.issue_width
    chain = config.latency.vector_fp_cycles + beats
    product = max(loads, (at_once * (1 + narrow) + narrow) * beats, issue, chain)
    groups = tile.n_slots * tile.m // (tile.vector * at_once)
    return groups * (tile.k * product + 2 * at_once * beats + _FOLD_CYCLES)


def _prologue_cycles(
    problem: GemmProblem, fusion: GemmFusion, tile: GemmTile, operand: Operand, config: NpuConfig
) -> float:
    program = fusion.prologue(operand)
    return _program_cycles(program, tile.block(operand, problem), config) if program else 0.0


def _tail_cycles(fusion: GemmFusion, block: Block, config: NpuConfig) -> float:
    tail = fusion.tail
    if tail is None:
        return 0.0
    return fusion.derive(("tail", block, config.core, config.latency), lambda: _program_cycles(tail, block, config))


def _program_cycles(program: LoopProgram, block: Block, config: NpuConfig) -> float:
    """A program on a block: simple operations by beats, special functions one element per cycle."""
    tile = fused_tile(program, block, config)
    widest = max([access.dtype.bits for access in program.accesses()], default=32)
    beats = max(1.0, tile.vector_elements * widest / config.core.datapath_bits)
    cycles = 0.0
    for stage in plan_stages(program):
        numbers = (*stage.walk_operations, *stage.reductions)
        special = sum(1 for number in numbers if program.operations[number].name in SFU_OPERATIONS)
        plain = len(numbers) - special + len(stage.walk_stores)
        cycles += max(plain * beats, special * tile.vector_elements / config.core.sfu_elements_per_cycle)
        if stage.reductions:
            folds = len(stage.reductions) * (tile.vector_elements.bit_length() - 1)
            cycles += folds * _FOLD_CYCLES * beats / max(1, tile.walk_count)
    return tile.blocks * tile.walk_count * cycles


def _operand_cycles(
    problem: GemmProblem, fusion: GemmFusion, tile: GemmTile, operand: Operand, config: NpuConfig
) -> float:
    """To load one tile of an operand, or what its prologue reads."""
    block = tile.block(operand, problem)
    program = fusion.prologue(operand)

    def cycles() -> float:
        accesses = program.loads if program else (Access(operand, problem.dtype, problem.index(operand)),)
        frame = problem.frame(operand)
        return sum(_transfer_cycles(access, block, frame, config) for access in accesses)

    return (fusion if program else problem).derive(_moving(block, operand, config), cycles)


def _result_cycles(problem: GemmProblem, fusion: GemmFusion, tile: GemmTile, config: NpuConfig) -> float:
    """What the end of one result tile (or column) moves. Whether the product itself is stored is not known here: it is
    counted where no tail stores."""
    block = tile.block("y", problem)

    def cycles() -> float:
        accesses = [Access(RESULT, problem.result_dtype, problem.y)]
        if fusion.tail is not None:
            accesses = [access for access in fusion.tail.accesses() if access.buffer != RESULT]
        frame = problem.frame("y")
        return sum(_transfer_cycles(access, block, frame, config) for access in accesses)

    return (fusion if fusion.tail is not None else problem).derive(_moving(block, "y", config), cycles)


def _moving(block: Block, part: Part, config: NpuConfig) -> tuple[object, ...]:
    """What the cycles of a part's transfers depend on."""
    return ("moved", part, block, config.dma.scratchpad_bytes_per_cycle, config.dram.burst_bytes,
            config.dram_bytes_per_cycle, config.core.lanes)  # fmt: skip


def _transfer_cycles(access: Access, block: Block, frame: tuple[int, ...], config: NpuConfig) -> float:
    """DRAM and scratchpad work side by side: the one moves whole bursts, each once; the other every element."""
    sizes = [min(size, extent) for size, extent in zip(block.sizes, frame, strict=True)]
    lanes = config.core.lanes
    walks = any(access.index.strides[len(frame) - block.walked :])
    elements = block.elements if walks or not block.walked else block.slots
    landing = elements * lanes * access.dtype.bytes / config.dma.scratchpad_bytes_per_cycle
    size, burst = access.dtype.bytes, config.dram.burst_bytes
    levels = _levels([(abs(step), count) for step, count in zip(access.index.strides, sizes, strict=True)])
    span, runs = size, 1
    for step, count in levels:
        if runs == 1 and step * size < span + burst:
            span += step * size * (count - 1)
        else:
            runs *= count
    moved = runs * -(-span // burst) * burst
    return max(moved / config.dram_bytes_per_cycle, landing)


def _levels(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Axes (stride, size) in ascending order, those that meet or overlap (rows and windows) taken as one."""
    levels: list[tuple[int, int]] = []
    for step, count in sorted(axes):
        if not step or count == 1:
            continue
        if levels and step % levels[-1][0] == 0 and step // levels[-1][0] <= levels[-1][1]:
            first, inner = levels[-1]
            levels[-1] = (first, inner + step // first * (count - 1))
        else:
            levels.append((step, count))
    return levels
