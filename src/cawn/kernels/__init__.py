"""Hot loops: `cpu` (numba) and `cuda` (Triton)."""
