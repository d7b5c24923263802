"""The Inductor settings of our graphs: one table, applied per compile and never globally.

In: a session. Out: the `config_patches` of `compile_fx`, which Inductor applies again when it compiles the backward
later. Assumes: torch 2.13's names; `config.patch` raises on an unknown one, so none is lost in silence.
"""

from __future__ import annotations

from typing import Any

from pytorchsim.config.session import Session
from pytorchsim.frontend.policy import HostOpPolicy

__all__ = ["CPU_BACKEND", "inductor_settings"]

# The value of Inductor's `cpu_backend` that selects us (its own are cpp, triton, halide and pallas). It is part of
# every cache key; the session's digest is, too, through `HostOpPolicy.uuid`.
CPU_BACKEND = "pytorchsim"

_SETTINGS: dict[str, Any] = {
    "cpu_backend": CPU_BACKEND,
    # What would bring in library kernels of the host, or layouts made for them.
    "pattern_matcher": False,
    "layout_optimization": False,
    "freezing": False,
    "cpp.fallback_scatter_reduce_sum": False,
    "max_autotune": False,
    "max_autotune_gemm": False,
    "coordinate_descent_tuning": False,
    "decompose_mem_bound_mm": False,
    # Loops as the model states them: tiling, splitting and unrolling are ours.
    "split_reductions": False,
    "unroll_reductions_threshold": 1,
    "cpp.use_two_step_variance_threshold": 0,
    "combo_kernels": False,
    "benchmark_fusion": False,
    # One plain Python `call`, one allocation per buffer, no padding.
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "graph_partition": False,
    "memory_planning": False,
    "allow_buffer_reuse": False,
    "comprehensive_padding": False,
    "inplace_padding": False,
    "shape_padding": False,
    "benchmark_harness": False,
    "profile_bandwidth": False,
    "generate_intermediate_hooks": False,
    # It would read every tensor on the host.
    "nan_asserts": False,
    # Ops without a lowering reach the host-op policy, which names them; without this Inductor raises first.
    "implicit_fallbacks": True,
}


def inductor_settings(session: Session) -> dict[str, Any]:
    """The patches for a graph of `session`."""
    settings = {**_SETTINGS, "_pre_fusion_custom_pass": HostOpPolicy(session)}
    if session.verify:  # the module refers to its FX graph, which no cache keeps
        settings["force_disable_caches"] = True
    return settings
