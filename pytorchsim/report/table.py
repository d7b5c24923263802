"""A report as tables for people.

In: a `Report`. Out: `rich` renderables: kernels, totals, host operations, what was refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pytorchsim.report.rows import KernelRow
    from pytorchsim.report.summary import Report

__all__ = ["tables"]


_NAME_WIDTH = 18
"""Columns of text that a line of a kernel's name takes, but for longer words."""

_LEGEND = (
    "  estimates of a whole launch with that tile, which the parts overlap in: array, fill: systolic arrays at work,"
    " filling and draining; vector: lanes; dram: transfers; scalar: control"
)

_WIDE = 110
"""Columns of text from which on the kernel table has every column that every machine has."""

_MORE = 10
"""What each column more takes, of the L2 and of the network: the lines below the totals have them anyway."""


_MOSTLY_IDLE = 0.25
"""Share of the cores' cycles from which on a note says that they are done and wait for the others."""


def tables(report: Report, width: int) -> Iterator[Table | Text]:
    """The parts of a report, from top to bottom, for `width` columns of text."""
    from pytorchsim.report.summary import NOTHING_RAN

    if report.error:
        ran = "what ran before it is below" if report.graphs else "nothing ran"
        yield Text(f"Error in the last call, {ran}: {report.error}", style="bold red")
    if not report.graphs:
        if not report.error:
            yield Text(NOTHING_RAN)
        return
    yield _kernel_table(report, width)
    yield from _totals(report)
    if report.host_ops:
        yield _host_op_table(report)
    notes = list(_notes(report))
    if notes:
        yield Text("Notes", style="bold")
        yield from notes
        if any("(array " in note.plain for note in notes):
            yield Text(_LEGEND)


def _kernel_table(report: Report, width: int) -> Table:
    machine = report.config["name"] if report.config else ""
    table = Table(title=f"Kernels on {machine}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    total = report.cycles or 0
    cells = [_kernel_cells(row, total) for row in report.kernels]
    columns = _kernel_columns(report, width)
    for name in columns:
        numeric = name in _NUMERIC
        whole = numeric or name in ("bound by", "kernel")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=whole, overflow="fold")
    for row in cells:
        table.add_row(*[row[name] for name in columns])
    if not cells:
        table.add_row("none: the graph has no work for the NPU")
    return table


_NUMERIC = ("runs", "cycles", "share", "compute", "DRAM", "L2 hits", "network", "read", "written")


def _kernel_columns(report: Report, width: int) -> tuple[str, ...]:
    wide = width >= _WIDE
    left = ("kernel", "origins", "shape", "runs") if wide else ("kernel", "shape")
    share = ("share",) if wide else ()
    links = report.network is not None and report.network.busiest_link is not None
    more = [name for name, there in (("L2 hits", report.l2 is not None), ("network", links)) if there]
    shown = more if width >= _WIDE + _MORE * len(more) else []
    return (*left, "cycles", *share, "bound by", "compute", "DRAM", *shown, "read", "written")


def _kernel_cells(row: KernelRow, total_cycles: int) -> dict[str, str]:
    cycles = row.cycles
    timed = cycles is not None
    return {
        "kernel": _broken_name(row.facts.name),
        "origins": ", ".join(row.facts.origins),
        "shape": "x".join(map(str, row.facts.shape)) or "scalar",
        "runs": str(row.launches),
        "cycles": "-" if cycles is None else f"{cycles:,}",
        "share": "-" if cycles is None else _percent(cycles / total_cycles if total_cycles else 0.0),
        "bound by": row.bound_by or "-",
        "compute": _percent(row.shares.compute_utilisation if timed else None),
        "DRAM": _percent(row.shares.dram_utilisation if timed else None),
        "L2 hits": _percent(row.l2.hit_rate if row.l2 else None),
        "network": _percent(row.network.utilisation if row.network else None),
        "read": _bytes(row.bytes_read),
        "written": _bytes(row.bytes_written),
    }


