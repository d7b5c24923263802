"""`parse_options`: what may be given to torch.compile, and what an error says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pytorchsim import pytorchsim_backend
from pytorchsim.config import load_config
from pytorchsim.config.session import Session, current_session, session_scope
from pytorchsim.errors import ConfigError
from pytorchsim.frontend.options import parse_options


def test_defaults() -> None:
    assert parse_options() == parse_options({}) == parse_options(None, "default")
    assert parse_options() == Session(load_config("tpuv3"), "functional+timing", strict=False)


@pytest.mark.parametrize("kind", ["name", "path", "mapping", "value"])
def test_a_config_in_every_form(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: tiny\nname: tiny\n")
    forms: dict[str, Any] = {
        "name": "tiny",
        "path": path,
        "mapping": {"base": "tiny", "name": "tiny"},
        "value": load_config("tiny"),
    }
    assert parse_options({"config": forms[kind]}).config == load_config("tiny")


KNOWN = "'config', 'mode', 'strict', 'tiles', 'verify'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"stric": True},
            f"unknown option 'stric'. Did you mean 'strict'? Known: {KNOWN}.",
        ),
        (
            {"max_autotune": True},
            f"unknown option 'max_autotune'. Known: {KNOWN}.",
        ),
        ({1: True}, f"unknown option 1. Known: {KNOWN}."),
        ({"strict": 1}, "option 'strict' is True or False, not 1"),
        (
            {"mode": "timings"},
            "option 'mode': 'timings' is unknown. Did you mean 'timing'? Known: 'functional+timing', 'functional', ",
        ),
        ({"mode": ["timing"]}, "option 'mode': ['timing'] is unknown. Known: 'functional+timing', 'functional',"),
        ({"config": "tpuv33"}, "Did you mean 'tpuv3'?"),
        ([("strict", True)], "options is a mapping, not list: [('strict', True)]"),
    ],
)
def test_wrong_options_are_named(options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(options)
    assert message in str(caught.value)


def test_inductors_modes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"torch\.compile\(mode='max-autotune'\).*options=\{'mode': \.\.\.\}"):
        parse_options(None, "max-autotune")


def test_through_torch_compile_the_error_has_its_type() -> None:
    compiled = torch.compile(torch.relu, backend=pytorchsim_backend, options={"stric": True})
    with pytest.raises(ConfigError, match="Did you mean 'strict'"):
        compiled(torch.ones(3))
    compiled = torch.compile(torch.relu, backend=pytorchsim_backend, mode="reduce-overhead")
    with pytest.raises(ConfigError, match="tuning preset of Inductor"):
        compiled(torch.ones(3))


def test_digest_covers_every_field() -> None:
    tiny, mobile = load_config("tiny"), load_config("mobile")
    sessions = [
        Session(tiny),
        Session(mobile),
        Session(tiny, mode="functional"),
        Session(tiny, mode="timing"),
        Session(tiny, strict=True),
    ]
    assert len({session.digest() for session in sessions}) == len(sessions)
    assert Session(load_config("tiny")).digest() == sessions[0].digest()


def test_current_session_is_that_of_the_innermost_scope() -> None:
    outer, inner = Session(load_config("tiny")), Session(load_config("mobile"))
    with pytest.raises(RuntimeError, match="no graph is being compiled"):
        current_session()
    with session_scope(outer):
        with session_scope(inner):
            assert current_session() is inner
        assert current_session() is outer
    with pytest.raises(RuntimeError, match="no graph is being compiled"):
        current_session()
