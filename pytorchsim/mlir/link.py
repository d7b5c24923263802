"""Linking a graph's objects to one program with `ld.lld`.

In: objects by function name, and an address for every scratchpad buffer. Out: the bytes of a static ELF: text at
TEXT_BASE, read-only data on the page behind it, nothing writable. A buffer is a symbol with a value and no bytes.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytorchsim.config.environment import read_environment
from pytorchsim.errors import CompileError, SetupError
from pytorchsim.target.memory_map import PAGE_BYTES, TEXT_BASE

__all__ = ["find_linker", "link"]

# `.sdata`, `.bss` and so on have no place: the assertion names the kind of mistake that would need one.
_SCRIPT = f"""\
PHDRS {{ code PT_LOAD FLAGS(5); constants PT_LOAD FLAGS(4); }}
SECTIONS {{
  . = {TEXT_BASE:#x};
  .text : {{ *(.text .text.*) }} :code
  . = ALIGN({PAGE_BYTES});
  .rodata : {{ *(.rodata .rodata.* .srodata .srodata.*) }} :constants
  .writable : {{ *(.data .data.* .sdata .sdata.* .bss .bss.* .sbss .sbss.* COMMON) }}
  /DISCARD/ : {{ *(.comment .note* .riscv.attributes .eh_frame .eh_frame.*) }}
}}
ASSERT(SIZEOF(.writable) == 0, "a kernel has no writable data outside the scratchpad")
"""

_TIMEOUT_SECONDS = 300


def find_linker() -> str:
    """The path of `ld.lld`. SetupError says what to install."""
    name = read_environment().lld
    path = shutil.which(name)
    if path is None:
        raise SetupError(
            f"the linker {name!r} was not found. Install it (Debian: `apt-get install lld`),"
            " or set PYTORCHSIM_LLD to its path."
        )
    return path


def link(objects: Mapping[str, bytes], buffer_addresses: Mapping[str, int]) -> bytes:
    """Link `objects` (in order) with each buffer symbol at its address. CompileError: what the linker says."""
    linker = find_linker()
    try:
        with tempfile.TemporaryDirectory(prefix="pytorchsim-link-") as folder:
            return _link_in(Path(folder), linker, objects, buffer_addresses)
    except OSError as error:
        raise CompileError(
            f"the folder for temporary files, {tempfile.gettempdir()}, cannot be used: {error}; free space there or set"
            " TMPDIR to another folder",
            stage="link",
        ) from error


def _link_in(folder: Path, linker: str, objects: Mapping[str, bytes], buffer_addresses: Mapping[str, int]) -> bytes:
    files = []
    for number, data in enumerate(objects.values()):
        # Numbers, not names: a function's name may be longer than a file's.
        files.append(f"{number:04d}.o")
        folder.joinpath(files[-1]).write_bytes(data)
    folder.joinpath("program.ld").write_text(_SCRIPT, encoding="ascii")
    # Options in a response file: a graph has more buffers than a command line may be long.
    options = [f"--defsym={symbol}={address:#x}" for symbol, address in buffer_addresses.items()]
    folder.joinpath("options").write_text("\n".join([*options, *files]), encoding="ascii")
    command = [linker, "-static", "--no-relax", "--build-id=none", "--script=program.ld", "--output=program.elf"]
    try:
        done = subprocess.run(
            [*command, "@options"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{linker} did not run: {error}", stage="link") from error
    if done.returncode != 0:
        names = ", ".join(f"{file} = {function}" for file, function in zip(files, objects, strict=True))
        raise CompileError(f"the linker refuses: {done.stderr.strip()} ({names})", stage="link")
    return folder.joinpath("program.elf").read_bytes()
