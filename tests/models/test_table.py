"""Do the suites' files and the jobs of the continuous integration follow the table?"""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.models.table import DECODERS, MODELS, SUITES

ROOT = Path(__file__).parents[2]


FILES = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}


def test_each_suite_has_a_file() -> None:
    assert set(SUITES) <= FILES


def test_names_are_unique() -> None:
    names = [case.name for case in (*MODELS, *DECODERS)]
    assert len(set(names)) == len(names)


def test_one_job_per_suite_on_machines_of_our_own() -> None:
    """What is no suite runs on hosted machines."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    models = jobs.pop("models")
    assert models["runs-on"] == "self-hosted"
    assert models["strategy"]["matrix"]["suite"] == list(SUITES)
    assert all(job["runs-on"].startswith("ubuntu") for job in jobs.values())
    command = jobs["small-models"]["steps"][-1]["run"]
    named = {word.strip("'\"").removeprefix("test_").removesuffix(".py") for word in command.split() if ".py" in word}
    assert named == FILES - set(SUITES)
