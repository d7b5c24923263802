"""Do pools give eager's values, indices and gradients, for every window, layout and type that eager has?

One table: name, pool, shape of the input. Each group of cases is one compiled graph, forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch.nn import functional

import pytorchsim

Pool = Callable[[torch.Tensor], Any]
CheckCases = Callable[..., None]


@dataclass(frozen=True)
class PoolCase:
    """A pool and the shape that it is given."""

    name: str
    pool: Pool
    shape: tuple[int, ...]


def _case(function: Callable[..., Any], shape: Sequence[int], *args: Any, **kwargs: Any) -> PoolCase:
    named = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in kwargs.items())])
    name = f"{function.__name__}({tuple(shape)}, {named})"
    return PoolCase(name, lambda x: function(x, *args, **kwargs), tuple(shape))


def _max1d(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return functional.max_pool1d(x, *args, return_indices=True, **kwargs)


def _max2d(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return functional.max_pool2d(x, *args, return_indices=True, **kwargs)


def _max3d(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return functional.max_pool3d(x, *args, return_indices=True, **kwargs)


def _adaptive_max1d(x: torch.Tensor, size: Any) -> Any:
    return functional.adaptive_max_pool1d(x, size, return_indices=True)


def _adaptive_max2d(x: torch.Tensor, size: Any) -> Any:
    return functional.adaptive_max_pool2d(x, size, return_indices=True)


def _adaptive_max3d(x: torch.Tensor, size: Any) -> Any:
    return functional.adaptive_max_pool3d(x, size, return_indices=True)


GROUPS: dict[str, list[PoolCase]] = {
    "max": [
        _case(_max2d, (2, 5, 12, 14), 3, 2, 1),
        _case(functional.max_pool2d, (2, 5, 12, 14), 2),
        _case(_max2d, (3, 9, 8), (2, 3), (3, 1), (1, 0)),
        _case(_max1d, (2, 3, 16), 4, 2, 1),
    ],
    "max of odd sizes": [
        _case(_max2d, (1, 3, 13, 15), 3, 2, 1, ceil_mode=True),
        _case(_max2d, (1, 3, 11, 7), 2, 2, 0, ceil_mode=True),
        _case(_max1d, (3, 17), 3, 3, 1, dilation=2, ceil_mode=True),
    ],
    "dilated max": [
        _case(_max2d, (1, 3, 14, 14), 3, 2, 1, dilation=2),
        _case(_max2d, (2, 2, 10, 9), (2, 3), 1, (1, 1), dilation=(3, 2)),
    ],
    "large windows": [
        _case(_max2d, (1, 3, 14, 14), 6, 2, 3),
        _case(functional.avg_pool2d, (1, 3, 14, 14), (7, 6), 3, 3),
        _case(_max2d, (2, 3, 8, 9), (8, 9)),
    ],
    "max of volumes": [
        _case(_max3d, (1, 3, 4, 6, 8), 2),
        _case(_max3d, (2, 5, 6, 6), (2, 3, 2), (1, 2, 2), (1, 1, 0)),
    ],
    "average": [
        _case(functional.avg_pool2d, (2, 5, 12, 14), 3, 2, 1),
        _case(functional.avg_pool2d, (2, 5, 12, 14), 3, 2, 1, count_include_pad=False),
        _case(functional.avg_pool2d, (1, 2, 13, 9), (3, 2), 2, 1, ceil_mode=True),
        _case(functional.avg_pool2d, (1, 2, 13, 9), 3, 2, 1, ceil_mode=True, count_include_pad=False),
        _case(functional.avg_pool2d, (1, 2, 8, 8), 2, divisor_override=3),
        _case(functional.avg_pool1d, (2, 3, 17), 3, 2, 1),
        _case(functional.avg_pool1d, (2, 3, 17), 4, 3, 2, ceil_mode=True, count_include_pad=False),
    ],
    "average of volumes": [
        _case(functional.avg_pool3d, (1, 2, 4, 6, 8), 2),
        _case(functional.avg_pool3d, (2, 5, 7, 6), (3, 2, 3), 2, 1, ceil_mode=True, count_include_pad=False),
        _case(functional.avg_pool3d, (2, 4, 6, 6), 3, 2, 1, divisor_override=5),
    ],
    "adaptive average": [
        _case(functional.adaptive_avg_pool2d, (2, 2, 7, 8), (3, 5)),
        _case(functional.adaptive_avg_pool2d, (2, 3, 8, 12), (4, 3)),
        _case(functional.adaptive_avg_pool2d, (2, 3, 3, 4), (5, 7)),
        _case(functional.adaptive_avg_pool2d, (2, 8, 7, 7), 1),
        _case(functional.adaptive_avg_pool1d, (2, 3, 10), 4),
        _case(functional.adaptive_avg_pool3d, (2, 4, 3, 5), (2, 3, 2)),
        _case(functional.adaptive_avg_pool3d, (1, 2, 4, 4, 4), 1),
    ],
    "adaptive max": [
        _case(_adaptive_max2d, (2, 2, 7, 8), (3, 5)),
        _case(_adaptive_max2d, (2, 3, 8, 12), (4, 3)),
        _case(_adaptive_max2d, (2, 8, 7, 7), 1),
        _case(_adaptive_max1d, (2, 3, 10), 4),
        _case(_adaptive_max3d, (2, 4, 3, 5), (2, 3, 2)),
    ],
}

SHUFFLED = 97
"""Values are a permutation of so many steps of a tenth, repeated: ties abound, and none is near another value."""


def _values(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    numbers = torch.arange(torch.Size(shape).numel()) * 31 % SHUFFLED - SHUFFLED // 2
    return (numbers / 10 if dtype.is_floating_point else numbers).to(dtype).reshape(tuple(shape))


def _together(cases: Sequence[PoolCase]) -> Callable[..., list[Any]]:
    return lambda *inputs: [case.pool(x) for case, x in zip(cases, inputs, strict=True)]


def _tensors(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _check(cases: Sequence[PoolCase], inputs: Sequence[torch.Tensor], config: str, tolerance: float = 1e-5) -> None:
    """Results, their strides and the gradients of `cases` are eager's."""
    torch._dynamo.reset()
    options = {"config": config, "strict": True}
    compiled = torch.compile(_together(cases), backend="pytorchsim", fullgraph=True, options=options)
    trained = inputs[0].dtype.is_floating_point
    wanted_inputs, inputs = (
        [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x).requires_grad_(trained) for x in inputs]
        for _ in range(2)
    )
    expected, actual = _together(cases)(*wanted_inputs), compiled(*inputs)
    assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0

    def close(got: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
        torch.testing.assert_close(
            got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text: f"{what}: {text}"
        )

    for case, wanted, got in zip(cases, expected, actual, strict=True):
        for number, (eagers, ours) in enumerate(zip(_tensors(wanted), _tensors(got), strict=True)):
            close(ours, eagers, f"{case.name}, result {number}")
            walks = zip(eagers.shape, eagers.stride(), ours.stride(), strict=True)
            assert all(a == b for size, a, b in walks if size > 1), case.name
    if not trained:
        return
    outputs = [_tensors(result)[0] for result in expected]
    weights = [_values(output.shape, output.dtype) + 0.5 for output in outputs]
    torch.autograd.backward(outputs, weights)
    torch.autograd.backward([_tensors(result)[0] for result in actual], weights)
    assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0
    for case, wanted, got in zip(cases, wanted_inputs, inputs, strict=True):
        assert wanted.grad is not None and got.grad is not None
        close(got.grad, wanted.grad, f"gradient of {case.name}")


@pytest.mark.parametrize("group", GROUPS)
def test_values_indices_and_gradients(group: str) -> None:
    cases = GROUPS[group]
    _check(cases, [_values(case.shape) for case in cases], "mobile")


@pytest.mark.slow
@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
@pytest.mark.parametrize("group", GROUPS)
def test_other_machines(group: str, config: str) -> None:
    cases = GROUPS[group]
    _check(cases, [_values(case.shape) for case in cases], config)


PLANES = [GROUPS[group][0] for group in ("max", "average", "adaptive max")]


def test_channels_last_and_views() -> None:
    def laid_out(case: PoolCase, number: int) -> torch.Tensor:
        x = _values(case.shape)
        if number % 2:
            return _values([*case.shape[:2], case.shape[3], case.shape[2]]).transpose(2, 3)
        return x.to(memory_format=torch.channels_last)

    _check(PLANES, [laid_out(case, number) for number, case in enumerate(PLANES)], "mobile")


SPECIAL = [
    _case(_max2d, (1, 2, 7, 8), 3, 2, 1),
    _case(_max2d, (1, 2, 8, 8), 2, 2),
    _case(_max2d, (1, 1, 8, 8), 6, 2, 3),
    _case(_adaptive_max2d, (1, 2, 7, 7), 2),
    _case(functional.avg_pool2d, (1, 2, 7, 8), 3, 2, 1),
]


def test_nans_infinities_and_ties() -> None:
    """The last NaN of a window counts, the first of equal maxima, and padding never does."""
    inputs = []
    for case in SPECIAL:
        x = _values(case.shape)
        flat = x.view(-1)
        flat[::5] = float("-inf")
        flat[3::11] = float("nan")
        flat[1::7] = 0.0
        flat[2::7] = -0.0
        x[..., :3, :] = float("-inf")  # whole windows of them
        inputs.append(x)
    _check(SPECIAL, inputs, "mobile")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_float_types(dtype: torch.dtype) -> None:
    cases = [GROUPS[group][0] for group in ("max", "average")]
    _check(cases, [_values(case.shape, dtype) for case in cases], "mobile", 1e-2 if dtype.itemsize == 2 else 1e-5)


def test_many_taps_in_a_small_scratchpad() -> None:
    """Taps of 24 doubles fit side by side where 24 buffers, each of whole granules, do not."""
    cases = [_case(pool, (2, 5, 6, 6, 6), (2, 3, 4), 1, 1) for pool in (functional.max_pool3d, functional.avg_pool3d)]
    torch._dynamo.reset()
    compiled = torch.compile(_together(cases), backend="pytorchsim", options={"config": "tiny", "strict": True})
    inputs = [_values(case.shape, torch.float64) for case in cases]
    torch.testing.assert_close(compiled(*inputs), _together(cases)(*inputs))
    # A call passes a window, not its taps one by one: twelve pointers need more of the stack than there is.
    dilated = GROUPS["dilated max"][1]
    _check([dilated], [_values(dilated.shape)], "tiny")


def _has(case: PoolCase, x: torch.Tensor) -> bool:
    """Whether eager pools this type."""
    try:
        case.pool(x)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def test_integer_types() -> None:
    """Those that eager has: each type in one pool, each pool with a narrow and the widest type."""
    dtypes = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)
    first, *others = [GROUPS[group][0] for group in ("max", "max of volumes", "average", "adaptive max")]
    pairs = [*product(dtypes, [first]), *product((torch.uint8, torch.int64), others)]
    asked = [(case, _values(case.shape, dtype)) for dtype, case in pairs]
    cases, inputs = zip(*[(case, x) for case, x in asked if _has(case, x)], strict=True)
    assert torch.int64 in {x.dtype for x in inputs}
    _check(cases, inputs, "mobile")


