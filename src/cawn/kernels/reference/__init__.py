"""Slow reference implementations of the kernels, for tests only."""
