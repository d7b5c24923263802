"""Lowerings of `pytorchsim::attention` and of its gradients to template buffers.

In: Inductor's IR of the operands; what no kernel computes has been written out before (`attention_graphs`). Out: the
result, and the statistics where the graph uses them. Importing this module registers it, for our graphs only. Operands
keep their strides, so broadcast axes are read once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import empty_strided
from torch._inductor.virtualized import V

from pytorchsim.config.session import current_session
from pytorchsim.frontend.attention_operator import ATTENTION, ATTENTION_GRADIENTS
from pytorchsim.frontend.lowerings import lowers

__all__: list[str] = []


@lowers(ATTENTION)
def _attention(  # noqa: PLR0913  the operation's arguments
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    mask: ir.TensorBox | None,
    causal: bool,
    scale: float,
    like_query: bool,
) -> tuple[Any, Any]:
    """One template buffer."""
    # Only here: a process that finds everything in caches needs no MLIR.
    from pytorchsim.templates.attention import AttentionTemplate, Operands
    from pytorchsim.templates.base import TemplateBuffer

    del like_query  # it is in the strides of the node's value
    node = V.current_node
    example, _ = node.meta["val"]
    device = query.get_device_or_error()
    inputs = [
        ir.TemplateBuffer.realize_template_input(t) for t in (query, key, value, *(() if mask is None else (mask,)))
    ]
    wanted = any(user.args[1] == 1 for user in node.users)
    statistics = None
    if wanted:
        statistics = empty_strided(list(query.get_size())[:-1], None, dtype=torch.float32, device=device)
        inputs.append(ir.TemplateBuffer.realize_template_input(statistics))
    layout = ir.FixedLayout(device, query.get_dtype(), list(example.shape), list(example.stride()))
    operands = Operands(mask is not None, wanted, causal, scale)
    template = AttentionTemplate(current_session().config, operands)
    result = TemplateBuffer(layout, inputs, template, written=inputs[-1:] if wanted else ())
    return ir.TensorBox.create(result), statistics


@lowers(ATTENTION_GRADIENTS)
def _gradients(  # noqa: PLR0913  the operation's arguments
    gradient: ir.TensorBox,
    query: ir.TensorBox,
    key: ir.TensorBox,
    value: ir.TensorBox,
    mask: ir.TensorBox | None,
    statistics: ir.TensorBox,
    delta: ir.TensorBox,
    causal: bool,
    scale: float,
    first: int,
    wide: bool,
) -> tuple[Any, Any, Any]:
    """One template buffer, the gradient of queries; those of keys and values are written besides."""
    from pytorchsim.templates.attention_backward import AttentionBackwardTemplate, BackwardOperands
    from pytorchsim.templates.base import TemplateBuffer

    device = query.get_device_or_error()
    tensors = (gradient, query, key, value, *(() if mask is None else (mask,)), statistics, delta)
    inputs = [ir.TemplateBuffer.realize_template_input(tensor) for tensor in tensors]
    dtype = torch.float32 if wide else query.get_dtype()
    results = [empty_strided(list(t.get_size()), None, dtype=dtype, device=device) for t in (key, value)]
    inputs += [ir.TemplateBuffer.realize_template_input(result) for result in results]
    layout = ir.FixedLayout(device, query.get_dtype(), list(query.get_size()))
    template = AttentionBackwardTemplate(
        current_session().config, BackwardOperands(mask is not None, causal, scale, first)
    )
    buffer = TemplateBuffer(layout, inputs, template, written=inputs[-2:])
    return (ir.TensorBox.create(buffer), *results)
