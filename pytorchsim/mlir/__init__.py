"""From an MLIR kernel module to a linked program: the `npu` dialect, builders, passes, LLVM workers, linker, ELF.

Importing this package loads neither MLIR nor LLVM; importing `builders` or `compiler` loads MLIR. LLVM only ever runs
in worker processes. Read docs/compiler.md first, then `pipeline.py`.
"""
