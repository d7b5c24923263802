"""Running small programs on a small machine: configs, slots over NumPy arrays, a whole launch in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytorchsim.config.model import ArrayConfig, CoreConfig, NpuConfig
from pytorchsim.simulator.functional import LaunchMode, LaunchResult, Machine, Slot
from tests.unit.engine.assembler import Assembler

LANES = 8
SLICE_BYTES = 8192
STACK_BYTES = 1024


def small_config(**overrides: Any) -> NpuConfig:
    """8 lanes of 8 KiB, VLEN 256; `overrides` are those of `NpuConfig`."""
    core = CoreConfig(lanes=LANES, scratchpad_bytes_per_lane=SLICE_BYTES, stack_reserve_bytes=STACK_BYTES)
    return NpuConfig(name="engine-test", core=core, array=ArrayConfig(count=2, queue_entries=16), **overrides)


def small_machine(**overrides: Any) -> Machine:
    """A machine of `small_config`."""
    return Machine(small_config(**overrides))


def slot(array: npt.NDArray[Any], *, writable: bool = True, dram_address: int = 0x1000, margin: int = 0) -> Slot:
    """A slot for a contiguous array. `margin`: that many elements at either end are not the tensor's."""
    skip = margin * array.itemsize
    assert array.flags.c_contiguous
    return Slot(
        data=array.ctypes.data + skip,
        lowest_byte=0,
        end_byte=array.nbytes - 2 * skip,
        dram_address=dram_address,
        element_bytes=array.itemsize,
        writable=writable,
    )


def run(
    machine: Machine,
    body: Callable[[Assembler], None],
    arrays: Sequence[npt.NDArray[Any]] = (),
    mode: LaunchMode = "functional",
) -> LaunchResult:
    """Load and launch a kernel `k` whose instructions `body` emits, with a return behind them (they leave ra alone)."""
    a = Assembler()
    a.label("k")
    body(a)
    a.ret()
    machine.load(a.program())
    return machine.launch("k", [slot(array) for array in arrays], mode=mode)


def lanes_view(machine: Machine, offset: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """`[lanes, count]`: elements at an offset of every lane's slice."""
    size = count * np.dtype(dtype).itemsize
    rows = [np.frombuffer(machine.slice(lane)[offset : offset + size], dtype) for lane in range(LANES)]
    return np.stack(rows)
