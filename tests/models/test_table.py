"""Do the suites' files and the jobs of the continuous integration follow the table?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.models.table import DECODERS, MODELS, SUITES
from tools.run_layers import LAYERS

ROOT = Path(__file__).parents[2]


FILES = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}


def test_each_suite_has_a_file() -> None:
    assert set(SUITES) <= FILES


def test_names_are_unique() -> None:
    names = [case.name for case in (*MODELS, *DECODERS)]
    assert len(set(names)) == len(names)


def workflow() -> dict[Any, Any]:
    page = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert isinstance(page, dict)
    return page


def test_the_workflow_has_what_a_workflow_needs() -> None:
    """Triggers, and jobs of steps that each do one thing, with make targets that there are."""
    page = workflow()
    assert set(page[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key `on` as a truth value
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in page["jobs"].values():
        assert set(job) <= {"if", "runs-on", "timeout-minutes", "strategy", "steps"}
        assert job["steps"][0]["uses"].startswith("actions/checkout@")
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1
        commands = [word for step in job["steps"] for word in re.findall(r"make ([a-z-]+)", step.get("run", ""))]
        assert commands
        assert set(commands) <= targets


def test_lint_and_every_layer_but_models_run_on_hosted_machines() -> None:
    jobs = workflow()["jobs"]
    assert "make lint" in jobs["lint"]["steps"][-1]["run"]
    named = [layer for layers in jobs["test"]["strategy"]["matrix"]["layers"] for layer in layers.split()]
    assert sorted([*named, "models"]) == sorted(LAYERS)
    assert jobs["test"]["steps"][-1]["run"].endswith('LAYERS="${{ matrix.layers }}"')


def test_one_job_per_suite_on_machines_of_our_own() -> None:
    """What is no suite runs on hosted machines."""
    jobs = workflow()["jobs"]
    models = jobs.pop("models")
    assert models["runs-on"] == "self-hosted"
    assert models["strategy"]["matrix"]["suite"] == list(SUITES)
    assert all(job["runs-on"].startswith("ubuntu") for job in jobs.values())
    command = jobs["small-models"]["steps"][-1]["run"]
    named = {word.strip("'\"").removeprefix("test_").removesuffix(".py") for word in command.split() if ".py" in word}
    assert named == FILES - set(SUITES)
