"""The accuracy table: no row left out, bounds by hand, limits decide, the page's generated part is replaced only."""

from __future__ import annotations

import pytest

from benchmarks.accuracy import BEGIN_MARK, END_MARK, FUSED, Row, figures, render, replace_table
from benchmarks.workloads import workload
from pytorchsim.config import load_config

CONFIG = load_config("tpuv3")


def test_every_row_of_the_figures_has_a_workload_with_work() -> None:
    simulators, rows = figures()
    assert simulators == ["mnpusim", "timeloop", "maestro", "scale_sim_v3"]
    assert [name for name, silicon, _ in rows if silicon is None] == list(FUSED.values())
    for name, _, others in rows:
        assert len(others) == len(simulators)
        assert max(workload(name).work.bound(CONFIG).values()) > 0


def test_bounds_by_hand() -> None:
    # 512^3 / 32,768 MAC; three matrices of 1 MiB at 512 B per cycle.
    assert workload("gemm_512x512x512").work.bound(CONFIG) == {"array": 4096, "dram": 6144, "vector": 0}
    # 64 x 14 x 14 outputs x 256 channels x 256 x 9 / 32,768.
    assert workload("conv_64x14x14x256x256x3x1x1").work.bound(CONFIG)["array"] == 225_792
    # In and out, 16 MiB each; an exponential per element, 128 per cycle.
    softmax = workload("softmax_2048x2048").work.bound(CONFIG)
    assert (softmax["dram"], softmax["vector"]) == (65_536, 32_768)
    # Stem 118,013,952; stages; head 512,000: the published 1.8 G multiply-accumulates.
    assert workload("resnet18").work.macs == 1_814_073_344
    # 512 x 768 x (4 x 768 + 2 x 3072) + 2 x 512 x 512 x 768 = 4,026,531,840.
    assert workload("bert_base").work.bound(CONFIG)["array"] == 122_880


def test_array_bound_rows_are_products_and_wide_convolutions() -> None:
    bound = [name for name, _, _ in figures()[1] if workload(name).array_bound]
    assert bound == ["gemm_512x512x512", "gemm_2048x2048x2048", "conv_64x14x14x256x256x3x1x1"]


def test_an_unknown_family_says_what_is_known() -> None:
    with pytest.raises(ValueError, match="no workload family 'fft'; known: attention"):
        workload("fft_512")


def row(name: str, cycles: int | None, silicon: int, note: str = "") -> Row:
    return Row(name, silicon, ("7", ""), True, {"array": 10.0, "dram": 20.0, "vector": 0.0}, cycles, note)


def test_a_row_without_a_figure_stays_and_says_why() -> None:
    text = render(["a", "b"], [row("gemm_1", 110, 100), row("conv_1", None, 100, "not yet: x")], CONFIG)
    assert "| `gemm_1` | 110 | 100 | +10.0 % | 7 |  | 20 | dram | 10 | 20 | 0 |  |" in text
    assert "| `conv_1` |  | 100 |  | 7 |  | 20 | dram | 10 | 20 | 0 | not yet: x |" in text
    assert "Without a figure: `conv_1`" in text


@pytest.mark.parametrize(("cycles", "verdict"), [((110, 111), "met"), ((100, 126), "missed"), ((115, 115), "missed")])
def test_mean_and_largest_error_decide_the_verdict(cycles: tuple[int, int], verdict: str) -> None:
    # Mean 10.5 % and largest 11 %; largest 26 %; mean 15 %.
    text = render(["a", "b"], [row(f"gemm_{n}", c, 100) for n, c in enumerate(cycles)], CONFIG)
    assert f"%): {verdict}." in text.split("Array-bound rows")[1].splitlines()[0]


def test_ratios_compare_neighbouring_sizes() -> None:
    rows = [row("gemm_1", 100, 100), row("gemm_2", 240, 200)]
    assert "`gemm_2` to `gemm_1`: 2.40, silicon 2.00 (+20.0 %, limit 15 %): missed." in render(["a", "b"], rows, CONFIG)


def test_only_the_generated_part_of_a_page_changes() -> None:
    page = f"before\n{BEGIN_MARK}\nold\n{END_MARK}\nafter\n"
    assert replace_table(page, "new") == f"before\n{BEGIN_MARK}\n\nnew\n\n{END_MARK}\nafter\n"
    with pytest.raises(ValueError, match="lacks"):
        replace_table("no marks", "new")
