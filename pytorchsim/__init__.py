"""PyTorchSim: a `torch.compile` backend that runs models on a simulated RISC-V vector-lane NPU and times them.

    model = torch.compile(model, backend="pytorchsim")
    y = model(x)
    print(pytorchsim.report())

The package stays light: importing it loads neither the compiler nor the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytorchsim import errors
from pytorchsim.errors import (
    CompileError,
    ConfigError,
    HostOpError,
    HostOpWarning,
    MachineFault,
    PyTorchSimError,
    PyTorchSimWarning,
    RecompileLimitError,
    RecompileLimitWarning,
    ReportError,
    SetupError,
    SpadOverflowError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import torch

    from pytorchsim.config import NpuConfig, load_config, preset_names
    from pytorchsim.report import report_of_this_thread as report

__all__ = [
    "CompileError",
    "ConfigError",
    "HostOpError",
    "HostOpWarning",
    "MachineFault",
    "NpuConfig",
    "PyTorchSimError",
    "PyTorchSimWarning",
    "RecompileLimitError",
    "RecompileLimitWarning",
    "ReportError",
    "SetupError",
    "SpadOverflowError",
    "UnsupportedError",
    "__version__",
    "errors",
    "load_config",
    "preset_names",
    "pytorchsim_backend",
    "report",
]

__version__ = "0.1.0"

_FROM_CONFIG = ("NpuConfig", "load_config", "preset_names")


def pytorchsim_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend of `torch.compile(model, backend="pytorchsim", options={...})`.

    Args:
        gm: an FX graph of Dynamo.
        example_inputs: its inputs, on the CPU.
        options: `config`: a preset's name (`preset_names()`), a YAML file, a mapping or an `NpuConfig`, default
            `tpuv3`; `strict`: whether an operation that would run on the host is an error, default False;
            `mode`: `functional+timing` (default), `functional` or `timing`.
        mode: torch.compile's own argument, not supported.

    Returns:
        A callable with the graph's inputs and outputs, CPU tensors all.

    Raises:
        PyTorchSimError: the class says what failed, see `pytorchsim.errors`.
    """
    from pytorchsim.frontend.backend import compile_graph

    return compile_graph(gm, example_inputs, options=options, mode=mode)


def __getattr__(name: str) -> Any:
    # Loaded at first use: the config's validation library takes longer to import than this whole package.
    if name in _FROM_CONFIG:
        return getattr(import_module("pytorchsim.config"), name)
    if name == "report":
        return import_module("pytorchsim.report")  # a callable module: `report` is a folder and a function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
