"""Does `options={"tiles": ...}` reach the kernels, the report and the cache keys?"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pytorchsim
from pytorchsim.config.tiles import TileChoices, nearest_products
from pytorchsim.errors import ConfigError, TileWarning
from pytorchsim.runtime.prescribed_tiles import backward_compiled, graph_follows


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


def test_a_mapping_prescribes_tiles_and_the_report_says_where() -> None:
    tile = tile_of({"tiles": {"256_256_256": {"TILE_M": 64, "TILE_K": 128}}})
    assert (tile["m"], tile["k"]) == (64, 128)
    (graph,) = pytorchsim.report().to_dict()["graphs"]
    (fact,) = graph["facts"]["prescribed_tiles"]
    assert (fact["product"], fact["tile"]) == ("256_256_256", "TILE_K 128 TILE_M 64")


def test_an_entry_that_no_product_takes_is_named_with_the_nearest() -> None:
    entries = {"256_256_256": {"TILE_M": 128}, "256_256_512": {"TILE_M": 64}}
    with pytest.warns(TileWarning, match="entry '256_256_512' was not used.*nearest of 1: '256_256_256'") as caught:
        tile_of({"tiles": entries})
    assert len(caught) == 1
    with pytest.warns(TileWarning, match="'256_256_512' was not used"):  # also from a cache
        tile_of({"tiles": entries})


@pytest.mark.parametrize("cached", [True, False])
def test_products_of_the_backward_and_behind_a_graph_break_count(cached: bool) -> None:
    """No warning: each is an error in tests. Without caches a backward is compiled when it is reached: last first."""
    torch._dynamo.reset()

    def broken(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        torch._dynamo.graph_break()
        return y @ w[:, :8]

    x, w = torch.randn(16, 24), torch.randn(24, 24, requires_grad=True)
    sizes = {"TILE_N": 8} if cached else {"TILE_N": 8, "TILE_K": 8}  # products are remembered by all of the entries
    entries = dict.fromkeys(("16_24_24", "16_8_24", "24_24_16", "24_8_16"), sizes)
    with (
        pytest.warns(pytorchsim.errors.HostOpWarning, match="graph break"),
        torch._functorch.config.patch(enable_autograd_cache=cached),
        torch._inductor.config.patch(force_disable_caches=not cached),
    ):
        torch.compile(broken, backend="pytorchsim", options={"config": "tiny", "tiles": entries})(x, w).sum().backward()
    assert w.grad is not None


def test_nearest_products() -> None:
    products = ["512_512_512", "64_128_256", "8_8_8", "500_512_512", "128_256_64"]
    assert nearest_products("512_500_512", products)[:2] == ["500_512_512", "512_512_512"]
    assert nearest_products("256_128_64", products)[0] in ("64_128_256", "128_256_64")
    assert nearest_products("256_128_64", []) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("autotun", r"'autotun' is neither a known word nor a file\. Did you mean 'autotune'"),
        ("heuristics", "Did you mean 'heuristic'"),
        ("tiles", r"neither a known word nor a file\. Known: 'heuristic', 'autotune'"),
        ({"256_256": {"TILE_M": 8}}, "option 'tiles', entry '256_256': a key is"),
        ({"8_8_8": {"tile_m": 8}}, r"unknown size 'tile_m'; known: TILE_M, TILE_N, TILE_K\. Did you mean 'TILE_M'"),
        ({"8_8_8": {"TILE_M": 0}}, "positive whole number"),
        (7, "a mapping, not 7"),
    ],
)
def test_what_is_no_choice_of_tiles(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        torch.compile(torch.mm, backend="pytorchsim", options={"tiles": value})(torch.ones(8, 8), torch.ones(8, 8))


def test_the_backward_that_is_compiled_last_tells_what_was_not_used() -> None:
    """In either order: each with its graph, or all behind the last graph and in the reverse order."""
    tiles = TileChoices(entries=(("1_2_3", (("TILE_M", 8),)),))
    graph_follows(tiles, more=True, backward=True)
    assert not backward_compiled(tiles)
    graph_follows(tiles, more=False, backward=True)
    assert backward_compiled(tiles)
    graph_follows(tiles, more=True, backward=True)
    graph_follows(tiles, more=False, backward=True)
    assert not backward_compiled(tiles)
    assert backward_compiled(tiles)
