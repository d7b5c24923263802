"""Matrix products, plain and batched, with what runs on their operands' tiles before and on finished results after.

In: two operands by strides, fused nodes. Out: one kernel. Layout in the lanes: X[m, k] along k, W[k, n] and the result
along n, so both operands are loaded as they are used, whatever their strides. K tails load as zero in both operands; M
and N tails are computed and not stored. Fused programs run on tiles: elementwise ones on a tile of the result,
reductions over m on whole columns, which then stay in the scratchpad until they are complete.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import ClassVar

import torch
from torch._inductor import ir as inductor_ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.config.tiles import TileChoices, product_key
from pytorchsim.errors import UnsupportedError
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.templates.base import BuiltKernel, Recorded, TemplateBuffer
from pytorchsim.templates.frame import Frame, LoopView, record_epilogues, record_prologues
from pytorchsim.templates.framed_template import FramedTemplate
from pytorchsim.templates.gemm_control import GemmControl
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand, body_of
from pytorchsim.templates.gemm_search import search_gemm, some_tile_fits
from pytorchsim.templates.gemm_tile import RESULT
from pytorchsim.templates.loop_program import AffineIndex, LoopProgram, Operation, Store
from pytorchsim.templates.recorded_types import machine_dtype
from pytorchsim.templates.vector_values import computed_dtype

__all__ = ["PRODUCT_DTYPES", "BmmTemplate", "GemmTemplate", "ProductTemplate"]

PRODUCT_DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip
"""Operands' types; both have the same. Eager multiplies no others on the CPU but complex ones."""

_OPERANDS: tuple[Operand, Operand] = ("x", "w")


class ProductTemplate(FramedTemplate):
    """What is a matrix product, whatever its operands look like. `config`: the machine; `tiles`: what the user
    prescribes."""

    def __init__(self, config: NpuConfig, tiles: TileChoices) -> None:
        self._config, self._tiles = config, tiles

    @abstractmethod
    def problem(self, template: TemplateBuffer) -> GemmProblem:
        """Sizes and places, read from the frozen layouts of the buffers."""

    def tile_key(self, template: TemplateBuffer) -> str:
        """The sizes of the product, where operands are plain matrices."""
        problem = self.problem(template)
        return product_key(problem.m, problem.n, problem.k) if problem.simple else ""

    def result_frame(self, template: TemplateBuffer) -> Frame:
        """(batch, n, m), each a group of axes."""
        problem = self.problem(template)
        return Frame(
            template.get_name(),
            problem.frame("y"),
            problem.y,
            problem.walked("y"),
            problem.y_coordinates,
            problem.y_guards,
        )

    def record_views(
        self,
        template: TemplateBuffer,
        prologues: Sequence[LoopView],
        epilogues: Sequence[LoopView],
        removed: frozenset[str],
    ) -> Recorded:
        """The tail, and the prologue of each operand."""
        problem, name = self.problem(template), template.get_name()
        operands = dict(zip(_OPERANDS, (operand.get_name() for operand in template.operands), strict=True))
        if prologues and not problem.simple:
            raise UnsupportedError("elements of a window are loaded as often as windows meet there")
        frames = {
            operand: Frame(operands[operand], problem.frame(operand), problem.index(operand)) for operand in _OPERANDS
        }
        groups = _by_operand(prologues, operands)
        before = {operand: record_prologues(views, frames[operand]) for operand, views in groups.items() if views}
        tail = record_epilogues(epilogues, self.result_frame(template), removed) if epilogues else None
        if problem.accumulator != problem.result_dtype:
            tail = _with_product(tail, problem, name, stored=name not in removed)
        if tail is not None:
            tail = _on_accumulator(tail, problem, name)
        if tail is not None and not tail.stores:
            tail = None
        fusion = GemmFusion(tail, before.get("x"), before.get("w"))
        loads = [access.buffer for program in (fusion.x, fusion.w, tail) if program for access in program.loads]
        loads += [operands[operand] for operand in _OPERANDS if operand not in before]
        stores = [store.access.buffer for store in tail.stores] if tail else []
        stores += [name] if name not in removed else []
        return Recorded(
            fusion, tuple(load for load in dict.fromkeys(loads) if load != RESULT), tuple(dict.fromkeys(stores))
        )

    def refusal(self, template: TemplateBuffer, recorded: Recorded) -> str:
        """Why no tile fits."""
        question = self.problem(template), recorded.programs, self._config, self._tiles
        if some_tile_fits(*question):
            return ""
        found = search_gemm(*question)
        if found.inexpressible:
            return f"no tile can be moved: {found.inexpressible}"
        overflow = found.nearest.footprint.overflow("", (), {})
        return (
            f"no tile fits: the smallest, {found.nearest.tile.label()}, takes {overflow.used_bytes} bytes per lane of"
            f" {overflow.budget_bytes} ({found.nearest.refusal})"
        )

    def finish_cycles(self, template: TemplateBuffer, recorded: Recorded) -> float:
        """With the best tile that fits; infinite where none does."""
        chosen = search_gemm(self.problem(template), recorded.programs, self._config, self._tiles).chosen
        return chosen.cost.results if chosen is not None and chosen.cost is not None else inf

    def build(
        self,
        name: str,
        template: TemplateBuffer,
        recorded: Recorded,
        slots: Mapping[str, int],
        origins: tuple[str, ...],
    ) -> BuiltKernel:
        """The kernel; `slots` lacks the result's buffer where only the tail uses it."""
        problem, fusion = self.problem(template), recorded.programs
        found = search_gemm(problem, fusion, self._config, self._tiles)
        nearest = found.nearest
        if found.chosen is None and found.inexpressible:
            raise UnsupportedError(f"no tile of it can be moved: {found.inexpressible}")
        if found.chosen is None:
            raise nearest.footprint.overflow(name, origins, nearest.tile.describe())
        ranked = found.ranked if self._rank else (found.chosen,)
        taken = ranked[min(self._rank, len(ranked) - 1)]
        tile, estimate = taken.tile, taken.cost.describe() if taken.cost else ""
        operands = dict(zip(_OPERANDS, (operand.get_name() for operand in template.operands), strict=True))
        with KernelBuilder(name, self._config, origins=origins, tile_shape=tile.describe()) as kernel:
            GemmControl(kernel, problem, fusion, tile, slots).build(operands, template.get_name())
            return BuiltKernel(kernel.text(), tile.describe(), found.reasons, found.fitting, estimate, found.choice)


