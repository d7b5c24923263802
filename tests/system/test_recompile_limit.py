"""Past Dynamo's recompile limit a function runs in eager and no backend is told; this must not happen in silence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.exc import FailOnRecompileLimitHit

from pytorchsim.errors import RecompileLimitError, RecompileLimitWarning

pytestmark = pytest.mark.usefixtures("fresh_caches")

LIMIT = dynamo_config.recompile_limit


def double(x: torch.Tensor) -> torch.Tensor:
    return x + x


def on_npu(*, strict: bool, **arguments: Any) -> Any:
    options = {"config": "tiny", "strict": strict}
    return torch.compile(double, backend="pytorchsim", options=options, **arguments)


def run_shapes(compiled: Any, first: int, last: int) -> None:
    for size in range(first, last + 1):
        x = torch.arange(float(size))
        torch.testing.assert_close(compiled(x), x + x)


def test_strict_raises_before_anything_runs_in_eager(launches: Any) -> None:
    compiled = on_npu(strict=True)
    run_shapes(compiled, 1, LIMIT - 1)
    assert len(launches.launched) == LIMIT - 1
    for size in (LIMIT, LIMIT + 1, LIMIT + 2):
        with pytest.raises(RecompileLimitError, match=r"'double' \(.*test_recompile_limit\.py:\d+\).*recompile_limit"):
            compiled(torch.arange(float(size)))
    run_shapes(compiled, 1, LIMIT - 1)  # what is compiled still runs
    assert len(launches.launched) == 2 * (LIMIT - 1)


def test_otherwise_the_last_compile_warns(launches: Any) -> None:
    compiled = on_npu(strict=False)
    run_shapes(compiled, 1, LIMIT - 1)
    with pytest.warns(RecompileLimitWarning, match="is the last one"):
        run_shapes(compiled, LIMIT, LIMIT)
    assert len(launches.launched) == LIMIT
    run_shapes(compiled, LIMIT + 1, LIMIT + 1)
    assert len(launches.launched) == LIMIT  # this is the eager run that the warning announced


def test_with_fullgraph_dynamo_raises_and_all_compiles_are_usable(launches: Any) -> None:
    compiled = on_npu(strict=True, fullgraph=True)
    run_shapes(compiled, 1, LIMIT)
    assert len(launches.launched) == LIMIT
    with pytest.raises(FailOnRecompileLimitHit):
        compiled(torch.arange(float(LIMIT + 1)))


def test_the_limit_of_one_torch_compile_counts(launches: Any) -> None:
    compiled = on_npu(strict=True, recompile_limit=3)
    run_shapes(compiled, 1, 2)
    with pytest.raises(RecompileLimitError, match="recompile_limit = 3"):
        compiled(torch.arange(3.0))
    assert len(launches.launched) == 2


def test_failed_compiles_do_not_count(launches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = on_npu(strict=True)
    with monkeypatch.context() as broken:
        broken.setattr("torch._inductor.compile_fx.compile_fx", lambda *_args, **_kwargs: 1 / 0)
        for _ in range(LIMIT):
            with pytest.raises(Exception, match="ZeroDivisionError"):
                compiled(torch.arange(1.0))
    run_shapes(compiled, 1, 2)
    assert len(launches.launched) == 2


def test_every_shape_gets_a_static_graph(launches: Any) -> None:
    compiled = on_npu(strict=True, dynamic=True)
    run_shapes(compiled, 3, 5)
    run_shapes(compiled, 3, 5)
    assert len(launches.loaded) == 3
    assert len(launches.launched) == 6
