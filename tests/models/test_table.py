"""Do the suites' files and the jobs of the continuous integration follow the table?"""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.models.table import DECODERS, MODELS, SUITES

ROOT = Path(__file__).parents[2]


def test_each_suite_has_a_file() -> None:
    files = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {"mlp", "table", "coverage"} == set(SUITES)


def test_names_are_unique() -> None:
    names = [case.name for case in (*MODELS, *DECODERS)]
    assert len(set(names)) == len(names)


def test_one_job_per_suite_on_machines_of_our_own() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    models = jobs.pop("models")
    assert models["runs-on"] == "self-hosted"
    assert models["strategy"]["matrix"]["suite"] == list(SUITES)
    assert all(job["runs-on"].startswith("ubuntu") for job in jobs.values())
    hosted = [layers for job in jobs.values() for layers in job.get("strategy", {}).get("matrix", {}).get("layers", [])]
    assert not any("models" in layers.split() for layers in hosted)
