"""Hot loops for the CPU, compiled by numba."""
