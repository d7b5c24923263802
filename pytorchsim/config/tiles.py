"""`TileChoices`: who chooses tiles. A user may prescribe sizes for matrix products, by problem size, or have the best
tiles of the search measured.

In: a JSON file, `{"M_N_K": {"TILE_M": 256, "TILE_N": 256, "TILE_K": 512}}`; sizes left out are chosen. Out: a frozen,
hashable value that is part of the session. ConfigError names the entry that is wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from pytorchsim.errors import ConfigError

__all__ = ["AUTOTUNE", "AUTOTUNED_TILES", "HEURISTIC", "NO_CHOICES", "TILE_NAMES", "TileChoices", "load_tile_choices"]

HEURISTIC = "heuristic"
"""The option's value where no file prescribes anything."""

AUTOTUNE = "autotune"
"""The option's value, also with `:N`, where the N best tiles of each kernel are measured."""

AUTOTUNED_TILES = 4
"""How many are measured where the option does not say."""

TILE_NAMES = ("TILE_M", "TILE_N", "TILE_K")

_KEY = re.compile(r"[1-9][0-9]*_[1-9][0-9]*_[1-9][0-9]*")


@dataclass(frozen=True)
class TileChoices:
    """Entries sorted by key; each a problem size and its tile sizes. `measured`: of how many of the best tiles of a
    kernel the cycles are measured; 1: the estimate decides."""

    entries: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    measured: int = 1

    def of(self, m: int, n: int, k: int) -> tuple[tuple[str, int], ...]:
        """The sizes prescribed for a product, or none."""
        return dict(self.entries).get(f"{m}_{n}_{k}", ())


NO_CHOICES = TileChoices()
"""Nothing is prescribed."""


def load_tile_choices(path: str | Path) -> TileChoices:
    """The choices in a file. ConfigError: not readable, not of this form."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"tile file {str(path)!r}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f'tile file {str(path)!r} is a mapping from "M_N_K" to sizes, not {type(content).__name__}')
    entries = []
    for key, sizes in sorted(content.items()):
        where = f"tile file {str(path)!r}, entry {key!r}"
        if not _KEY.fullmatch(key):
            raise ConfigError(f'{where}: a key is "M_N_K", the sizes of a product')
        if not isinstance(sizes, dict) or not sizes:
            raise ConfigError(f"{where}: a mapping with {', '.join(TILE_NAMES)}")
        for name, size in sizes.items():
            if name not in TILE_NAMES:
                raise ConfigError(f"{where}: unknown size {name!r}; known: {', '.join(TILE_NAMES)}")
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ConfigError(f"{where}: {name} is a positive whole number, not {size!r}")
        entries.append((key, tuple(sorted(sizes.items()))))
    return TileChoices(tuple(entries))
