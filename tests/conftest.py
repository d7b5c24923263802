"""What every test gets: caches of its own session, one thread, fixed seeds, a Dynamo without memory of others."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Read when first used, by us and by Inductor; set before any test module is imported, and seen by subprocesses.
CACHE_VARIABLES = {"PYTORCHSIM_CACHE_DIR": "pytorchsim", "TORCHINDUCTOR_CACHE_DIR": "inductor"}

_session_caches: Path | None = None


def pytest_configure() -> None:
    """The user's caches are neither read nor written by tests, and Ctrl-C works in them.

    A shell starts background jobs with SIGINT ignored, which Python and its subprocesses would inherit: tests that
    interrupt a simulation would wait for it instead.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("pytorchsim", deadline=None)  # no test depends on wall time
    settings.load_profile("pytorchsim")
    global _session_caches  # noqa: PLW0603  pytest's hooks have no object to keep it in
    _session_caches = Path(tempfile.mkdtemp(prefix="pytorchsim-tests-"))
    for variable, folder in CACHE_VARIABLES.items():
        os.environ[variable] = str(_session_caches / folder)


def pytest_unconfigure() -> None:
    if _session_caches is not None:
        shutil.rmtree(_session_caches, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("PYTORCHSIM_GEM5"):
        return
    skip = pytest.mark.skip(reason="PYTORCHSIM_GEM5 names no gem5 binary")
    for item in items:
        if "needs_gem5" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Eager is the reference: its sums must not depend on how many cores the machine has."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _dynamo_forgets() -> Iterator[None]:
    """Dynamo counts recompiles per code object; parametrised tests share one and would reach its limit."""
    yield
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


@pytest.fixture
def fresh_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty caches of this test alone, in memory and on disk: for tests of what a cold compile or a cache hit does.

    Returns the folder that holds them: `pytorchsim/` and `inductor/`.
    """
    import torch
    from torch._inductor.utils import clear_caches

    for variable, folder in CACHE_VARIABLES.items():
        monkeypatch.setenv(variable, str(tmp_path / folder))
    torch._dynamo.reset()
    clear_caches()
    return tmp_path
