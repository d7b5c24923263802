"""How fast the simulator is beside the host that runs it: `python -m benchmarks.speed`.

For each case, in a process of its own: the first call with empty caches (another function was compiled before, so
that imports and workers are not counted), then calls of the simulator and of eager in turn, each on one thread; the
minimum of several counts. Tile latencies are forgotten before every call and not read from disk again, so that every
cycle is measured anew. The training step is forward, backward and nothing else, on both sides.
Prints seconds by stage, ratios to eager, and the process's peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import pytorchsim
from benchmarks import memory
from benchmarks.length import in_fresh_process
from pytorchsim.config import load_config
from pytorchsim.errors import ConfigError

REPEATS = 7


def _gemm() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], float]:
    return torch.mm, (torch.randn(512, 512), torch.randn(512, 512)), 512.0**3


def _mlp_model() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10), nn.Softmax(-1))


def _mlp() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], float]:
    return _mlp_model().requires_grad_(False), (torch.randn(64, 784),), 64.0 * (784 * 256 + 256 * 10)


def _mlp_training() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], float]:
    model = _mlp_model()

    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return ((model(x) - target) ** 2).mean()

    # Products: forward, weights' gradients, and the hidden layer's gradient (the input has none).
    macs = 64.0 * (2 * 784 * 256 + 3 * 256 * 10)
    return loss, (torch.randn(64, 784), torch.rand(64, 10)), macs


def _add() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], float]:
    return torch.add, (torch.randn(4071, 429), torch.randn(4071, 429)), 0.0


def _softmax() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], float]:
    return nn.Softmax(-1), (torch.randn(2048, 2048),), 0.0


def _layer_norm() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], float]:
    return nn.LayerNorm(768, elementwise_affine=False), (torch.randn(2048, 768),), 0.0


CASES = {
    "gemm 512^3": _gemm,
    "mlp, batch 64": _mlp,
    "mlp training step": _mlp_training,
    "add 4071 x 429": _add,
    "softmax 2048^2": _softmax,
    "layer norm 2048 x 768": _layer_norm,
}


def _step(function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """One call, and its backward pass if it has one."""
    result = function(*inputs)
    if result.requires_grad:
        result.backward()  # gradients are added to those of the calls before, on both sides
    return result


def measure(case: str, config: str) -> dict[str, float]:
    """The figures of one case; called in a process with empty caches."""
    from pytorchsim.runtime.latencies import TILE_LATENCIES

    torch.manual_seed(0)
    torch.set_num_threads(1)
    options = {"config": config, "strict": True}
    torch.compile(lambda x: x + 1, backend="pytorchsim", options=options)(torch.randn(8))
    function, inputs, macs = CASES[case]()
    compiled = torch.compile(function, backend="pytorchsim", options=options)
    started = time.perf_counter()
    actual = _step(compiled, inputs)
    figures = {"cold": time.perf_counter() - started}
    torch.testing.assert_close(actual, function(*inputs), rtol=1e-4, atol=1e-4)
    figures |= {"warm": float("inf"), "eager": float("inf"), "functional": float("inf"), "timing": float("inf")}
    for _ in range(REPEATS):
        TILE_LATENCIES.clear()
        started = time.perf_counter()
        _step(compiled, inputs)
        figures["warm"] = min(figures["warm"], time.perf_counter() - started)
        started = time.perf_counter()
        _step(function, inputs)
        figures["eager"] = min(figures["eager"], time.perf_counter() - started)
        report = pytorchsim.report().to_dict()
        for stage in ("functional", "timing"):
            figures[stage] = min(figures[stage], report["wall_seconds"][stage])
    figures["cycles"] = report["totals"]["cycles"]
    figures["gmac_per_s"] = macs / figures["functional"] / 1e9
    figures["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def _in_fresh_process(case: str, config: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as caches:
        environment = os.environ | {
            "PYTORCHSIM_CACHE_DIR": f"{caches}/pytorchsim",
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        }
        command = [sys.executable, "-m", "benchmarks.speed", "--case", case, "--config", config]
        result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print the table, or one case's figures as JSON (what the table's processes do)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="tpuv3")
    parser.add_argument("--case", choices=CASES)
    arguments = parser.parse_args()
    try:
        load_config(arguments.config)
    except ConfigError as error:
        parser.error(str(error))
    if arguments.case:
        print(json.dumps(measure(arguments.case, arguments.config)))
        return
    table = Table(title=f"Simulation speed on {arguments.config}: seconds, minimum of {REPEATS}, one thread")
    for column in ("case", "cold", "warm", "functional", "timing", "eager", "warm / eager", "GMAC/s", "MiB", "cycles"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for case in CASES:
        f = _in_fresh_process(case, arguments.config)
        table.add_row(
            case,
            *(f"{f[name]:.4f}" for name in ("cold", "warm", "functional", "timing", "eager")),
            f"{f['warm'] / f['eager']:.1f}",
            f"{f['gmac_per_s']:.2f}",
            f"{f['memory_mib']:.0f}",
            f"{f['cycles']:,.0f}",
        )
    Console(width=130).print(table)
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in in_fresh_process("resnet18").items())
    print(f"\nResNet-18 of one image, timing only, warm, in seconds: {stages}")
    print("\nThe timing simulator alone:\n" + memory.speed())


if __name__ == "__main__":
    main()
