"""`load_config`: from a preset's name, a YAML file, a mapping or an `NpuConfig` to a validated `NpuConfig`.

In: what a user wrote, often partial. Out: a whole machine; the rest comes from its `base` (a preset or a file, default
`tpuv3`). Assumes: nothing is coerced; unknown keys and names are `ConfigError`s that suggest the nearest one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from pytorchsim.config.model import NpuConfig
from pytorchsim.config.paths import user_path
from pytorchsim.errors import ConfigError

__all__ = ["DEFAULT_PRESET", "ConfigSource", "dram_names", "key_paths", "load_config", "preset_names"]

DEFAULT_PRESET = "tpuv3"

ConfigSource: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | NpuConfig"


def preset_names() -> tuple[str, ...]:
    """The presets that ship with the package, sorted."""
    folder = resources.files("pytorchsim.config") / "presets"
    return tuple(sorted(entry.name[: -len(".yaml")] for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def dram_names() -> tuple[str, ...]:
    """The memories that a `dram` section may name as its `base`, sorted."""
    folder = resources.files("pytorchsim.config") / "presets" / "dram"
    return tuple(sorted(entry.name[: -len(".yaml")] for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def load_config(source: ConfigSource = DEFAULT_PRESET) -> NpuConfig:
    """Load a machine.

    Args:
        source: a preset's name; the path of a YAML file; a mapping with the keys of `NpuConfig`, which may be partial;
            or an `NpuConfig`, which is checked again. A mapping or file may name its `base`: a preset or another file
            (relative to the file that names it). Default `tpuv3`. Its `dram` may name a `base` of `dram_names()`.

    Raises:
        ConfigError: an unknown name or key (with the nearest known one), a value of another type or out of range
            (with its full key path), a file that cannot be read, or bases that form a circle.
    """
    if isinstance(source, NpuConfig):
        return _validate(source.model_dump(), origin=f"config {source.name!r}")
    if isinstance(source, Mapping):
        return _validate(_resolve(source, "config", Path.cwd(), ()), origin="config")
    if isinstance(source, str | os.PathLike):
        values, origin = _load_named(os.fspath(source), Path.cwd(), ())
        return _validate(values, origin=origin)
    raise ConfigError(
        f"a config is a preset's name, a path, a mapping or an NpuConfig, not {type(source).__name__}: {source!r}"
    )


def key_paths(model: type[BaseModel] = NpuConfig, prefix: str = "") -> Iterator[str]:
    """Every key of a config in declaration order, with dots: `cores`, `core.lanes`, ..."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from key_paths(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _load_named(name: str, folder: Path, seen: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """A preset or a file as values with its base merged in; `seen` are the files on the way here."""
    if name in preset_names():
        identity = f"preset {name!r}"
        text = (resources.files("pytorchsim.config") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
        return _resolve_text(text, identity, folder, seen), identity
    path = (folder / user_path(name)).absolute()
    if not path.is_file():
        raise ConfigError(_unknown_name(name, path))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path} cannot be read: {error}") from error
    values = _resolve_text(text, str(path), path.parent, seen, default_name=path.stem)
    return values, str(path)


def _unknown_name(name: str, path: Path) -> str:
    looks_like_path = os.sep in name or name.endswith((".yaml", ".yml"))
    if looks_like_path:
        return f"config file {path} does not exist"
    known = preset_names()
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"unknown config {name!r}: neither a preset ({', '.join(known)}) nor a file.{hint}"


def _resolve_text(
    text: str, identity: str, folder: Path, seen: tuple[str, ...], default_name: str | None = None
) -> dict[str, Any]:
    if identity in seen:
        raise ConfigError(f"the bases of {seen[0]} form a circle: {' -> '.join((*seen, identity))}")
    parsed = _parse_yaml(text, identity)
    return _resolve(parsed, identity, folder, (*seen, identity), default_name)


def _resolve(
    given: Mapping[str, Any], origin: str, folder: Path, seen: tuple[str, ...], default_name: str | None = None
) -> dict[str, Any]:
    """`given` over its base. The default preset is the root and has none: it must name every key by itself."""
    own = {key: value for key, value in given.items() if key != "base"}
    if isinstance(own.get("dram"), Mapping):
        own["dram"] = _resolve_dram(own["dram"], origin)
    base = given.get("base")
    if base is None:
        if origin == f"preset {DEFAULT_PRESET!r}":
            return own
        base = DEFAULT_PRESET
    elif not isinstance(base, str):
        raise ConfigError(f"{origin}: base: expected a preset's name or a path, not {base!r}")
    values, _ = _load_named(base, folder, seen)
    if own:
        own.setdefault("name", default_name or f"{values['name']}-custom")
    return _merge(values, own)


def _resolve_dram(given: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    """The section `dram` over the standard that its own `base` names."""
    if "base" not in given:
        return given
    base = given["base"]
    known = dram_names()
    if not isinstance(base, str) or base not in known:
        nearest = difflib.get_close_matches(str(base), known, n=1, cutoff=0.4)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ConfigError(f"{origin}: dram.base: unknown memory {base!r}; known: {', '.join(known)}.{hint}")
    text = (resources.files("pytorchsim.config") / "presets" / "dram" / f"{base}.yaml").read_text(encoding="utf-8")
    own = {key: value for key, value in given.items() if key != "base"}
    return _merge(_parse_yaml(text, f"memory {base!r}"), own)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged


def _parse_yaml(text: str, identity: str) -> Mapping[str, Any]:
    import yaml  # only here: most processes take a preset once, or none

    class UniqueKeyLoader(yaml.SafeLoader):
        """YAML lets the last of two equal keys win in silence; a machine description must not."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for position, key in enumerate(keys):
                if key in keys[:position]:
                    line = node.value[position][0].start_mark.line + 1
                    raise ConfigError(f"{identity}, line {line}: key {key!r} is given twice")
            return super().construct_mapping(node, deep)

    try:
        parsed = yaml.load(text, Loader=UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{identity} is not valid YAML: {error}") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, Mapping):
        raise ConfigError(f"{identity}: expected keys of a config, found {type(parsed).__name__}")
    return parsed


def _validate(values: Mapping[str, Any], *, origin: str) -> NpuConfig:
    try:
        return NpuConfig.model_validate(values)
    except ValidationError as error:
        problems = [_explain(dict(problem)) for problem in error.errors()]
        raise ConfigError(f"{origin}: " + "; ".join(problems)) from error


def _explain(problem: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown key {path!r}.{_suggest_key(path)}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error" and (not path or isinstance(problem["input"], Mapping)):
        return f"{path}: {message}" if path else message  # a check across keys: the message has the figures
    return f"{path}: {message}, got {problem['input']!r}{_suggest_value(problem)}"


def _suggest_value(problem: dict[str, Any]) -> str:
    """The nearest of the values that a key takes, where those are words."""
    given = problem["input"]
    if problem["type"] != "literal_error" or not isinstance(given, str):
        return ""
    known = re.findall(r"'([^']*)'", str(problem.get("ctx", {}).get("expected", "")))
    nearest = difflib.get_close_matches(given.lower(), known, n=1, cutoff=0.5)
    return f". Did you mean {nearest[0]!r}?" if nearest else ""


def _suggest_key(path: str) -> str:
    known = list(key_paths())
    sections = sorted({key.split(".")[0] for key in known})
    leaf = path.rsplit(".", 1)[-1]
    same_leaf = [key for key in known if key.rsplit(".", 1)[-1] == leaf]  # the right key in the wrong section
    nearest = same_leaf or difflib.get_close_matches(path, [*known, *sections], n=1, cutoff=0.6)
    if not nearest:
        by_leaf = {key.rsplit(".", 1)[-1]: key for key in known}
        nearest = [by_leaf[name] for name in difflib.get_close_matches(leaf, by_leaf, n=1, cutoff=0.6)]
    if not nearest:
        return f" Known keys: {', '.join(known)}"
    return f" Did you mean {' or '.join(repr(key) for key in nearest)}?"
