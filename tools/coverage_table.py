"""Write the README's table of models from the results of a run of `tests/models`.

    MODEL_RESULTS=build/models.jsonl pytest tests/models && python tools/coverage_table.py build/models.jsonl

In: a file with a line of JSON per run of a model (`tests/models/measure.py`). Out: README.md with the table between its
two markers replaced: a row per model and phase, suites in the order in which they first appear. Of several runs of the
same, the last counts; of several batches the error is the largest, the other figures are the first batch's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN = "<!-- models: written by `make models` -->"
END = "<!-- end of the written part -->"

COLUMNS = (
    "model",
    "batches",
    "phase",
    "parameters",
    "kernels",
    "host ops",
    "max error",
    "bar that held",
    "cycles",
    "wall s",
    "peak MiB",
)


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """The Markdown table of `results`."""
    last = {(result["suite"], result["model"], result["phase"], result["batch"]): result for result in results}
    suites = list(dict.fromkeys(suite for suite, *_ in last))
    rows: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for (suite, model, phase, _), result in sorted(last.items(), key=lambda entry: suites.index(entry[0][0])):
        rows.setdefault((suite, model, phase), []).append(result)
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(_cells(batches))} |" for batches in rows.values()]
    return "\n".join(lines)


def _cells(batches: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    first = batches[0]
    return (
        first["model"],
        ", ".join(str(result["batch"]) for result in batches),
        first["phase"],
        f"{first['parameters']:,}",
        str(first["kernels"]),
        str(max(result["host_ops"] for result in batches)),
        f"{max(result['largest_difference'] for result in batches):.1e}",
        "; ".join(dict.fromkeys(result["held"] for result in batches)),
        f"{first['cycles']:,}",
        f"{first['wall_seconds']:.1f}",
        f"{first['peak_mib']:,}",
    )


def replaced(page: str, text: str) -> str:
    """`page` with `text` between the markers. ValueError: it has no markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no line {BEGIN!r} with {END!r} after it")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main(results: str, page: str = "README.md") -> None:
    """Read `results`, rewrite `page`."""
    lines = [json.loads(line) for line in Path(results).read_text().splitlines()]
    path = Path(page)
    path.write_text(replaced(path.read_text(), table(lines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
