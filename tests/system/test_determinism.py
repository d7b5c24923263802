"""Are results and cycles the same in every process and for every number of cores?"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, torch, pytorchsim
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(60, 70), torch.nn.GELU(), torch.nn.LayerNorm(70)).requires_grad_(False)
compiled = torch.compile(model, backend="pytorchsim", options={"strict": True, "config": CONFIG})
y = compiled(torch.randn(300, 60))
report = pytorchsim.report().to_dict()
print(json.dumps({
    "bits": y.view(torch.int32).flatten().tolist(),
    "cycles": [[kernel["name"], kernel["cycles"]] for kernel in report["kernels"]],
}))
"""


def _run(config: str) -> dict[str, object]:
    command = [sys.executable, "-c", PROGRAM.replace("CONFIG", config)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return loaded


@pytest.mark.usefixtures("fresh_caches")
def test_two_processes_give_the_same_bits_and_cycles() -> None:
    first, second = _run('"tpuv3"'), _run('"tpuv3"')  # the second one finds the caches filled
    assert first == second


@pytest.mark.usefixtures("fresh_caches")
def test_the_number_of_cores_changes_no_bit() -> None:
    one, four = _run('{"base": "tiny"}'), _run('{"base": "tiny", "cores": 4}')
    assert one["bits"] == four["bits"]
    assert one["cycles"] != four["cycles"]
    assert [name for name, _ in one["cycles"]] == [name for name, _ in four["cycles"]]  # type: ignore[attr-defined]
