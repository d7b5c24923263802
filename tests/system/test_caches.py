"""The disk caches, Inductor's two and our own, on by default: every backend, machine and option has its own entry.

A hit is complete: a second process compiles, links and measures nothing, and its report says what the first one's said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd import autograd_cache
from torch._inductor.codecache import FxGraphCache

pytestmark = pytest.mark.usefixtures("fresh_caches")


def add_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a + b)


def on_npu(function: Any = add_relu, **options: Any) -> Any:
    return torch.compile(function, backend="pytorchsim", options={"config": "tiny", "strict": True, **options})


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(5, 9), torch.randn(5, 9)


def test_plain_inductor_first(launches: Any, stock_launches: list[str]) -> None:
    a, b = operands()
    torch.compile(add_relu)(a, b)
    assert len(stock_launches) == 1
    torch._dynamo.reset()
    torch.testing.assert_close(on_npu()(a, b), add_relu(a, b))
    assert launches.presets() == ["tiny"]
    assert len(stock_launches) == 1


def test_stock_inductor_does_not_get_what_the_npu_cached(launches: Any, stock_launches: list[str]) -> None:
    a, b = operands()
    torch.testing.assert_close(on_npu()(a, b), add_relu(a, b))
    torch._dynamo.reset()
    torch.compile(add_relu)(a, b)
    assert launches.presets() == ["tiny"]
    assert len(stock_launches) == 1


@pytest.mark.parametrize("options", [{"config": "mobile"}, {"mode": "functional"}, {"strict": False}])
def test_every_option_is_in_both_keys(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, list[str]] = {"fx": [], "aot": []}
    fx_key, aot_key = FxGraphCache.prepare_key, autograd_cache.autograd_cache_key

    def logged_fx_key(*args: Any, **kwargs: Any) -> Any:
        result = fx_key(*args, **kwargs)
        keys["fx"].append(result[0][0])
        return result

    def logged_aot_key(*args: Any, **kwargs: Any) -> Any:
        result = aot_key(*args, **kwargs)
        keys["aot"].append(result[0])
        return result

    monkeypatch.setattr(FxGraphCache, "prepare_key", logged_fx_key)
    monkeypatch.setattr(autograd_cache, "autograd_cache_key", logged_aot_key)
    counters.clear()
    for given in ({}, options, {}):
        torch._dynamo.reset()
        on_npu(**given)(*operands())
    first, other, again = keys["aot"]
    assert first == again != other
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1  # the third compile
    assert len(keys["fx"]) == len(set(keys["fx"])) == 2  # it never got that far


SECOND_PROCESS = """
import json, torch
from torch._dynamo.utils import counters
from torch._inductor.graph import GraphLowering
import pytorchsim.runtime
from pytorchsim.frontend.source_key import source_key

codegens, loaded = [], []
codegen = GraphLowering.codegen
GraphLowering.codegen = lambda self: codegens.append(1) or codegen(self)
load_graph = pytorchsim.runtime.load_graph
pytorchsim.runtime.load_graph = lambda **given: loaded.append(given["name"]) or load_graph(**given)

torch.manual_seed(0)
a, b = (torch.randn(5, 9, requires_grad=True) for _ in range(2))
f = torch.compile(lambda a, b: torch.relu(a + b) * b, backend="pytorchsim", options={"config": "tiny", "strict": True})
y = f(a, b)
gradients = torch.autograd.grad(y.sum(), (a, b))
expected = torch.autograd.grad((torch.relu(a + b) * b).sum(), (a, b))
torch.testing.assert_close(y, torch.relu(a + b) * b)
torch.testing.assert_close(gradients, expected)
facts = {"codegens": len(codegens), "loaded": sorted(loaded), "aot": counters["aot_autograd"], "sources": source_key()}
print(json.dumps(facts))
"""


def test_second_process_generates_no_code(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}

    def run() -> Any:
        command = [sys.executable, "-W", "error::pytorchsim.errors.PyTorchSimWarning", "-c", SECOND_PROCESS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    cold, warm = run(), run()
    assert cold["sources"] == warm["sources"], "somebody edited the package during this test"
    assert cold["codegens"] == 2
    assert warm["codegens"] == 0
    assert warm["aot"]["autograd_cache_hit"] == 1
    assert warm["loaded"] == cold["loaded"]
    assert len(warm["loaded"]) == 2


WARM_PROCESS = """
import json, subprocess, sys, torch
import pytorchsim

