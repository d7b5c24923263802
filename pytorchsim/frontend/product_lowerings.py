"""Lowerings of matrix products: `mm`, `addmm`, `bmm`, `baddbmm`, `_int_mm` become template buffers, biases epilogues.

In: Inductor's IR of the operands. Out: IR with one template buffer each. Importing this module registers them, for
our graphs only. Operands keep their strides. Types that no kernel computes with are left to the stock lowering, which
the host-op policy then sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.kernel.mm_common import mm_args
from torch._inductor.lowering import expand, lowerings

from pytorchsim.config.session import current_session
from pytorchsim.frontend.lowerings import lowers

__all__: list[str] = []

aten = torch.ops.aten


@lowers(aten.mm.default, aten.bmm.default)
def _product(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox | None:
    """X @ W, or a batch of them."""
    return _template(left, right, left.get_dtype())


@lowers(aten._int_mm.default)
def _integer_product(left: ir.TensorBox, right: ir.TensorBox) -> ir.TensorBox | None:
    """X @ W of 8-bit integers with 32-bit results."""
    return _template(left, right, torch.int32)


@lowers(aten.addmm.default, aten.baddbmm.default)
def _product_and_bias(
    bias: ir.TensorBox, left: ir.TensorBox, right: ir.TensorBox, *, beta: float = 1, alpha: float = 1
) -> Any:
    """beta * bias + alpha * (X @ W); by definition (BLAS) what is multiplied by 0 is not read, finite or not. The sum
    is realised, so that it becomes the product's epilogue instead of part of each of its users."""
    if alpha == 0:
        return _scaled_bias(bias, [*left.get_size()[:-1], right.get_size()[-1]], beta)
    product = _product(left, right)
    if product is None:
        return None
    scaled = lowerings[aten.mul.Tensor](product, alpha) if alpha != 1 else product
    if beta == 0:
        return scaled
    added = lowerings[aten.mul.Tensor](bias, beta) if beta != 1 else bias
    total = lowerings[aten.add.Tensor](scaled, added)
    total.realize()
    return total


def _scaled_bias(bias: ir.TensorBox, shape: Sequence[Any], beta: float) -> Any:
    if beta == 0:
        return lowerings[aten.full](shape, 0, dtype=bias.get_dtype(), device=bias.get_device())
    return lowerings[aten.mul.Tensor](expand(bias, shape), beta)


def _template(left: ir.TensorBox, right: ir.TensorBox, result: torch.dtype) -> ir.TensorBox | None:
    # Only here: a process that finds everything in caches needs no MLIR.
    from pytorchsim.templates.base import TemplateBuffer
    from pytorchsim.templates.gemm import PRODUCT_DTYPES, BmmTemplate, GemmTemplate

    if left.get_dtype() != right.get_dtype() or left.get_dtype() not in PRODUCT_DTYPES:
        return None
    if 0 in (int(size) for size in (*left.get_size(), *right.get_size())):
        shape = [*left.get_size()[:-1], right.get_size()[-1]]  # empty, or sums of nothing
        zeros: ir.TensorBox = lowerings[aten.full](shape, 0, dtype=result, device=left.get_device())
        return zeros
    _, _, _, layout, left, right = mm_args(left, right, out_dtype=result)
    session = current_session()
    template = BmmTemplate if len(left.get_size()) == 3 else GemmTemplate
    return ir.TensorBox.create(TemplateBuffer(layout, [left, right], template(session.config, session.tiles)))
