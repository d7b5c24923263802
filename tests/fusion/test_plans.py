"""Are plans pure, applied when fusion happens, and are refusals kept where reports and caches find them?"""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from pytorchsim.scheduler.scheduling import MLIRScheduling
from pytorchsim.templates.base import FusionPlan
from tests.fusion.conftest import Fuse

randn = torch.randn

pytestmark = pytest.mark.usefixtures("fresh_caches")  # a cached graph is not scheduled again


def everything(node: BaseSchedulerNode) -> dict[str, Any]:
    """Fields of a node and its members, of the scheduler and of the graph: identities and texts."""
    state: dict[str, Any] = {}
    for member in (node, *node.get_nodes()):
        for name, value in vars(member).items():
            if name.endswith("_cache"):  # what Inductor's own getters remember at their first use
                continue
            state[f"{member.get_name()}.{name}"] = (id(value), str(value) if name != "scheduler" else "")
        if isinstance(member, SchedulerNode) and member._body is not None:
            state[f"{member.get_name()}.body text"] = member._body.debug_str()
    scheduler = node.scheduler
    state["fused"] = {name: id(value) for name, value in scheduler.name_to_fused_node.items()}
    state["order"] = [id(value) for value in scheduler.nodes]
    graph = V.graph
    state["graph"] = (
        sorted(graph.removed_buffers), sorted(graph.inplaced_to_remove), sorted(graph.name_to_buffer),
        [id(buffer) for buffer in graph.buffers], [id(operation) for operation in graph.operations],
    )  # fmt: skip
    return state


def model(
    c: torch.Tensor, x: torch.Tensor, w: torch.Tensor, r: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A prologue, an epilogue, a reduction that joins and one that does not."""
    y = (c * x) @ w + r
    return y, y.amax(0), y.amax(1)


def test_asking_twice_changes_nothing(fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, asked = MLIRScheduling._plan, []

    def watched(self: MLIRScheduling, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusionPlan | None:
        before = everything(node1) | everything(node2)
        plans = [ask(self, node1, node2) for _ in range(2)]
        assert everything(node1) | everything(node2) == before
        assert (plans[0] is None) == (plans[1] is None)
        asked.append(plans[1] is not None)
        return plans[1]

    monkeypatch.setattr(MLIRScheduling, "_plan", watched)
    assert fuse(model, randn(40, 1), randn(40, 30), randn(30, 20), randn(40, 20)).kernels == 2
    assert True in asked
    assert False in asked


def test_loops_that_only_merging_fits_are_merged_when_it_happens(fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor merges loops itself; here a node's rows are split as they are where it cannot know that they merge."""
    ask, seen = MLIRScheduling._plan, []

    def split_first(self: MLIRScheduling, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusionPlan | None:
        if isinstance(node2, SchedulerNode) and node2.is_reduction() and not seen:
            node2.apply_loop_reindexing([7, 10])
        loops = len(node2._body.iter_vars) if isinstance(node2, SchedulerNode) and node2.is_reduction() else 0
        plan = ask(self, node1, node2)
        if loops:
            assert len(node2._body.iter_vars) == loops
            seen.append(plan)
        return plan

    monkeypatch.setattr(MLIRScheduling, "_plan", split_first)
    outcome = fuse(lambda x, w: (x @ w).amax(0), randn(130, 30), randn(30, 70))
    assert outcome.origins == [["mm", "amax"]]
    assert seen[0] is not None
    assert seen[0].remap is not None


def test_every_refusal_is_logged(fuse: Fuse, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("pytorchsim.why_no_fuse")
    monkeypatch.setattr(
        logger, "handlers", [caplog.handler]
    )  # the package's loggers do not pass records on to the root
    with caplog.at_level(logging.DEBUG, logger.name):
        outcome = fuse(model, randn(40, 1), randn(40, 30), randn(30, 20), randn(40, 20))
    assert outcome.reasons
    for reason in outcome.reasons.splitlines():
        assert reason in caplog.text


def test_a_cache_hit_reports_the_same_refusals(fuse: Fuse) -> None:
    from torch._dynamo.utils import counters

    tensors = randn(40, 1), randn(40, 30), randn(30, 20), randn(40, 20)
    cold = fuse(model, *tensors)
    counters.clear()
    warm = fuse(model, *tensors)
    assert counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"] >= 1
    assert cold.refusals
    assert warm.refusals == cold.refusals
    assert [kernel["reasons"] for kernel in warm.report["kernels"]] == [
        kernel["reasons"] for kernel in cold.report["kernels"]
    ]
