"""Cycles of a fixed set of kernels, to see what a change did: `python -m benchmarks.cycles`.

Compares with the recorded file `tests/timing/cycles.json` and prints what moved; exit code 1 if anything did.
`--write` records the new figures and prints the lines that CHANGELOG.md is to explain.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import pytorchsim

RECORD = Path(__file__).parents[1] / "tests" / "timing" / "cycles.json"


@dataclass(frozen=True)
class Case:
    """A function, shapes of its inputs (float32 unless `dtype` says otherwise) and a machine."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    config: str = "tpuv3"
    dtype: torch.dtype = torch.float32


def _cases() -> dict[str, Case]:
    cases = {
        "add": Case(torch.add, ((512, 512), (512, 512))),
        "add-broadcast": Case(torch.add, ((512, 512), (512,))),
        "add-bf16": Case(torch.add, ((512, 512), (512, 512)), dtype=torch.bfloat16),
        "add-int32": Case(torch.add, ((512, 512), (512, 512)), dtype=torch.int32),
        "add-tail": Case(torch.add, ((61, 77), (61, 77))),
        "relu": Case(torch.relu, ((1024, 1024),)),
        "exp": Case(torch.exp, ((256, 256),)),
        "gelu": Case(functional.gelu, ((256, 512),)),
        "div": Case(torch.div, ((256, 256), (256, 256))),
        "sqrt": Case(torch.sqrt, ((256, 256),)),
        "transpose": Case(lambda x: x.t().contiguous(), ((512, 384),)),
        "cat": Case(lambda x, y: torch.cat([x, y]), ((128, 256), (64, 256))),
        "sum-rows": Case(lambda x: x.sum(1), ((512, 512),)),
        "sum-columns": Case(lambda x: x.sum(0), ((512, 512),)),
        "sum-all": Case(torch.sum, ((512, 512),)),
        "max-rows": Case(lambda x: x.amax(1), ((512, 512),)),
        "argmax": Case(lambda x: x.argmax(1), ((256, 256),)),
        "mean": Case(lambda x: x.mean(-1), ((128, 1024),)),
        "variance": Case(lambda x: x.var(-1), ((128, 768),)),
        "softmax": Case(lambda x: torch.softmax(x, -1), ((256, 512),)),
        "log-softmax": Case(lambda x: torch.log_softmax(x, -1), ((128, 1000),)),
        "layernorm": Case(lambda x, w, b: functional.layer_norm(x, (768,), w, b), ((512, 768), (768,), (768,))),
        "rmsnorm": Case(lambda x, w: functional.rms_norm(x, (768,), w), ((512, 768), (768,))),
        "mm-256": Case(torch.mm, ((256, 256), (256, 256))),
        "mm-512": Case(torch.mm, ((512, 512), (512, 512))),
        "mm-bf16": Case(torch.mm, ((512, 512), (512, 512)), dtype=torch.bfloat16),
        "mm-tall": Case(torch.mm, ((2048, 128), (128, 256))),
        "mm-deep": Case(torch.mm, ((128, 4096), (4096, 128))),
        "mm-tail": Case(torch.mm, ((100, 129), (129, 300))),
        "mv": Case(torch.mv, ((1024, 1024), (1024,))),
        "linear-gelu": Case(
            lambda x, w, b: functional.gelu(functional.linear(x, w, b)), ((256, 512), (512, 512), (512,))
        ),
        "linear-residual": Case(lambda x, w: x + functional.linear(x, w), ((256, 512), (512, 512))),
        "mm-relu-sum": Case(lambda x, w: torch.relu(x @ w).sum(0), ((256, 256), (256, 256))),
        "bmm": Case(torch.bmm, ((12, 128, 64), (12, 64, 128))),
        "scores": Case(lambda q, k: torch.softmax(q @ k.transpose(1, 2), -1), ((4, 128, 64), (4, 128, 64))),
    }
    for name in ("add-tail", "softmax", "mm-tail", "sum-all", "layernorm"):
        case = cases[name]
        cases[f"{name} on mobile"] = Case(case.function, case.shapes, "mobile", case.dtype)
    return cases


CASES = _cases()


def cycles(case: Case) -> int:
    """Cycles of one call, all kernels."""
    torch._dynamo.reset()
    inputs = [torch.ones(shape, dtype=case.dtype) for shape in case.shapes]
    options = {"config": case.config, "strict": True, "mode": "timing"}
    with torch.no_grad():
        torch.compile(case.function, backend="pytorchsim", options=options)(*inputs)
    return int(pytorchsim.report().to_dict()["totals"]["cycles"])


def differences(recorded: dict[str, int], found: dict[str, int]) -> list[str]:
    """A line per kernel that moved, came or went, in order of names."""
    lines = []
    for name in sorted({*recorded, *found}):
        before, after = recorded.get(name), found.get(name)
        if before == after:
            continue
        if before is None or after is None:
            lines.append(f"{name}: {'new' if before is None else 'gone'}, {before or after:,} cycles")
        else:
            lines.append(f"{name}: {before:,} -> {after:,} cycles ({100 * (after / before - 1):+.1f} %)")
    return lines


def main() -> None:
    """Compare, or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the new figures")
    arguments = parser.parse_args()
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    found = {name: cycles(case) for name, case in CASES.items()}
    moved = differences(recorded, found)
    for line in moved:
        print(f"- {line}")
    if arguments.write:
        RECORD.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    elif moved:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
