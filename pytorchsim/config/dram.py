"""`DramConfig`: the memory, with the timing figures of its standard.

In: keyword values. Out: a frozen section of `NpuConfig`. An address mapping that is not one and timings that contradict
each other are errors here, before anything runs. `presets/dram/` has the figures of standards.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pytorchsim.config.frozen import Frozen, PowerOfTwo

__all__ = ["DramConfig"]

_FIELDS = ("row", "bank", "bank_group", "column", "pseudo_channel", "channel")

_NOT_LESS = (
    ("t_ccd_s_clocks", "t_burst_clocks"),
    ("t_ccd_l_clocks", "t_ccd_s_clocks"),
    ("t_rrd_l_clocks", "t_rrd_s_clocks"),
    ("t_wtr_l_clocks", "t_wtr_s_clocks"),
    ("t_ras_clocks", "t_rcd_read_clocks"),
    ("t_ras_clocks", "t_rcd_write_clocks"),
    ("t_faw_clocks", "t_rrd_s_clocks"),
)
"""(figure, what it cannot be less than)."""


class DramConfig(Frozen):
    """Memory shared by all cores. `base` names a standard of `presets/dram/` (`hbm2`, `ddr4-3200`, `lpddr5-6400`), from
    which all keys that are not given come. Timing figures are in clocks of the command clock and have the names of the
    JEDEC standards (JESD235 for HBM2, JESD79-4 for DDR4, JESD209-5 for LPDDR5)."""

    kind: Literal["ideal", "banked"] = Field(
        "ideal", description="Model of the memory: bandwidth and latency only, or banks, rows, refresh, FR-FCFS."
    )
    bandwidth_gb_per_s: float = Field(
        481.28, gt=0, description="Peak, 1e9 bytes per second. `banked`: must be what channels and clock give."
    )
    latency_cycles: int = Field(100, ge=0, description="`ideal`: request to first byte, in core cycles.")
    burst_bytes: PowerOfTwo = Field(32, gt=0, description="Smallest access, in bytes.")

    controller_cycles: int = Field(
        72,
        ge=0,
        description="`banked`: what controller and interface add, in core cycles. Assumed: a read of a closed bank"
        " takes as long as in the ideal memory: 100 = 72 + tRCD 13 + CL 13 + burst 2.",
    )
    clock_mhz: float = Field(940.0, gt=0, description="Command clock in MHz. HBM2: 1,880 MT/s, two per clock.")
    channels: PowerOfTwo = Field(16, ge=1, le=256, description="Independent channels.")
    pseudo_channels: PowerOfTwo = Field(2, ge=1, le=8, description="Per channel, each with a data bus. JESD235: 2.")
    bank_groups: PowerOfTwo = Field(4, ge=1, le=16, description="Per pseudo-channel.")
    banks_per_group: PowerOfTwo = Field(4, ge=1, le=16, description="Banks of a group.")
    row_bytes: PowerOfTwo = Field(1024, ge=1, description="A row of one bank, in bytes. JESD235: 1 KiB.")
    queue_entries: int = Field(
        32, ge=1, le=1024, description="Reads, and as many writes, that a channel's controller chooses from. Assumed."
    )
    mapping: str = Field(
        "row bank column bank_group pseudo_channel channel",
        description="Address bits above a burst's, from the most to the least significant; `column:2` is part of a"
        " field. Assumed: neighbours on different data buses and bank groups.",
    )
    channel_hash: bool = Field(
        True, description="XOR channel and pseudo-channel with the address bits above them. Assumed: no stride camps."
    )
    bank_hash: bool = Field(True, description="The same for bank group and bank. Assumed.")

    t_burst_clocks: int = Field(2, ge=1, description="Data bus per burst. JESD235: burst length 4.")
    t_cl_clocks: int = Field(13, ge=0, description="CL: read to first data.")
    t_cwl_clocks: int = Field(7, ge=0, description="CWL: write to first data.")
    t_rcd_read_clocks: int = Field(13, ge=1, description="tRCDRD: activate to read.")
    t_rcd_write_clocks: int = Field(11, ge=1, description="tRCDWR: activate to write.")
    t_rp_clocks: int = Field(13, ge=1, description="tRP: precharge to activate.")
    t_ras_clocks: int = Field(31, ge=1, description="tRAS: activate to precharge.")
    t_wr_clocks: int = Field(15, ge=0, description="tWR: last written data to precharge.")
    t_rtp_clocks: int = Field(5, ge=0, description="tRTP: read to precharge.")
    t_ccd_s_clocks: int = Field(2, ge=1, description="tCCD_S: column command to one in another bank group.")
    t_ccd_l_clocks: int = Field(4, ge=1, description="tCCD_L: column command to one in the same bank group.")
    t_rrd_s_clocks: int = Field(4, ge=1, description="tRRD_S: activate to activate in another bank group.")
    t_rrd_l_clocks: int = Field(4, ge=1, description="tRRD_L: activate to activate in the same bank group.")
    t_faw_clocks: int = Field(15, ge=1, description="tFAW: window of four activates.")
    t_wtr_s_clocks: int = Field(6, ge=0, description="tWTR_S: last written data to read in another bank group.")
    t_wtr_l_clocks: int = Field(8, ge=0, description="tWTR_L: last written data to read in the same bank group.")
    t_rtw_clocks: int = Field(
        10, ge=1, description="Read to write command. Follows from CL + burst + 2 clocks of turn-around - CWL."
    )
    refresh: Literal["per_bank", "all_bank", "none"] = Field(
        "per_bank", description="One bank after another, or all banks of a channel at once."
    )
    t_rfc_clocks: int = Field(
        151, ge=1, le=1 << 24, description="tRFC: one refresh command, of the kind that `refresh` says."
    )
    t_refi_clocks: int = Field(
        3666, ge=1, le=1 << 24, description="tREFI: in which every bank is refreshed once, 3.9 us."
    )

    @property
    def peak_gb_per_s(self) -> float:
        """What channels, clock and burst give, 1e9 bytes per second."""
        bytes_per_clock = self.channels * self.pseudo_channels * self.burst_bytes / self.t_burst_clocks
        return bytes_per_clock * self.clock_mhz / 1e3

    @model_validator(mode="after")
    def _check(self) -> DramConfig:
        for name, floor in _NOT_LESS:
            if getattr(self, name) < getattr(self, floor):
                raise ValueError(f"dram.{name} ({getattr(self, name)}) is less than {floor} ({getattr(self, floor)})")
        if self.refresh != "none" and self.t_refi_clocks <= self.t_rfc_clocks:
            raise ValueError(
                f"dram.t_refi_clocks ({self.t_refi_clocks}) leaves no time between refreshes of t_rfc_clocks"
                f" ({self.t_rfc_clocks})"
            )
        if self.bank_groups * self.banks_per_group > 64:
            raise ValueError(
                f"dram.bank_groups x banks_per_group is {self.bank_groups * self.banks_per_group}, over 64"
            )
        if self.row_bytes < self.burst_bytes:
            raise ValueError(f"dram.row_bytes ({self.row_bytes}) is less than burst_bytes ({self.burst_bytes})")
        self._check_mapping()
        if self.kind == "banked" and abs(self.peak_gb_per_s / self.bandwidth_gb_per_s - 1) > 0.01:
            raise ValueError(
                f"dram.bandwidth_gb_per_s ({self.bandwidth_gb_per_s}) is not what {self.channels} channels x"
                f" {self.pseudo_channels} pseudo-channels x {self.burst_bytes} bytes per {self.t_burst_clocks} clocks"
                f" of {self.clock_mhz} MHz give: {self.peak_gb_per_s:.6g}. Change both"
            )
        return self

    def _check_mapping(self) -> None:
        """The simulator refuses the same; here the message comes with the config."""
        words = self.mapping.split()
        left = {
            "bank": self.banks_per_group.bit_length() - 1,
            "bank_group": self.bank_groups.bit_length() - 1,
            "column": (self.row_bytes // self.burst_bytes).bit_length() - 1,
            "pseudo_channel": self.pseudo_channels.bit_length() - 1,
            "channel": self.channels.bit_length() - 1,
        }
        if words[:1] != ["row"]:
            raise ValueError(f"dram.mapping {self.mapping!r}: 'row' stands first")
        named = set()
        for word in reversed(words[1:]):
            name, colon, digits = word.partition(":")
            if name not in left:
                known = ", ".join(_FIELDS)
                raise ValueError(f"dram.mapping {self.mapping!r}: {word!r} is no field here; fields: {known}")
            if name in named and not left[name]:
                raise ValueError(f"dram.mapping {self.mapping!r}: {name!r} is there twice")
            if colon and not (digits.isdecimal() and int(digits) <= left[name]):
                raise ValueError(f"dram.mapping {self.mapping!r}: {word!r} does not fit, {left[name]} bits are left")
            named.add(name)
            left[name] -= int(digits) if colon else left[name]
        lacking = [name for name in left if left[name] or name not in named]
        if lacking:
            raise ValueError(f"dram.mapping {self.mapping!r}: {', '.join(lacking)} is missing or incomplete")
