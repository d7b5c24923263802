"""The table of tile functions beside gem5's: rows by hand, the page's own part is replaced, no gem5 changes no page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import gem5

ROWS = [gem5.TileRow("mlp", "npu_0__body", 2, 200, 250), gem5.TileRow("mlp", "npu_0__start", 1, 80, 60)]
PAGE = f"before\n{gem5.BEGIN_MARK}\nold\n{gem5.END_MARK}\nafter\n"


def test_rows_and_what_was_measured() -> None:
    text = gem5.render(ROWS, "`tpuv3`", "23.1", "24.0.0.1", "2020-01-02")
    assert "Machine `tpuv3`, gem5 23.1 (pinned 24.0.0.1), measured on 2020-01-02" in text
    assert "| `mlp` | `npu_0__body` | 2 | 200 | 250 | +25.0 % |" in text
    assert "| `mlp` | `npu_0__start` | 1 | 80 | 60 | -25.0 % |" in text


def test_only_its_part_of_the_page_is_replaced() -> None:
    assert gem5.replaced(PAGE, "new") == f"before\n{gem5.BEGIN_MARK}\n\nnew\n\n{gem5.END_MARK}\nafter\n"
    with pytest.raises(ValueError, match="lacks"):
        gem5.replaced("no marks", "new")


def test_without_a_binary_it_says_what_to_do_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.delenv("PYTORCHSIM_GEM5", raising=False)
    monkeypatch.setattr(sys, "argv", ["gem5", "--write", str(page)])
    monkeypatch.setattr(gem5, "WORKLOADS", {"linear": (lambda: gem5.nn.Linear(4, 4), (2, 4))})
    with pytest.raises(SystemExit, match="set PYTORCHSIM_GEM5"):
        gem5.main()
    assert page.read_text() == PAGE
