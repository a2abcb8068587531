"""The order of the links in an epoch, and a coin for each: hashes, so that every device finds the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.reference.walks import mix64

_COIN = 0x5851F42D4C957F2D  # tells the coins of a seed from its order


def order(seed: int, size: int) -> npt.NDArray[np.int64]:
    """A permutation of range(size)."""
    return np.argsort(_words(seed, size), kind="stable")


def coins(seed: int, size: int, share: float) -> npt.NDArray[np.bool_]:
    """[size], true for about this share."""
    return np.asarray(_words(seed ^ _COIN, size) < round(share * 2**63))


def device_order(seed: int, size: int, device: Any) -> Any:
    """`order` as a tensor, found on its device."""
    return _device_words(seed, size, device).argsort(stable=True)


def device_coins(seed: int, size: int, share: float, device: Any) -> Any:
    """`coins` likewise."""
    return _device_words(seed ^ _COIN, size, device) < round(share * 2**63)


def _words(seed: int, size: int) -> npt.NDArray[np.int64]:
    """63 random bits for each of range(size)."""
    x = np.arange(size, dtype=np.uint64) ^ np.uint64(mix64(seed))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(1)).astype(np.int64)


def _device_words(seed: int, size: int, device: Any) -> Any:
    import torch

    from cawn.kernels.reference import torch_walks

    start = mix64(seed)
    key = torch.arange(size, device=device) ^ (start if start < 1 << 63 else start - (1 << 64))
    return (torch_walks.mix64(key) >> 1) & ((1 << 63) - 1)
