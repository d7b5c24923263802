"""Plain Inductor does not notice us: same generated code, same cache keys, same answers from alternating threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config

import pytorchsim.frontend.backend  # noqa: F401  everything that could be set globally at import is set now

AROUND = ("without", "with")


def generated_by_plain_inductor(around: str, caches: Path) -> Any:
    script = Path(__file__).with_name("plain_inductor.py")
    done = subprocess.run(
        [sys.executable, str(script), around],
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_plain_inductor_generates_the_same_code(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        without, around = pool.map(lambda around: generated_by_plain_inductor(around, tmp_path / around), AROUND)
    assert (without["imported"], around["imported"]) == (False, True)
    assert len(without["codes"]) >= 8  # four graphs, forward and backward
    assert without["keys"] == around["keys"]
    assert len(without["keys"]) >= 8
    for mine, theirs in zip(without["codes"], around["codes"], strict=True):
        assert mine == theirs


@pytest.mark.usefixtures("fresh_caches")
def test_no_setting_changes(launches: Any) -> None:
    settings = {
        "inductor": inductor_config.get_config_copy,
        "dynamo": torch._dynamo.config.get_config_copy,
        "functorch": torch._functorch.config.get_config_copy,
    }
    before = {name: read() for name, read in settings.items()}
    x = torch.randn(4, 5, requires_grad=True)
    compiled = torch.compile(
        lambda x: torch.relu(x) * x, backend="pytorchsim", options={"config": "tiny", "strict": True}
    )
    compiled(x).sum().backward()
    assert launches.launched
    assert {name: read() for name, read in settings.items()} == before


@pytest.mark.usefixtures("fresh_caches")
def test_six_alternating_threads(launches: Any) -> None:
    together = threading.Barrier(6)

    def scaled_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(a + b) * a

    def task(backend: str, preset: str | None, seed: int) -> Callable[[], None]:
        # A code object of its own: Dynamo's cache of compiled code is per code object, and not what is tested.
        function: Any = type(scaled_relu)(scaled_relu.__code__.replace(co_firstlineno=seed), globals())
        options = {"config": preset, "strict": True} if preset else None
        compiled = torch.compile(function, backend=backend, options=options)
        generator = torch.Generator().manual_seed(seed)
        inputs = [torch.randn(5, 9, generator=generator, requires_grad=True) for _ in range(2)]
        expected = scaled_relu(*inputs)
        expected_gradients = torch.autograd.grad(expected.sum(), inputs)

        def run() -> None:
            together.wait()
            for _ in range(2):
                y = compiled(*inputs)
                torch.testing.assert_close(y, expected)
                torch.testing.assert_close(torch.autograd.grad(y.sum(), inputs), expected_gradients)

        return run

    backends: list[tuple[str, str | None]] = [("inductor", None), ("pytorchsim", "tiny"), ("pytorchsim", "mobile")]
    tasks = [task(*backends[number % 3], number + 1) for number in range(6)]
    with ThreadPoolExecutor(len(tasks)) as pool:
        for running in [pool.submit(run) for run in tasks]:
            running.result()
    # Two threads per machine, two rounds, at least one kernel each for forward and backward.
    for preset in ("tiny", "mobile"):
        assert launches.begun.count(preset) == launches.ended.count(preset) == 8
        assert launches.presets().count(preset) >= 8
