"""Cycles beside those of one core of a real TPUv3: `python -m benchmarks.accuracy`.

Runs every workload of `tpuv3_cycles.csv` in timing mode on preset `tpuv3` and prints ours, the silicon's, the error,
what other simulators give, and the lower bound max(array, DRAM, vector) of the stated machine. A workload that does not
run yet is a row that says so; none is left out. `--write docs/accuracy.md` replaces the page's generated part.
Source of the silicon's and the other simulators' figures: artifact of PyTorchSim, MICRO 2025.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

import pytorchsim
from benchmarks.workloads import Workload, workload
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.errors import ConfigError, PyTorchSimError

FIGURES = Path(__file__).parent / "tpuv3_cycles.csv"
BEGIN_MARK = "<!-- generated: `python -m benchmarks.accuracy --write docs/accuracy.md` -->"
END_MARK = "<!-- end of the generated part -->"

FUSED = {"attention_12x512x64": "attention_12x512x64_fused"}
"""Workloads that have a second row for another algorithm; it has no silicon of its own."""

MEAN_LIMIT, ROW_LIMIT, RATIO_LIMIT = 0.12, 0.25, 0.15
"""What array-bound rows and ratios between sizes are to meet."""


@dataclass(frozen=True)
class Row:
    """One workload. `cycles` is None where it does not run yet; `note` says why."""

    name: str
    silicon: int | None
    others: tuple[str, ...]
    array_bound: bool
    bounds: dict[str, float]
    cycles: int | None = None
    note: str = ""
    kernels: tuple[tuple[str, int, str], ...] = field(default=())

    @property
    def error(self) -> float | None:
        """Ours against silicon, signed."""
        return None if self.cycles is None or self.silicon is None else self.cycles / self.silicon - 1


def figures() -> tuple[list[str], list[tuple[str, int | None, tuple[str, ...]]]]:
    """Names of the other simulators; per row name, silicon, theirs. Fused rows follow the row they belong to."""
    with FIGURES.open() as file:
        header, *lines = list(csv.reader(file))
    rows: list[tuple[str, int | None, tuple[str, ...]]] = []
    for name, silicon, *others in lines:
        rows.append((name, int(silicon), tuple(others)))
        if name in FUSED:
            rows.append((FUSED[name], None, ("",) * len(others)))
    return header[2:], rows


def measure(name: str, silicon: int | None, others: tuple[str, ...], config: NpuConfig) -> Row:
    """Compile and time one workload."""
    work = workload(name)
    row = Row(name, silicon, others, work.array_bound, work.work.bound(config))
    try:
        report = timed(work, config)
    except PyTorchSimError as error:
        first = str(error).splitlines()
        detail = " ".join(line.strip() for line in first[:2])
        return _with(row, note=f"not yet: {type(error).__name__}: {detail.split(' (FX node')[0]}")
    kernels = tuple((kernel["name"], int(kernel["cycles"]), kernel["bound_by"]) for kernel in report["kernels"])
    if work.kernels is not None and len(kernels) != work.kernels:
        return _with(row, note=f"not yet: compiles to {len(kernels)} kernels, the row is about {work.kernels}")
    return _with(row, cycles=int(report["totals"]["cycles"]), kernels=kernels)


def _with(row: Row, **changes: object) -> Row:
    return Row(**{**row.__dict__, **changes})  # type: ignore[arg-type]


def timed(work: Workload, config: NpuConfig) -> dict[str, object]:
    """The report of one call in timing mode."""
    torch._dynamo.reset()
    options = {"config": config, "strict": True, "mode": "timing"}
    with torch.no_grad():
        torch.compile(work.function, backend="pytorchsim", options=options)(*work.inputs)
    return dict(pytorchsim.report().to_dict())


def render(simulators: Sequence[str], rows: Sequence[Row], config: NpuConfig) -> str:
    """The page's generated part: the table, the array-bound summary, ratios between sizes, kernels of each row."""
    lines = [f"Machine `{config.name}`, digest `{config.digest()}`. Cycles.", ""]
    head = ["workload", "ours", "silicon", "error", *simulators, "bound", "by", "array", "DRAM", "vector", ""]
    lines += [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 2) + "---|"]
    for row in rows:
        by = max(row.bounds, key=row.bounds.__getitem__)
        cells = [
            f"`{row.name}`",
            "" if row.cycles is None else f"{row.cycles:,}",
            "" if row.silicon is None else f"{row.silicon:,}",
            "" if row.error is None else f"{100 * row.error:+.1f} %",
            *(f"{int(value):,}" if value else "" for value in row.others),
            f"{row.bounds[by]:,.0f}",
            by,
            *(f"{value:,.0f}" for value in row.bounds.values()),
            row.note,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *_summary(rows), "", *_ratios(rows), "", "Kernels and what bounds them:", ""]
    for row in rows:
        if row.kernels:
            parts = "; ".join(f"`{name}` {cycles:,} ({bound})" for name, cycles, bound in row.kernels)
            lines.append(f"- `{row.name}`: {parts}")
    return "\n".join(lines)


