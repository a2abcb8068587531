"""The few hot functions: numba for the CPU, and `reference`, the plain slow twins that the tests hold them against."""
