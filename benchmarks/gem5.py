"""Cycles of tile functions beside those of gem5: `python -m benchmarks.gem5`.

Compiles each workload with `latency_source: both` on a gem5 that `PYTORCHSIM_GEM5` names and prints, per tile function,
what the built-in model and gem5 say of its calls. `--write docs/accuracy.md` replaces the page's part about gem5, with
the versions and the day of the measurement. Without a binary it ends with what to do and changes no page.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import pytorchsim
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.errors import PyTorchSimError

BEGIN_MARK = "<!-- generated: `python -m benchmarks.gem5 --write docs/accuracy.md` -->"
END_MARK = "<!-- end of gem5's part -->"


class ResidualBlock(nn.Module):
    """ResNet's block of two 3 x 3 convolutions of 64 channels, with batch norms and a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(2))
        self.first_norm, self.second_norm = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 64, height, width) to the same."""
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(y)) + x)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10), nn.Softmax(-1))


WORKLOADS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (_mlp, (64, 784)),
    "resnet_block": (ResidualBlock, (1, 64, 56, 56)),
}
"""A model and the shape of its input."""


@dataclass(frozen=True)
class TileRow:
    """A tile function of a workload: cycles of one call each with all arguments it is called with, added up."""

    workload: str
    tile: str
    calls: int
    builtin: int
    gem5: int

    @property
    def difference(self) -> float:
        """gem5's against ours, signed."""
        return self.gem5 / self.builtin - 1


def measure(name: str, config: NpuConfig) -> tuple[list[TileRow], str, str]:
    """Rows of one workload, gem5's version, the pinned version."""
    build, shape = WORKLOADS[name]
    torch.manual_seed(0)
    model = build().eval().requires_grad_(False)
    torch._dynamo.reset()
    torch.compile(model, backend="pytorchsim", options={"config": config, "mode": "timing"})(torch.randn(shape))
    kernels = pytorchsim.report().to_dict()["kernels"]
    latencies: Sequence[dict[str, Any]] = [row for kernel in kernels for row in kernel["tile_latencies"]]
    rows = []
    for tile in dict.fromkeys(row["tile"] for row in latencies):
        calls = [row for row in latencies if row["tile"] == tile]
        builtin, gem5 = (sum(call[key] for call in calls) for key in ("builtin_cycles", "gem5_cycles"))
        rows.append(TileRow(name, tile, len(calls), builtin, gem5))
    return rows, latencies[0]["gem5_version"], latencies[0]["gem5_pin"]


def render(rows: Iterable[TileRow], machine: str, version: str, pin: str, day: str) -> str:
    """The page's generated part."""
    head = f"Machine {machine}, gem5 {version} (pinned {pin}), measured on {day}"
    lines = [f"{head}. Cycles of one call per set of arguments.", ""]
    lines += ["| workload | tile function | sets | built-in | gem5 | difference |", "|---|---|---:|---:|---:|---:|"]
    lines += [
        f"| `{row.workload}` | `{row.tile}` | {row.calls} | {row.builtin:,} | {row.gem5:,}"
        f" | {100 * row.difference:+.1f} % |"
        for row in rows
    ]
    return "\n".join(lines)


def replaced(page: str, text: str) -> str:
    """`page` with its part about gem5 replaced. ValueError: a mark is missing."""
    before, begin, rest = page.partition(BEGIN_MARK)
    _, end, after = rest.partition(END_MARK)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN_MARK!r} or {END_MARK!r}")
    return f"{before}{BEGIN_MARK}\n\n{text}\n\n{END_MARK}{after}"


def main() -> None:
    """Print the table; exit code 1 with the reason if there is no gem5 or it failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a page whose part about gem5 is replaced")
    arguments = parser.parse_args()
    config = load_config({"base": "tpuv3", "latency_source": "both"})
    rows: list[TileRow] = []
    version = pin = ""
    try:
        for name in WORKLOADS:
            found, version, pin = measure(name, config)
            rows += found
    except PyTorchSimError as error:
        raise SystemExit(f"benchmarks.gem5: {error}") from error
    day = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    text = render(rows, "`tpuv3`", version, pin, day)
    print(text)
    if arguments.write:
        arguments.write.write_text(replaced(arguments.write.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
