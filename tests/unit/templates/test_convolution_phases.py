"""Do the parts in which an image's gradient is computed make up the image, each with the taps that reach it?"""

from __future__ import annotations

import itertools
import random
from collections import Counter

from pytorchsim.templates.convolution_phases import Phases, Strided, phase_parts


def positions(dimension: Strided, phases: Phases | None) -> list[int]:
    """By the definition of a position."""
    if phases is None:
        return list(range(dimension.inputs))
    found = []
    for u, v, q in itertools.product(range(phases.count), range(phases.offsets), range(phases.length)):
        shift = dimension.dilation * (phases.first + u) + phases.offset + v
        found.append(shift + dimension.stride * (phases.begin + q) - dimension.padding)
    return [position for position in found if 0 <= position < dimension.inputs]


def reaching(dimension: Strided, position: int) -> int:
    """Taps of any output, inside or outside of the result, that lie at `position`."""
    return sum(
        (position + dimension.padding - tap * dimension.dilation) % dimension.stride == 0
        for tap in range(dimension.kernel)
    )


def test_each_position_is_in_one_part_with_its_taps() -> None:
    generator = random.Random(4)
    for _ in range(1000):
        dimensions = [
            Strided(*(generator.randint(low, high) for low, high in ((1, 8), (1, 5), (1, 6), (0, 3), (1, 6))))
            for _ in range(generator.choice([1, 2]))
        ]
        seen: Counter[tuple[int, ...]] = Counter()
        for part in phase_parts(dimensions):
            pairs = list(zip(dimensions, part, strict=True))
            reached = all(phases is not None and phases.taps for phases in part)
            for point in itertools.product(*(positions(dimension, phases) for dimension, phases in pairs)):
                seen[point] += 1
                taps = [reaching(dimension, at) for dimension, at in zip(dimensions, point, strict=True)]
                assert reached == (0 not in taps)
                assert not reached or taps == [phases.taps for phases in part if phases is not None]
        assert seen == Counter(itertools.product(*(range(dimension.inputs) for dimension in dimensions)))


def test_at_most_two_numbers_of_taps_per_dimension() -> None:
    """At most two numbers of taps per dimension, whatever the stride; one where the stride divides the kernel."""
    assert len(phase_parts([Strided(224, 16, 16, 0, 1)] * 2)) == 1
    assert len(phase_parts([Strided(56, 3, 2, 1, 1)] * 2)) == 4
    assert len(phase_parts([Strided(56, 7, 4, 3, 1)] * 3)) == 8
    # 1 x 1 with stride 2: the positions of the tap, rows between them, and what is left of the rows.
    assert len(phase_parts([Strided(56, 1, 2, 0, 1)] * 2)) == 3
