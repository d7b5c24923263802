"""`NpuConfig`: the machine as a frozen, validated value. Every figure has a unit and a default; the defaults are preset
`tpuv3`, and the presets' YAML files name each figure's public source.

In: keyword values of the declared types (nothing is coerced, unknown keys are errors). Out: a hashable value with a
digest. Assumes: built through `load_config`, whose messages name the full key; pydantic's own errors come otherwise.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field, model_validator

from pytorchsim.config.core import ArrayConfig, CoreConfig, DmaConfig
from pytorchsim.config.dram import DramConfig
from pytorchsim.config.energy import EnergyConfig
from pytorchsim.config.frozen import Frozen
from pytorchsim.config.l2 import L2Config
from pytorchsim.config.latency import LatencyConfig
from pytorchsim.config.minor import MinorConfig
from pytorchsim.config.network import NetworkConfig

__all__ = [
    "ArrayConfig",
    "CoreConfig",
    "DmaConfig",
    "DramConfig",
    "L2Config",
    "LatencyConfig",
    "MinorConfig",
    "NetworkConfig",
    "NpuConfig",
]


class NpuConfig(Frozen):
    """The whole machine."""

    name: str = Field("tpuv3", min_length=1, description="Name in reports; part of the digest.")
    cores: int = Field(1, ge=1, le=1024, description="Cores that share the DRAM.")
    core: CoreConfig = CoreConfig()
    latency: LatencyConfig = LatencyConfig()
    minor: MinorConfig = MinorConfig()
    array: ArrayConfig = ArrayConfig()
    dma: DmaConfig = DmaConfig()
    network: NetworkConfig = NetworkConfig()
    l2: L2Config = L2Config()
    dram: DramConfig = DramConfig()
    energy: EnergyConfig = EnergyConfig()
    latency_source: Literal["builtin", "gem5", "both"] = Field(
        "builtin",
        description="Whose cycles tile functions have: the built-in model's, gem5's, or the built-in model's with"
        " gem5's beside them in the report.",
    )
    gem5: str = Field("", description="Path of the gem5 binary; empty: what `PYTORCHSIM_GEM5` names.")
    fidelity: Literal["exact", "fast"] = Field(
        "exact",
        description="Of memory with banks: every burst and command as an event, or stretches of time over the state of"
        " banks and buses (docs/timing_model.md has the error). With ideal memory and network both are the same.",
    )
    instruction_budget: int = Field(
        10_000_000_000,
        gt=0,
        le=(1 << 63) - 1,
        description="Instructions of one launch after which it is stopped as endless.",
    )

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Peak DRAM bandwidth in bytes per core cycle."""
        return self.dram.bandwidth_gb_per_s * 1e3 / self.core.frequency_mhz

    @model_validator(mode="after")
    def _check_bandwidth(self) -> NpuConfig:
        per_cycle = self.dram_bytes_per_cycle
        limit = self.dma.scratchpad_bytes_per_cycle * self.cores
        if not 1 / 64 <= per_cycle <= limit:
            raise ValueError(
                f"dram.bandwidth_gb_per_s ({self.dram.bandwidth_gb_per_s}) at core.frequency_mhz"
                f" ({self.core.frequency_mhz}) is {per_cycle:.6g} bytes per cycle; expected 1/64 to {limit}, what the"
                " DMA engines can take (cores x dma.scratchpad_bytes_per_cycle). Check the units: 1e9 bytes/s and MHz"
            )
        return self

    @model_validator(mode="after")
    def _check_l2(self) -> NpuConfig:
        bursts = self.l2.line_bytes / self.dram.burst_bytes
        if self.l2.kind == "shared" and not 1 <= bursts <= 64:
            raise ValueError(
                f"l2.line_bytes ({self.l2.line_bytes}) is {bursts:g} DRAM bursts of dram.burst_bytes"
                f" ({self.dram.burst_bytes}); expected 1 to 64"
            )
        return self

    def canonical_json(self) -> str:
        """One line of JSON with sorted keys: the config as content."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 of the content, 16 hex digits; the key of everything that depends on the machine."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()[:16]
