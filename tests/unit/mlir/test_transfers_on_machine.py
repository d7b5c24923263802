"""Transfers of compiled kernels on the machine: addresses that the linker places, bounds, the wait before a use."""

from __future__ import annotations

import pytest
import torch

from pytorchsim.errors import MachineFault
from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, DescriptorFlag, IndexTile, TransferOp
from tests.unit.mlir.kernels import tile_kernel, unary
from tests.unit.mlir.machine_runs import CONFIG, LANES, launch, same


def copy_kernel(load: Descriptor, store: Descriptor, *, index: Descriptor | None = None, rows: int = 16) -> str:
    """Loads a tile (by an index tile in a buffer behind another one), stores it."""
    with KernelBuilder("k", CONFIG) as kernel:
        kernel.buffer("first", 100)  # so that no buffer of interest lies at address 0 of the window
        indices = kernel.buffer("indices", rows * 8)
        tile = kernel.buffer("tile", rows * 4)
        before = kernel.descriptor("index", index) if index else ""
        gather = kernel.descriptor("load", load, index_buffers=[indices] * len(load.index_tiles))
        after = kernel.descriptor("store", store)
        with kernel.control():
            memory = builders.buffer_ref(tile)
            if before:
                builders.transfer(before, builders.buffer_ref(indices), 0)
                builders.wait(0)
            builders.transfer(gather, memory, 1)
            builders.wait(1)
            builders.transfer(after, memory, 2)
            builders.wait(2)
        return kernel.text()


def test_gather_by_an_index_tile_in_a_buffer() -> None:
    """The index tile's address in the descriptor is a relocation: the linker places the buffer."""
    rows, source_rows = 16, 100
    table = torch.randn(source_rows, LANES)
    indices = torch.randint(-source_rows, source_rows, (rows,))
    output = torch.zeros(rows, LANES)
    tile = IndexTile(0, wide=True, axes=(0,), dram_stride=LANES, extent=source_rows, wrap=True)
    lanes = Axis(LANES, 1, rows, lane=True)
    load = Descriptor(0, TransferOp.LOAD, dtypes.F32, (Axis(rows, 0, 1), lanes), index_tiles=(tile,))
    store = Descriptor(2, TransferOp.STORE, dtypes.F32, (Axis(rows, LANES, 1), lanes))
    index = Descriptor(1, TransferOp.LOAD, dtypes.I64, (Axis(rows, 1, 1),))
    launch(copy_kernel(load, store, index=index), [table, indices, output])
    same(output, table[indices])


def test_bounds_fill_loads_and_skip_stores() -> None:
    """A tile that is larger than the tensor: loads fill, stores skip."""
    rows = 16
    x, output = torch.randn(10, 100), torch.zeros(10, 100)
    lanes = Axis(LANES, 1, rows, lane=True)
    axes = (Axis(rows, 100, 1), lanes)
    bounds = (Bound(0, (1, 0), 10), Bound(0, (0, 1), 100))
    load = Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, bounds=bounds)
    store = Descriptor(1, TransferOp.STORE, dtypes.F32, axes, bounds=bounds)
    launch(copy_kernel(load, store), [x, output])
    same(output, x)


def test_local_transpose_names_its_buffer() -> None:
    """A local transfer's other side is a buffer too: its address is a relocation in the descriptor."""
    x, output = torch.randn(LANES, LANES), torch.zeros(LANES, LANES)
    per_lane = CONFIG.core.scratchpad_bytes_per_lane // 4
    with KernelBuilder("k", CONFIG) as kernel:
        kernel.buffer("first", 100)
        source, target = kernel.buffer("source", LANES * 4), kernel.buffer("target", LANES * 4)
        lanes = Axis(LANES, 1, LANES, lane=True)
        load = kernel.descriptor("load", Descriptor(0, TransferOp.LOAD, dtypes.F32, (Axis(LANES, LANES, 1), lanes)))
        # target[lane l, element e] = source[lane e, element l]
        axes = (Axis(LANES, per_lane, 1), Axis(LANES, 1, LANES, lane=True))
        local = Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, flags=DescriptorFlag.LOCAL)
        turn = kernel.descriptor("turn", local, local_buffer=source)
        store = kernel.descriptor("store", Descriptor(1, TransferOp.STORE, dtypes.F32, (Axis(LANES, LANES, 1), lanes)))
        with kernel.control():
            for tag, (descriptor, buffer) in enumerate(((load, source), (turn, target), (store, target))):
                builders.transfer(descriptor, builders.buffer_ref(buffer), tag)
                builders.wait(tag)
        text = kernel.text()
    launch(text, [x, output])
    same(output, x.T)


def test_a_missing_wait_is_a_fault() -> None:
    """The wait before the tile function is left out: the tile's first access faults, with both places named."""
    text = tile_kernel("k", unary(lambda v: v))
    first = text.index('"npu.wait"')
    without = text[:first] + text[text.index("\n", first) + 1 :]
    x, output = torch.randn(640, LANES), torch.zeros(640, LANES)
    launch(text, [x, output])
    with pytest.raises(MachineFault) as caught:
        launch(without, [x, output])
    assert caught.value.site.kind == "in-flight"
    assert caught.value.site.function == "k__body"
    assert caught.value.site.notes["other"].startswith("k+")
