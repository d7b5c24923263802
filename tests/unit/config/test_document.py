"""docs/configuration.md says what the model says."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytorchsim.config.document import render_tables, replace_tables
from pytorchsim.config.environment import VARIABLES
from pytorchsim.config.load import key_paths
from pytorchsim.config.model import NpuConfig

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert replace_tables(page) == page, "run `make docs`"


def test_the_tables_are_complete() -> None:
    tables = render_tables()
    for path in key_paths():
        assert f"| `{path}` |" in tables
    for variable in VARIABLES:
        assert f"| `{variable.name}` |" in tables


def test_every_key_is_described() -> None:
    sections = [NpuConfig, *(field.annotation for field in NpuConfig.model_fields.values())]
    for section in sections:
        for name, field in getattr(section, "model_fields", {}).items():
            is_section = hasattr(field.annotation, "model_fields")
            assert field.description or is_section, f"{section.__name__}.{name}"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks"):
        replace_tables("# no marks\n")
