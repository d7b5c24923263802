"""`parse_options`: what a user gave to `torch.compile(..., options=..., mode=...)` becomes a `Session`.

In: the options mapping and torch.compile's own `mode`. Out: a frozen `Session`.
Assumes: nothing is coerced; an unknown option is an error that suggests the nearest known one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any, cast, get_args

from pytorchsim.config import DEFAULT_PRESET, load_config
from pytorchsim.config.session import DEFAULT_MODE, Mode, Session
from pytorchsim.config.tiles import AUTOTUNE, AUTOTUNED_TILES, HEURISTIC, NO_CHOICES, TileChoices, load_tile_choices
from pytorchsim.errors import ConfigError

__all__ = ["OPTION_NAMES", "parse_options"]

OPTION_NAMES = ("config", "mode", "strict", "tiles", "verify")


def parse_options(options: Mapping[str, Any] | None = None, mode: str | None = None) -> Session:
    """Validate the arguments of `torch.compile`.

    Args:
        options: `config` (a preset's name, a path, a mapping or an `NpuConfig`; default `tpuv3`), `strict` (bool,
            default False), `mode` (`functional+timing`, the default, `functional` or `timing`), `tiles` (`heuristic`,
            the default, `autotune` or `autotune:N`, which measures the 4 or N best tiles of each kernel, a mapping or
            the path of a JSON file with tile sizes: `pytorchsim.config.tiles`), `verify` (bool, default False: compare
            each kernel's results with eager's).
        mode: torch.compile's own argument, which names tuning presets of Inductor.

    Raises:
        ConfigError: an unknown option, a value of another type, or a torch.compile `mode` other than the default.
    """
    if mode not in (None, "default"):
        raise ConfigError(
            f"torch.compile(mode={mode!r}) selects a tuning preset of Inductor, which has no meaning for the NPU."
            f" Leave it out; how a graph runs is options={{'mode': ...}} with one of {_quoted(get_args(Mode))}."
        )
    given = {} if options is None else options
    if not isinstance(given, Mapping):
        raise ConfigError(f"options is a mapping, not {type(given).__name__}: {given!r}")
    for name in given:
        if name not in OPTION_NAMES:
            raise ConfigError(f"unknown option {name!r}.{_suggest(name, OPTION_NAMES)}")
    session = Session(
        config=load_config(given.get("config", DEFAULT_PRESET)),
        mode=_mode(given.get("mode", DEFAULT_MODE)),
        strict=_flag("strict", given.get("strict", False)),
        tiles=_tiles(given.get("tiles", HEURISTIC)),
        verify=_flag("verify", given.get("verify", False)),
    )
    if session.verify and session.mode == "timing":
        raise ConfigError("option 'verify': in mode 'timing' no results are computed, so there is nothing to compare")
    return session


def _mode(value: object) -> Mode:
    if value not in get_args(Mode):
        raise ConfigError(f"option 'mode': {value!r} is unknown.{_suggest(value, get_args(Mode))}")
    return cast(Mode, value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"option {name!r} is True or False, not {value!r}")
    return value


def _tiles(value: object) -> TileChoices:
    if isinstance(value, str) and value == HEURISTIC:
        return NO_CHOICES
    if isinstance(value, Mapping):
        return load_tile_choices(value)
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(
            f"option 'tiles' is {HEURISTIC!r}, '{AUTOTUNE}', '{AUTOTUNE}:N', the path of a JSON file or a mapping, not"
            f" {value!r}"
        )
    word, colon, count = str(value).partition(":")
    if word == AUTOTUNE:
        if colon and not (count.isascii() and count.isdigit() and int(count) > 1):
            raise ConfigError(f"option 'tiles': {value!r} measures how many tiles? N in '{AUTOTUNE}:N' is 2 or more")
        return TileChoices(measured=int(count) if colon else AUTOTUNED_TILES)
    if isinstance(value, str) and not value.endswith(".json") and os.sep not in value and not os.path.exists(value):
        suggestion = _suggest(word, (HEURISTIC, AUTOTUNE))
        raise ConfigError(f"option 'tiles': {value!r} is neither a known word nor a file.{suggestion}")
    return load_tile_choices(value)


def _suggest(given: object, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(given, known, n=1, cutoff=0.5) if isinstance(given, str) else []
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"{hint} Known: {_quoted(known)}."


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)
