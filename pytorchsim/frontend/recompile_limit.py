"""Dynamo's recompile limit: past it a function runs in eager, and no backend is told. So we speak one compile earlier.

In: the compile that Dynamo is doing in this thread. Out: nothing, an error (strict) or a warning, if no further compile
of this function will be made. Assumes: torch 2.13 counts cache entries per code object and region
(`_dynamo/cache_size.py`); with `fullgraph=True` or `fail_on_recompile_limit_hit` Dynamo itself raises at the next
compile, and we stay silent.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.cache_size import compute_cache_size
from torch._dynamo.eval_frame import _get_cache_entries_for_region, _get_total_cache_entry_count
from torch._dynamo.symbolic_convert import InstructionTranslator

from pytorchsim.errors import RecompileLimitError, RecompileLimitWarning

__all__ = ["check_recompile_limit"]


@dataclass(frozen=True)
class _Exhausted:
    """The limit that is reached, its value, and the function whose compile reaches it."""

    limit: str
    value: int
    function: str

    def describe(self) -> str:
        return (
            f"this compile of {self.function} is the last one that torch._dynamo.config.{self.limit} = {self.value}"
            " allows: for the next new shape, dtype or constant the function would run in eager on the host, unseen."
            f" Raise torch._dynamo.config.{self.limit}, pass inputs of fewer shapes, or use"
            " torch.compile(fullgraph=True), which raises when the limit is passed."
        )


def check_recompile_limit(*, strict: bool) -> None:
    """Raise (strict) or warn if the compile under way is the last one before Dynamo turns to eager.

    Raises:
        RecompileLimitError: strict. The entry is not made, so every later new shape raises again.
    """
    exhausted = _exhausted()
    if exhausted is None:
        return
    if strict:
        raise RecompileLimitError(f"strict mode: {exhausted.describe()}")
    warnings.warn(exhausted.describe(), RecompileLimitWarning, stacklevel=2)


def _exhausted() -> _Exhausted | None:
    translator: Any = _translator()
    if translator is None or translator.one_graph or dynamo_config.fail_on_recompile_limit_hit:
        return None
    root = translator.output.root_tx
    code = root.f_code
    region = torch._C._dynamo.eval_frame.get_eval_frame_isolate_recompiles_id()
    total = _get_total_cache_entry_count(code)
    size = compute_cache_size(root, _get_cache_entries_for_region(code, region), total)
    function = f"{code.co_name!r} ({code.co_filename}:{code.co_firstlineno})"
    # The counts are those before this compile; Dynamo refuses the one that finds `limit` entries.
    if size.num_cache_entries_with_same_id_matched_objs + 1 >= dynamo_config.recompile_limit:
        return _Exhausted("recompile_limit", dynamo_config.recompile_limit, function)
    compiles = root.output.dynamo_compile_id.frame_compile_id
    if max(size.total_cache_entries_all_regions, compiles) + 1 >= dynamo_config.accumulated_recompile_limit:
        return _Exhausted("accumulated_recompile_limit", dynamo_config.accumulated_recompile_limit, function)
    return None


def _translator() -> InstructionTranslator | None:
    """What Dynamo is translating in this thread; None if the backend was called by someone else."""
    try:
        return InstructionTranslator.current_tx()
    except AttributeError:
        return None