def _summary(rows: Iterable[Row]) -> Iterator[str]:
    errors = {row.name: row.error for row in rows if row.array_bound}
    known = [abs(error) for error in errors.values() if error is not None]
    missing = [f"`{name}`" for name, error in errors.items() if error is None]
    if known:
        mean, worst = sum(known) / len(known), max(known)
        verdict = "met" if mean <= MEAN_LIMIT and worst <= ROW_LIMIT else "missed"
        yield (
            f"Array-bound rows: mean absolute error {100 * mean:.1f} % (limit {100 * MEAN_LIMIT:.0f} %), largest"
            f" {100 * worst:.1f} % (limit {100 * ROW_LIMIT:.0f} %): {verdict}."
        )
    if missing:
        yield f"Without a figure: {', '.join(missing)}."


def _ratios(rows: Iterable[Row]) -> Iterator[str]:
    """Neighbouring sizes of one workload: ours to ours against silicon to silicon. A convolution of few channels is
    bound by something else than one of many, so those are not sizes of one workload."""
    families: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        if row.error is not None:
            families.setdefault((row.name.split("_")[0], row.array_bound), []).append(row)
    for (family, _), members in families.items():
        members.sort(key=lambda row: row.silicon or 0)
        for small, large in itertools.pairwise(members):
            assert small.error is not None
            assert large.error is not None
            silicon = (large.silicon or 0) / (small.silicon or 1)
            ours = silicon * (1 + large.error) / (1 + small.error)
            verdict = "met" if abs(ours / silicon - 1) <= RATIO_LIMIT else "missed"
            yield (
                f"- {family}: `{large.name}` to `{small.name}`: {ours:.2f}, silicon {silicon:.2f}"
                f" ({100 * (ours / silicon - 1):+.1f} %, limit {100 * RATIO_LIMIT:.0f} %): {verdict}."
            )


def replace_table(page: str, table: str) -> str:
    """`page` with its generated part replaced. ValueError if a mark is missing."""
    before, begin, rest = page.partition(BEGIN_MARK)
    _, end, after = rest.partition(END_MARK)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN_MARK!r} or {END_MARK!r}")
    return f"{before}{BEGIN_MARK}\n\n{table}\n\n{END_MARK}{after}"


def main() -> None:
    """Print the table; exit code 1 if a row that runs misses a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="tpuv3")
    parser.add_argument("--case", action="append", help="only this row; may be given several times")
    parser.add_argument("--write", type=Path, help="a page whose generated part is replaced")
    arguments = parser.parse_args()
    try:
        config = load_config(arguments.config)
    except ConfigError as error:
        parser.error(str(error))
    simulators, known = figures()
    names = [row[0] for row in known]
    if unknown := [name for name in arguments.case or () if name not in names]:
        parser.error(f"no workload is called {unknown[0]!r}; known: {', '.join(names)}")
    chosen = [row for row in known if not arguments.case or row[0] in arguments.case]
    rows = []
    for name, silicon, others in chosen:
        rows.append(measure(name, silicon, others, config))
        print(f"{name}: {rows[-1].cycles or rows[-1].note}", file=sys.stderr, flush=True)
    table = render(simulators, rows, config)
    print(table)
    if arguments.write:
        arguments.write.write_text(replace_table(arguments.write.read_text(encoding="utf-8"), table), encoding="utf-8")
    if "missed" in "\n".join(_summary(rows)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
