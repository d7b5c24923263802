"""The generated part of docs/configuration.md.

In: `NpuConfig`, the presets, the table of environment variables. Out: Markdown, deterministic, so that a test can hold
the page against it. Assumes: every field has a description.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pytorchsim.config.environment import VARIABLES
from pytorchsim.config.load import DEFAULT_PRESET, load_config, preset_names
from pytorchsim.config.model import NpuConfig

__all__ = ["BEGIN_MARK", "END_MARK", "render_tables", "replace_tables"]

BEGIN_MARK = "<!-- generated: `make docs`; edit the model instead -->"
END_MARK = "<!-- end of the generated part -->"


def render_tables() -> str:
    """Every key of a config by section, with its value in each preset, and every environment variable."""
    lines = ["### Top level", "", *_table(NpuConfig, "")]
    for name, field in NpuConfig.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            summary = " ".join((section.__doc__ or "").split())
            lines += ["", f"### `{name}`", "", summary, "", *_table(section, f"{name}.")]
    lines += ["", "## Environment variables", "", "| variable | value | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{v.name}` | {v.expects} | {v.default_text} | {v.description} |" for v in VARIABLES]
    return "\n".join(lines)


def replace_tables(page: str) -> str:
    """`page` with what stands between the marks brought up to date. ValueError if a mark is missing."""
    before, begin, rest = page.partition(BEGIN_MARK)
    _, end, after = rest.partition(END_MARK)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN_MARK!r} or {END_MARK!r}")
    return f"{before}{BEGIN_MARK}\n\n{render_tables()}\n\n{END_MARK}{after}"


def _table(section: type[BaseModel], prefix: str) -> Iterator[str]:
    presets = [DEFAULT_PRESET, *(name for name in preset_names() if name != DEFAULT_PRESET)]
    configs = {name: load_config(name) for name in presets}
    yield f"| key | type | {' | '.join(presets)} | meaning |"
    yield "|---" * (len(presets) + 3) + "|"
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            continue
        values = [_value(_lookup(configs[preset], f"{prefix}{name}")) for preset in presets]
        same_as_default = ["" if value == values[0] else value for value in values[1:]]
        cells = [f"`{prefix}{name}`", _type(field), values[0], *same_as_default, field.description or ""]
        yield f"| {' | '.join(cells)} |"


def _lookup(config: NpuConfig, path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def _type(field: FieldInfo) -> str:
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(annotation))
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return " ".join([name, *_limits(field)])


def _limits(field: FieldInfo) -> Iterator[str]:
    for constraint in field.metadata:
        match constraint:
            case Ge(ge=bound):
                yield f"≥ {bound}"
            case Gt(gt=bound):
                yield f"> {bound}"
            case Le(le=bound):
                yield f"≤ {bound}"
            case Lt(lt=bound):
                yield f"< {bound}"
            case MultipleOf(multiple_of=step):
                yield f"multiple of {step}"
            case _:
                pass
