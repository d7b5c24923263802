"""tools/run_layers.py: what it counts, when it fails, what its last line says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "run_layers.py"

PASSES = "def test_one():\n    assert True\n\n\ndef test_two():\n    assert True\n"
FAILS = "def test_three():\n    assert False\n"
SKIPS = "import pytest\n\n\n@pytest.mark.skip\ndef test_four():\n    pass\n"
BREAKS = "import no_such_module\n"


def run(folder: Path, tests: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in tests.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, str(SCRIPT), *arguments]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # starts faster
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def last_line(result: subprocess.CompletedProcess[str]) -> str:
    return result.stdout.rstrip().splitlines()[-1]


def test_layers_are_summed_and_empty_ones_are_no_failure(tmp_path: Path) -> None:
    result = run(tmp_path, {"unit/test_a.py": PASSES, "ops/test_b.py": SKIPS})
    assert result.returncode == 0, result.stdout
    assert last_line(result) == "2 passed, 0 failed, 1 skipped"


def test_a_layer_whose_tests_are_all_deselected_is_no_failure(tmp_path: Path) -> None:
    result = run(tmp_path, {"unit/test_a.py": PASSES, "ops/test_b.py": PASSES}, "--pytest=-k test_a")
    assert result.returncode == 0, result.stdout
    assert last_line(result) == "2 passed, 0 failed"


@pytest.mark.parametrize("tests", [{}, {"unit/test_a.py": SKIPS}])
def test_no_test_at_all_fails(tmp_path: Path, tests: dict[str, str]) -> None:
    result = run(tmp_path, tests)
    assert result.returncode == 1
    assert "ERROR: no test ran" in result.stdout
    assert last_line(result).startswith("0 passed, 0 failed")


@pytest.mark.parametrize("broken", [FAILS, BREAKS])
def test_a_failure_fails_and_later_layers_still_run(tmp_path: Path, broken: str) -> None:
    result = run(tmp_path, {"unit/test_a.py": broken, "ops/test_b.py": PASSES})
    assert result.returncode == 1
    assert "ERROR: failed: unit+passes" in result.stdout
    assert last_line(result) == "2 passed, 1 failed"


def test_stages_of_the_caller_stand_in_the_table_and_over_budget_is_loud(tmp_path: Path) -> None:
    result = run(tmp_path, {"unit/test_a.py": PASSES}, "--stage", "install=600", "--stage", "demo=3")
    assert result.returncode == 0
    assert "WARNING: install took 10.0 minutes, budget 4" in result.stdout
    assert [line.split()[:3] for line in result.stdout.splitlines() if line.startswith(("install", "demo"))] == [
        ["install", "10.00", "4"],
        ["demo", "0.05", "-"],
    ]


def test_unknown_layers_are_refused(tmp_path: Path) -> None:
    result = run(tmp_path, {}, "opps")
    assert result.returncode == 2
    assert "unknown layer opps; known: unit+passes, ops" in result.stderr
