"""Which transfers of a tile wait for which indices: gathered loads and scattered stores in phases.

In: a program and a tile. Out: `Phase`s. Phase 0 loads what needs no index. Before each later phase tile functions
compute index tiles from what has arrived; then the loads that use them start. An index tensor of i32 or i64 that is
gathered by as it is (`direct`) is loaded straight into its index tile, in a layout of its own. A scattered store needs
its indices by the time of the last phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.loop_program import Access, Gather, LoopProgram, direct_load, needed_operations
from pytorchsim.templates.stages import Stage

__all__ = [
    "IndexForm",
    "IndexTileKey",
    "Phase",
    "TransferPlan",
    "check_indices",
    "direct_axes",
    "index_tile_of",
    "plan_transfers",
]


class IndexForm(Enum):
    """How an index tile lies in the scratchpad."""

    DIRECT = "direct"
    """The axes that the index tensor varies over, dense."""
    ROW = "row"
    """As a row-level buffer."""
    FULL = "full"
    """As a buffer with an element per point."""


@dataclass(frozen=True)
class IndexTileKey:
    """The index tile with the values of operation `value`. `of_row`: for accesses at the row level of streamed rows,
    which are loaded once per row."""

    value: int
    form: IndexForm
    of_row: bool = False


@dataclass(frozen=True)
class Phase:
    """`computed`: index tiles that tile functions fill first; `indices`: index tiles to load; `loads`: data to load."""

    computed: tuple[IndexTileKey, ...] = ()
    indices: tuple[IndexTileKey, ...] = ()
    loads: tuple[Access, ...] = ()


@dataclass(frozen=True)
class TransferPlan:
    """The phases of the row level of streamed rows (else none), and of each walk over tiles: one for each stage of
    streamed rows, else one in all."""

    rows: tuple[Phase, ...]
    walks: tuple[tuple[Phase, ...], ...]

    @property
    def loads(self) -> tuple[Access, ...]:
        """Every load, in order of first use."""
        return tuple(dict.fromkeys(access for phase in self._phases() for access in phase.loads))

    @property
    def index_tiles(self) -> tuple[IndexTileKey, ...]:
        """Every index tile, in order of first use."""
        return tuple(dict.fromkeys(key for phase in self._phases() for key in (*phase.indices, *phase.computed)))

    def _phases(self) -> Iterator[Phase]:
        yield from self.rows
        for walk in self.walks:
            yield from walk


def direct_axes(access: Access) -> tuple[int, ...]:
    """The axes that a directly loaded index tile runs over."""
    walked = [access.index, *(guard.position for guard in access.guards)]
    return tuple(axis for axis in range(len(access.index.strides)) if any(index.strides[axis] for index in walked))


def index_tile_of(
    program: LoopProgram, access: Access, gather: Gather, *, rows_inner: bool, streams: bool
) -> IndexTileKey:
    """The index tile that `access` gathers by."""
    row_level = program.is_row_level(access)
    if direct_load(program, gather.value) is not None:
        form = IndexForm.DIRECT
    elif row_level:
        form = IndexForm.ROW
    else:
        # A row-level buffer repeats each value along the vector unless rows are inner; streamed rows keep one copy.
        shared = program.row_values[gather.value] and rows_inner and not streams
        form = IndexForm.ROW if shared else IndexForm.FULL
    return IndexTileKey(gather.value, form, row_level and streams)


def check_indices(program: LoopProgram) -> None:
    """UnsupportedError: an index depends on a reduction or a scan of the same kernel."""
    for access in program.accesses():
        for number in needed_operations(program, [gather.value for gather in access.gathers]):
            if program.operations[number].reduction is not None or number in program.scans:
                raise UnsupportedError(
                    f"an index into {access.buffer} depends on a reduction or a scan of the same kernel"
                )


@lru_cache(maxsize=64)
def plan_transfers(program: LoopProgram, stages: tuple[Stage, ...], *, rows_inner: bool, streams: bool) -> TransferPlan:
    """What is loaded when. UnsupportedError: an index depends on a reduction of the same kernel."""
    check_indices(program)
    planner = _Planner(program, rows_inner, streams)
    if not streams:
        numbers = [n for stage in stages for n in (*stage.row_operations, *stage.walk_operations)]
        stores = [store.access for store in program.stores]
        return TransferPlan((), (planner.phases(_loads(program, numbers), stores),))
    walks = [
        planner.phases(
            _loads(program, stage.walk_operations), [program.stores[number].access for number in stage.walk_stores]
        )
        for stage in stages
    ]
    rows = _loads(program, [number for stage in stages for number in stage.row_operations])
    rows += [access for walk in walks for phase in walk for access in phase.loads if program.is_row_level(access)]
    row_stores = [program.stores[number].access for stage in stages for number in stage.row_stores]
    row_phases = planner.phases(list(dict.fromkeys(rows)), row_stores)
    return TransferPlan(row_phases, tuple(_without_rows(program, walk) for walk in walks))


def _loads(program: LoopProgram, numbers: Iterable[int]) -> list[Access]:
    accesses = (program.operations[number].access for number in sorted(set(numbers)))
    return list(dict.fromkeys(access for access in accesses if access is not None))


def _without_rows(program: LoopProgram, phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """The phases of a walk, without what is loaded once per row."""
    return tuple(
        Phase(
            tuple(key for key in phase.computed if not key.of_row),
            tuple(key for key in phase.indices if not key.of_row),
            tuple(access for access in phase.loads if not program.is_row_level(access)),
        )
        for phase in phases
    )


@dataclass(frozen=True)
class _Planner:
    program: LoopProgram
    rows_inner: bool
    streams: bool

    def phases(self, loads: Sequence[Access], stores: Sequence[Access]) -> tuple[Phase, ...]:
        """The phases of tiles that load `loads` and store to `stores`; the first one has nothing computed."""
        wanted: dict[Access, int] = {}
        for access in loads:
            self._enter(access, wanted)
        scattered = [self._ready(gather, wanted) for access in stores for gather in access.gathers]
        last = max([*wanted.values(), *scattered], default=0)
        tiles: list[dict[IndexTileKey, None]] = [{} for _ in range(last + 1)]
        done: set[IndexTileKey] = set()
        for access, phase in sorted([*wanted.items(), *((access, last) for access in stores)], key=lambda e: e[1]):
            for gather in access.gathers:
                key = index_tile_of(self.program, access, gather, rows_inner=self.rows_inner, streams=self.streams)
                if key not in done:
                    tiles[0 if key.form is IndexForm.DIRECT else phase][key] = None
                    done.add(key)
        return tuple(
            Phase(
                tuple(key for key in keys if key.form is not IndexForm.DIRECT),
                tuple(key for key in keys if key.form is IndexForm.DIRECT),
                tuple(access for access, phase in wanted.items() if phase == number),
            )
            for number, keys in enumerate(tiles)
        )

    def _enter(self, access: Access, wanted: dict[Access, int]) -> int:
        """The phase that loads `access`; it and all that it needs are in `wanted` afterwards."""
        if access not in wanted:
            wanted[access] = max((self._ready(gather, wanted) for gather in access.gathers), default=0)
        return wanted[access]

    def _ready(self, gather: Gather, wanted: dict[Access, int]) -> int:
        """The phase before which the index tile of `gather` is there."""
        if direct_load(self.program, gather.value) is not None:
            return 1
        used = [self.program.operations[number] for number in needed_operations(self.program, [gather.value])]
        return 1 + max(
            (self._enter(operation.access, wanted) for operation in used if operation.access is not None), default=0
        )
