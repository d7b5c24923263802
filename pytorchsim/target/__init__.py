"""The NPU as a compile target: instructions, dtypes, memory map, DMA descriptors.

Pure tables, no compiler and no simulator.
"""
