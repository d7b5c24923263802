"""Does SwinV2 compute what eager computes, with rolled windows in the graph?"""

from __future__ import annotations

import pytest
import torch

from tests.models.suite import gradient_test, value_test
from tests.models.table import ModelCase, cases

test_values = value_test("swinv2")
test_gradients = gradient_test("swinv2")


@pytest.mark.parametrize("case", cases("swinv2"), ids=lambda case: case.name)
def test_roll_is_in_the_graph(case: ModelCase) -> None:
    """In the graph that is lowered: after this project's decompositions, which leave it alone."""
    seen: set[str] = set()

    def collect(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        del inputs
        seen.update(str(node.target) for node in graph.graph.nodes)
        return graph

    from torch._dynamo.backends.common import aot_autograd

    from pytorchsim.frontend.decompositions import decomposition_table

    backend = aot_autograd(fw_compiler=collect, decompositions=decomposition_table())
    model = case.build().eval().requires_grad_(False)
    torch.compile(model, backend=backend, fullgraph=True)(**case.inputs(2))
    assert case.operations
    assert set(case.operations) <= {name.removesuffix(".default") for name in seen}
