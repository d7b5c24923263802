"""One elementwise graph on the simulated NPU, compared with eager PyTorch, with its cycle table.

    python examples/quickstart.py [CONFIG]

CONFIG is a preset or a YAML file, default tpuv3. Exit code 1 if the NPU and eager differ.
"""

from __future__ import annotations

import sys

import torch

import pytorchsim


def add_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What the NPU shall compute."""
    return torch.relu(a + b)


def main(config: str = "tpuv3") -> int:
    """Run, compare, report; returns the exit code."""
    torch.manual_seed(0)
    a, b = torch.randn(1024, 429), torch.randn(1024, 429)

    on_npu = torch.compile(add_relu, backend="pytorchsim", options={"config": config, "strict": True})
    y = on_npu(a, b)

    expected = add_relu(a, b)
    equal = torch.equal(y, expected)
    print(f"relu(a + b) on {config}: {'equal to eager' if equal else 'DIFFERS from eager'}, shape {tuple(y.shape)}")
    pytorchsim.report().print()
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
