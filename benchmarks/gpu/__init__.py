"""The engine on a GPU. Needs a CUDA device and $CAWN_DATA."""
