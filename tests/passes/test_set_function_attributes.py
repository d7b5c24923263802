"""set-function-attributes: LLVM's attributes per kind of function; ours are gone."""

from __future__ import annotations

from collections.abc import Callable

from pytorchsim.config.model import CoreConfig, NpuConfig

TEXT = """
module {
  module @k__body { llvm.func @k__body() attributes {npu.tile} { llvm.return } }
  module @k {
    llvm.func @k__body() attributes {npu.tile}
    llvm.func @k() attributes {npu.control} { llvm.return }
  }
}"""


def test_attributes(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    output = run_pass("set-function-attributes", TEXT)
    vscale = "vscale_range(4, 4)"
    tile = 'passthrough = ["noinline", "nounwind", "no-builtins", ["no-jump-tables", "true"]]'
    control = tile.replace('"no-builtins"', '"no-builtins", "noimplicitfloat"')
    check(
        output,
        f"llvm.func @k__body() {vscale} attributes {{{tile}}} {{",
        "module @k ",
        f"llvm.func @k() {vscale} attributes {{{control}}} {{",
    )
    assert "npu." not in output


def test_vscale_follows_the_vector_length(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    config = NpuConfig(core=CoreConfig(vlen_bits=512, datapath_bits=256))
    check(run_pass("set-function-attributes", TEXT, config), "vscale_range(8, 8)")
