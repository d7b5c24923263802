"""What README.md shows of its example is what the example prints."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import pytorchsim

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_report_that_is_shown_is_the_one_that_is_printed() -> None:
    shown = re.findall(r"^```\n( kernel .*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(shown) == 1
    torch._dynamo.reset()
    f = torch.compile(lambda a, b: torch.relu(a + b), backend="pytorchsim")
    f(torch.randn(1024, 429), torch.randn(1024, 429))
    printed = {" ".join(line.split()) for line in str(pytorchsim.report()).splitlines()}
    # Rules are as wide as their table; the wall seconds are left out there.
    lines = {" ".join(line.split()) for line in shown[0].splitlines() if "─" not in line}
    assert lines - {""} <= printed
