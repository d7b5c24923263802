"""Prints what pip has to install before the package itself is built, one requirement per line.

In: names of extras of pyproject.toml. Out: the build requirements, the run-time dependencies, and those extras.
Assumes: run by the Python of .venv, before anything is installed into it.
"""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib


def main(extras: list[str]) -> None:
    """Print the list for these extras, each requirement once."""
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    pyproject = tomllib.loads(text)
    optional = pyproject["project"]["optional-dependencies"]
    lines = [*pyproject["build-system"]["requires"], *pyproject["project"]["dependencies"]]
    for extra in extras:
        lines += optional[extra]
    print("\n".join(dict.fromkeys(lines)))


if __name__ == "__main__":
    main(sys.argv[1:])
