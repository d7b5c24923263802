"""The one reader of environment variables.

In: `PYTORCHSIM_*` variables (or any mapping, for tests). Out: a frozen `Environment` with typed values.
Assumes: read at the point of use, so a variable set after the import still counts; nothing is cached here.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from pytorchsim.config.paths import user_path
from pytorchsim.errors import ConfigError, PyTorchSimWarning

__all__ = ["PREFIX", "VARIABLES", "Environment", "LogLevel", "Variable", "given_variables", "read_environment"]

PREFIX = "PYTORCHSIM_"

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True)
class Environment:
    """What the environment says. One field per variable of `VARIABLES`."""

    cache_dir: Path
    dump_dir: Path | None
    workers: int
    lld: str
    log: LogLevel
    no_cache: bool
    gem5: Path | None


@dataclass(frozen=True)
class Variable:
    """One environment variable: its name, the field it fills, how its text becomes a value, and its default."""

    name: str
    field: str
    parse: Callable[[str], object]
    default: Callable[[], object]
    expects: str
    default_text: str
    description: str


def given_variables() -> dict[str, str]:
    """The variables that are set, as they are: what a process that works for this one has to see."""
    return {name: text for name, text in os.environ.items() if name.startswith(PREFIX)}


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """Read every `PYTORCHSIM_*` variable.

    Args:
        variables: what to read; the process environment by default.

    Returns:
        The typed values. A variable that is unset or empty has its default.

    Raises:
        ConfigError: a value cannot be used; the message names the variable, the value and what is expected.

    An unknown `PYTORCHSIM_*` variable is a warning that suggests the nearest known name.
    """
    source = os.environ if variables is None else variables
    _warn_of_unknown(source)
    values: dict[str, object] = {}
    for variable in VARIABLES:
        text = source.get(variable.name, "").strip()
        if not text:
            values[variable.field] = variable.default()
            continue
        try:
            values[variable.field] = variable.parse(text)
        except ValueError as error:
            reason = f" ({error})" if str(error) else ""
            raise ConfigError(
                f"environment variable {variable.name}={text!r}: expected {variable.expects}{reason}"
            ) from error
    return Environment(**values)  # type: ignore[arg-type]  # a test holds VARIABLES against the fields


def _warn_of_unknown(source: Mapping[str, str]) -> None:
    known = {variable.name.removeprefix(PREFIX): variable.name for variable in VARIABLES}
    for name in sorted(source):
        if not name.startswith(PREFIX) or name in known.values():
            continue
        nearest = difflib.get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=0.5)
        hint = f"; did you mean {known[nearest[0]]}?" if nearest else f"; known: {', '.join(known.values())}"
        warnings.warn(f"unknown environment variable {name}{hint}", PyTorchSimWarning, stacklevel=3)


def _flag(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number


def _directory(text: str) -> Path:
    path = user_path(text).absolute()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is not a directory")
    return path


def _program(text: str) -> Path:
    path = user_path(text).absolute()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise ValueError(f"{path} is not an executable file")
    return path


def _log_level(text: str) -> LogLevel:
    lowered = text.lower()
    if lowered not in get_args(LogLevel):
        raise ValueError
    return cast(LogLevel, lowered)


def _default_cache_dir() -> Path:
    import platformdirs  # only where it is needed: `import pytorchsim` stays light

    return Path(platformdirs.user_cache_dir("pytorchsim"))


def _default_workers() -> int:
    return min(8, len(os.sched_getaffinity(0)))


VARIABLES: tuple[Variable, ...] = (
    Variable(
        f"{PREFIX}CACHE_DIR",
        "cache_dir",
        _directory,
        _default_cache_dir,
        "a directory (it is made when missing)",
        "`pytorchsim` in the user's cache directory",
        "Where compiled kernels and measured latencies are kept. Keyed by content: never stale, safe to delete.",
    ),
    Variable(
        f"{PREFIX}DUMP_DIR",
        "dump_dir",
        _directory,
        lambda: None,
        "a directory (it is made when missing)",
        "no dump",
        "Where every stage of every kernel is written, numbered in pipeline order.",
    ),
    Variable(
        f"{PREFIX}WORKERS",
        "workers",
        _positive,
        _default_workers,
        "a whole number, at least 1",
        "the CPUs this process may use, at most 8",
        "LLVM worker processes.",
    ),
    Variable(
        f"{PREFIX}LLD",
        "lld",
        str,
        lambda: "ld.lld",
        "a program: a path, or a name on PATH",
        "`ld.lld`",
        "The linker (Debian package `lld`).",
    ),
    Variable(
        f"{PREFIX}LOG",
        "log",
        _log_level,
        lambda: "warning",
        f"one of {', '.join(get_args(LogLevel))}",
        "`warning`",
        "Lowest level that the `pytorchsim` logger passes on.",
    ),
    Variable(
        f"{PREFIX}NO_CACHE",
        "no_cache",
        _flag,
        lambda: False,
        "1, true, yes, on or 0, false, no, off",
        "`0`",
        "Compile and measure everything anew; the cache is neither read nor written.",
    ),
    Variable(
        f"{PREFIX}GEM5",
        "gem5",
        _program,
        lambda: None,
        "the path of an executable file",
        "no gem5",
        "An unmodified `gem5` binary, the optional second source of cycles.",
    ),
)
