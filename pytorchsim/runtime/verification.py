"""`options={"verify": True}`: what each kernel stores is compared with eager's value of the same FX node.

In: the FX graph that a generated module was compiled from, the inputs of a call, and after each launch what it stored.
Out: nothing, or VerificationError at the first element that differs. A node's reference starts from what earlier
kernels stored and were found right in, not from the graph's inputs: rounding does not add up, and the kernel that is
named is the one that is wrong.

Assumes: the graph lives as long as the module, which is why no module of such a session is cached.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pytorchsim.errors import VerificationError, VerificationWarning

__all__ = ["Verification", "register_reference"]

aten = torch.ops.aten

TOLERANCE = {torch.float64: 1e-9, torch.float16: 1e-2, torch.bfloat16: 1e-2}
"""Relative to the larger of 1 and the value; 1e-4 for float32 and what is computed in it; integers are exact."""

_GRAPHS: dict[int, GraphModule] = {}
_NUMBERS = itertools.count()


def register_reference(graph: GraphModule) -> int:
    """Keep `graph` for `Verification`; returns the number by which a generated module names it."""
    number = next(_NUMBERS)
    _GRAPHS[number] = graph
    return number


class Verification:
    """One call of a graph: values of its FX nodes, as eager has them or as kernels stored them."""

    def __init__(self, reference: int, inputs: Sequence[Any]) -> None:
        self._module = _GRAPHS[reference]
        self._values: dict[Node, Any] = {}
        self.unknown: list[str] = []
        """What was stored and could not be compared: random numbers and what is made of them."""
        placeholders = (node for node in self._module.graph.nodes if node.op == "placeholder")
        for node, value in zip(placeholders, inputs, strict=True):
            self._values[node] = value.clone() if isinstance(value, torch.Tensor) else value  # kernels may write to it
        self._nodes = {node.name: node for node in self._module.graph.nodes}

    def check(self, kernel: Any, stored: Mapping[str, torch.Tensor]) -> None:
        """Compare what `kernel` stored with the values of the FX nodes that it stands for.

        Args:
            kernel: the `Kernel` that ran.
            stored: result by the name of its FX node.

        Raises:
            VerificationError: an element differs.
        """
        for name, actual in stored.items():
            node = self._nodes.get(name)
            expected = None if node is None else self._value(node)
            if node is None or not isinstance(expected, torch.Tensor) or expected.shape != actual.shape:
                self.unknown.append(f"{kernel.name}: {name}")
            else:
                _compare(kernel, node, actual, expected)
            if node is not None:
                self._values[node] = actual.clone()

    def finish(self) -> None:
        """The call is over: say what could not be compared."""
        if self.unknown:
            listed = ", ".join(self.unknown)
            message = f"{len(self.unknown)} result(s) could not be compared with eager: {listed}"
            warnings.warn(message, VerificationWarning, stacklevel=2)

    def _value(self, node: Node) -> Any:
        """The value of `node`, computed from what is known; None where eager has no such operation."""
        waiting = [node]
        while waiting:
            current = waiting[-1]
            missing = [] if current in self._values else [n for n in current.all_input_nodes if n not in self._values]
            if missing:
                waiting.extend(missing)
                continue
            if current not in self._values:
                self._values[current] = self._computed(current)
            waiting.pop()
        return self._values[node]

    def _computed(self, node: Node) -> Any:
        if node.op == "get_attr":
            value: Any = self._module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            return value
        if node.op != "call_function" or any(self._values[n] is None for n in node.all_input_nodes):
            return None
        arguments, keywords = torch.fx.map_arg((node.args, node.kwargs), self._values.__getitem__)
        if node.target is aten.copy_.default:  # the tensor that is written to is the call's own
            return arguments[1]
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or "random" in str(node.target):
            return None
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:  # what it writes to may be read again
            arguments = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, arguments)
        try:
            assert callable(node.target)
            return node.target(*arguments, **keywords)
        except NotImplementedError:
            return None


def _compare(kernel: Any, node: Node, actual: torch.Tensor, expected: torch.Tensor) -> None:
    if expected.dtype != actual.dtype:
        expected = expected.to(actual.dtype)
    wrong = _differing(actual, expected)
    if not bool(wrong.any()):
        return
    index = tuple(int(position) for position in wrong.nonzero()[0])
    folder = Path(tempfile.mkdtemp(prefix="pytorchsim-verify-"))
    kernel.dump(folder)
    torch.save({"actual": actual, "expected": expected}, folder / "values.pt")
    raise VerificationError(
        kernel=kernel.name,
        operation=str(node.target),
        node=node.name,
        index=index,
        actual=actual[index].item(),
        expected=expected[index].item(),
        differing=int(wrong.sum()),
        elements=actual.numel(),
        dump=str(folder),
    )


def _differing(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    if not actual.dtype.is_floating_point:
        return actual != expected
    tolerance = TOLERANCE.get(actual.dtype, 1e-4)
    ours, eagers = actual.double(), expected.double()
    near = (ours - eagers).abs() <= tolerance * eagers.abs().clamp(min=1)
    same = (ours == eagers) | (ours.isnan() & eagers.isnan())
    return ~(near | same)