tools = []
popen = subprocess.Popen.__init__
def logged(self, command, *args, **kwargs):
    tools.append([str(part).rsplit("/", 1)[-1] for part in command][:2])
    popen(self, command, *args, **kwargs)
subprocess.Popen.__init__ = logged

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(9, 7), torch.nn.GELU(), torch.nn.LayerNorm(7)).requires_grad_(False)
x = torch.randn(5, 9)
def function(x):
    y = model(x)
    return y, torch.histc(x, 4)  # which runs on the host; of x, because in timing mode y is NaN
options = {"config": "tiny", "mode": sys.argv[1]}
compiled = torch.compile(function, backend="pytorchsim", options=options)
result = compiled(x)
if sys.argv[1] != "timing":
    torch.testing.assert_close(result, function(x))
report = pytorchsim.report().to_dict()
vector = sum(kernel["instructions"]["vector"] for kernel in report["kernels"])
compiled(x)
known = sum(kernel["instructions"]["vector"] for kernel in pytorchsim.report().to_dict()["kernels"])
compiler = sorted(name for name in ("mlir", "pytorchsim.mlir.compiler", "pytorchsim.mlir.workers", "elftools")
                  if name in sys.modules)
report.pop("wall_seconds")
from pytorchsim.frontend.source_key import source_key
print(json.dumps({"tools": tools, "vector": vector, "known": known, "compiler": compiler, "report": report,
                  "sources": source_key()}))
"""


def _warm_process(caches: Path, mode: str = "functional+timing", **environment: str) -> Any:
    variables = {
        **os.environ,
        "PYTORCHSIM_CACHE_DIR": str(caches / "pytorchsim"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        **environment,
    }
    command = [sys.executable, "-c", WARM_PROCESS, mode]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_second_process_compiles_and_links_nothing(tmp_path: Path) -> None:
    cold = _warm_process(tmp_path)
    # Neither workers nor a linker could do anything now; without caches that is an error.
    warm = _warm_process(tmp_path, PYTORCHSIM_LLD="no-such-linker")
    assert cold["sources"] == warm["sources"], "somebody edited the package during this test"
    assert any("llvm_worker.py" in command for command in cold["tools"])
    assert not [command for command in warm["tools"] if "llvm_worker.py" in command or "lld" in command[0]]
    assert cold["compiler"]
    assert warm["compiler"] == []
    assert warm["report"] == cold["report"]
    kernels = warm["report"]["kernels"]
    assert kernels
    assert all(kernel["tile"] for kernel in kernels)
    assert "histc" in json.dumps(warm["report"])


def test_second_process_links_nothing_that_inductor_generates_anew(tmp_path: Path) -> None:
    """Without Inductor's caches the same kernel texts are generated again, and found."""
    cold = _warm_process(tmp_path)
    warm = _warm_process(tmp_path, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "other"), PYTORCHSIM_LLD="no-such-linker")
    assert cold["sources"] == warm["sources"], "somebody edited the package during this test"
    assert "pytorchsim.mlir.compiler" not in warm["compiler"]
    assert warm["report"] == cold["report"]


def test_second_process_measures_nothing(tmp_path: Path) -> None:
    """In timing mode a tile function of known latency does not run: a first call is then as short as a second one."""
    cold, warm = (_warm_process(tmp_path, "timing") for _ in range(2))
    assert cold["sources"] == warm["sources"], "somebody edited the package during this test"
    assert cold["vector"] > cold["known"]
    assert warm["vector"] == warm["known"] == cold["known"]
    assert warm["report"]["totals"]["cycles"] == cold["report"]["totals"]["cycles"]
    anew = _warm_process(tmp_path, "timing", PYTORCHSIM_NO_CACHE="1")
    assert anew["vector"] == cold["vector"]
