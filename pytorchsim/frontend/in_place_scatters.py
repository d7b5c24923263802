"""Scatters into a tensor that nobody reads afterwards write into it instead of into a copy.

In: Inductor's table of operations that it may make work in place. Out: the same with our scatters, for our graphs only;
importing this module adds them. So a step of decoding writes its token into the cache and copies none of it. Assumes:
Inductor decides whether the old value is needed; the lowering keeps what it reads of the target apart.
"""

from __future__ import annotations

import torch
from torch._inductor.fx_passes.reinplace import InplaceableOp, inplaceable_ops

from pytorchsim.frontend.registration import compiling_for_npu

__all__ = ["IN_PLACE"]

aten = torch.ops.aten

IN_PLACE = {
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter_add.default: aten.scatter_add_.default,
}
"""Operation -> the same in place. Both have lowerings of ours."""


def _of_ours(node: torch.fx.Node) -> bool:
    del node
    return compiling_for_npu()


for _operation, _in_place in IN_PLACE.items():
    inplaceable_ops.setdefault(_operation, InplaceableOp(_in_place, 0, extra_check=_of_ours))
