"""Which products the graphs of this process have, by the tiles that a user prescribes.

In: facts of graphs whose session prescribes tiles, when their modules are loaded, also from a cache. Out: warnings
about entries that no product has taken.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytorchsim.config.tiles import TileChoices, nearest_products
from pytorchsim.errors import TileWarning

__all__ = ["PRESCRIBED_TILES", "backward_compiled", "graph_follows", "note_products", "warn_of_unused_entries"]

PRESCRIBED_TILES = "prescribed_tiles"
"""Section of a graph's facts: each product, its kernel, and the sizes that were prescribed."""

_LOCK = threading.Lock()
_products: dict[str, set[str]] = {}
"""Keys of products by the entries they were compiled with, as JSON. A module of a cache is loaded once per process, so
nothing is ever taken out."""


@dataclass
class _Waiting:
    """What may still have the product that an entry is for."""

    graphs: bool = False
    backwards: int = 0


_waiting: dict[str, _Waiting] = {}


def note_products(options: Mapping[str, Any], facts: Mapping[str, list[Any]]) -> None:
    """A graph compiled with `options` (those of its module) is loaded."""
    if entries := options.get("tiles"):
        with _LOCK:
            known = _products.setdefault(_name(entries), set())
            known.update(fact["product"] for fact in facts.get(PRESCRIBED_TILES, ()))


def graph_follows(tiles: TileChoices, *, more: bool, backward: bool) -> None:
    """A forward graph is about to be compiled; whether another one follows it, and whether it has a backward."""
    with _LOCK:
        waiting = _waiting.setdefault(_name_of(tiles), _Waiting())
        waiting.graphs = more
        waiting.backwards += backward


def backward_compiled(tiles: TileChoices) -> bool:
    """A backward was compiled. Whether it was the last one: behind a graph break they come in the reverse order."""
    with _LOCK:
        waiting = _waiting.setdefault(_name_of(tiles), _Waiting())
        waiting.backwards = max(0, waiting.backwards - 1)
        return not waiting.backwards and not waiting.graphs


def warn_of_unused_entries(tiles: TileChoices) -> None:
    """A `TileWarning` per entry whose sizes no product has that was compiled with these tiles in this process."""
    with _LOCK:
        products = sorted(_products.get(_name_of(tiles), ()))
    for key, _ in tiles.entries:
        if key in products:
            continue
        nearest = ", ".join(map(repr, nearest_products(key, products)))
        known = f"nearest of {len(products)}: {nearest}" if products else "no product of plain matrices was compiled"
        warnings.warn(
            f"option 'tiles': entry {key!r} was not used, because no matrix product has these sizes (\"M_N_K\");"
            f" {known}",
            TileWarning,
            stacklevel=2,
        )


def _name_of(tiles: TileChoices) -> str:
    return _name({key: dict(sizes) for key, sizes in tiles.entries})


def _name(entries: Mapping[str, Any]) -> str:
    return json.dumps(entries, sort_keys=True)
