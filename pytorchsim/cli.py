"""The `pytorchsim` command: what is installed, what a config says.

In: command-line arguments. Out: text on stdout; exit code 1 with one line on stderr where a `PyTorchSimError` says why.
Assumes: nothing is compiled or simulated here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from pytorchsim import __version__
from pytorchsim.config import DEFAULT_PRESET, load_config, preset_names
from pytorchsim.config.document import replace_tables
from pytorchsim.errors import PyTorchSimError

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__.splitlines()[0] if __doc__ else None)
config_app = typer.Typer(no_args_is_help=True, help="Hardware configs.")
app.add_typer(config_app, name="config")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pytorchsim {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What stands before a command."""


@config_app.command("list")
def list_configs() -> None:
    """Name the presets."""
    names = preset_names()
    width = max(map(len, names))
    for name in names:
        config = load_config(name)
        core = config.core
        typer.echo(
            f"{name:<{width}} {core.lanes:>4} lanes  {core.scratchpad_bytes_per_lane // 1024:>4} KiB per lane"
            f"  {core.frequency_mhz:>5} MHz  {config.dram.bandwidth_gb_per_s:>7} GB/s"
            + ("  (default)" if name == DEFAULT_PRESET else "")
        )


@config_app.command("show")
def show_config(source: Annotated[str, typer.Argument(help="A preset or a YAML file.")] = DEFAULT_PRESET) -> None:
    """Print a whole machine as YAML, with its digest."""
    config = load_config(source)
    typer.echo(f"# digest {config.digest()}")
    typer.echo(yaml.safe_dump(config.model_dump(), sort_keys=False), nl=False)


@config_app.command("docs", hidden=True)
def write_docs(write: Annotated[Path, typer.Option(help="The page whose generated part is replaced.")]) -> None:
    """Bring the generated tables of docs/configuration.md up to date."""
    page = replace_tables(write.read_text(encoding="utf-8"))
    write.write_text(page, encoding="utf-8")


@app.command()
def doctor() -> None:
    """Check the tools that a compile needs; exit code 1 if one is missing."""
    from pytorchsim.doctor import run_checks  # the other commands need none of the tools

    checks = run_checks()
    for check in checks:
        typer.echo(f"{'ok     ' if check.ok else 'MISSING'}  {check.name:<10} {check.found}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def main() -> None:
    """Entry point of the command."""
    try:
        app()
    except PyTorchSimError as error:
        typer.echo(f"pytorchsim: {error}", err=True)
        sys.exit(1)
