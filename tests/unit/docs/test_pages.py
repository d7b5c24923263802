"""Pages name what exists: links, headings behind `#`, files and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "examples/*.md", "third_party/*/*.md")
    for path in REPOSITORY.glob(pattern)
)
SOURCES = [
    path
    for folder in ("pytorchsim", "togsim", "third_party", "tests", "benchmarks", "tools")
    for path in (REPOSITORY / folder).rglob("*.*")
]
NOT_OURS = {"BaseMinorCPU.py": "of gem5", "NN-pass-name.mlir": "a pattern", "tiles.json": "a user's"}


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in found}


def is_there(name: str, page: Path) -> bool:
    """A path from the repository, the package or the page, maybe with `*`; a file's name alone may lie anywhere."""
    if any(any(folder.glob(name)) for folder in (REPOSITORY, REPOSITORY / "pytorchsim", page.parent)):
        return True
    return any(path.match(name) for path in SOURCES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`([\w./*-]+\.(?:py|cc|h|json|csv|yaml|mlir|md))`", page.read_text(encoding="utf-8"))
    assert [name for name in named if name not in NOT_OURS and not is_there(name, page)] == []


def test_tests_that_are_named_exist() -> None:
    written = " ".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("*.py"))
    defined = set(re.findall(r"def (test_\w+)", written))
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))}
    assert sorted(named - defined) == []
