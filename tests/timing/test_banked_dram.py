"""DRAM with banks, every burst: cycles against closed formulas, with the arithmetic in comments.

One channel of HBM2 (clock = core clock). A burst is decoded in 4, at the memory in 14; after its last data it takes 72
cycles of controller and 10 of network to be back. Reads then cross the scratchpad's port, 1/128 cycle, which begins
another cycle. tRCD 13 (write 11), CL 13, CWL 7, burst 2, tRP 13, tRAS 31.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.errors import ConfigError
from pytorchsim.simulator.timing import LaunchTiming, simulate

ARRIVAL = 4 + 10
BACK = 72 + 10
READ, WRITE = 13 + 2, 7 + 2  # command to end of data
IN_A_BANK = "row bank bank_group pseudo_channel channel column"
"""Neighbours share a bank's row."""
ROW = 1024
BANKS = 16

FIDELITIES = pytest.mark.parametrize("fidelity", ["exact", "fast"])


def channel(fidelity: str = "exact", **dram: Any) -> NpuConfig:
    """One channel with one data bus, no hash, no refresh, unless said otherwise."""
    values: dict[str, Any] = {
        "kind": "banked", "channels": 1, "pseudo_channels": 1, "bandwidth_gb_per_s": 15.04, "refresh": "none",
        "mapping": IN_A_BANK, "channel_hash": False, "bank_hash": False,
    }  # fmt: skip
    return load_config({"fidelity": fidelity, "dram": values | dram})


def trace(*transfers: tuple[bool, list[int]], tiles: int = 0) -> _native.Trace:
    """Transfers of single bursts, (store, byte addresses), with a tile of that many cycles after the first."""
    result = _native.Trace()
    for tag, (store, addresses) in enumerate(transfers):
        result.start(tag, store, [(address, 32, []) for address in addresses])
        if tiles and tag == 0:
            result.tile(0, tiles)
    for tag in range(len(transfers)):
        result.wait(tag)
    return result


def cycles(config: NpuConfig, *transfers: tuple[bool, list[int]], tiles: int = 0) -> int:
    return simulate([trace(*transfers, tiles=tiles)], config).cycles


@FIDELITIES
def test_one_read_of_a_closed_bank(fidelity: str) -> None:
    # Activate in 14, read in 27. Together 124: what the ideal memory takes.
    assert cycles(channel(fidelity), (False, [0])) == ARRIVAL + 13 + READ + BACK + 1


@FIDELITIES
def test_one_write_of_a_closed_bank(fidelity: str) -> None:
    # It is answered as soon as it is in the queue, in 14; its data follow in 34, long before the answer is back.
    assert cycles(channel(fidelity), (True, [0])) == ARRIVAL + BACK


@FIDELITIES
def test_one_row_streams_at_the_rate_of_its_bank_group(fidelity: str) -> None:
    # 32 bursts of one row: the last read comes 31 x tCCD_L = 124 after the first.
    expected = ARRIVAL + 13 + 31 * 4 + READ + BACK + 1
    assert cycles(channel(fidelity), (False, [32 * i for i in range(32)])) == expected


def test_two_bank_groups_stream_at_the_rate_of_the_bus() -> None:
    # Neighbours alternate between two groups. Activates in 14 and 18 (tRRD), so reads in 27 and 31; from there on one
    # every tCCD_S = 2 clocks: the 32nd in 31 + 30 x 2 = 91.
    config = channel(mapping="row bank column bank_group pseudo_channel channel", bank_groups=2)
    assert cycles(config, (False, [32 * i for i in range(32)])) == 91 + READ + BACK + 1


@FIDELITIES
def test_a_row_conflict_costs_tras_and_trp(fidelity: str) -> None:
    # Activate 14, read 27; precharge 14 + tRAS 31 = 45, activate 58, read 71.
    other_row = ROW * BANKS
    assert cycles(channel(fidelity), (False, [0, other_row])) == 71 + READ + BACK + 1


@FIDELITIES
def test_rows_of_one_bank_follow_at_trc(fidelity: str) -> None:
    # Ten rows: nine times tRC = tRAS + tRP = 44 between activates.
    addresses = [ROW * BANKS * i for i in range(10)]
    assert cycles(channel(fidelity), (False, addresses)) == ARRIVAL + 9 * 44 + 13 + READ + BACK + 1


def test_trtp_and_twr_delay_a_precharge() -> None:
    # With tRAS 27 a read in 27 and tRTP 40 allow the precharge in 67, activate 80, read 93.
    far = [0, ROW * BANKS]
    assert cycles(channel(t_ras_clocks=27, t_rtp_clocks=40), (False, far)) == 93 + READ + BACK + 1
    # A write in 25 ends in 34 (the launch lasts until all is written); tWR 15 -> precharge 49, activate 62, write 73.
    assert cycles(channel(controller_cycles=0), (True, far)) == 73 + WRITE


