"""The hot functions of `cawn.gpu`, written in Triton."""
