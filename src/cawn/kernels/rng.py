"""Random numbers: SplitMix64 as a hash of (seed, purpose, counter), with no state.

The same words come out of numba, Python, NumPy and PyTorch, so a result depends neither on the processor nor on the
order in which numbers are drawn. Triton kernels take the constants from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from cawn.kernels.jit import inline

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: the increment of SplitMix64, and a multiplier for hash tables
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB

GOLDEN_64 = np.uint64(GOLDEN)
_MIX_1, _MIX_2 = np.uint64(MIX_1), np.uint64(MIX_2)
_S12, _S27, _S30, _S31 = np.uint64(12), np.uint64(27), np.uint64(30), np.uint64(31)
_WORD = (1 << 64) - 1
_BERNOULLI = 0x5851F42D4C957F2D  # separates the numbers of `bernoulli` from those of `order`


@register_jitable  # type: ignore[untyped-decorator]
def mix64(x: Any) -> Any:
    """The finalizer of SplitMix64, of numbers in compiled functions, or of arrays: a bijection of 64-bit words; one
    flipped bit flips half of the output."""
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@inline
def query_key(seed: np.uint64, t_bits: np.uint64, link: int) -> Any:
    """The key of the random numbers of one query (node, t).

    The query is identified by its time and by the newest link its node has before it (2 * event + side). That
    determines the node without using its id, so walks depend neither on how nodes are numbered nor on the batch.
    """
    return mix64(mix64(mix64(seed) ^ t_bits) ^ np.uint64(link))


@inline
def uniform(key: np.uint64, index: int, step: int) -> float:
    """Draw `index` of walk step 1 <= step < 256, in the open interval (0, 1)."""
    bits = mix64(key + np.uint64((index << 8) | step) * GOLDEN_64)
    return (float(bits >> _S12) + 0.5) * 2.0**-52


def mix64_int(x: int) -> int:
    """`mix64` of a Python integer."""
    x = ((x ^ (x >> 30)) * MIX_1) & _WORD
    x = ((x ^ (x >> 27)) * MIX_2) & _WORD
    return x ^ (x >> 31)


def mix64_tensor(x: Any) -> Any:
    """`mix64` of each element of a PyTorch tensor, on its device; 64-bit words are stored as int64."""
    x = (x ^ shift_right(x, 30)) * signed(MIX_1)
    x = (x ^ shift_right(x, 27)) * signed(MIX_2)
    return x ^ shift_right(x, 31)


def shift_right(x: Any, bits: int) -> Any:
    """Logical right shift of an int64 tensor; PyTorch's own is arithmetic."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def seed_for(seed: int, *purpose: object) -> int:
    """The seed of one purpose, such as ("epoch", 3), derived from the seed of the run."""
    number = mix64_int(seed + 1)
    for word in purpose:
        code = word if isinstance(word, int) else int.from_bytes(str(word).encode()[:8], "little")
        number = mix64_int(number ^ code)
    return number >> 1


def order(seed: int, size: int, device: Any = None) -> Any:
    """A random permutation of range(size): an int64 array, or a tensor computed on `device`."""
    return _words(seed, size, device).argsort(stable=True)


def bernoulli(seed: int, size: int, p: float, device: Any = None) -> Any:
    """`size` independent booleans, each true with probability p: an array, or a tensor computed on `device`."""
    return _words(seed ^ _BERNOULLI, size, device) < round(p * 2**63)


def normal(seed: int, size: int) -> npt.NDArray[np.float32]:
    """`size` independent standard normal numbers; the first n do not depend on `size`."""
    words = (_words(seed, 2 * size, None).reshape(size, 2) + 0.5) * 2.0**-63
    radius, angle = np.sqrt(-2 * np.log(words[:, 0])), 2 * np.pi * words[:, 1]
    return np.asarray(radius * np.cos(angle), np.float32)


def _words(seed: int, size: int, device: Any) -> Any:
    """`size` random words of 63 bits as int64, from the counters 0, 1, ..., size - 1."""
    key = mix64_int(seed)
    if device is None:
        return (mix64(np.arange(size, dtype=np.uint64) ^ np.uint64(key)) >> np.uint64(1)).astype(np.int64)
    import torch

    return shift_right(mix64_tensor(torch.arange(size, device=device) ^ signed(key)), 1)


def signed(word: int) -> int:
    """A 64-bit word as the int64 with the same bits."""
    return word if word < 1 << 63 else word - (1 << 64)
