"""Random chains of views and of the operations that move elements, for property tests against eager.

A chain starts from one tensor; every step is valid for the shape that it meets. Values are all different, so that an
element in the wrong place shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

__all__ = ["Chain", "chains"]

_MOST_ELEMENTS = 1500
_MOST_AXES = 6

Step = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Chain:
    """`shape` of the start; `steps` as text and as functions."""

    shape: tuple[int, ...]
    steps: tuple[tuple[str, Step], ...]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The chain's result."""
        for _, step in self.steps:
            x = step(x)
        return x

    def __repr__(self) -> str:
        return f"Chain({self.shape}: {', '.join(text for text, _ in self.steps)})"

    def start(self) -> torch.Tensor:
        """The tensor that the chain starts from."""
        return torch.arange(1.0, math.prod(self.shape) + 1).reshape(self.shape)


def _split(draw: st.DrawFn, count: int) -> list[int]:
    """`count` as a product of up to three factors."""
    factors = []
    for _ in range(draw(st.integers(0, 2))):
        factor = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
        factors.append(factor)
        count //= factor
    return [*factors, count]


def _reshape(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    whole = draw(st.booleans())
    sizes = _split(draw, math.prod(shape)) if whole or not shape else _split_one(draw, shape)
    return f"reshape{tuple(sizes)}", lambda x: x.reshape(sizes)


def _split_one(draw: st.DrawFn, shape: tuple[int, ...]) -> list[int]:
    axis = draw(st.integers(0, len(shape) - 1))
    return [*shape[:axis], *_split(draw, shape[axis]), *shape[axis + 1 :]]


def _permute(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    order = draw(st.permutations(range(len(shape))))
    return f"permute{tuple(order)}", lambda x: x.permute(order)


def _slice(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    axis = draw(st.integers(0, len(shape) - 1))
    start = draw(st.integers(0, shape[axis] - 1))
    stop, step = draw(st.integers(start + 1, shape[axis])), draw(st.integers(1, 3))
    index = (slice(None),) * axis + (slice(start, stop, step),)
    return f"[{axis}: {start}:{stop}:{step}]", lambda x: x[index]


def _flip(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=2, unique=True))
    return f"flip{tuple(axes)}", lambda x: x.flip(axes)


def _expand(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    axis, count = draw(st.integers(0, len(shape))), draw(st.integers(2, 3))
    sizes = [*shape[:axis], count, *shape[axis:]]
    return f"unsqueeze({axis}).expand({count})", lambda x: x.unsqueeze(axis).expand(sizes)


def _roll(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    axis = draw(st.integers(0, len(shape) - 1))
    shift = draw(st.integers(-2 * shape[axis], 2 * shape[axis]))
    return f"roll({shift}, {axis})", lambda x: x.roll(shift, axis)


def _pad(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    before, after = draw(st.integers(-1 if shape[-1] > 2 else 0, 3)), draw(st.integers(0, 3))
    value = draw(st.sampled_from([0.0, -7.5]))
    text = f"pad({before}, {after}, {value})"
    return text, lambda x: torch.nn.functional.pad(x, (before, after), value=value)


def _compute(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Step]:
    del draw, shape
    return "* 2 + 1", lambda x: x * 2 + 1


_STEPS = (_reshape, _reshape, _permute, _permute, _slice, _flip, _expand, _roll, _pad, _compute)


@st.composite
def chains(draw: st.DrawFn, longest: int = 6) -> Chain:
    """Chains of 1 to `longest` steps."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=3)))
    steps: list[tuple[str, Step]] = []
    probe = torch.zeros(shape)
    for _ in range(draw(st.integers(1, longest))):
        make = draw(st.sampled_from(_STEPS))
        if not probe.dim() and make not in (_reshape, _compute):
            continue
        step = make(draw, tuple(probe.shape))
        moved = step[1](probe)
        if 0 < moved.numel() <= _MOST_ELEMENTS and moved.dim() <= _MOST_AXES:
            steps.append(step)
            probe = moved
    return Chain(shape, tuple(steps))
