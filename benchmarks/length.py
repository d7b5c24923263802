"""Host memory and time of models in timing mode: used by `benchmarks.memory` and `benchmarks.speed`.

`python -m benchmarks.length blocks N` runs N encoder blocks on device `meta` in this process and prints resident memory
in MiB, seconds and cycles; start it with empty caches (as the tables do), else there is nothing to compile.
`python -m benchmarks.length resnet18` prints the seconds of a warm timing-only call by stage.
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
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch._inductor.scheduler import Scheduler
from torch._inductor.virtualized import V

import pytorchsim
from benchmarks.networks import EncoderBlock, ResNet18

TOKENS = 512
REPEATS = 5


def blocks(count: int) -> dict[str, float]:
    """Peak memory of so many encoder blocks: before, when Inductor has its nodes, at the end; seconds; cycles.

    Before is after a call that compiles nothing but a small function: imports, workers. Up to `inductor_mib` what grows
    is Dynamo's, AOTAutograd's and Inductor's; from there on code is generated, linked and run. `seconds` is a second
    call, which compiles nothing.
    """
    options: dict[str, Any] = {"strict": True, "mode": "timing"}
    torch.compile(lambda x: x + 1, backend="pytorchsim", options=options)(torch.randn(8))
    with torch.device("meta"):
        model = nn.Sequential(*(EncoderBlock() for _ in range(count))).eval().requires_grad_(False)
        tokens = torch.empty(TOKENS, EncoderBlock.HIDDEN)
    compiled = torch.compile(model, backend="pytorchsim", options=options)
    figures = {"weights_mib": sum(p.numel() for p in model.parameters()) * 4 / 2**20, "before_mib": _peak_mib()}
    generate = Scheduler.codegen

    def measured_codegen(scheduler: Scheduler) -> None:
        figures["nodes"] = len(V.graph.graph.nodes)
        figures["inductor_mib"] = _peak_mib()
        generate(scheduler)

    with torch.no_grad(), mock.patch.object(Scheduler, "codegen", measured_codegen):
        compiled(tokens)
        figures["peak_mib"] = _peak_mib()
        started = time.perf_counter()
        compiled(tokens)
        figures["seconds"] = time.perf_counter() - started
    figures["after_mib"] = _peak_mib()
    figures["cycles"] = pytorchsim.report().to_dict()["totals"]["cycles"]
    return figures


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resnet18() -> dict[str, float]:
    """Seconds of a warm call by stage, the fastest of some; tile latencies are known, as in a second process."""
    torch.set_num_threads(1)
    model = ResNet18().eval().requires_grad_(False).to(memory_format=torch.channels_last)
    image = torch.randn(1, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(model, backend="pytorchsim", options={"strict": True, "mode": "timing"})
    best: dict[str, float] = {}
    with torch.no_grad():
        compiled(image)
        for _ in range(REPEATS):
            started = time.perf_counter()
            compiled(image)
            seconds = time.perf_counter() - started
            if not best or seconds < best["seconds"]:
                best = {"seconds": seconds, **pytorchsim.report().to_dict()["wall_seconds"]}
    return best


def in_fresh_process(*arguments: str) -> dict[str, float]:
    """The figures of one case, whose peak memory is its own and whose caches are empty."""
    with tempfile.TemporaryDirectory() as caches:
        environment = os.environ | {
            "PYTORCHSIM_CACHE_DIR": f"{caches}/pytorchsim",
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        }
        command = [sys.executable, "-m", "benchmarks.length", *arguments]
        result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print the figures of one case as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=["blocks", "resnet18"])
    parser.add_argument("count", type=int, nargs="?", default=1)
    arguments = parser.parse_args()
    print(json.dumps(resnet18() if arguments.case == "resnet18" else blocks(arguments.count)))


if __name__ == "__main__":
    main()
