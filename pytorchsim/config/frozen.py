"""What every section of a config is: frozen, without unknown keys, nothing coerced, no figure beyond any machine."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Le
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo, field_validator

__all__ = ["LARGEST", "Frozen", "PowerOfTwo"]

LARGEST = 1 << 20
"""Of every figure that has no limit of its own. Sums of such figures, and products with the bursts of a launch, fit the
simulator's 64 bits, and its tables by size fit memory."""


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("must be a power of two")
    return value


PowerOfTwo = Annotated[int, AfterValidator(_power_of_two)]


class Frozen(BaseModel):
    """Base of `NpuConfig` and its sections."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _check_size(cls, value: Any, info: ValidationInfo) -> Any:
        """A unit mixed up, or a number typed twice, must not become a simulation without end."""
        limits = cls.model_fields[info.field_name or ""].metadata
        if isinstance(value, int | float) and value > LARGEST and not any(isinstance(limit, Le) for limit in limits):
            raise ValueError(f"at most {LARGEST:,}; check the unit")
        return value
