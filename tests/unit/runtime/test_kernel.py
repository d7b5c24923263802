"""Kernels through the runtime, as a generated module calls it: results, refusals, faults, and life after them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
import torch

import pytorchsim
from pytorchsim.config import load_config
from pytorchsim.errors import CompileError, MachineFault
from pytorchsim.report.record import set_thread_record
from pytorchsim.runtime import Graph, Kernel, load_graph
from pytorchsim.runtime.latencies import TILE_LATENCIES

SCHEMA = Path(__file__).parents[3] / "pytorchsim" / "report" / "report.schema.json"
SHAPE = (47, 10)
# A name of its own: else the module of another test's graph may be loaded already, and nothing is defined.
CONFIG = load_config({"base": "tiny", "name": "tiny-runtime"})


@dataclass(frozen=True)
class Definition:
    """A kernel's part of a generated module: relu(a + b) on `tiny`, two tiles."""

    name: str
    text: str
    metadata: str


@pytest.fixture(scope="module")
def definition() -> Definition:
    """What the compiler generates, caught on its way into the runtime."""
    caught: list[Definition] = []
    define = Graph.kernel

    def catch(graph: Graph, name: str, mlir_text: str, metadata: str) -> Kernel:
        caught.append(Definition(name, mlir_text, metadata))
        return define(graph, name, mlir_text, metadata)

    patch = pytest.MonkeyPatch()
    patch.setattr(Graph, "kernel", catch)
    try:
        add_relu = torch.compile(lambda a, b: torch.relu(a + b), backend="pytorchsim", options={"config": CONFIG})
        add_relu(torch.zeros(SHAPE), torch.zeros(SHAPE))
    finally:
        patch.undo()
    (one,) = caught
    return one


@pytest.fixture(autouse=True)
def _no_record() -> Iterator[None]:
    set_thread_record(None)
    yield
    set_thread_record(None)


def load(definition: Definition, text: str = "", *, mode: str = "functional+timing") -> tuple[Graph, Kernel]:
    options = json.dumps({"mode": mode, "strict": True})
    graph = load_graph(name="inference_0", config=CONFIG.canonical_json(), options=options, facts="{}")
    return graph, graph.kernel(definition.name, text or definition.text, definition.metadata)


def call(graph: Graph, kernel: Kernel, *tensors: torch.Tensor) -> None:
    graph.link()
    graph.begin()
    try:
        kernel.run(*tensors)
    finally:
        graph.end()


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(SHAPE), torch.randn(SHAPE), torch.empty(SHAPE)


def check_works(definition: Definition) -> None:
    a, b, out = tensors()
    call(*load(definition), a, b, out)
    assert torch.equal(out, torch.relu(a + b))


def test_a_module_gives_results_and_a_report(definition: Definition) -> None:
    check_works(definition)
    values = pytorchsim.report().to_dict()
    jsonschema.validate(values, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert values["kernels"][0]["name"] == definition.name
    assert values["kernels"][0]["bytes_read"] == 2 * 470 * 4
    assert values["wall_seconds"]["compile"] > 0
    assert values["wall_seconds"]["functional"] > 0


def test_compiling_is_told_once(definition: Definition) -> None:
    graph, kernel = load(definition)
    call(graph, kernel, *tensors())
    call(graph, kernel, *tensors())
    assert pytorchsim.report().to_dict()["wall_seconds"]["compile"] == 0


def test_timing_mode_moves_nothing(definition: Definition) -> None:
    a, b, out = tensors()
    out.fill_(7)
    call(*load(definition, mode="timing"), a, b, out)
    assert torch.equal(out, torch.full(SHAPE, 7.0))
    assert (pytorchsim.report().cycles or 0) > 0


def test_equal_tile_functions_are_measured_once(definition: Definition) -> None:
    check_works(definition)
    known = len(TILE_LATENCIES)
    renamed = Definition("other_7", definition.text.replace(definition.name, "other_7"), definition.metadata)
    check_works(renamed)
    assert len(TILE_LATENCIES) == known


def test_without_a_cache_everything_is_measured_anew(definition: Definition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_NO_CACHE", "1")
    counts = []
    for _ in range(2):
        call(*load(definition, mode="timing"), *tensors())
        counts.append(pytorchsim.report().to_dict()["kernels"][0]["instructions"]["vector"])
    assert counts[0] == counts[1]  # the tile function ran both times
    monkeypatch.delenv("PYTORCHSIM_NO_CACHE")
    call(*load(definition, mode="timing"), *tensors())
    assert pytorchsim.report().to_dict()["kernels"][0]["instructions"]["vector"] < counts[0]


def test_a_missing_wait_is_a_fault(definition: Definition) -> None:
    # The wait for a tile's loads; the tile function then reads what is in flight.
    lines = definition.text.splitlines()
    waits = [number for number, line in enumerate(lines) if "npu.wait" in line]
    text = "\n".join(line for number, line in enumerate(lines) if number != waits[0])
    with pytest.raises(MachineFault, match="in-flight") as caught:
        call(*load(definition, text), *tensors())
    assert caught.value.site.kernel == definition.name
    assert caught.value.site.function.startswith(f"{definition.name}__")
    assert caught.value.site.other_pc
    check_works(definition)


def test_a_store_that_nobody_waits_for_is_a_fault(definition: Definition) -> None:
    lines = definition.text.splitlines()
    last_store = max(number for number, line in enumerate(lines) if "npu.transfer" in line)
    text = "\n".join(line for number, line in enumerate(lines) if number < last_store or "npu.wait" not in line)
    with pytest.raises(MachineFault, match="pending-transfer"):
        call(*load(definition, text), *tensors())
    check_works(definition)


def test_a_tensor_that_is_too_small_is_a_fault(definition: Definition) -> None:
    a, _, out = tensors()
    with pytest.raises(MachineFault, match="slot-bounds"):
        call(*load(definition), a, torch.zeros(46, 10), out)
    check_works(definition)


def test_broken_ir_is_a_compile_error(definition: Definition) -> None:
    graph, _ = load(definition, definition.text.replace("arith.addf", "arith.addi"))
    with pytest.raises(CompileError, match=definition.name):
        graph.link()
    check_works(definition)


def test_wrong_number_of_tensors(definition: Definition) -> None:
    with pytest.raises(TypeError, match="takes 3 tensors, got 2"):
        call(*load(definition), *tensors()[:2])


def test_tensor_that_is_not_strided_memory(definition: Definition) -> None:
    a, b, _ = tensors()
    with pytest.raises(TypeError, match="argument 2 is meta"):
        call(*load(definition), a, b, torch.empty(SHAPE, device="meta"))
    with pytest.raises(TypeError, match=r"argument 0 is cpu torch\.sparse_coo"):
        call(*load(definition), a.to_sparse(), b, b)


def test_launch_outside_of_a_call(definition: Definition) -> None:
    graph, kernel = load(definition)
    graph.link()
    with pytest.raises(RuntimeError, match="outside of begin"):
        kernel.run(*tensors())


def test_launch_before_link(definition: Definition) -> None:
    graph, kernel = load(definition)
    graph.begin()
    try:
        with pytest.raises(RuntimeError, match="not linked"):
            kernel.run(*tensors())
    finally:
        graph.end()


def test_kernel_after_link(definition: Definition) -> None:
    graph, _ = load(definition)
    graph.link()
    with pytest.raises(RuntimeError, match="comes too late"):
        graph.kernel("late", definition.text, definition.metadata)
