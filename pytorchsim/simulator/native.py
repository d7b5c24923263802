"""Loads the C++ extension `pytorchsim._native`, or says what is missing.

The extension needs `libriscv.so` of the package `spike`, which it looks for next to itself: both packages must lie in
one environment.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pytorchsim.errors import SetupError

__all__ = ["_native", "spike_library"]


def spike_library() -> Path:
    """The path of `libriscv.so`.

    Raises:
        SetupError: the package `spike` is not installed.
    """
    spec = importlib.util.find_spec("riscv")
    path = Path(spec.origin).parent / "data" / "lib" / "libriscv.so" if spec is not None and spec.origin else None
    if path is None or not path.exists():
        raise SetupError(
            "the simulator's processor model is missing: install the package 'spike' of the version that pyproject.toml"
            " names into this environment"
        )
    return path


_LIBRARY = spike_library()

try:
    from pytorchsim import _native
except ImportError as error:
    raise SetupError(
        f"the extension pytorchsim._native cannot be loaded: {error}. It is built when pytorchsim is installed, and"
        f" needs {_LIBRARY.name} of the same environment: install pytorchsim and 'spike' into one environment."
    ) from error
