"""Is the chosen tile the cheapest that fits, does what is refused not fit, and do prescribed tiles come through?"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pytorchsim.config import load_config
from pytorchsim.config.tiles import TileChoices, load_tile_choices
from pytorchsim.errors import ConfigError
from pytorchsim.target.dtypes import F16, F32, I64, Dtype
from pytorchsim.templates.footprint import BUFFER_GRANULE_BYTES
from pytorchsim.templates.gemm_candidates import candidates
from pytorchsim.templates.gemm_cost import cost_of
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem
from pytorchsim.templates.gemm_search import search_gemm
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store


def problem(m: int, n: int, k: int, batch: int = 1, dtype: Dtype = F32) -> GemmProblem:
    on_arrays = dtype in (F32, F16) and m >= 8
    x = AffineIndex((m * k, 1, k) if on_arrays else (m * k, k, 1))
    w, y = AffineIndex((k * n, 1, n)), AffineIndex((m * n, 1, n))
    return GemmProblem((batch,), (m,), n, (k,), x, w, y, dtype, dtype, "array" if on_arrays else "lanes")


def column_max(sizes: GemmProblem) -> GemmFusion:
    """max over m of the result."""
    frame = sizes.frame("y")
    load = Operation("load", (), F32, access=Access("<result>", F32, sizes.y))
    fold = Operation("reduce", (0,), F32, reduction="max")
    store = Store(Access("out", F32, AffineIndex((sizes.n, 1, 0))), 1)
    return GemmFusion(LoopProgram(frame, (load, fold), (store,), 1))


def bytes_by_hand(tile: object, sizes: GemmProblem, lanes: int) -> int:
    """All copies of plain products' buffers, from their shapes in the lanes alone."""

    def rounded(elements: int, size: int) -> int:
        return -(-elements * size // BUFFER_GRANULE_BYTES) * BUFFER_GRANULE_BYTES

    m, slots, k, held = tile.m, tile.n_slots, tile.k, tile.stationary  # type: ignore[attr-defined]
    lead = tile.lead  # type: ignore[attr-defined]
    k_tiles, size = -(-(sizes.k - lead) // k), sizes.dtype.bytes  # of the same size
    x = m * (k // lanes) if tile.body == "array" else m * k  # type: ignore[attr-defined]
    w, deep = slots * k, tile.deep  # type: ignore[attr-defined]
    copies = {part: (k_tiles if lead else max(2, k_tiles)) if held == part else 2 for part in ("x", "w")}
    total = copies["x"] * rounded(x, size) + copies["w"] * rounded(w * (deep if held == "x" else 1), size)
    total += rounded(m * lead // lanes, size) + rounded(slots * lead, size)
    total += 2 * rounded(slots * m, sizes.accumulator.bytes)
    return total + (rounded(slots * m, sizes.accumulator.bytes) if tile.blocked else 0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
def test_chosen_is_the_cheapest_that_fits_and_refusals_are_true(config: str) -> None:
    machine = load_config(config)
    core, generator = machine.core, random.Random(1)
    budget = core.scratchpad_bytes_per_lane
    for _ in range(25):
        m, n, k = (generator.choice([1, 5, 8, 63, 129, 516, 1000, 3000]) for _ in range(3))
        sizes = problem(m, n, k, generator.choice([1, 3]))
        found = search_gemm(sizes, GemmFusion(), machine)
        fitting = []
        assert {candidate.tile for candidate in found.all} == set(candidates(sizes, GemmFusion(), machine))
        for candidate in found.all:
            total = bytes_by_hand(candidate.tile, sizes, core.lanes) + core.stack_reserve_bytes
            assert candidate.footprint.total_bytes == total
            assert bool(candidate.refusal) == (total > budget or candidate.footprint.step_bytes > budget // 2)
            if not candidate.refusal:
                tile = candidate.tile
                too_few = max(0, 16 - tile.k_blocks) if tile.blocked else 0  # matrices of a partial sum
                fitting.append((too_few, cost_of(sizes, GemmFusion(), tile, machine).total, total))
        assert found.chosen is not None
        assert found.chosen.cost is not None
        assert found.chosen.rank() == min(fitting)


def test_reasons_name_rules_and_refusals() -> None:
    found = search_gemm(problem(1000, 1000, 4000), GemmFusion(), load_config("tiny"))
    reasons = "\n".join((*found.choice, *found.reasons))
    for word in ("array", "fill", "vector", "dram", "scalar", "refused: all copies exceed the slice"):
        assert word in reasons


def test_columns_stay_whole_where_the_tail_folds_them() -> None:
    sizes = problem(3072, 768, 512)
    found = search_gemm(sizes, column_max(sizes), load_config("tpuv3"))
    assert found.chosen is not None
    tile = found.chosen.tile
    assert tile.column
    assert tile.block("y", sizes).pitch >= 3072
    assert all(candidate.tile.outer == "w" for candidate in found.all)


def test_nothing_fits() -> None:
    sizes = problem(5000, 100, 100)
    found = search_gemm(sizes, column_max(sizes), load_config("tiny"))
    assert found.chosen is None
    assert found.nearest.footprint.total_bytes == min(c.footprint.total_bytes for c in found.all)
    assert found.nearest.refusal


def test_both_arrays_have_columns_or_rows_of_their_own() -> None:
    for n, slots in ((64, 1), (128, 1), (129, 2), (1000, 2)):
        found = search_gemm(problem(512, n, 512), GemmFusion(), load_config("tpuv3"))
        assert found.chosen is not None
        assert found.chosen.tile.n_slots == slots
        assert found.chosen.tile.arrays == 2


def test_few_rows_and_other_types_run_on_the_lanes() -> None:
    machine = load_config("tpuv3")
    for sizes, body in (
        (problem(7, 64, 64), "lanes"), (problem(8, 64, 64), "array"), (problem(64, 64, 64, dtype=I64), "lanes"),
        (problem(64, 64, 64, dtype=F16), "array"),
    ):  # fmt: skip
        chosen = search_gemm(sizes, GemmFusion(), machine).chosen
        assert chosen is not None
        assert chosen.tile.body == body


def test_the_number_of_cores_does_not_matter() -> None:
    one, four = load_config("tpuv3"), load_config({"cores": 4})
    sizes = problem(1000, 1000, 1000)
    chosen = [search_gemm(sizes, GemmFusion(), machine).chosen for machine in (one, four)]
    assert chosen[0] is not None
    assert chosen[1] is not None
    assert chosen[0].tile == chosen[1].tile


def test_prescribed_tile(tmp_path: Path) -> None:
    file = tmp_path / "tiles.json"
    file.write_text('{"512_512_512": {"TILE_M": 256, "TILE_K": 128}}')
    choices = load_tile_choices(file)
    chosen = search_gemm(problem(512, 512, 512), GemmFusion(), load_config("tpuv3"), choices).chosen
    assert chosen is not None
    assert (chosen.tile.m, chosen.tile.k) == (256, 128)
    other = problem(256, 512, 512)
    assert search_gemm(other, GemmFusion(), load_config("tpuv3"), choices).chosen == (
        search_gemm(other, GemmFusion(), load_config("tpuv3")).chosen
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "tile file"),
        ("[]", "mapping"),
        ('{"512": {"TILE_M": 8}}', "M_N_K"),
        ('{"8_8_8": {"TILE_X": 8}}', "unknown size 'TILE_X'"),
        ('{"8_8_8": {"TILE_M": 0}}', "positive"),
        ('{"8_8_8": {}}', "TILE_M, TILE_N, TILE_K"),
    ],
)
def test_wrong_tile_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "tiles.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_tile_choices(file)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"TILE_M": 100}, "multiple of 32"), ({"TILE_N": 512}, "at most 256"), ({"TILE_K": 64}, "128")],
)
def test_impossible_tiles(sizes: dict[str, int], message: str) -> None:
    choices = TileChoices((("512_512_512", tuple(sizes.items())),))
    with pytest.raises(ConfigError, match=message):
        search_gemm(problem(512, 512, 512), GemmFusion(), load_config("tpuv3"), choices)
