"""Kernel shapes: the loop program they compute, the tile they compute it on, and the MLIR they emit."""
