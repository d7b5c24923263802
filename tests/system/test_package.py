"""The installed package: a light import, the entry point, and a wheel that works in a new environment elsewhere."""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import pytorchsim

REPOSITORY = Path(__file__).parents[2]

HEAVY = ("torch._inductor", "mlir", "llvmlite", "pydantic", "rich", "jinja2", "yaml", "typer")

PROGRAM = """
import pathlib, sys
import torch
import pytorchsim
a, b = torch.randn(47, 10), torch.randn(47, 10)
y = torch.compile(lambda a, b: torch.relu(a + b), backend="pytorchsim", options={"strict": True})(a, b)
assert torch.equal(y, torch.relu(a + b))
assert pytorchsim.report().to_dict()["totals"]["cycles"] > 0
print(pathlib.Path(pytorchsim.__file__).parent)
"""


def run_python(python: Path | str, *arguments: str, cwd: Path) -> str:
    result = subprocess.run(
        [str(python), *arguments], cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("module", HEAVY)
def test_import_is_light(module: str, tmp_path: Path) -> None:
    program = f"import sys, pytorchsim; print({module!r} in sys.modules)"
    assert run_python(sys.executable, "-c", program, cwd=tmp_path).strip() == "False"


def test_dynamo_finds_the_backend_by_its_entry_point() -> None:
    import torch

    assert "pytorchsim" in torch._dynamo.list_backends()
    (entry,) = (e for e in metadata.entry_points(group="torch_dynamo_backends") if e.name == "pytorchsim")
    assert entry.load() is pytorchsim.pytorchsim_backend


def test_versions_agree() -> None:
    assert metadata.version("pytorchsim") == pytorchsim.__version__
    assert f"version: {pytorchsim.__version__}\n" in (REPOSITORY / "CITATION.cff").read_text()


SINCE_3_11 = {
    "tomllib": {""},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"EnumCheck", "ReprEnum", "StrEnum", "global_enum", "member", "nonmember", "property", "verify"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "fma", "sumprod"},
    "typing": {
        "LiteralString", "Never", "NotRequired", "ReadOnly", "Required", "Self", "TypeAliasType", "TypeIs",
        "TypeVarTuple", "Unpack", "assert_never", "assert_type", "dataclass_transform", "override", "reveal_type",
    },
    "warnings": {"deprecated"},
}  # fmt: skip
"""Modules and names of the standard library that Python 3.10, the oldest that is supported, lacks."""


def imported(tree: ast.AST) -> set[tuple[str, str]]:
    """(module, name) of what runs, "" for whole modules; imports for type checkers do not run."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "", name) for name in ("", *(alias.name for alias in node.names))}
        found |= imported(node)
    return found


def test_the_oldest_python_has_what_is_imported() -> None:
    found = {}
    for path in sorted(Path(pytorchsim.__file__).parent.rglob("*.py")):
        used = imported(ast.parse(path.read_text(encoding="utf-8")))
        if newer := sorted(pair for pair in used if pair[1] in SINCE_3_11.get(pair[0], ())):
            found[path.name] = newer
    assert not found


def test_wheel_works_in_a_new_environment_elsewhere(tmp_path: Path) -> None:
    """Only the dependencies come from this environment; the package and its extension come from the wheel."""
    pip = ("-m", "pip", "-qq", "--no-input")
    wheels = tmp_path / "wheels"
    run_python(
        sys.executable, *pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(REPOSITORY),
        cwd=tmp_path,
    )  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "pytorchsim/config/presets/tpuv3.yaml" in names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "third_party/", "togsim/"))]

    run_python(sys.executable, "-m", "venv", str(tmp_path / "env"), cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run_python(python, *pip, "install", "--no-deps", "--no-index", str(wheel), cwd=tmp_path)
    site_packages = Path(
        run_python(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    )
    # A plain path: the .pth file of an editable install in there is not read.
    dependencies = Path(sysconfig.get_path("purelib"))
    (site_packages / "dependencies.pth").write_text(f"{dependencies}\n")
    (site_packages / "riscv").symlink_to(dependencies / "riscv")  # found by a path relative to the extension

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert Path(run_python(python, "-c", PROGRAM, cwd=elsewhere).strip()) == site_packages / "pytorchsim"
