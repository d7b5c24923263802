"""Does `PYTORCHSIM_LOG` reach the loggers below `pytorchsim`? In processes of their own: pytest has handlers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import logging
{before}
from pytorchsim.config.logs import apply_log_level
apply_log_level()
apply_log_level()
logging.getLogger("pytorchsim.why_no_fuse").debug("one does not join another")
"""


def stderr(level: str | None, before: str = "") -> str:
    others = {name: text for name, text in os.environ.items() if name != "PYTORCHSIM_LOG"}
    variables = others if level is None else {**others, "PYTORCHSIM_LOG": level}
    program = [sys.executable, "-c", PROGRAM.format(before=before)]
    return subprocess.run(program, env=variables, capture_output=True, text=True, check=False).stderr


def test_the_level_is_set_and_messages_are_seen_once() -> None:
    assert stderr("debug") == "pytorchsim.why_no_fuse: one does not join another\n"


@pytest.mark.parametrize("level", [None, "info"])
def test_lower_ones_are_not(level: str | None) -> None:
    assert stderr(level) == ""


def test_handlers_of_the_program_are_used() -> None:
    assert stderr("debug", "logging.basicConfig(format='mine: %(message)s')") == "mine: one does not join another\n"


def test_a_level_that_does_not_exist() -> None:
    assert "ConfigError" in stderr("loud")
