"""Linking: the image's layout, and errors that say what to do."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from pytorchsim.errors import CompileError, SetupError
from pytorchsim.mlir.link import find_linker, link
from pytorchsim.mlir.object_digest import object_digest
from pytorchsim.mlir.program import read_image
from pytorchsim.mlir.workers import shared_pool
from pytorchsim.target.memory_map import PAGE_BYTES, TEXT_BASE

CONSTANT = """
@{name}.buffer = external global [64 x i8]
@{name}.table = internal constant [4 x i64] [i64 1, i64 2, i64 3, i64 4], align 8
define i64 @{name}(i64 %i) {{
  %p = getelementptr i64, ptr @{name}.table, i64 %i
  %v = load i64, ptr %p
  %a = ptrtoint ptr @{name}.buffer to i64
  %r = add i64 %v, %a
  ret i64 %r
}}"""


def compiled(text: str) -> bytes:
    return shared_pool(2).compile(text, 256).object_bytes


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    return {name: compiled(CONSTANT.format(name=name)) for name in ("a", "b")}


def test_constants_lie_on_the_page_behind_the_text(objects: dict[str, bytes]) -> None:
    segments, symbols = read_image(link(objects, {"a.buffer": 0x2000_0040, "b.buffer": 0x2000_0000}))
    (text, text_bytes, text_size, text_flags), (constants, data, _, flags) = segments
    assert (text, text_flags, flags) == (TEXT_BASE, 5, 4)
    assert len(text_bytes) == text_size
    assert constants % PAGE_BYTES == 0
    assert 0 < constants - (text + text_size) < PAGE_BYTES or constants == text + text_size
    assert symbols["a"][0] == TEXT_BASE
    assert symbols["a"][0] < symbols["b"][0]
    assert symbols["a"][1] > 0
    assert symbols["a.buffer"] == (0x2000_0040, 0)
    start, size = symbols["a.table"]
    assert size == 32
    assert data[start - constants : start - constants + 32] == b"".join(n.to_bytes(8, "little") for n in (1, 2, 3, 4))
    assert not [name for name in symbols if name.startswith(("$", ".L"))]


def test_deterministic(objects: dict[str, bytes]) -> None:
    addresses = {"a.buffer": 0x2000_0000, "b.buffer": 0x2000_0000}
    assert link(objects, addresses) == link(objects, addresses)


def test_undefined_symbol(objects: dict[str, bytes]) -> None:
    with pytest.raises(CompileError, match=r"(?s)undefined symbol: b\.buffer.*0001\.o = b.*\[stage link\]"):
        link(objects, {"a.buffer": 0x2000_0000})


def test_writable_data_is_refused() -> None:
    text = "@state = global i64 5\ndefine ptr @f() { ret ptr @state }"
    with pytest.raises(CompileError, match="a kernel has no writable data outside the scratchpad"):
        link({"f": compiled(text)}, {})


def test_missing_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_LLD", "no-such-linker")
    with pytest.raises(SetupError, match=r"'no-such-linker' was not found.*apt-get install lld.*PYTORCHSIM_LLD"):
        find_linker()


def test_a_linker_that_cannot_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objects: dict[str, bytes]) -> None:
    broken = tmp_path / "ld.lld"
    broken.write_bytes(b"\x7fELF not really")
    broken.chmod(0o755)
    monkeypatch.setenv("PYTORCHSIM_LLD", str(broken))
    with pytest.raises(CompileError, match="did not run"):
        link(objects, {})


def test_digest_is_of_the_code_not_of_the_name(objects: dict[str, bytes]) -> None:
    assert objects["a"] != objects["b"]
    assert object_digest(objects["a"]) == object_digest(objects["b"])
    other = compiled(CONSTANT.format(name="a").replace("i64 4]", "i64 5]"))
    assert object_digest(other) != object_digest(objects["a"])
    other = compiled(CONSTANT.format(name="a").replace("add i64", "sub i64"))
    assert object_digest(other) != object_digest(objects["a"])


def test_a_full_folder_for_temporary_files_is_a_typed_error() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # a write beyond it fails as on a full disk
    try:
        with pytest.raises(CompileError, match=r"folder for temporary files, .* cannot be used: .*set TMPDIR"):
            link({"large": bytes(1 << 20)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
