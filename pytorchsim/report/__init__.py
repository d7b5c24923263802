"""Reports: `pytorchsim.report()` gives the cycles, traffic and host operations of this thread's last top-level call.

The folder and the public function have one name, so this module is callable. Importing it loads neither `rich` nor the
simulator.
"""

from __future__ import annotations

import sys
from types import ModuleType

from pytorchsim.report.summary import Report, report_of_this_thread

__all__ = ["Report", "report_of_this_thread"]


class _CallableModule(ModuleType):
    def __call__(self) -> Report:
        """Same as `report_of_this_thread()`."""
        return report_of_this_thread()


sys.modules[__name__].__class__ = _CallableModule