def _totals(report: Report) -> Iterator[Text]:
    totals = report.to_dict()["totals"]
    launches, host_ops = _counted(totals["launches"], "launch", "es"), _counted(totals["host_ops"], "host op", "s")
    if report.timed:
        yield Text(
            f"{totals['cycles']:,} cycles = {totals['microseconds']:.3f} us at {report.frequency_mhz} MHz, {launches},"
            f" {_bytes(totals['bytes_read'])} read, {_bytes(totals['bytes_written'])} written,"
            f" {host_ops}"
        )
        yield from _memory_path(report)
        if totals["energy_picojoules"]:
            parts = ", ".join(f"{place} {value / 1e6:.3f}" for place, value in totals["energy_picojoules"].items())
            yield Text(f"microjoules: {parts}")
    else:
        yield Text(f"functional mode: nothing was timed; {launches}, {host_ops}")
    stages = ", ".join(f"{stage} {seconds:.3f}" for stage, seconds in report.wall_seconds.items())
    yield Text(f"wall seconds: {stages}")


def _memory_path(report: Report) -> Iterator[Text]:
    """The network where it has links, the L2 where there is one."""
    network, l2 = report.network, report.l2
    if network is not None and network.busiest_link is not None:
        yield Text(
            f"network: {_bytes(network.bytes)} of bursts, busiest link {network.busiest_link!r}:"
            f" {_percent(network.utilisation)}"
        )
    if l2 is not None:
        hit, read, written = (
            _bytes(l2.counts[name]) for name in ("hit_bytes", "dram_read_bytes", "dram_written_bytes")
        )
        yield Text(
            f"L2: {l2.hits:,} bursts hit, {l2.misses:,} missed ({_percent(l2.hit_rate)} hits), {hit} from the L2; DRAM"
            f" {read} read, {written} written"
        )


def _host_op_table(report: Report) -> Table:
    title = f"On the host, not on the NPU: {len(report.host_ops)}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("op", "result", "runs", "source"):
        table.add_column(name, overflow="fold")
    for row in report.host_ops:
        facts: dict[str, Any] = dict(row.facts)
        result = f"{facts.get('dtype', '')}[{', '.join(map(str, facts.get('shape', ())))}]"
        source = f"{facts['file']}:{facts['line']}: {facts.get('code', '')}" if facts.get("file") else ""
        table.add_row(str(facts.get("op", "")), result, str(row.runs), source)
    return table


def _notes(report: Report) -> Iterator[Text]:
    """Why kernels are as they are: rejected tiles, refused fusions, assumptions."""
    for row in report.kernels:
        for reason in row.facts.reasons:
            yield Text(f"  {row.facts.name}: {reason}")
        idle = row.shares.idle_cycles / (row.shares.total_cycles or 1)
        if idle >= _MOSTLY_IDLE and report.config:
            cores = report.config["cores"]
            yield Text(
                f"  {row.facts.name}: its tiles do not fill {cores} cores, which are idle {_percent(idle)} of the time"
            )
        if row.assumed_indices:
            yield Text(f"  {row.facts.name}: {row.assumed_indices} indices were assumed, timing mode has no data")
        for tile in row.tile_latencies:
            difference = tile.gem5_cycles / tile.builtin_cycles - 1 if tile.builtin_cycles else 0.0
            yield Text(
                f"  {tile.tile}({_arguments(tile.arguments)}): built-in {tile.builtin_cycles:,} cycles,"
                f" gem5 {tile.gem5_cycles:,} ({100 * difference:+.1f}%)"
            )
    versions = {(tile.gem5_version, tile.gem5_pin) for row in report.kernels for tile in row.tile_latencies}
    for version, pin in sorted(versions):
        yield Text(f"  gem5 {version}, pinned {pin}; both: cycles of one call with these arguments")
    for graph in report.graphs:
        for section, entries in graph.facts.items():
            for entry in entries:
                facts = isinstance(entry, dict)
                detail = ", ".join(f"{key} {value}" for key, value in entry.items()) if facts else entry
                yield Text(f"  {graph.name}, {section}: {detail}")


def _arguments(values: Sequence[int]) -> str:
    """Of a tile function, without the zeros behind the last one: scratchpad addresses and numbers."""
    count = max((number for number, value in enumerate(values, 1) if value), default=0)
    return ", ".join(str(value) if value < 1 << 16 else f"{value:#x}" for value in values[:count])


def _broken_name(name: str) -> str:
    """Lines of whole words: a table would break a name wherever a column ends."""
    lines = [""]
    for word in name.split("_"):
        if lines[-1] and len(lines[-1]) + len(word) > _NAME_WIDTH:
            lines.append("")
        lines[-1] += f"{word}_"
    return "\n".join(lines)[:-1]


def _counted(count: int, noun: str, plural: str) -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
