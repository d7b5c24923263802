"""Run a model of the table on the NPU and in eager, compare, and say what it took.

In: a case of the table and a batch. Out: assertions, a printed line, and the same as a line of JSON in the file that
`MODEL_RESULTS` names, from which `tools/coverage_table.py` writes the README's table.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn

import pytorchsim
from tests.models.table import Inputs, ModelCase

__all__ = ["Measured", "check_gradients", "check_values", "largest_difference", "measured", "nearness", "publish"]

STRICT = {"strict": True}


@dataclass
class Measured:
    """What one run of a model took. Differences are absolute; seconds are of the wall, compilation included."""

    model: str
    suite: str
    batch: int
    phase: str
    parameters: int = 0
    kernels: int = 0
    launches: int = 0
    host_ops: int = 0
    largest_difference: float = 0.0
    held: str = ""
    cycles: int = 0
    wall_seconds: float = 0.0
    peak_mib: int = 0
    notes: dict[str, float] = field(default_factory=dict)


@contextmanager
def measured(result: Measured) -> Iterator[None]:
    """Fill in seconds, peak memory of this process, and the sums of the report of what runs inside."""
    _forget_peak()
    started = time.perf_counter()
    yield
    result.wall_seconds = round(time.perf_counter() - started, 2)
    result.peak_mib = _peak_mib()
    report = pytorchsim.report().to_dict()
    result.kernels += len(report["kernels"])
    result.launches += sum(kernel["launches"] for kernel in report["kernels"])
    result.host_ops += report["totals"]["host_ops"]
    result.cycles += report["totals"]["cycles"]


def publish(result: Measured) -> None:
    """Print a result, and append it to the file of results if there is one."""
    print(
        f"\n{result.model}, batch {result.batch}, {result.phase}: {result.parameters} parameters,"
        f" {result.kernels} kernels, {result.launches} launches, {result.host_ops} host ops,"
        f" {result.cycles} cycles, {result.wall_seconds} s, peak {result.peak_mib} MiB;"
        f" largest difference {result.largest_difference:.2e}: {result.held}"
    )
    results = os.environ.get("MODEL_RESULTS")
    if results:
        with Path(results).open("a") as lines:
            lines.write(json.dumps(asdict(result)) + "\n")


def check_values(case: ModelCase, batch: int) -> None:
    """Inference in strict mode gives eager's values."""
    model, inputs = _built(case, batch)
    model.requires_grad_(False)
    expected = _tuple(model(**inputs))
    exact = _tuple(copy.deepcopy(model).double()(**_doubled(inputs)))
    result = Measured(case.name, case.suite, batch, "inference", _parameters(model))
    compiled = torch.compile(model, backend="pytorchsim", fullgraph=True, options=STRICT)
    with measured(result):
        actual = _tuple(compiled(**inputs))
    _judge(result, actual, expected, exact, case.largest_difference)


def check_gradients(case: ModelCase, batch: int) -> None:
    """Values and the gradients of all parameters in strict mode are eager's."""
    model, inputs = _built(case, batch)
    result = Measured(case.name, case.suite, batch, "training", _parameters(model))
    expected, wanted, directions = _differentiated(model, inputs, None)
    exact, exactly, _ = _differentiated(copy.deepcopy(model).double(), _doubled(inputs), directions)
    compiled = torch.compile(model, backend="pytorchsim", fullgraph=True, options=STRICT)
    with measured(result):
        outputs = _tuple(compiled(**inputs))
        _backward(outputs, directions)
    gradients = _gradients(model)
    assert gradients.keys() == wanted.keys()
    for name, gradient in wanted.items():
        scale = max(1e-3, float(max(other.abs().max() for other in wanted.values())))
        held = nearness([gradients[name] / scale], [gradient / scale], [exactly[name] / scale], 1e-5)
        assert held, f"gradient of {name} differs from eager's"
    _judge(result, [output.detach() for output in outputs], expected, exact, case.largest_difference)


def nearness(
    actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], largest: float
) -> str:
    """Which bar holds: the largest difference from eager, or an error against float64 of at most twice eager's own.
    Empty: neither."""
    if largest_difference(actual, expected) <= largest:
        return f"at most {largest:g} from eager"
    errors = [
        (float((ours.double() - right).abs().max()), float((eagers.double() - right).abs().max()))
        for ours, eagers, right in zip(actual, expected, exact, strict=True)
    ]
    if all(ours <= 2 * eagers for ours, eagers in errors):
        return "error against float64 at most twice eager's"
    return ""


def largest_difference(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """Over all elements of all tensors; not a number if there is one among them, which Python's `max` would lose."""
    pairs = zip(actual, expected, strict=True)
    return float(torch.stack([(ours - eagers).abs().max() for ours, eagers in pairs]).max())


def _judge(
    result: Measured,
    actual: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
    largest: float,
) -> None:
    for ours, eagers in zip(actual, expected, strict=True):
        assert (ours.shape, ours.dtype, ours.stride()) == (eagers.shape, eagers.dtype, eagers.stride())
        assert float(eagers.abs().max()) > 1e-2, "values that vanish show nothing"
    result.largest_difference = largest_difference(actual, expected)
    result.held = nearness(actual, expected, exact, largest)
    publish(result)
    assert result.held, f"{result.model}: {result.largest_difference:.2e} from eager"
    assert result.host_ops == 0
    assert result.cycles > 0


def _built(case: ModelCase, batch: int) -> tuple[nn.Module, Inputs]:
    torch.manual_seed(0)
    model = case.build().eval()
    return model, case.inputs(batch)


def _differentiated(
    model: nn.Module, inputs: Inputs, directions: Sequence[torch.Tensor] | None
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor], Sequence[torch.Tensor]]:
    """Values, gradients, and what the values were differentiated along; the model's own gradients are cleared."""
    outputs = _tuple(model(**inputs))
    if directions is None:
        directions = [torch.randn_like(output) / output[0].numel() ** 0.5 for output in outputs]
    _backward(outputs, directions)
    gradients = _gradients(model)
    model.zero_grad(set_to_none=True)
    return tuple(output.detach() for output in outputs), gradients, directions


def _backward(outputs: Sequence[torch.Tensor], directions: Sequence[torch.Tensor]) -> None:
    torch.autograd.backward(
        list(outputs), [direction.to(output.dtype) for output, direction in zip(outputs, directions, strict=True)]
    )


def _gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def _tuple(outputs: object) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)  # type: ignore[return-value]


def _doubled(inputs: Mapping[str, torch.Tensor]) -> Inputs:
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def _parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _forget_peak() -> None:
    """Start the process's peak of resident memory anew, where the kernel lets us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024
