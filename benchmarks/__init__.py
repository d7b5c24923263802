"""Measurements of the simulator itself and of its cycles against published ones; none is part of `make test`."""
