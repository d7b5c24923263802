"""Provoking faults: a kernel that should fault, and the check that the machine works afterwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine
from tests.unit.engine.assembler import A0, Assembler, spad
from tests.unit.engine.harness import LANES, lanes_view, run


def fault_of(machine: Machine, body: Callable[[Assembler], None], tensors: int = 1) -> MachineFault:
    arrays = [np.zeros((4, LANES), np.float32) for _ in range(tensors)]
    with pytest.raises(MachineFault) as caught:
        run(machine, body, arrays)
    return caught.value


def store_lane_numbers(a: Assembler) -> None:
    a.vset(8, 32)
    a.custom("lane.id", rd=8)
    a.li(A0, spad(0))
    a.vse(32, 8, A0)


def check_works(machine: Machine) -> None:
    run(machine, store_lane_numbers)
    assert (lanes_view(machine, 0, 8, np.int32) == np.arange(LANES)[:, None]).all()
