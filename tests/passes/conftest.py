"""Running one pass on a small text, and a check in the manner of FileCheck."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytorchsim.config.model import NpuConfig

RunPass = Callable[..., str]


@pytest.fixture
def run_pass() -> RunPass:
    """`run_pass("name", text)` parses, runs that pass of the pipeline, verifies and prints."""
    from mlir import ir

    from pytorchsim.mlir.dialect import npu_context
    from pytorchsim.mlir.pipeline import PASSES, run_pipeline

    def run(name: str, text: str, config: NpuConfig | None = None) -> str:
        chosen = next(step for step in PASSES if step.name == name)
        with npu_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            run_pipeline(module, config or NpuConfig(), passes=(chosen,))
            return str(module)

    return run


@pytest.fixture
def check() -> Callable[..., None]:
    """`check(text, a, b, ...)`: the fragments occur in this order. `check.absent` is plain `not in`."""

    def ordered(text: str, *fragments: str) -> None:
        position = 0
        for fragment in fragments:
            found = text.find(fragment, position)
            assert found >= 0, f"{fragment!r} is not in the text behind position {position}:\n{text}"
            position = found + len(fragment)

    return ordered


DESCRIPTOR = (
    '"npu.descriptor"() {axes = [{dram_stride = 1 : i64, lane = true, size = 128 : i64, spad_stride = 4 : i64},'
    " {dram_stride = 128 : i64, lane = false, size = 4 : i64, spad_stride = 1 : i64}], bounds = [],"
    ' dtype = "float32", fill = 0 : i64, flags = 0 : i64, index_tiles = [], lane_stride = 1 : i64, local_buffer = "",'
    ' offset = 0 : i64, op = "load", slot = 0 : i64, spad_address = 0 : i64, sym_name = "k.load"} : () -> ()'
)
BUFFER = '"npu.buffer"() {alignment = 64 : i64, bytes = 512 : i64, copies = 2 : i64, sym_name = "k.x"} : () -> ()'
TILE_BODY = """
    %i = arith.constant 0 : index
    %v = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
    vector.store %v, %x[%i] : memref<64xf32>, vector<16xf32>"""
CONTROL_BODY = """
    %tag = arith.constant 1 : index
    %shift = arith.constant 256 : index
    %bytes = "npu.buffer_ref"() {buffer = @k.x} : () -> memref<512xi8>
    %x = memref.view %bytes[%shift][] : memref<512xi8> to memref<64xf32>
    "npu.transfer"(%x, %tag, %core) {descriptor = @k.load, set_indices = array<i64: 1>}
      : (memref<64xf32>, index, index) -> ()
    "npu.wait"(%tag) : (index) -> ()
    func.call @k__body(%x) : (memref<64xf32>) -> ()"""


@pytest.fixture
def kernel_text() -> Callable[..., str]:
    """A valid kernel module of one buffer, one descriptor, one tile function; each part can be replaced."""

    def text(
        *,
        tile: str = TILE_BODY,
        control: str = CONTROL_BODY,
        buffer: str = BUFFER,
        descriptor: str = DESCRIPTOR,
        tile_arguments: str = "%x: memref<64xf32>",
        tile_name: str = "k__body",
        tile_attributes: str = "attributes {npu.tile}",
        control_name: str = "k",
        module_attributes: str = 'attributes {npu.kernel = "k"}',
        extra: str = "",
    ) -> str:
        return f"""module {module_attributes} {{
  {buffer}
  {descriptor}
  {extra}
  func.func @{tile_name}({tile_arguments}) {tile_attributes} {{{tile}
    return
  }}
  func.func @{control_name}(%core: index, %cores: index) attributes {{npu.control}} {{{control}
    return
  }}
}}"""

    return text
