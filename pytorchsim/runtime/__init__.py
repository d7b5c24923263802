"""What generated modules import: graphs, kernels, launches. Imports nothing of the compiler's front half."""

from pytorchsim.runtime.graph import Graph, load_graph
from pytorchsim.runtime.kernel import Kernel

__all__ = ["Graph", "Kernel", "load_graph"]
