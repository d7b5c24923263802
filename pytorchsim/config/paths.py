"""Paths as users write them.

In: text. Out: a path whose `~` and `~name` are home directories; where there is no such user, the text as it is, so
that who opens the path reports one that does not exist, as a shell does.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["user_path"]


def user_path(text: str) -> Path:
    """The path that `text` means. It need not exist."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)
