"""`apply_log_level`: what `PYTORCHSIM_LOG` asks for.

In: the environment. Out: the level of the logger `pytorchsim`, and a handler that writes to stderr where the program
has none. Without the variable nothing is touched: logging is the program's.
"""

from __future__ import annotations

import logging

from pytorchsim.config.environment import PREFIX, given_variables, read_environment

__all__ = ["apply_log_level"]


def apply_log_level() -> None:
    """Set the level, if the variable is set. ConfigError: it names none."""
    if not given_variables().get(f"{PREFIX}LOG"):
        return
    logger = logging.getLogger("pytorchsim")
    logger.setLevel(read_environment().log.upper())
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