class GemmTemplate(ProductTemplate):
    """`mm`: operands of rank 2."""

    REDUCTION_EPILOGUE_ALIASING: ClassVar[tuple[str, ...] | None] = ("n", "m")

    def problem(self, template: TemplateBuffer) -> GemmProblem:
        """Sizes and strides, read from the frozen layouts of the buffers."""
        x, w = template.operands
        *batch, m, k = (int(size) for size in x.get_size())
        n = int(w.get_size()[-1])
        dtype, result = machine_dtype(x.get_dtype()), machine_dtype(template.get_dtype())
        body = body_of(dtype, m)
        return GemmProblem(
            batch_axes=(batch[0] if batch else 1,),
            m_axes=(m,),
            n=n,
            k_axes=(k,),
            x=_index(x, swap=body == "array"),
            w=_index(w, swap=True),
            y=_index(template, swap=True),
            dtype=dtype,
            result_dtype=result,
            body=body,
        )


class BmmTemplate(GemmTemplate):
    """`bmm`: operands of rank 3, one product per batch entry."""

    REDUCTION_EPILOGUE_ALIASING: ClassVar[tuple[str, ...] | None] = ("batch", "n", "m")


def _index(buffer: inductor_ir.IRNode, *, swap: bool) -> AffineIndex:
    """Strides over (batch, rows, columns), the last two exchanged where `swap`; 0 along axes of one element, however
    the layout calls their stride, and for a batch that is not there."""
    layout = buffer.get_layout()
    strides = [0 if int(size) == 1 else int(step) for size, step in zip(layout.size, layout.stride, strict=True)]
    batch, rows, columns = [0] * (3 - len(strides)) + strides
    return AffineIndex((batch, columns, rows) if swap else (batch, rows, columns), int(layout.offset))


def _by_operand(views: Sequence[LoopView], operands: Mapping[Operand, str]) -> dict[Operand, list[LoopView]]:
    """Prologues by the operand that they make, in order of execution."""
    groups: dict[Operand, list[LoopView]] = {"x": [], "w": []}
    wanted = {operand: {name} for operand, name in operands.items()}
    if views and operands["x"] == operands["w"]:
        raise UnsupportedError("both operands are one buffer; a prologue would be computed in two layouts")
    for view in reversed(views):
        made = set(view.node.get_buffer_names())
        owner = next((operand for operand in _OPERANDS if made & wanted[operand]), None)
        if owner is None:
            raise UnsupportedError(f"{view.get_name()} makes no operand")
        groups[owner].insert(0, view)
        wanted[owner] |= set(view.reads())
    return groups


def _with_product(tail: LoopProgram | None, problem: GemmProblem, name: str, *, stored: bool) -> LoopProgram | None:
    """The tail with the product itself as a value that is rounded and stored: its buffer has another type than its
    sums."""
    if not stored:
        return tail
    access = problem.access("y", name, problem.result_dtype)
    load = Operation("load", (), computed_dtype(problem.result_dtype), access=access)
    if tail is None:
        return LoopProgram(problem.frame("y"), (load,), (Store(access, 0),), problem.walked("y"))
    operations = list(tail.operations)
    known = next((number for number, op in enumerate(operations) if op.access == access), None)
    if known is None:
        known = len(operations)
        operations.append(load)
    return replace(tail, operations=tuple(operations), stores=(*tail.stores, Store(access, known)))


def _on_accumulator(tail: LoopProgram, problem: GemmProblem, name: str) -> LoopProgram:
    """The tail reading the sums, in their own type, where it reads the result."""
    sums = problem.access("y", RESULT, problem.accumulator)
    operations: list[Operation] = []
    renumbered: list[int] = []
    for original in tail.operations:
        op = replace(original, operands=tuple(renumbered[number] for number in original.operands))
        if op.access is not None and op.access.buffer == name:
            operations.append(replace(op, access=sums, dtype=computed_dtype(problem.accumulator)))
            if op.dtype != operations[-1].dtype:
                operations.append(Operation("to_dtype", (len(operations) - 1,), op.dtype))
        else:
            operations.append(op)
        renumbered.append(len(operations) - 1)
    stores = tuple(replace(store, value=renumbered[store.value]) for store in tail.stores)
    return replace(tail, operations=tuple(operations), stores=stores)
