"""`TileChoices`: who chooses tiles. A user may prescribe sizes for matrix products, by problem size, or have the best
tiles of the search measured.

In: a JSON file or a mapping, `{"M_N_K": {"TILE_M": 256, "TILE_N": 256, "TILE_K": 512}}`; sizes left out are chosen.
Out: a frozen, hashable value that is part of the session. ConfigError names the entry that is wrong.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytorchsim.errors import ConfigError

__all__ = [
    "AUTOTUNE",
    "AUTOTUNED_TILES",
    "HEURISTIC",
    "NO_CHOICES",
    "TILE_NAMES",
    "TileChoices",
    "load_tile_choices",
    "nearest_products",
    "product_key",
]

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
        return dict(self.entries).get(product_key(m, n, k), ())


NO_CHOICES = TileChoices()
"""Nothing is prescribed."""


def product_key(m: int, n: int, k: int) -> str:
    """What an entry for a product of these sizes is called."""
    return f"{m}_{n}_{k}"


def nearest_products(key: str, products: Iterable[str], most: int = 3) -> list[str]:
    """Of the keys `products` those whose sizes are nearest to `key`'s, the same sizes in another order first."""
    wanted = _sizes(key)

    def distance(product: str) -> tuple[bool, float, str]:
        sizes = _sizes(product)
        ratios = sum(abs(math.log(one / two)) for one, two in zip(sizes, wanted, strict=True))
        return sorted(sizes) != sorted(wanted), ratios, product

    return sorted(dict.fromkeys(products), key=distance)[:most]


def _sizes(key: str) -> list[int]:
    return [int(part) for part in key.split("_")]


def load_tile_choices(source: str | os.PathLike[str] | Mapping[str, Any]) -> TileChoices:
    """The choices in a file or a mapping. ConfigError: not readable, not of this form."""
    if isinstance(source, Mapping):
        return _choices(source, "option 'tiles'")
    origin = f"tile file {os.fspath(source)!r}"
    try:
        content = json.loads(Path(source).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{origin}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f'{origin} is a mapping from "M_N_K" to sizes, not {type(content).__name__}')
    return _choices(content, origin)


def _choices(content: Mapping[Any, Any], origin: str) -> TileChoices:
    entries = []
    for key, sizes in content.items():
        where = f"{origin}, entry {key!r}"
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ConfigError(f'{where}: a key is "M_N_K", the sizes of a product')
        if not isinstance(sizes, Mapping) or not sizes:
            raise ConfigError(f"{where}: a mapping with {', '.join(TILE_NAMES)}")
        for name, size in sizes.items():
            if name not in TILE_NAMES:
                nearest = difflib.get_close_matches(str(name).upper(), TILE_NAMES, n=1, cutoff=0.6)
                hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
                raise ConfigError(f"{where}: unknown size {name!r}; known: {', '.join(TILE_NAMES)}.{hint}")
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ConfigError(f"{where}: {name} is a positive whole number, not {size!r}")
        entries.append((key, tuple(sorted(sizes.items()))))
    return TileChoices(tuple(sorted(entries)))
