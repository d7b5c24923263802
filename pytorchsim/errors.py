"""One exception class per failure. Every message names what, where, and what to do; the facts are attributes too.

Nothing in this module imports another layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "AssemblyAuditError",
    "CompileError",
    "ConfigError",
    "Gem5Error",
    "Gem5VersionWarning",
    "HostOpError",
    "HostOpWarning",
    "IRVerificationError",
    "MachineFault",
    "PyTorchSimError",
    "PyTorchSimWarning",
    "RecompileLimitError",
    "RecompileLimitWarning",
    "ReportError",
    "SetupError",
    "SpadOverflowError",
    "TileWarning",
    "TimingError",
    "UnsupportedError",
    "VerificationError",
    "VerificationWarning",
]


class PyTorchSimError(Exception):
    """Base class of everything this package raises on purpose."""


class PyTorchSimWarning(UserWarning):
    """Category of every warning of this package. Tests turn it into an error wherever it is attributed to."""


class ConfigError(PyTorchSimError):
    """A hardware config, an option or an environment variable that cannot be used."""


class SetupError(PyTorchSimError):
    """A tool the package needs is missing or has the wrong version."""


class ReportError(PyTorchSimError):
    """A report cannot be written where it should be."""


class UnsupportedError(PyTorchSimError):
    """The model asks for something that no kernel of ours can express."""


class HostOpError(UnsupportedError):
    """Strict mode: an operation would have run on the host."""


class RecompileLimitError(PyTorchSimError):
    """Strict mode: the next compile would exhaust Dynamo's recompile limit and then run in eager unseen."""


class HostOpWarning(PyTorchSimWarning):
    """Not strict: an operation runs on the host. The text is that of the `HostOpError` that strict mode raises."""


class RecompileLimitWarning(PyTorchSimWarning):
    """Not strict: this compile exhausts Dynamo's recompile limit; what needs another one runs in eager on the host."""


class TileWarning(PyTorchSimWarning):
    """Tiles that a user prescribes for a matrix product that the model does not have."""


class VerificationWarning(PyTorchSimWarning):
    """`options={"verify": True}`: results that could not be compared."""


class CompileError(PyTorchSimError):
    """A kernel could not be compiled. `dump` is the directory with the artifacts, if any were written."""

    def __init__(self, message: str, *, kernel: str = "", stage: str = "", dump: str = "") -> None:
        self.kernel, self.stage, self.dump = kernel, stage, dump
        where = f"kernel {kernel!r}: " if kernel else ""
        at = f" [stage {stage}]" if stage else ""
        kept = f"\n  artifacts: {dump}" if dump else ""
        super().__init__(f"{where}{message}{at}{kept}")


class IRVerificationError(CompileError):
    """IR that its dialect does not allow."""


@dataclass(frozen=True)
class AuditFinding:
    """One line of assembly that a tile function may not contain."""

    rule: str
    function: str
    line_number: int
    line: str


class AssemblyAuditError(CompileError):
    """Assembly of a tile function that would pass a lane's value through a scalar register."""

    def __init__(self, message: str, findings: tuple[AuditFinding, ...], *, kernel: str = "", dump: str = "") -> None:
        self.findings = findings
        super().__init__(message, kernel=kernel, stage="audit", dump=dump)


class SpadOverflowError(PyTorchSimError):
    """A kernel's tiles do not fit the scratchpad slice of a lane."""

    def __init__(  # noqa: PLR0913  the facts of the error, all by keyword
        self,
        *,
        kernel: str,
        origins: tuple[str, ...],
        tile: dict[str, int],
        used_bytes: int,
        budget_bytes: int,
        shares: dict[str, int],
        smallest: dict[str, int] | None = None,
        limit: str = "scratchpad_bytes_per_lane",
        one_tile: bool = False,
    ) -> None:
        """`limit`: the key of the config that sets the budget. `one_tile`: the need is that of one tile, the budget
        half a slice, since the other half is being filled."""
        self.kernel, self.origins, self.tile = kernel, origins, tile
        self.used_bytes, self.budget_bytes, self.shares, self.smallest = used_bytes, budget_bytes, shares, smallest
        self.limit, self.one_tile = limit, one_tile
        of_half = " for one tile" if one_tile else ""
        half = ", half of a slice" if one_tile else ""
        what = "stack" if limit == "stack_reserve_bytes" else "scratchpad"
        other = "fewer operations in one kernel" if limit == "stack_reserve_bytes" else "smaller tensors"
        parts = ", ".join(f"{name} {size}" for name, size in shares.items())
        hint = f" Smallest candidate tried: {smallest}." if smallest else ""
        super().__init__(
            f"kernel {kernel!r} (from {', '.join(origins) or 'unknown'}) needs {used_bytes} bytes of {what} per"
            f" lane{of_half}, the budget is {budget_bytes}{half}; tile {tile}; shares: {parts}.{hint}"
            f" Use a config with a larger `{limit}`, or {other}."
        )


@dataclass(frozen=True)
class FaultSite:
    """Where the machine faulted. Addresses are those of the kernel; `lane` is -1 where no single lane is to blame."""

    kind: str
    kernel: str
    function: str
    instruction: str
    pc: int
    lane: int = -1
    address: int = 0
    other_pc: int = 0
    notes: dict[str, str] = field(default_factory=dict)


class MachineFault(PyTorchSimError):
    """The simulated machine refused an instruction (see docs/kernel_abi.md, Faults)."""

    def __init__(self, message: str, site: FaultSite) -> None:
        self.site = site
        super().__init__(message)


class Gem5Error(PyTorchSimError):
    """The gem5 that the user names failed; the message has its last lines."""


class Gem5VersionWarning(PyTorchSimWarning):
    """The gem5 that the user names is not of the pinned version."""


class TimingError(PyTorchSimError):
    """The timing simulator cannot play a launch: the trace is not of this machine, its cores wait for each other, or it
    does what the timing model does not know."""


class VerificationError(PyTorchSimError):
    """`options={"verify": True}`: a kernel stored something else than eager computes from the same values.

    `operation` and `node` are those of the FX graph, `index` is that of the first element that differs, `dump` a folder
    with the kernel's artifacts and both tensors.
    """

    def __init__(  # noqa: PLR0913  the facts of the error, all by keyword
        self,
        *,
        kernel: str,
        operation: str,
        node: str,
        index: tuple[int, ...],
        actual: float,
        expected: float,
        differing: int,
        elements: int,
        dump: str,
    ) -> None:
        self.kernel, self.operation, self.node, self.index = kernel, operation, node, index
        self.actual, self.expected, self.dump = actual, expected, dump
        super().__init__(
            f"kernel {kernel!r} computes {operation} (FX node {node}) unlike eager: at {index} it is {actual!r}, eager"
            f" has {expected!r}; {differing} of {elements} elements differ\n  artifacts: {dump}"
        )
