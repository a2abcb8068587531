"""Scoring and ranking beyond one process: jobs in partitions, and Ray datasets (extra `scale`)."""

from cawn.scale.datasets import rank, score

__all__ = ["rank", "score"]
