"""Scratchpad that a kernel's buffers take: one table, from which a search decides what fits and a template declares its
buffers.

In: the buffers of a candidate. Out: bytes per lane. Rules of the budget: all copies of all buffers and the stack fit
into a slice; what one step needs (each buffer once) fits into half of one, since the other half is being filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import SpadOverflowError
from pytorchsim.target.dtypes import Dtype

__all__ = ["BUFFER_GRANULE_BYTES", "BufferNeed", "TemplateFootprint", "footprint_of"]

BUFFER_GRANULE_BYTES = 64
"""Copies of a buffer start at multiples of this."""


@dataclass(frozen=True)
class BufferNeed:
    """`elements` of `dtype` per lane and copy. `once`: copies that one step of the computation needs at a time."""

    elements: int
    dtype: Dtype
    copies: int
    once: int = 1

    @property
    def bytes_per_copy(self) -> int:
        """Rounded up to the granule."""
        return -(-self.elements * self.dtype.bytes // BUFFER_GRANULE_BYTES) * BUFFER_GRANULE_BYTES


@dataclass(frozen=True)
class TemplateFootprint:
    """Bytes per lane. `shares`: by buffer with all copies, the stack among them; `once`: of one step."""

    shares: Mapping[str, int]
    once: Mapping[str, int]
    slice_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything."""
        return sum(self.shares.values())

    @property
    def step_bytes(self) -> int:
        """What one step needs."""
        return sum(self.once.values())

    @property
    def refusal(self) -> str:
        """Why it does not fit; empty where it does."""
        if self.total_bytes > self.slice_bytes:
            return "all copies exceed the slice"
        if self.step_bytes > self.slice_bytes // 2:
            return "one step exceeds half the slice"
        return ""

    def overflow(self, kernel: str, origins: tuple[str, ...], tile: Mapping[str, int]) -> SpadOverflowError:
        """The error of a kernel whose smallest tile is this one: which of the rules it breaks, with its numbers."""
        whole = self.total_bytes > self.slice_bytes
        shares = self.shares if whole else self.once
        return SpadOverflowError(
            kernel=kernel,
            origins=origins,
            tile=dict(tile),
            used_bytes=sum(shares.values()),
            budget_bytes=self.slice_bytes if whole else self.slice_bytes // 2,
            shares=dict(shares),
            smallest=dict(tile),
            one_tile=not whole,
        )


def footprint_of(buffers: Mapping[str, BufferNeed], config: NpuConfig) -> TemplateFootprint:
    """What `buffers` take on this machine."""
    stack = config.core.stack_reserve_bytes
    shares = {name: need.copies * need.bytes_per_copy for name, need in buffers.items()}
    once = {name: need.once * need.bytes_per_copy for name, need in buffers.items()}
    return TemplateFootprint(
        MappingProxyType(shares | {"stack": stack}),
        MappingProxyType(once | {"stack": stack}),
        config.core.scratchpad_bytes_per_lane,
    )
