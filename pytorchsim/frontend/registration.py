"""`install`: once per process, Inductor's entry for device `cpu` learns to ask which backend a compile is for.

In: nothing. Out: a dispatching entry: graphs whose `config.cpu_backend` is ours get our scheduling and wrapper, all
others what was registered before. Assumes: `config.patch` is thread-local, so other threads never see our value.
"""

from __future__ import annotations

import threading
from typing import Any

from torch._inductor import config
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.scheduler import BaseScheduling, Scheduler

from pytorchsim.config.session import current_session
from pytorchsim.frontend.settings import CPU_BACKEND
from pytorchsim.frontend.wrapper import create_wrapper

__all__ = ["compiling_for_npu", "install"]

_LOCK = threading.Lock()
_DEVICE = "cpu"


def compiling_for_npu() -> bool:
    """Whether this thread is compiling a graph for the NPU."""
    return bool(config.cpu_backend == CPU_BACKEND)


def install() -> None:
    """Register the dispatching entry; later calls do nothing."""
    with _LOCK:
        common.init_backend_registration()  # Inductor does it once and only where an entry is missing: before ours
        stock = common.device_codegens[_DEVICE]
        if isinstance(stock, _NpuOrStock):
            return
        common.device_codegens[_DEVICE] = _NpuOrStock(stock)


class _NpuOrStock(common.DeviceCodegen):
    """Inductor's entry of a device, with ours in front."""

    def __init__(self, stock: common.DeviceCodegen) -> None:
        super().__init__(
            _dispatching_scheduling(stock),
            _dispatching_wrapper(stock),
            stock.cpp_wrapper_codegen,
            stock.fx_wrapper_codegen,
        )


def _dispatching_scheduling(stock: common.DeviceCodegen) -> Any:
    def scheduling(scheduler: Scheduler | None) -> BaseScheduling:
        if compiling_for_npu():
            from pytorchsim.scheduler.scheduling import MLIRScheduling  # only here: a warm process needs no MLIR

            return MLIRScheduling(scheduler, current_session().config)
        return stock.scheduling(scheduler)

    return scheduling


def _dispatching_wrapper(stock: common.DeviceCodegen) -> Any:
    base: Any = stock.wrapper_codegen

    class DispatchingWrapper(base):  # type: ignore[misc]  # a subclass, so that what Inductor asks of the class holds
        @staticmethod
        def create(*args: Any, **kwargs: Any) -> PythonWrapperCodegen:
            return (create_wrapper if compiling_for_npu() else base.create)(*args, **kwargs)

    return DispatchingWrapper
