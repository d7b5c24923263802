"""The generated Python module of a graph: Inductor's wrapper with NPU kernels in place of C++ ones.

In: what Inductor's scheduler and ours write while a graph is compiled. Out: a module that imports `pytorchsim.runtime`,
defines the graph and its kernels, links them once and, per call, allocates buffers and launches kernels in order:

    npu = load_graph(name=..., config=..., options=..., facts=...)
    npu_add_relu_0 = npu.kernel('npu_add_relu_0', r'''<MLIR>''', r'''<JSON>''')
    npu.link()
    def call(args): ... npu.begin(); try: npu_add_relu_0.run(arg0_1, buf0) ... finally: npu.end()

Assumes: one plain `call` (no graph partition, see settings.py), static shapes. Texts depend on the graph alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch._inductor import ir
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V

from pytorchsim.config.session import current_session
from pytorchsim.frontend.graph_compilation import Build, GraphCompilation
from pytorchsim.frontend.graph_definition import GraphDefinition
from pytorchsim.frontend.policy import refuse_or_record
from pytorchsim.frontend.reference_nodes import reference_node
from pytorchsim.runtime.host_ops import HostOp
from pytorchsim.runtime.verification import register_reference

__all__ = ["NpuSubgraphWrapper", "NpuWrapper", "create_wrapper"]


class _NpuKernels(PythonWrapperCodegen):
    """What the wrappers of a graph and of its subgraphs share: kernels are defined in the root's module."""

    def _root(self) -> NpuWrapper:
        raise NotImplementedError

    def define_npu_kernel(self, name_hint: str, mlir_text: str, metadata: dict[str, Any], build: Build) -> str:
        """Define a kernel of this graph, or find it: equal texts are one kernel.

        Args:
            name_hint: what the name should say, an identifier; a number is appended.
            mlir_text: the kernel's module with `KERNEL_NAME` wherever the kernel's name belongs.
            metadata: JSON types. `origins` and `source_lines` (lists) of later definitions are added to the first
                one's; with any other difference the kernel is another one.
            build: makes the kernel for a machine like the session's with shorter vectors, if its frame is too large.

        Returns:
            The kernel's name, which is also the module's variable: what to pass to `generate_kernel_call`.
        """
        root = self._root()
        name = root.definition.define_kernel(name_hint, mlir_text, metadata, root.next_kernel_suffix)
        root.compilation.start(root.definition.kernel(name), build)
        return name

    def record_fact(self, section: str, entry: dict[str, Any]) -> None:
        """Keep a fact (JSON types) with the graph, for the report; also a warm cache has it. Sections are lists."""
        self._root().definition.record_fact(section, entry)

    def verify_launch(self, kernel: str, stored: Mapping[str, str]) -> None:
        """Behind a launch, where the session asks for it: compare what it stored (expressions by buffer name)."""
        if not current_session().verify:
            return
        nodes = {name: reference_node(name) for name in stored}
        pairs = ", ".join(f"{nodes[name]!r}: {stored[name]}" for name in sorted(stored) if nodes[name] is not None)
        if pairs:
            self.writeline(f"npu.verify_launch({kernel}, {{{pairs}}})")  # type: ignore[no-untyped-call]

    def record_host_op(self, op: HostOp) -> None:
        """Keep an operation that runs on the host with the graph; a repeated one (same buffer) counts once."""
        self._root().definition.record_host_op(op)

    def wrap_kernel_call(self, name: str, call_args: list[str]) -> str:
        """A launch of ours, or the call of a host kernel that Inductor writes through the same method."""
        if self._root().definition.has_kernel(name):
            return f"{name}.run({', '.join(map(str, call_args))})"
        return super().wrap_kernel_call(name, call_args)  # type: ignore[no-any-return, no-untyped-call]

    # The second net under the policy pass: every way in which Inductor writes host work goes through one of these.

    def generate_fallback_kernel(self, node: ir.FallbackKernel) -> None:
        refuse_or_record(node, current_session())
        super().generate_fallback_kernel(node)

    def generate_extern_kernel_multi_out(self, node: ir.ExternKernelMultiOut) -> None:
        refuse_or_record(node, current_session())
        super().generate_extern_kernel_multi_out(node)

    def generate_extern_kernel_alloc(self, node: ir.ExternKernelAlloc) -> None:
        refuse_or_record(node, current_session())
        super().generate_extern_kernel_alloc(node)

    def generate_extern_kernel_out(self, node: ir.ExternKernelOut) -> None:
        refuse_or_record(node, current_session())
        super().generate_extern_kernel_out(node)

    def generate_scatter_fallback(self, node: ir.ScatterFallback) -> None:
        refuse_or_record(node, current_session())
        super().generate_scatter_fallback(node)

    def generate_index_put_fallback(self, node: ir.IndexPutFallback) -> None:
        refuse_or_record(node, current_session())
        super().generate_index_put_fallback(node)


