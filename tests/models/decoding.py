"""Decoding with a static cache: steps of one token, compiled once.

In: a decoder of the table. Out: assertions about logits, the cache, compiles and launches.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import StaticCache

from tests.models.measure import Measured, largest_difference, measured, nearness, publish
from tests.models.table import Decoder

__all__ = ["check_decoding"]

STEPS = 3
LENGTH = 8


def check_decoding(decoder: Decoder, batch: int) -> None:
    """Three steps: logits and cache are eager's, one compile, the same launches in every step."""
    torch.manual_seed(0)
    model = decoder.build().eval().requires_grad_(False)
    tokens = torch.randint(3, 400, (STEPS, batch, 1))
    expected, expected_cache = _decoded(model, model, decoder, tokens, None)
    exactly = copy.deepcopy(model).double()
    exact, _ = _decoded(exactly, exactly, decoder, tokens, None)
    compiled = torch.compile(model, backend="pytorchsim", fullgraph=True, options={"strict": True})
    steps = [
        Measured(decoder.name, decoder.suite, batch, "decoding", sum(p.numel() for p in model.parameters()))
        for _ in range(STEPS)
    ]
    torch._dynamo.utils.counters.clear()
    actual, cache = _decoded(model, compiled, decoder, tokens, steps)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert len({step.launches for step in steps}) == 1
    assert len({step.cycles for step in steps}) == 1
    assert all(step.host_ops == 0 for step in steps)
    result = steps[0]
    result.largest_difference = largest_difference(actual, expected)
    result.held = nearness(actual, expected, exact, 1e-5)
    publish(result)
    assert result.held
    for ours, eagers in zip(cache.layers, expected_cache.layers, strict=True):
        torch.testing.assert_close(ours.keys, eagers.keys, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours.values, eagers.values, rtol=1e-4, atol=1e-5)
        assert int(ours.cumulative_length) == STEPS


def _decoded(
    model: Any, run: Any, decoder: Decoder, tokens: torch.Tensor, steps: list[Measured] | None
) -> tuple[list[torch.Tensor], StaticCache]:
    """The logits of every step and the cache after them; `steps` are filled in if given."""
    cache = StaticCache(config=model.config, max_cache_len=LENGTH)
    batch, dtype = tokens.shape[1], next(model.parameters()).dtype
    cache.early_initialization(batch, decoder.cache_heads, decoder.head_size, dtype, torch.device("cpu"))
    logits = []
    for number, token in enumerate(tokens):
        if steps is None:
            logits.append(run(input_ids=token, cache=cache, use_cache=True).logits.clone())
            continue
        with measured(steps[number]):
            output = run(input_ids=token, cache=cache, use_cache=True)
        logits.append(output.logits.clone())
    return logits, cache
