"""Write the README's table of models from the results of a run of `tests/models`.

    PYTORCHSIM_MODEL_RESULTS=build/models.jsonl pytest tests/models && python tools/coverage_table.py build/models.jsonl

In: a file with a line of JSON per run of a model (`tests/models/measure.py`). Out: README.md with the table between its
two markers replaced; of several runs of the same, the last counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BEGIN = "<!-- models: written by `make models` -->"
END = "<!-- end of the written part -->"

COLUMNS = (
    "model",
    "batch",
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
    """The Markdown table of `results`, in the order in which models first appear."""
    last = {(result["model"], result["batch"], result["phase"]): result for result in results}
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(_cells(result))} |" for result in last.values()]
    return "\n".join(lines)


def _cells(result: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        result["model"],
        str(result["batch"]),
        result["phase"],
        f"{result['parameters']:,}",
        str(result["kernels"]),
        str(result["host_ops"]),
        f"{result['largest_difference']:.1e}",
        result["held"],
        f"{result['cycles']:,}",
        f"{result['wall_seconds']:.1f}",
        f"{result['peak_mib']:,}",
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
