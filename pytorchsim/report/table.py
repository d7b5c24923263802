"""A report as tables for people.

In: a `Report`. Out: `rich` renderables: kernels, totals, host operations, what was refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pytorchsim.report.rows import KernelRow
    from pytorchsim.report.summary import Report

__all__ = ["tables"]


def tables(report: Report) -> Iterator[Table | Text]:
    """The parts of a report, from top to bottom."""
    from pytorchsim.report.summary import NOTHING_RAN

    if not report.graphs:
        yield Text(NOTHING_RAN)
        return
    yield _kernel_table(report)
    yield from _totals(report)
    if report.host_ops:
        yield _host_op_table(report)
    notes = list(_notes(report))
    if notes:
        yield Text("Notes", style="bold")
        yield from notes


def _kernel_table(report: Report) -> Table:
    machine = report.config["name"] if report.config else ""
    table = Table(title=f"Kernels on {machine}", title_justify="left")
    for name in ("kernel", "origins", "shape"):
        table.add_column(name, overflow="fold")
    for name in ("launches", "cycles", "share", "compute", "DRAM", "read", "written"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound by")
    total = report.cycles or 0
    for row in report.kernels:
        table.add_row(*_kernel_cells(row, total))
    if not report.kernels:
        table.add_row("none: the graph has no work for the NPU")
    return table


def _kernel_cells(row: KernelRow, total_cycles: int) -> list[str]:
    timed = row.cycles is not None
    return [
        row.facts.name,
        ", ".join(row.facts.origins),
        "x".join(map(str, row.facts.shape)) or "scalar",
        str(row.launches),
        f"{row.cycles:,}" if timed else "-",
        _percent(row.cycles / total_cycles if timed and row.cycles and total_cycles else 0.0) if timed else "-",
        _percent(row.shares.compute_utilisation) if timed else "-",
        _percent(row.shares.dram_utilisation) if timed else "-",
        _bytes(row.bytes_read),
        _bytes(row.bytes_written),
        row.bound_by or "-",
    ]


def _totals(report: Report) -> Iterator[Text]:
    totals = report.to_dict()["totals"]
    launches, host_ops = totals["launches"], totals["host_ops"]
    if report.timed:
        yield Text(
            f"{totals['cycles']:,} cycles = {totals['microseconds']:.3f} us at {report.frequency_mhz} MHz, {launches}"
            f" launches, {_bytes(totals['bytes_read'])} read, {_bytes(totals['bytes_written'])} written,"
            f" {host_ops} host ops"
        )
    else:
        yield Text(f"functional mode: nothing was timed; {launches} launches, {host_ops} host ops")
    stages = ", ".join(f"{stage} {seconds:.3f}" for stage, seconds in report.wall_seconds.items())
    yield Text(f"wall seconds: {stages}")


def _host_op_table(report: Report) -> Table:
    table = Table(title=f"On the host, not on the NPU: {len(report.host_ops)}", title_justify="left")
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
        if row.assumed_indices:
            yield Text(f"  {row.facts.name}: {row.assumed_indices} indices were assumed, timing mode has no data")
    for graph in report.graphs:
        for section, entries in graph.facts.items():
            for entry in entries:
                facts = isinstance(entry, dict)
                detail = ", ".join(f"{key} {value}" for key, value in entry.items()) if facts else entry
                yield Text(f"  {graph.name}, {section}: {detail}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
