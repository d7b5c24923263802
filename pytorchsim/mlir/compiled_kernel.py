"""A compiled kernel as a value: its objects, and whether and where its buffers fit a lane's scratchpad slice.

In: what the compiler made of one kernel module. Out: addresses of its buffers, SpadOverflowError when they do not fit.
Kernels of a graph run one after another, so each has the whole slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import SpadOverflowError
from pytorchsim.target.memory_map import SCRATCHPAD_BASE

__all__ = ["BufferLayout", "CompiledKernel", "check_budget", "place_buffers"]


@dataclass(frozen=True)
class BufferLayout:
    """A scratchpad buffer as declared. `bytes`: per lane, all copies together."""

    symbol: str
    bytes: int
    copies: int
    alignment: int


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel's objects, and what linking, loading and the budget need to know.

    objects: function -> object file; the control function (named as the kernel) first.
    tile_digests: tile function -> digest of its code, independent of names.
    frame_bytes: function -> bytes of stack frame. ir_digest: of the module's text.
    slots: number of argument slots the descriptors name. seconds: wall time by stage.
    """

    name: str
    objects: Mapping[str, bytes]
    buffers: tuple[BufferLayout, ...]
    tile_digests: Mapping[str, str]
    frame_bytes: Mapping[str, int]
    ir_digest: str
    vlen_bits: int
    slots: int
    origins: tuple[str, ...] = ()
    tile_shape: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def buffer_bytes(self) -> int:
        """Bytes per lane of all buffers, all copies, with the gaps that alignment leaves."""
        return max((end for _, end in place_buffers(self.buffers).values()), default=SCRATCHPAD_BASE) - SCRATCHPAD_BASE

    @property
    def stack_bytes(self) -> int:
        """Deepest stack: the control function's frame and the largest tile function's."""
        tiles = [size for function, size in self.frame_bytes.items() if function != self.name]
        return self.frame_bytes[self.name] + max(tiles, default=0)

    @property
    def tile_functions(self) -> tuple[str, ...]:
        """Names of the tile functions, in the module's order."""
        return tuple(function for function in self.objects if function != self.name)


def place_buffers(buffers: Sequence[BufferLayout]) -> dict[str, tuple[int, int]]:
    """symbol -> (first address, address behind its last byte), in order from the start of the scratchpad window."""
    places, address = {}, SCRATCHPAD_BASE
    for buffer in buffers:
        start = -(-address // buffer.alignment) * buffer.alignment
        address = start + buffer.bytes
        places[buffer.symbol] = (start, address)
    return places


def check_budget(kernel: CompiledKernel, config: NpuConfig) -> None:
    """Raise SpadOverflowError unless the kernel fits a lane's slice.

    All buffers and the stack reserve fit the slice; the stack frames fit the reserve; and what one tile needs, each
    buffer once plus the stack frames, fits half a slice, because the other half belongs to the next tile.
    """
    core = config.core
    whole = {buffer.symbol: buffer.bytes for buffer in kernel.buffers}
    once = {buffer.symbol: buffer.bytes // buffer.copies for buffer in kernel.buffers}
    slice_bytes, reserve = core.scratchpad_bytes_per_lane, core.stack_reserve_bytes
    frames = {f"frame of {function}": size for function, size in kernel.frame_bytes.items()}
    one_tile = {**once, "stack frames": kernel.stack_bytes}
    checks = (
        ("scratchpad_bytes_per_lane", kernel.buffer_bytes + reserve, slice_bytes, {**whole, "stack reserve": reserve}),
        ("stack_reserve_bytes", kernel.stack_bytes, reserve, frames),
        ("scratchpad_bytes_per_lane", sum(once.values()) + kernel.stack_bytes, slice_bytes // 2, one_tile),
    )
    for limit, used_bytes, budget_bytes, shares in checks:
        if used_bytes > budget_bytes:
            raise SpadOverflowError(
                kernel=kernel.name,
                origins=kernel.origins,
                tile=dict(kernel.tile_shape),
                used_bytes=used_bytes,
                budget_bytes=budget_bytes,
                shares=shares,
                limit=limit,
                one_tile=shares is one_tile,
            )
