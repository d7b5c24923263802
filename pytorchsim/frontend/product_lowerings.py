"""Lowerings of matrix products: `mm`, `addmm` and `bmm` become template buffers with the bias as an epilogue.

In: Inductor's IR of the operands. Out: IR with one template buffer each. Importing this module registers them, for
our graphs only. Operands keep their strides; types that the arrays do not multiply are left to the stock lowering,
which the host-op policy then sees.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.kernel.mm_common import mm_args
from torch._inductor.lowering import lowerings

from pytorchsim.config.session import current_session
from pytorchsim.frontend.lowerings import lowers
from pytorchsim.templates.base import TemplateBuffer
from pytorchsim.templates.gemm import BmmTemplate, GemmTemplate

__all__: list[str] = []

aten = torch.ops.aten


@lowers(aten.mm.default, aten.bmm.default)
def _product(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox | None:
    """X @ W, or a batch of them."""
    if not _multiplied(left, right):
        return None
    _, _, _, layout, left, right = mm_args(left, right)
    session = current_session()
    template = BmmTemplate if len(left.get_size()) == 3 else GemmTemplate
    return ir.TensorBox.create(TemplateBuffer(layout, [left, right], template(session.config, session.tiles)))


@lowers(aten.addmm.default)
def _product_and_bias(
    bias: ir.TensorBox, left: ir.TensorBox, right: ir.TensorBox, *, beta: float = 1, alpha: float = 1
) -> Any:
    """beta * bias + alpha * (X @ W). The sum is realised, so that it becomes the product's epilogue instead of part
    of each of its users."""
    product = _product(left, right)
    if product is None:
        return None
    scaled = lowerings[aten.mul.Tensor](product, alpha) if alpha != 1 else product
    if beta == 0:
        return scaled  # by definition, also where the bias is not finite
    added = lowerings[aten.mul.Tensor](bias, beta) if beta != 1 else bias
    total = lowerings[aten.add.Tensor](scaled, added)
    total.realize()
    return total


def _multiplied(left: ir.TensorBox, right: ir.TensorBox) -> bool:
    """Whether the arrays take these operands: f32, nothing empty."""
    sizes = [int(size) for size in (*left.get_size(), *right.get_size())]
    return left.get_dtype() == right.get_dtype() == torch.float32 and 0 not in sizes
