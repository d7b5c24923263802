"""`GraphDefinition`: equal kernels are one, names follow from content, and the lines give back what was put in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytorchsim.config import load_config
from pytorchsim.config.session import Session
from pytorchsim.frontend.graph_definition import GraphDefinition, python_literal
from pytorchsim.runtime.host_ops import HostOp

GRAPH = SimpleNamespace(graph_inputs={}, orig_gm=SimpleNamespace(code="def forward(self): ..."))
MEDIAN = HostOp("aten.median.dim", "median", "buf0", (3,), "float32", "model.py", 7, "x.median(0) # '''")


def definition(**session: Any) -> GraphDefinition:
    return GraphDefinition(Session(load_config("tiny"), **session))


def suffixes() -> Callable[[], str]:
    counter = itertools.count()
    return lambda: str(next(counter))


def executed(graph: GraphDefinition) -> list[tuple[str, Any]]:
    """What the lines do when they run as a module."""
    done: list[tuple[str, Any]] = []
    npu = SimpleNamespace(kernel=lambda *given: done.append(("kernel", given)))

    def load_graph(**given: Any) -> Any:
        done.append(("load_graph", given))
        return npu

    scope = {"load_graph": load_graph, "announce_host_ops": lambda ops: done.append(("announce", ops))}
    exec("\n".join(graph.lines("inference", GRAPH)), scope)
    return done


def test_equal_texts_are_one_kernel_with_all_origins() -> None:
    graph, suffix = definition(), suffixes()
    first = graph.define_kernel("npu_add", "@KERNEL_NAME", {"origins": ["add"], "tile": 8}, suffix)
    again = graph.define_kernel("npu_other", "@KERNEL_NAME", {"origins": ["add_1", "add"], "tile": 8}, suffix)
    assert first == again == "npu_add_0"
    assert graph.has_kernel("npu_add_0")
    assert not graph.has_kernel("npu_other_0")
    (_, (name, text, metadata)) = executed(graph)[1]
    assert (name, text) == ("npu_add_0", "@npu_add_0")
    assert json.loads(metadata) == {"origins": ["add", "add_1"], "source_lines": [], "tile": 8}


@pytest.mark.parametrize(("text", "metadata"), [("@KERNEL_NAME x", {"tile": 8}), ("@KERNEL_NAME", {"tile": 9})])
def test_a_difference_makes_another_kernel(text: str, metadata: dict[str, Any]) -> None:
    graph, suffix = definition(), suffixes()
    graph.define_kernel("npu_add", "@KERNEL_NAME", {"tile": 8}, suffix)
    assert graph.define_kernel("npu_add", text, metadata, suffix) == "npu_add_1"


def test_metadata_of_the_caller_is_not_changed() -> None:
    graph, suffix = definition(), suffixes()
    metadata = {"origins": ["add"]}
    graph.define_kernel("npu_add", "@KERNEL_NAME", metadata, suffix)
    graph.define_kernel("npu_add", "@KERNEL_NAME", {"origins": ["mul"]}, suffix)
    assert metadata == {"origins": ["add"]}


def test_unusable_kernels() -> None:
    with pytest.raises(ValueError, match="lacks the placeholder KERNEL_NAME"):
        definition().define_kernel("npu_add", "@npu_add", {}, suffixes())
    with pytest.raises(ValueError, match="'npu-add' is not an identifier"):
        definition().define_kernel("npu-add", "@KERNEL_NAME", {}, suffixes())


def test_what_the_runtime_gets() -> None:
    graph = definition(mode="timing", strict=False)
    graph.record_fact("why_no_fuse", {"nodes": ["a", "b"], "reason": "it isn't '''possible'''\\"})
    graph.record_host_op(MEDIAN)
    graph.record_host_op(MEDIAN)
    (announce, announced), (load, given) = executed(graph)
    assert (announce, load) == ("announce", "load_graph")
    assert [HostOp.from_dict(facts) for facts in announced] == [MEDIAN]
    assert given["config"] == load_config("tiny").canonical_json()
    assert json.loads(given["options"]) == {"mode": "timing", "strict": False}
    facts = json.loads(given["facts"])
    assert facts["why_no_fuse"] == [{"nodes": ["a", "b"], "reason": "it isn't '''possible'''\\"}]
    assert [HostOp.from_dict(op) for op in facts["host_ops"]] == [MEDIAN]


def test_names_follow_from_content() -> None:
    def name(graph: GraphDefinition, phase: str = "inference", code: str = "a") -> str:
        (line, *_) = graph.lines(phase, SimpleNamespace(graph_inputs={}, orig_gm=SimpleNamespace(code=code)))
        return line.split("'")[1]

    assert name(definition()) == name(definition())
    assert name(definition()).startswith("inference_")
    different = {
        name(definition()),
        name(definition(strict=True)),
        name(definition(), code="b"),
        name(definition(), phase="backward"),
    }
    assert len(different) == 4


@given(st.text(alphabet=st.sampled_from("ab '\"\\\n\r\t\0{}%é")))
def test_literals_are_exact(text: str) -> None:
    assert eval(python_literal(text)) == text
