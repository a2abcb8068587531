"""CAW-N: causal anonymous walks."""