def test_four_activates_in_a_window() -> None:
    # Eight banks, tRRD 4, tFAW 40: activates in 14 18 22 26, 54 58 62 66. The last read in 79.
    addresses = [ROW * bank for bank in range(8)]
    assert cycles(channel(t_faw_clocks=40), (False, addresses)) == 79 + READ + BACK + 1


def test_activates_of_a_group_keep_trrd_l() -> None:
    # Banks 0 and 1 lie 4 banks = a group apart in this mapping: `bank` above `bank_group`, 4 rows of 1 KiB.
    same_group = [0, 4 * ROW]
    assert cycles(channel(t_rrd_l_clocks=9), (False, same_group)) == ARRIVAL + 9 + 13 + READ + BACK + 1
    assert cycles(channel(t_rrd_l_clocks=9), (False, [0, ROW])) == ARRIVAL + 4 + 13 + READ + BACK + 1


def test_first_ready_comes_first() -> None:
    # Rows A, B, A of one bank: the third burst hits the open row and overtakes the second. Read 27, 31 (tCCD_L), then
    # precharge in 45, activate 58, read 71. In order it would be two conflicts: 71, 115.
    addresses = [0, ROW * BANKS, 32]
    timing = simulate([trace((False, addresses))], channel())
    assert timing.cycles == 71 + READ + BACK + 1
    assert timing.statistics["dram channel 0"]["activates"] == 2
    assert timing.statistics["dram channel 0"]["row_conflicts"] == 1


def test_read_to_write() -> None:
    # Both hit one row. The load's descriptor is decoded first: read in 27, the write tRTW = 10 later. The write was
    # answered when it came, in 18; with tRTW 200 the launch ends with its data, in 227 + 9.
    assert cycles(channel(), (False, [0]), (True, [32])) == 27 + READ + BACK + 1
    assert cycles(channel(t_rtw_clocks=200), (False, [0]), (True, [32])) == 227 + WRITE


def test_write_to_read_in_the_same_and_in_another_group() -> None:
    # The write comes in 25 and its data end in 34. The load starts 12 cycles later, is there in 26 and waits for
    # tWTR_L = 8: read in 42. In another group: activate 26, so read in 39 at the earliest; tWTR_S allows 40.
    assert cycles(channel(), (True, [0]), (False, [32]), tiles=12) == 42 + READ + BACK + 1
    assert cycles(channel(), (True, [0]), (False, [ROW]), tiles=12) == 40 + READ + BACK + 1


@FIDELITIES
@pytest.mark.parametrize(("refresh", "begin"), [("all_bank", 1000), ("per_bank", 992)])
def test_a_refresh_blocks_the_bank(fidelity: str, refresh: str, begin: int) -> None:
    # The load starts in 1000 and is there in 1014, during a refresh of 200 clocks. Per bank: every 1000 / 16 = 62
    # clocks one, bank 15 in 16 x 62 = 992.
    config = channel(fidelity, refresh=refresh, t_refi_clocks=1000, t_rfc_clocks=200)
    result = _native.Trace()
    result.tile(0, 1000)
    result.start(0, False, [(15 * ROW, 32, [])])
    result.wait(0)
    assert simulate([result], config).cycles == begin + 200 + 13 + READ + BACK + 1


def test_a_refresh_of_another_bank_is_not_felt() -> None:
    config = channel(refresh="per_bank", t_refi_clocks=1000, t_rfc_clocks=200)
    result = _native.Trace()
    result.tile(0, 1000)
    result.start(0, False, [(5 * ROW, 32, [])])  # refreshed in 372
    result.wait(0)
    assert simulate([result], config).cycles == 1000 + ARRIVAL + 13 + READ + BACK + 1


def test_the_clock_of_the_memory_is_its_own() -> None:
    # DDR4-3200 at 1600 MHz beside a core of 1000 MHz: (tRCD 22 + CL 22 + burst 4) x 0.625 = 30, controller 30, network
    # 2 x 10, decode 4; the scratchpad takes 64 bytes in 1/4 cycle.
    config = load_config({"base": "mobile", "dram": {"kind": "banked"}})
    result = _native.Trace()
    result.start(0, False, [(0, 64, [])])
    result.wait(0)
    assert simulate([result], config).cycles == 4 + 20 + 30 + 30 + 1


@FIDELITIES
def test_refreshes_wait_for_a_bank_in_use_but_not_for_ever(fidelity: str) -> None:
    # A row of one bank, read every 50 cycles for 20000 clocks: never 64 clocks of rest. Refreshes of 200 are due every
    # 1000; up to eight may wait, from then on there is one for each that becomes due: 20 - 7 = 13.
    config = channel(fidelity, refresh="all_bank", t_refi_clocks=1000, t_rfc_clocks=200)
    result = _native.Trace()
    for number in range(400):
        result.start(0, False, [(32 * (number % 32), 32, [])])
        result.tile(0, 50)
    result.wait(0)
    timing = simulate([result], config)
    assert 12 <= timing.statistics["dram channel 0"]["refreshes"] <= 14


def stream(config: NpuConfig, size: int = 1 << 21, store: bool = False) -> LaunchTiming:
    result = _native.Trace()
    result.start(0, store, [(0, size, [])])
    result.wait(0)
    return simulate([result], config)