class NpuWrapper(_NpuKernels):
    """The wrapper of a whole graph."""

    def __init__(self) -> None:
        self.definition = GraphDefinition(current_session())
        self.compilation = GraphCompilation(current_session().config)
        super().__init__()  # type: ignore[no-untyped-call]

    def _root(self) -> NpuWrapper:
        return self

    def write_header(self) -> None:
        super().write_header()
        self.imports.writeline("from pytorchsim.runtime import load_graph")
        if current_session().mode == "timing":  # no kernel writes: not what memory held before
            self.header.writeline(
                "from pytorchsim.runtime.timing_buffers import unwritten_strided_cpu as empty_strided_cpu"
            )

    def write_async_compile_wait(self) -> None:
        super().write_async_compile_wait()
        self.prefix.writeline("npu.link()")

    def write_prefix(self) -> None:
        super().write_prefix()
        with self.prefix.indent():
            self.prefix.splice(
                """
                npu.begin()
                try:
                """
            )
            if current_session().verify:
                module: Any = V.graph.module
                number, inputs = register_reference(module), ", ".join(V.graph.graph_input_names)
                self.prefix.writeline(f"    npu.verify_against({number}, [{inputs}])")

    def get_wrapper_call_indent(self) -> int:
        return super().get_wrapper_call_indent() + 1  # inside the `try`

    def generate_before_suffix(self, result: IndentedBuffer) -> None:
        with result.indent():
            result.splice(
                """
                finally:
                    npu.end()
                """
            )
        super().generate_before_suffix(result)

    def generate(self, is_inference: bool) -> Any:
        """The module's text. Kernels and facts are complete by now, which is why they are written here."""
        if self.definition.host_ops:
            self.imports.writeline("from pytorchsim.runtime.host_ops import announce_host_ops")
        phase = _phase(is_inference)
        for kernel in self.compilation.settle(self.definition.name(phase, V.graph)):
            self.definition.replace_kernel(kernel)
        for line in self.definition.lines(phase, V.graph):
            self.header.writeline(line)
        return super().generate(is_inference)  # type: ignore[no-untyped-call]


class NpuSubgraphWrapper(_NpuKernels, SubgraphPythonWrapperCodegen):
    """The wrapper of a subgraph (a branch of `torch.cond`, ...): a function in its root's module."""

    def _root(self) -> NpuWrapper:
        root = self.get_root_graph()
        assert isinstance(root, NpuWrapper)
        return root


def create_wrapper(
    is_subgraph: bool,
    subgraph_name: str | None,
    parent_wrapper: PythonWrapperCodegen | None,
    partition_signatures: ir.GraphPartitionSignature | None = None,
) -> PythonWrapperCodegen:
    """What Inductor calls to make a wrapper; same arguments as `PythonWrapperCodegen.create`."""
    if not is_subgraph:
        return NpuWrapper()
    assert subgraph_name is not None
    assert parent_wrapper is not None
    return NpuSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)


def _phase(is_inference: bool) -> str:
    if V.graph.is_backward:
        return "backward"
    return "inference" if is_inference else "forward"
