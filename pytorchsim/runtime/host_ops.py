"""`HostOp`: one operation of a graph that runs on the host, and how its wrapper announces it.

In: facts found while a graph was compiled, stored in its generated module. Out: a `HostOpWarning` per operation each
time such a module is loaded, so that a warm cache is no less open than the first compile.
Assumes: nothing; the module is imported by generated code and stays light.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytorchsim.errors import HostOpWarning

__all__ = ["HostOp", "announce_host_ops"]


@dataclass(frozen=True)
class HostOp:
    """One operation on the host. `shape` and `dtype` are its result's; `file`, `line` and `code` the model's source."""

    op: str
    fx_node: str
    buffer: str
    shape: tuple[int, ...]
    dtype: str
    file: str
    line: int
    code: str

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON types."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> HostOp:
        """The inverse of `to_dict`."""
        return cls(**{**facts, "shape": tuple(facts["shape"])})

    def describe(self) -> str:
        """One line: operation, result, FX node, source."""
        result = f" -> {self.dtype}[{', '.join(map(str, self.shape))}]" if self.dtype else ""
        node = f" (FX node {self.fx_node})" if self.fx_node else ""
        source = f" at {self.file}:{self.line}: {self.code}" if self.file else ""
        return f"{self.op}{result}{node}{source}"


def announce_host_ops(host_ops: Iterable[Mapping[str, Any]]) -> None:
    """Warn of every operation that a graph runs on the host; Python's warning filters decide what is shown."""
    for facts in host_ops:
        op = HostOp.from_dict(facts)
        message = f"runs on the host, not on the simulated NPU: {op.describe()}"
        warnings.warn_explicit(message, HostOpWarning, op.file or "<graph>", op.line, module="pytorchsim")
