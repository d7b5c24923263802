"""tools/coverage_table.py: rows in order, the last of equal runs, nothing outside of the markers touched."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "coverage_table.py"
RUN = {
    "model": "A",
    "suite": "a",
    "batch": 2,
    "phase": "training",
    "parameters": 1234567,
    "kernels": 3,
    "host_ops": 0,
    "largest_difference": 1.2e-6,
    "held": "at most 1e-05 from eager",
    "cycles": 98765,
    "wall_seconds": 1.2,
    "peak_mib": 2048,
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("coverage_table", SCRIPT)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_gets_the_last_results(script: ModuleType, tmp_path: Path) -> None:
    results, page = tmp_path / "results.jsonl", tmp_path / "page.md"
    runs = [RUN, {**RUN, "model": "B", "suite": "b"}, {**RUN, "cycles": 11}]
    results.write_text("".join(json.dumps(run) + "\n" for run in runs))
    page.write_text(f"before\n{script.BEGIN}\nold\n{script.END}\nafter\n")
    script.main(str(results), str(page))
    lines = page.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after"
    rows = [line for line in lines if line.startswith(("| A", "| B"))]
    assert rows[0] == "| A | 2 | training | 1,234,567 | 3 | 0 | 1.2e-06 | at most 1e-05 from eager | 11 | 1.2 | 2,048 |"
    assert rows[1].startswith("| B | 2 |")
    assert len(rows) == 2


def test_batches_share_a_row_and_suites_stay_together(script: ModuleType) -> None:
    f64 = "error against float64 at most twice eager's"
    runs = [
        RUN,
        {**RUN, "model": "B", "suite": "b"},
        {**RUN, "batch": 1, "largest_difference": 3e-6, "held": f64, "cycles": 5},
        {**RUN, "phase": "inference"},
    ]
    rows = script.table(runs).splitlines()[2:]
    assert rows[0].startswith("| A | 2, 1 | training | 1,234,567 | 3 | 0 | 3.0e-06 | at most 1e-05 from eager; error")
    assert "| 98,765 |" in rows[0]
    assert [row.split(" | ")[0] + row.split(" | ")[2] for row in rows] == ["| Atraining", "| Ainference", "| Btraining"]


def test_a_page_without_markers_is_an_error(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="no line"):
        script.replaced("a page", "| table |")
