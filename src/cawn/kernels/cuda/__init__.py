"""GPU kernels in Triton with the functions that launch them. Import these modules only when a GPU is used."""
