"""One protocol for every system: splits, negatives, training, evaluation, run folders."""
