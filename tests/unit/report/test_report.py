"""Reports from records made by hand: sums, the bound rule, the schema, tables and files."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pytorchsim
import pytorchsim.report as report_package
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.errors import ReportError
from pytorchsim.report.bound import CycleShares, bound_by
from pytorchsim.report.memory_path import L2_COUNTERS, L2Traffic, NetworkTraffic
from pytorchsim.report.record import CallRecord, GraphRecord, KernelFacts, LaunchRecord, TileLatency, set_thread_record
from pytorchsim.report.summary import NOTHING_RAN, Report, report_of
from pytorchsim.simulator.timing import CoreTiming, LaunchTiming

SCHEMA = json.loads((Path(report_package.__file__).parent / "report.schema.json").read_text(encoding="utf-8"))
CONFIG = load_config("tpuv3")

HOST_OP = {
    "op": "aten.sort",
    "fx_node": "sort",
    "buffer": "buf3",
    "shape": [4, 5],
    "dtype": "float32",
    "file": "model.py",
    "line": 12,
    "code": "x.sort()",
}


def timing(cycles: int = 1000, **parts: int) -> LaunchTiming:
    values = {"tile": 600, "scalar": 100, "load_wait": 250, "store_wait": 50, "idle": 0} | parts
    core = CoreTiming(**{f"{name}_cycles": count for name, count in values.items()})
    return LaunchTiming(
        cycles=cycles,
        launch_cycles=0,
        cores=(core,),
        transfers=4,
        bytes_read=4096,
        bytes_written=2048,
        burst_bytes_read=8192,
        burst_bytes_written=2048,
        dram_busy_cycles=20,
        network_bytes=10240,
        statistics={
            "lane core 0": {"macs_int8": 100, "scratchpad_bytes": 30, "vector_divides": 10},
            "lane core 1": {"macs_float32": 3, "scratchpad_bytes": 20, "vector_floats": 5},
        },
    )


def launch(name: str = "add_0", measured: LaunchTiming | None = None) -> LaunchRecord:
    facts = KernelFacts(name, ("add", "relu"), ("model.py:3",), (47, 10), {"axis0": 8}, ("tile 16 x 8: too large",))
    return LaunchRecord(facts, measured, {"scalar": 10, "vector": 20}, stack_bytes=64)


def graph(
    *launches: LaunchRecord, name: str = "inference_0", mode: str = "functional+timing", config: NpuConfig = CONFIG
) -> GraphRecord:
    facts = {"host_ops": [HOST_OP], "fusion": [{"nodes": "buf0, buf1", "reason": "other iteration space"}]}
    seconds = {"compile": 0.5, "functional": 0.25, "host": 0.125}
    record = GraphRecord(name, "inference", config, mode, facts, wall_seconds=seconds)
    for one in launches:
        record.add_launch(one)
    return record


def valid(report: Report) -> dict[str, Any]:
    values = json.loads(json.dumps(report.to_dict()))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(values, SCHEMA)
    assert values == report.to_dict()
    return values


def test_one_launch() -> None:
    values = valid(report_of(CallRecord([graph(launch(measured=timing()))])))
    (kernel,) = values["kernels"]
    assert (kernel["name"], kernel["origins"], kernel["shape"]) == ("add_0", ["add", "relu"], [47, 10])
    assert (kernel["cycles"], kernel["bytes_read"], kernel["bytes_written"]) == (1000, 4096, 2048)
    assert kernel["burst_bytes"] == 8192 + 2048
    assert (kernel["utilisation"], kernel["dram_utilisation"]) == (0.6, 0.02)
    assert kernel["bound_by"] == "compute"
    assert kernel["core_cycles"] == {"tile": 600, "scalar": 100, "load_wait": 250, "store_wait": 50, "idle": 0}
    assert kernel["reasons"] == ["tile 16 x 8: too large"]
    assert values["totals"]["cycles"] == 1000
    assert values["totals"]["microseconds"] == pytest.approx(1000 / 940)
    assert values["totals"]["host_ops"] == 1
    assert values["host_ops"][0]["op"] == "aten.sort"
    assert values["config"]["name"] == "tpuv3"
    assert values["config"]["digest"] == CONFIG.digest()
    assert values["graphs"][0]["facts"] == {"fusion": [{"nodes": "buf0, buf1", "reason": "other iteration space"}]}


def test_launches_of_a_kernel_are_summed_over_runs_of_its_graph() -> None:
    one, two = launch(measured=timing()), launch("mul_1", timing(500, tile=100, load_wait=400, scalar=0, store_wait=0))
    values = valid(report_of(CallRecord([graph(one, two, one), graph(one)])))
    assert [(kernel["name"], kernel["launches"], kernel["cycles"]) for kernel in values["kernels"]] == [
        ("add_0", 3, 3000),
        ("mul_1", 1, 500),
    ]
    assert values["kernels"][0]["instructions"] == {"scalar": 30, "vector": 60}
    assert values["graphs"][0]["runs"] == 2
    assert values["totals"] == {
        "cycles": 3500,
        "microseconds": 3500 / 940,
        "launches": 4,
        "bytes_read": 4 * 4096,
        "bytes_written": 4 * 2048,
        # 10240 bytes of bursts per launch: 43.75 pJ in the DRAM, 6.4 on the way. Scratchpad: 1.34 pJ per byte of vector
        # loads and stores, none of transfers in this record. 100 products of int8 at 0.1 pJ, 3 of float32 at 1.69.
        # 10 divisions at 13.5 pJ, 5 sums at 0.85.
        "energy_picojoules": {
            "dram": 4 * 10_240 * 43.75,
            "network": pytest.approx(4 * 10_240 * 6.4),
            "scratchpad": pytest.approx(4 * 50 * 1.34),
            "array": pytest.approx(4 * (100 * 0.1 + 3 * 1.69)),
            "vector": pytest.approx(4 * (10 * 13.5 + 5 * 0.85)),
        },
        "network": {"bytes": 4 * 10_240, "busiest_link": None, "utilisation": None},
        "l2": None,
        "host_ops": 1,
    }
    assert values["wall_seconds"] == {"compile": 1.0, "link": 0.0, "functional": 0.5, "timing": 0.0, "host": 0.25}


def test_equal_names_in_different_graphs_are_different_kernels() -> None:
    record = CallRecord([graph(launch(measured=timing())), graph(launch(measured=timing()), name="inference_1")])
    assert [kernel["graph"] for kernel in valid(report_of(record))["kernels"]] == ["inference_0", "inference_1"]


def test_functional_mode_has_no_cycles() -> None:
    report = report_of(CallRecord([graph(launch(), mode="functional")]))
    values = valid(report)
    assert values["totals"]["cycles"] is None
    assert values["kernels"][0]["cycles"] is None
    assert values["kernels"][0]["bound_by"] is None
    assert "nothing was timed" in str(report)


def test_a_graph_without_kernels_has_no_cycles_but_zero() -> None:
    values = valid(report_of(CallRecord([graph()])))
    assert values["totals"]["cycles"] == 0
    assert values["kernels"] == []


@pytest.mark.parametrize(
    ("tile", "scalar", "load", "store", "dram_busy", "expected"),
    [
        (50, 20, 20, 10, 90, "compute"),
        (20, 50, 20, 10, 90, "scalar"),
        (30, 0, 40, 30, 50, "dram"),  # half of the time is enough
        (30, 0, 40, 30, 49, "latency"),
        (40, 20, 20, 20, 100, "compute"),  # 40 : 40
        (0, 0, 0, 0, 0, "compute"),
    ],
)
def test_bound_rule(tile: int, scalar: int, load: int, store: int, dram_busy: int, expected: str) -> None:
    shares = CycleShares(100, tile, scalar, load, store, 0, dram_busy, 100)
    assert bound_by(shares) == expected


@pytest.mark.parametrize(
    ("dram_busy", "l2_busy", "link_busy", "expected"),
    [
        (80, 0, 60, "dram"),
        (60, 0, 80, "network"),
        (60, 80, 70, "l2"),
        (60, 60, 60, "dram"),  # as busy as each other: what lies furthest from the cores
        (20, 70, 70, "l2"),
        (20, 30, 50, "network"),  # half of the time is enough
        (20, 30, 49, "latency"),
    ],
)
def test_waits_are_for_what_is_busiest(dram_busy: int, l2_busy: int, link_busy: int, expected: str) -> None:
    shares = CycleShares(100, 10, 10, 40, 40, 0, dram_busy, 100)
    network = NetworkTraffic(100, 0, {"core 0 in": link_busy, "core 0 out": 0})
    assert bound_by(shares, network, L2Traffic(100, l2_busy, {})) == expected


def with_memory_path(measured: LaunchTiming, links: dict[str, int], **l2: int) -> LaunchTiming:
    """`measured` on a machine with links, busy for so many cycles, and an L2."""
    components = {f"link {name}": {"packets": 1, "busy_cycles": busy} for name, busy in links.items()}
    components["l2"] = dict.fromkeys(L2_COUNTERS, 0) | l2
    return replace(measured, statistics=components)


def test_links_and_l2_are_in_the_report() -> None:
    machine = load_config({"network": {"kind": "crossbar"}, "l2": {"kind": "shared"}})
    first = with_memory_path(
        timing(), {"core 0 in": 300, "core 0 out": 20}, read_hits=30, read_misses=10, hit_bytes=960
    )
    second = with_memory_path(timing(), {"core 0 in": 100, "core 0 out": 500}, write_hits=8, dram_written_bytes=64)
    report = report_of(CallRecord([graph(launch(measured=first), launch("mul_1", second), config=machine)]))
    values = valid(report)
    # The busiest link of the first kernel was busy for 300 of 1,000 cycles, that of both for 520 of 2,000.
    assert values["kernels"][0]["network"] == {"bytes": 10240, "busiest_link": "core 0 in", "utilisation": 0.3}
    assert values["totals"]["network"] == {"bytes": 20480, "busiest_link": "core 0 out", "utilisation": 0.26}
    l2 = values["totals"]["l2"]
    assert (l2["hits"], l2["misses"], l2["hit_rate"]) == (38, 10, 38 / 48)
    assert (l2["hit_bytes"], l2["dram_written_bytes"]) == (960, 64)
    # 40 bursts of 32 bytes at 1,024 bytes per cycle are 1.25 cycles, 8 bursts a quarter: 2 + 1 of 2,000.
    assert l2["utilisation"] == 3 / 2000
    assert values["kernels"][1]["l2"]["misses"] == 0
    text = str(report)
    for part in (
        "network: 20.0 KiB of bursts, busiest link 'core 0 out': 26.0%",
        "L2: 38 bursts hit, 10 missed",
        "75.0%",
    ):
        assert part in text, text
    assert "L2" not in str(report_of(CallRecord([graph(launch(measured=timing()))])))


def test_idle_cores_lower_the_utilisation() -> None:
    busy = CoreTiming(1000, 0, 0, 0, 0)
    idle = CoreTiming(500, 0, 0, 0, 500)
    shares = CycleShares.of(LaunchTiming(1000, 0, (busy, idle), 0, 0, 0, 0, 0, 0))
    assert shares.compute_utilisation == 0.75


@pytest.fixture
def _nothing_ran() -> Iterator[None]:
    set_thread_record(None)
    yield
    set_thread_record(None)


@pytest.mark.usefixtures("_nothing_ran")
def test_before_anything_ran(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = pytorchsim.report()
    values = valid(report)
    assert values["kernels"] == []
    assert values["totals"]["cycles"] is None
    assert values["config"] is None
    assert str(report) == "\n".join(str(report).splitlines())
    assert " ".join(str(report).split()) == NOTHING_RAN
    report.print()
    assert "Nothing ran" in capsys.readouterr().out
    report.to_csv(tmp_path / "empty.csv")
    assert len((tmp_path / "empty.csv").read_text().splitlines()) == 1


@pytest.mark.usefixtures("_nothing_ran")
def test_the_function_gives_the_threads_record() -> None:
    set_thread_record(CallRecord([graph(launch(measured=timing()))]))
    assert pytorchsim.report().cycles == 1000


def test_table_has_the_figures() -> None:
    text = str(report_of(CallRecord([graph(launch(measured=timing(1_234_567)))])))
    for part in (
        "add_0",
        "add, relu",
        "47x10",
        "1,234,567",
        "compute",
        "4.0 KiB",
        "aten.sort",
        "model.py:12",
        "1 host op",
    ):
        assert part in text, text
    assert "tile 16 x 8: too large" in text
    assert "other iteration space" in text


def test_table_is_deterministic() -> None:
    record = CallRecord([graph(launch(measured=timing()), launch("mul_1", timing(7)))])
    assert str(report_of(record)) == str(report_of(record))


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    report_of(CallRecord([graph(launch(measured=timing()), launch("mul_1", timing(7)))])).to_csv(path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["add_0", "mul_1"]
    first = rows[0]
    assert (first["origins"], first["shape"], first["cycles"], first["tile_cycles"]) == (
        "add;relu",
        "47x10",
        "1000",
        "600",
    )


@pytest.mark.parametrize("module", ["rich", "torch", "pydantic", "pytorchsim._native", "mlir"])
def test_the_module_is_light(module: str) -> None:
    program = f"import sys, pytorchsim; pytorchsim.report(); print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_table_fits_the_terminal(width: int) -> None:
    from rich.console import Console

    from pytorchsim.report.table import tables

    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None)
    for part in tables(
        report_of(CallRecord([graph(launch("add_mul_sub_sigmoid_relu_27", timing(123_456_789)))])), width
    ):
        console.print(part)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert any("123,456,789" in line and "compute" in line for line in lines)


@pytest.mark.parametrize("width", [40, 80, 110, 120, 130])
def test_the_table_of_a_machine_with_links_and_l2_fits_too(width: int) -> None:
    from rich.console import Console

    from pytorchsim.report.table import tables

    machine = load_config({"network": {"kind": "mesh"}, "l2": {"kind": "shared"}})
    measured = with_memory_path(timing(123_456_789), {"router 10 to 11": 300}, read_hits=30, read_misses=10)
    report = report_of(CallRecord([graph(launch("add_mul_sub_sigmoid_relu_27", measured), config=machine)]))
    text = io.StringIO()
    for part in tables(report, width):
        Console(file=text, width=width, color_system=None).print(part)
    assert max(map(len, text.getvalue().splitlines())) <= width
    assert ("L2 hits" in text.getvalue()) == (width == 130)
    assert "30 bursts hit" in " ".join(text.getvalue().split())


@pytest.mark.parametrize("path", ["no/such/folder/kernels.csv", "."])
def test_a_path_that_cannot_be_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(ReportError, match=r"cannot be written to .*; name a file in a folder") as caught:
        report_of(None).to_csv(tmp_path / path)
    assert isinstance(caught.value.__cause__, OSError)


def test_names_break_between_words_and_notes_have_a_legend() -> None:
    short = launch(measured=timing())
    reasons = ("tile chosen of 18 that fit: 1436 cycles (array 564, fill 92)",)
    facts = replace(short.kernel, name="npu_native_layer_norm_backward_0", reasons=reasons)
    call = CallRecord([graph(replace(short, kernel=facts))])
    text = str(report_of(call))
    for word in ("npu_native_layer_", "norm_backward_0"):
        assert word in text
    assert "array, fill: systolic arrays at work" in text
    assert "array, fill" not in str(report_of(CallRecord([graph(launch(measured=timing()))])))


def test_an_error_stands_above_what_ran_before() -> None:
    report = report_of(CallRecord([graph(launch(measured=timing()))], error="MachineFault: misaligned"))
    assert valid(report)["error"] == "MachineFault: misaligned"
    assert str(report).startswith("Error in the last call, what ran before it is below: MachineFault: misaligned")
    assert "add_0" in str(report)
    empty = report_of(CallRecord(error="ConfigError: unknown"))
    assert valid(empty)["kernels"] == []
    assert str(empty) == "Error in the last call, nothing ran: ConfigError: unknown"
    assert valid(report_of(CallRecord([graph(launch(measured=timing()))])))["error"] is None


def test_without_a_terminal_origins_have_room(capsys: pytest.CaptureFixture[str]) -> None:
    operators = ("convolution", "native_batch_norm", "relu", "add", "leaky_relu")
    one = launch("npu_convolution_native_batch_norm_relu_0", timing(123_456_789))
    call = CallRecord([graph(replace(one, kernel=replace(one.kernel, origins=operators)))])
    for text in (str(report_of(call)), (report_of(call).print(), capsys.readouterr().out)[1]):
        assert "convolution, native_batch_norm, relu" in text, text


def test_gem5_rows_are_calls_with_arguments_and_name_gem5_once() -> None:
    rows = tuple(
        TileLatency("add_0__body", (0x20000400, 0, number, 0, 0, 0, 0, 0), 40, 50, "24.0", "24.0.0.1")
        for number in (3, 4)
    )
    one = replace(launch(measured=timing()), tile_latencies=rows)
    text = str(report_of(CallRecord([graph(one)])))
    assert "add_0__body(0x20000400, 0, 3): built-in 40 cycles, gem5 50 (+25.0%)" in text
    assert text.count("gem5 24.0, pinned 24.0.0.1") == 1


def test_idle_cores_are_a_note() -> None:
    """Of a core's 1,000 cycles 400 are idle; with 200 nothing is said."""
    texts = [
        str(
            report_of(CallRecord([graph(launch(measured=timing(tile=800 - idle, idle=idle, scalar=0, load_wait=150)))]))
        )
        for idle in (400, 200)
    ]
    assert ["idle 40.0% of the time" in text for text in texts] == [True, False]
