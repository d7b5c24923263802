"""The placeholder in a kernel's text where its name belongs, so that equal kernels of any name have equal texts."""

from __future__ import annotations

__all__ = ["KERNEL_NAME"]

KERNEL_NAME = "KERNEL_NAME"
