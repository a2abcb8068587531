"""Slow, obvious twins of the kernels, for tests only."""
