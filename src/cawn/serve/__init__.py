"""The live service: links arrive and are stored, scores follow. `cawn serve` starts it."""