@FIDELITIES
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize(
    ("machine", "bytes_per_cycle"),
    [
        ({"dram": {"base": "hbm2"}, "dma": {"max_outstanding": 4096}}, 512.0),
        ({"base": "mobile", "dma": {"max_outstanding": 512}}, 25.6),
        ({"base": "mobile", "dram": {"base": "lpddr5-6400"}, "dma": {"max_outstanding": 512}}, 51.2),
    ],
)
def test_a_long_stream_comes_close_to_the_peak(
    fidelity: str, store: bool, machine: dict[str, Any], bytes_per_cycle: float
) -> None:
    machine = {**machine, "fidelity": fidelity, "dram": {**machine.get("dram", {}), "kind": "banked"}}
    timing = stream(load_config(machine), store=store)
    # Refreshes of single banks find their time; those of all banks of DDR4 take 4.5 %. Rows and the way there take the
    # rest of a stream of 2 MiB.
    assert 0.9 * bytes_per_cycle <= (1 << 21) / timing.cycles <= bytes_per_cycle


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"channels": 0}, r"dram\.channels: .*greater than or equal to 1"),
        ({"channels": 3}, r"dram\.channels: must be a power of two"),
        ({"t_ccd_l_clocks": 1}, r"dram\.t_ccd_l_clocks \(1\) is less than t_ccd_s_clocks \(2\)"),
        ({"t_ccd_s_clocks": 1}, r"dram\.t_ccd_s_clocks \(1\) is less than t_burst_clocks \(2\)"),
        ({"t_ras_clocks": 12}, r"dram\.t_ras_clocks \(12\) is less than t_rcd_read_clocks \(13\)"),
        ({"t_rfc_clocks": 4000}, r"no time between refreshes"),
        ({"t_faw_clocks": 3}, r"t_faw_clocks \(3\) is less than t_rrd_s_clocks"),
        ({"kind": "banked", "channels": 8}, r"is not what 8 channels x 2 pseudo-channels .*: 240\.64\. Change both"),
        ({"base": "hbm3"}, r"dram\.base: unknown memory 'hbm3'; known: ddr4-3200, hbm2.*Did you mean 'hbm2'"),
        ({"t_rdc_clocks": 3}, r"unknown key 'dram\.t_rdc_clocks'.*Did you mean"),
        ({"mapping": "row bank column channel"}, r"bank_group, pseudo_channel is missing"),
        ({"mapping": "bank row column bank_group pseudo_channel channel"}, r"'row' stands first"),
        ({"mapping": "row rank bank column bank_group pseudo_channel channel"}, r"'rank' is no field"),
        ({"mapping": "row bank column column bank_group pseudo_channel channel"}, r"'column' is there twice"),
        ({"mapping": "row column bank column:9 bank_group pseudo_channel channel"}, r"'column:9' does not fit, 5 bits"),
        ({"row_bytes": 16}, r"row_bytes \(16\) is less than burst_bytes"),
    ],
)  # fmt: skip
def test_impossible_memories_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config({"dram": values})


@pytest.mark.parametrize(
    "mapping",
    [
        "row bank column bank_group pseudo_channel channel",
        "row column bank bank_group pseudo_channel channel column:2",
        "row channel bank pseudo_channel column bank_group",
    ],
)
@pytest.mark.parametrize("hashed", [False, True])
def test_every_burst_has_a_place_of_its_own(mapping: str, hashed: bool) -> None:
    # 4 channels x 2 x 2 groups x 4 banks x rows of 8 bursts: 512 bursts fill every row 0 exactly, the next 512 row 1.
    geometry = _native.TimingParams().dram_geometry
    for name, value in {
        "channels": 4, "pseudo_channels": 2, "bank_groups": 2, "banks_per_group": 4, "row_bytes": 256,
        "mapping": mapping, "channel_hash": hashed, "bank_hash": hashed,
    }.items():  # fmt: skip
        setattr(geometry, name, value)
    for first_row in (0, 7, 1000):
        places: dict[tuple[int, int, int], int] = {}
        for burst in range(first_row * 512, (first_row + 2) * 512):
            place = _native.locate_burst(geometry, burst)
            places[place] = places.get(place, 0) + 1
        assert set(places.values()) == {8}
        assert {(bus, bank) for bus, bank, _ in places} == {(bus, bank) for bus in range(8) for bank in range(8)}
        assert {row for _, _, row in places} == {first_row, first_row + 1}


def test_the_hash_spreads_strides() -> None:
    # A column of a matrix whose rows are 4 KiB long: without the hash every burst lies on one data bus.
    def gib(hashed: bool) -> int:
        config = load_config({"dram": {"kind": "banked", "channel_hash": hashed, "bank_hash": hashed}})
        result = _native.Trace()
        result.start(0, False, [(0, 32, [(8192, 4096)])])
        result.wait(0)
        return simulate([result], config).cycles

    assert gib(True) < gib(False) / 8
