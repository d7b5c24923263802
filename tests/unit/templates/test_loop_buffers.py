"""Does a kernel declare just the buffers that its tile search counted?"""

from __future__ import annotations

import re

import pytest

from pytorchsim.config.load import load_config
from pytorchsim.target.dtypes import BOOL, F32, I8, I32, I64, Dtype
from pytorchsim.templates.loop_buffers import loop_footprint
from pytorchsim.templates.loop_kernel import build_loop_kernel
from pytorchsim.templates.loop_program import Access, AffineIndex, Gather, LoopProgram, Operation, Store
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile_search import search


def _reduced(shape: tuple[int, int], reduction: str, dtype: Dtype, result: Dtype) -> LoopProgram:
    load = Operation("load", (), dtype, access=Access("x", dtype, AffineIndex((shape[1], 1))))
    reduce = Operation("reduce", (0,), result, reduction=reduction)
    return LoopProgram(shape, (load, reduce), (Store(Access("out", result, AffineIndex((1, 0))), 1),), reduced=1)


def _gathered() -> LoopProgram:
    index = Operation("load", (), I32, access=Access("index", I32, AffineIndex((1, 0))))
    table = Access("table", F32, AffineIndex((0, 1)), gathers=(Gather(0, 70, 50),))
    out = Store(Access("out", F32, AffineIndex((70, 1))), 1)
    return LoopProgram((30, 70), (index, Operation("load", (), F32, access=table)), (out,))


@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
@pytest.mark.parametrize(
    "program",
    [
        _reduced((40, 300), "sum", F32, F32),
        _reduced((1, 1 << 22), "argmax", F32, I64),  # streamed: accumulators of a value and of a position
        _reduced((1, 1 << 22), "any", BOOL, BOOL),
        _reduced((2, 1000), "max", I8, I8),
        _gathered(),
    ],
    ids=["sum", "streamed argmax", "streamed any", "bytes", "gather"],
)
def test_declared_is_what_was_counted(program: LoopProgram, config: str) -> None:
    machine, stages = load_config(config), plan_stages(program)
    tile = search(program, stages, machine).tile
    assert tile is not None
    shares = dict(loop_footprint(program, tile, stages, machine).shares)
    del shares["stack"]
    slots = {access.buffer: number for number, access in enumerate(program.accesses())}
    if "index" not in slots and any(op.access and op.access.buffer == "index" for op in program.operations):
        slots["index"] = len(slots)
    text = build_loop_kernel("k", program, slots, (), machine).mlir
    declared = {}
    for line in text.splitlines():
        if '"npu.buffer"' in line:
            name = re.search(r'sym_name = "k\.(\w+)"', line)
            size = re.search(r"bytes = (\d+)", line)
            assert name
            assert size
            declared[name[1]] = int(size[1])
    assert declared == shares
