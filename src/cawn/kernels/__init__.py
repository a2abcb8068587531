"""Hot loops: `cpu` (numba), `cuda` (Triton), and `reference`, the slow and obvious versions that tests compare with."""
