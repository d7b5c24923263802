"""What every section of a config is: frozen, without unknown keys, nothing coerced."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

__all__ = ["Frozen", "PowerOfTwo"]


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("must be a power of two")
    return value


PowerOfTwo = Annotated[int, AfterValidator(_power_of_two)]


class Frozen(BaseModel):
    """Base of `NpuConfig` and its sections."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
