"""Cycles of kernels that nobody launches yet, measured on the simulator: what chooses tiles under `tiles="autotune"`.

In: texts of kernels, the machine, what is known of their arguments. Out: cycles of one launch each, or why there are
none. Compiled, linked and timed in worker processes, in timing mode, so no data is needed; kept in the content store.
Assumes: arguments lie one after another in DRAM, as they would at the start of a call; entries of index tiles are made
up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from pytorchsim.config.environment import given_variables, read_environment
from pytorchsim.config.load import load_config
from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import CompileError, MachineFault, SpadOverflowError
from pytorchsim.mlir.build import build_kernel, build_program
from pytorchsim.mlir.cache import shared_store
from pytorchsim.mlir.stored import kernel_key
from pytorchsim.runtime.latencies import timing_model_digest
from pytorchsim.target.memory_map import DRAM_ALIGNMENT_BYTES

__all__ = ["Argument", "Measurement", "measure"]

_SECTION = "measurements"
_NAME = "measured"
_IDLE_SECONDS = 60


class Argument(NamedTuple):
    """A tensor of a launch: bytes of its storage, where in it element 0 is, bytes of an element."""

    storage_bytes: int
    offset_bytes: int
    element_bytes: int


class Measurement(NamedTuple):
    """Cycles of a launch on all cores; None with the reason where the kernel cannot run."""

    cycles: int | None
    refusal: str = ""


def measure(
    texts: Sequence[str], placeholder: str, arguments: Sequence[Argument], config: NpuConfig
) -> list[Measurement]:
    """One measurement per text, in order. `placeholder`: what stands in the texts where the kernel's name belongs.

    Raises:
        CompileError: the compiler or a worker process failed.
    """
    modules = [text.replace(placeholder, _NAME) for text in texts]
    machine = config.canonical_json()
    store = shared_store()
    keys = [_key(module, arguments, config) for module in modules]
    found: dict[int, Measurement] = {}
    for number, key in enumerate(keys):
        payload = store.read(_SECTION, key) if store is not None else None
        if payload is not None:
            found[number] = Measurement(*json.loads(payload))
    waiting = {
        number: _submit(modules[number], arguments, machine) for number in range(len(keys)) if number not in found
    }
    for number, future in waiting.items():
        found[number] = _result(future)
        if store is not None:
            store.write(_SECTION, keys[number], json.dumps(found[number]).encode())
    return [found[number] for number in range(len(keys))]


def measure_here(module: str, arguments: Sequence[Argument], machine: str) -> Measurement:
    """The measurement itself, in this process. `machine`: canonical JSON of the config."""
    from pytorchsim.simulator.functional import Machine, Slot
    from pytorchsim.simulator.timing import simulate

    config = load_config(json.loads(machine))
    try:
        program = build_program([build_kernel(_NAME, module, config).result()], config)
    except SpadOverflowError as error:
        return Measurement(None, f"{error.used_bytes} of {error.budget_bytes} bytes ({error.limit})")
    slots, address = [], 0
    for argument in arguments:
        end = argument.storage_bytes - argument.offset_bytes
        slots.append(Slot(0, -argument.offset_bytes, end, address + argument.offset_bytes, argument.element_bytes))
        address += -(-max(argument.storage_bytes, 1) // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES
    core = Machine(config)
    core.load(program)
    try:
        launches = [
            core.launch(_NAME, slots, core=number, cores=config.cores, mode="timing") for number in range(config.cores)
        ]
    except MachineFault as fault:
        return Measurement(None, str(fault))
    return Measurement(simulate([launch.trace for launch in launches], config).cycles)


def _submit(module: str, arguments: Sequence[Argument], machine: str) -> Future[Measurement]:
    from loky import get_reusable_executor

    executor = get_reusable_executor(
        max_workers=read_environment().workers, timeout=_IDLE_SECONDS, env=given_variables()
    )
    future: Future[Measurement] = executor.submit(measure_here, module, tuple(arguments), machine)
    return future


def _result(future: Future[Measurement]) -> Measurement:
    from loky import get_reusable_executor
    from loky.process_executor import BrokenProcessPool

    try:
        return future.result()
    except BrokenProcessPool as error:
        raise CompileError(
            f"a process that measured tiles ended: {error}; try again, or leave out tiles='autotune'"
        ) from error
    except KeyboardInterrupt:
        get_reusable_executor().shutdown(wait=False, kill_workers=True)
        raise


def _key(module: str, arguments: Sequence[Argument], config: NpuConfig) -> str:
    content = json.dumps([kernel_key(_NAME, module, config), list(arguments), timing_model_digest()])
    return hashlib.sha256(content.encode()).hexdigest()