@pytest.mark.slow
def test_every_small_window() -> None:
    """Kernel, stride, padding, dilation and rounding against each other."""
    cases = [
        _case(_max2d, (1, 2, 9, 10), kernel, stride, padding, dilation=dilation, ceil_mode=ceil)
        for kernel, stride, padding, dilation, ceil in product((2, 3), (1, 2, 3), (0, 1), (1, 2), (False, True))
    ] + [
        _case(functional.avg_pool2d, (1, 2, 9, 10), kernel, stride, padding, ceil_mode=ceil, count_include_pad=include)
        for kernel, stride, padding, ceil, include in product((2, 3), (1, 2, 3), (0, 1), (False, True), (False, True))
    ]
    for start in range(0, len(cases), 12):
        chosen = cases[start : start + 12]
        _check(chosen, [_values(case.shape) for case in chosen], "mobile")


@pytest.mark.slow
def test_adaptive_sizes() -> None:
    cases = [
        _case(function, (1, 2, extent, 4), (windows, 3))
        for function in (functional.adaptive_avg_pool2d, _adaptive_max2d)
        for extent, windows in product((5, 6, 7), (1, 2, 3, 4, 9))
    ]
    for start in range(0, len(cases), 6):
        chosen = cases[start : start + 6]
        _check(chosen, [_values(case.shape) for case in chosen], "mobile")
