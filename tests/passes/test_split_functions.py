"""split-functions: a module per function; the control function's has the symbols and the declarations."""

from __future__ import annotations

from collections.abc import Callable


def test_a_module_per_function(
    run_pass: Callable[..., str], kernel_text: Callable[..., str], check: Callable[..., None]
) -> None:
    arguments = "%x: memref<64xf32> {llvm.align = 64 : i64, llvm.noalias}"
    output = run_pass("split-functions", kernel_text(tile_arguments=arguments))
    layout = 'llvm.data_layout = "e-m:e-p:64:64-i64:64-i128:128-n32:64-S128"'
    check(
        output,
        "module @k__body attributes {",
        layout,
        'llvm.target_triple = "riscv64-unknown-elf"',
        f"func.func @k__body({arguments.replace('%x', '%arg0')}) attributes {{npu.tile}} {{",
        "vector.load",
        "module @k attributes {",
        layout,
        "npu.buffer",
        "npu.descriptor",
        "func.func private @k__body(memref<64xf32> {llvm.align = 64 : i64, llvm.noalias})",
        "func.func @k(",
        "npu.transfer",
    )
    tile = output[: output.index("module @k attributes")]
    assert "npu.buffer" not in tile
    assert output.count("func.func @k__body(") == 1


def test_private_tile_functions_become_visible_to_the_linker(
    run_pass: Callable[..., str], kernel_text: Callable[..., str], check: Callable[..., None]
) -> None:
    text = kernel_text().replace("func.func @k__body(", "func.func private @k__body(")
    check(
        run_pass("split-functions", text), "module @k__body", "func.func @k__body(", "module @k ", "func.func private"
    )
