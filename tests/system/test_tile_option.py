"""Does `options={"tiles": ...}` reach the kernels, the report and the cache keys?"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pytorchsim
from pytorchsim.errors import ConfigError


def tile_of(options: dict[str, object]) -> dict[str, int]:
    torch._dynamo.reset()
    x, w = torch.randn(256, 256), torch.randn(256, 256)
    result = torch.compile(torch.mm, backend="pytorchsim", options={"strict": True, **options})(x, w)
    torch.testing.assert_close(result, x @ w, rtol=1e-4, atol=1e-4)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    return dict(kernel["tile"])


def test_a_file_prescribes_tiles(tmp_path: Path) -> None:
    file = tmp_path / "tiles.json"
    chosen = tile_of({})
    for m, k in ((64, 128), (128, 256)):
        file.write_text(f'{{"256_256_256": {{"TILE_M": {m}, "TILE_K": {k}}}}}')
        tile = tile_of({"tiles": str(file)})
        assert (tile["m"], tile["k"]) == (m, k)
    assert tile_of({"tiles": "heuristic"}) == chosen


def test_it_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tile file"):
        torch.compile(torch.mm, backend="pytorchsim", options={"tiles": str(tmp_path / "no.json")})(
            torch.randn(8, 8), torch.randn(8, 8)
        )
