"""Runs the test layers, fast ones first, and says how many minutes each took and how many tests ran.

In: names of layers (default: all), and what the caller measured before (`--stage install=61`, seconds).
Out: pytest's own output per layer, a table of minutes against the budget, and a last line
`N passed, N failed[, N skipped]`.
Exit code 1 if a test failed, a layer could not be collected, or no test ran at all; an empty layer alone is no failure.
Assumes: run by the Python that has pytest and the built package, in the root of the repository.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

NO_TESTS_COLLECTED = 5  # pytest's exit code
RESULTS = Path("build/test-results")

LAYERS: dict[str, tuple[str, ...]] = {
    "unit+passes": ("tests/unit", "tests/passes"),
    "ops": ("tests/ops",),
    "fusion": ("tests/fusion",),
    "timing": ("tests/timing",),
    "models": ("tests/models",),
    "system": ("tests/system",),
}

BUDGET_MINUTES: dict[str, float] = {
    "install": 4,
    "build": 4,
    "lint": 2,
    "unit+passes": 3,
    "ops": 8,
    "fusion": 3,
    "timing": 3,
    "models": 8,
    "system": 3,
}


@dataclass(frozen=True)
class Outcome:
    """One row of the table. `exit_code` is pytest's, or 0 for a stage that the caller measured."""

    name: str
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    exit_code: int = 0

    @property
    def broken(self) -> bool:
        """A test failed, or pytest itself could not do its work."""
        return self.failed > 0 or self.exit_code not in (0, NO_TESTS_COLLECTED)

    @property
    def minutes(self) -> float:
        return self.seconds / 60

    @property
    def over_budget(self) -> bool:
        return self.minutes > BUDGET_MINUTES.get(self.name, float("inf"))


def run_layer(name: str, pytest_arguments: list[str]) -> Outcome:
    """Run one layer in its own process, so that no state passes from layer to layer."""
    folders = [folder for folder in LAYERS[name] if any(Path(folder).rglob("test_*.py"))]
    if not folders:
        return Outcome(name, 0.0, exit_code=NO_TESTS_COLLECTED)
    print(f"\n=== {name} ===", flush=True)
    results = RESULTS / f"{name}.xml"
    results.unlink(missing_ok=True)
    results.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    command = [
        *(sys.executable, "-m", "pytest", *folders, f"--junitxml={results}"),
        *("--continue-on-collection-errors", "--durations=5", "--durations-min=2", "-q"),
        *pytest_arguments,
    ]
    exit_code = subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode
    seconds = time.monotonic() - started
    passed, failed, skipped = count(results)
    return Outcome(name, seconds, passed, failed, skipped, exit_code)


def count(results: Path) -> tuple[int, int, int]:
    """Passed, failed (errors included) and skipped tests of a JUnit file; zeros where pytest died over it."""
    try:
        suites = list(ET.parse(results).getroot().iter("testsuite"))
    except (FileNotFoundError, ET.ParseError):
        return 0, 0, 0
    total, failed, errors, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
    )
    return total - failed - errors - skipped, failed + errors, skipped


def table(outcomes: list[Outcome]) -> str:
    """One row per stage or layer, and the total."""
    lines = [f"{'layer':<12} {'minutes':>8} {'budget':>7} {'passed':>7} {'failed':>7} {'skipped':>8}"]
    for outcome in outcomes:
        budget = BUDGET_MINUTES.get(outcome.name)
        note = "  OVER BUDGET" if outcome.over_budget else "  FAILED" if outcome.broken else ""
        lines.append(
            f"{outcome.name:<12} {outcome.minutes:>8.2f} {budget if budget is not None else '-':>7}"
            f" {outcome.passed:>7} {outcome.failed:>7} {outcome.skipped:>8}{note}"
        )
    total = sum(outcome.minutes for outcome in outcomes)
    lines.append(f"{'total':<12} {total:>8.2f} {sum(BUDGET_MINUTES.values()):>7}")
    return "\n".join(lines)


def parse_stage(text: str) -> Outcome:
    """`NAME=SECONDS`, measured by the caller."""
    name, _, seconds = text.partition("=")
    return Outcome(name, float(seconds))


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("layers", nargs="*", metavar="LAYER", help=f"of {', '.join(LAYERS)}; default: all")
    parser.add_argument("--stage", action="append", default=[], type=parse_stage, metavar="NAME=SECONDS")
    parser.add_argument("--pytest", default="", metavar="ARGUMENTS", help="passed on, e.g. '-m slow -x'")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.layers if name not in LAYERS]
    if unknown:
        parser.error(f"unknown layer {', '.join(unknown)}; known: {', '.join(LAYERS)}")

    outcomes = [run_layer(name, shlex.split(options.pytest)) for name in options.layers or LAYERS]
    rows = [*options.stage, *outcomes]
    print(f"\n{table(rows)}")
    for row in rows:
        if row.over_budget:
            print(
                f"WARNING: {row.name} took {row.minutes:.1f} minutes, budget {BUDGET_MINUTES[row.name]}: make it faster"
            )
    passed, failed, skipped = (
        sum(outcome.passed for outcome in outcomes),
        sum(outcome.failed for outcome in outcomes),
        sum(outcome.skipped for outcome in outcomes),
    )
    broken = [outcome.name for outcome in outcomes if outcome.broken]
    if broken:
        print(f"ERROR: failed: {', '.join(broken)}")
    if passed + failed == 0:
        print("ERROR: no test ran")
    print(f"\n{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 1 if broken or passed + failed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
