"""`GraphDefinition`: the part of a generated module that defines the graph and its kernels for the runtime.

In: kernels, facts and host operations while a graph is compiled. Out: lines of Python.
Assumes: kernel texts carry the placeholder `KERNEL_NAME`; metadata and facts are JSON types.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pytorchsim.config.session import Session
from pytorchsim.runtime.host_ops import HostOp
from pytorchsim.scheduler.kernel_name import KERNEL_NAME

__all__ = ["GraphDefinition", "KernelDefinition", "python_literal"]

# Metadata that says where a kernel comes from, not what it is: equal kernels of several places are one.
_PROVENANCE = ("origins", "source_lines")


@dataclass(frozen=True)
class KernelDefinition:
    """A kernel of a graph; `text` still has the placeholder: what equal kernels have in common."""

    name: str
    text: str
    metadata: dict[str, Any]

    @property
    def module(self) -> str:
        """The text with the kernel's name."""
        return self.text.replace(KERNEL_NAME, self.name)


class GraphDefinition:
    """Collects what a graph's module defines."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kernels: list[KernelDefinition] = []
        self._facts: dict[str, list[dict[str, Any]]] = {}
        self._host_ops: dict[str, HostOp] = {}

    @property
    def host_ops(self) -> tuple[HostOp, ...]:
        """What the graph runs on the host, in order of appearance."""
        return tuple(self._host_ops.values())

    def has_kernel(self, name: str) -> bool:
        """Whether `name` is a kernel of this graph."""
        return any(kernel.name == name for kernel in self._kernels)

    def kernel(self, name: str) -> KernelDefinition:
        """The kernel `name`."""
        return next(kernel for kernel in self._kernels if kernel.name == name)

    def replace_kernel(self, kernel: KernelDefinition) -> None:
        """`kernel` in place of the one of its name."""
        self._kernels = [kernel if known.name == kernel.name else known for known in self._kernels]

    def record_fact(self, section: str, entry: dict[str, Any]) -> None:
        """Append `entry` to a section of the facts."""
        self._facts.setdefault(section, []).append(entry)

    def record_host_op(self, op: HostOp) -> None:
        """Add `op` unless its buffer is known already."""
        self._host_ops.setdefault(op.buffer, op)

    def define_kernel(self, hint: str, text: str, metadata: dict[str, Any], next_suffix: Callable[[], str]) -> str:
        """The name of the kernel with this content; a new one if there is none (see `define_npu_kernel`)."""
        if KERNEL_NAME not in text:
            raise ValueError(f"kernel {hint!r}: its text lacks the placeholder {KERNEL_NAME}")
        if not hint.isidentifier():
            raise ValueError(f"kernel name {hint!r} is not an identifier")
        for kernel in self._kernels:
            if kernel.text == text and _identity(kernel.metadata) == _identity(metadata):
                for key in _PROVENANCE:
                    known = kernel.metadata.setdefault(key, [])
                    known.extend(entry for entry in metadata.get(key, []) if entry not in known)
                return kernel.name
        name = f"{hint}_{next_suffix()}"
        own = {key: list(value) if key in _PROVENANCE else value for key, value in metadata.items()}
        self._kernels.append(KernelDefinition(name, text, own))
        return name

    def lines(self, phase: str, graph: Any) -> Iterator[str]:
        """The definitions as statements. `graph` is Inductor's `GraphLowering`; `phase` the name's first part."""
        host_ops = [op.to_dict() for op in self.host_ops]
        facts = {**self._facts, "host_ops": host_ops}
        arguments = {
            "name": repr(self.name(phase, graph)),
            "config": python_literal(self._session.config.canonical_json()),
            "options": python_literal(self._session.options_json()),
            "facts": python_literal(_json(facts)),
        }
        if host_ops:
            yield f"announce_host_ops({host_ops!r})"
        yield f"npu = load_graph({', '.join(f'{name}={value}' for name, value in arguments.items())})"
        for kernel in self._kernels:
            text = python_literal(kernel.module)
            metadata = python_literal(_json(kernel.metadata))
            yield f"{kernel.name} = npu.kernel({kernel.name!r}, {text}, {metadata})"

    def name(self, phase: str, graph: Any) -> str:
        """From the content, not from a counter: the module may be cached and loaded by a process with other graphs."""
        inputs = {
            name: [list(map(str, value.get_size())), list(map(str, value.get_stride())), str(value.get_dtype())]
            for name, value in graph.graph_inputs.items()
            if hasattr(value, "get_stride")
        }
        content = "\n".join([graph.orig_gm.code, _json(inputs), self._session.digest()])
        return f"{phase}_{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def python_literal(text: str) -> str:
    """`text` as a Python literal: raw and triple-quoted, as it reads best, where that is exact, else its `repr`."""
    exact = "'''" not in text and not text.endswith(("'", "\\")) and "\r" not in text and "\0" not in text
    return f"r'''{text}'''" if exact else repr(text)


def _identity(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in _PROVENANCE}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
