"""Triton kernels of CAW-N."""
