"""Walk sampling in plain PyTorch: the baseline for the throughput of the kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from cawn.index.kernels.lists import LENGTH, START_BITS
from cawn.kernels.rng import GOLDEN, shift_right
from cawn.kernels.rng import mix64_tensor as mix64


def count_before(time: Tensor, start: Tensor, stop: Tensor, t: Tensor) -> Tensor:
    """How many of the sorted time[start:stop] are strictly before t, for many lists."""
    lo, hi = start, stop
    while bool((lo < hi).any()):
        mid = (lo + hi) >> 1
        searching = lo < hi
        earlier = time[torch.where(searching, mid, 0)] < t
        lo = torch.where(searching & earlier, mid + 1, lo)
        hi = torch.where(searching & ~earlier, mid, hi)
    return lo - start


def sample_walks(
    index: list[Tensor], nodes: Tensor, t: Tensor, widths: list[int], seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `cawn.walks.kernels.cuda.sample_walks`, [B, M, L] each."""
    span, time, hop, logsum, alphas = index
    known = (nodes >= 0) & (nodes < len(span))
    packed = torch.where(known, span[torch.where(known, nodes, 0)], 0)
    start = packed >> START_BITS
    seen = count_before(time, start, start + (packed & LENGTH), t)
    link = torch.where(seen > 0, hop[(start + seen - 1).clamp(min=0), 1], 0).long()
    word = torch.tensor(seed if seed < 1 << 63 else seed - (1 << 64), device=nodes.device)
    key = mix64(mix64(mix64(word) ^ t.view(torch.int64)) ^ link)[:, None]  # [B, 1]
    w = torch.arange(widths[-1], device=nodes.device)
    first, count = (x[:, None].expand(-1, len(w)) for x in (start, seen))
    path: list[tuple[Tensor, ...]] = [
        (nodes[:, None].expand_as(count), t[:, None].expand_as(count), torch.full_like(count, -1), count)
    ]
    for s, width in enumerate(widths, start=1):
        k = w // (len(w) // width)
        a = k * len(alphas) // width
        bits = mix64(key + ((k << 8) | s) * (GOLDEN - (1 << 64)))
        u = (shift_right(bits, 12).double() + 0.5) * 2.0**-52
        alive = count > 0
        newest = torch.where(alive, first + count - 1, 0)
        target = logsum[a, newest] + u.log()
        lo, hi = torch.where(alive, first - 1, -1), newest
        while bool((alive & (hi - lo > 1)).any()):
            mid = ((lo + hi) >> 1).clamp(min=0)
            enough = logsum[a, mid] - alphas[a] * (time[newest] - time[mid]) >= target
            searching = hi - lo > 1
            hi = torch.where(searching & enough, mid, hi)
            lo = torch.where(searching & ~enough, mid, lo)
        node, link, cut = hop[hi].unbind(-1)
        count = torch.where(alive, cut, 0).long()
        first = torch.where(alive, span[node.long()] >> START_BITS, 0)
        path.append((*(torch.where(alive, x, -1) for x in (node, time[hi], link)), count))
    found_nodes, times, links, counts = (torch.stack(parts, dim=-1) for parts in zip(*path, strict=True))
    return found_nodes.int(), times, links.int(), counts.int()
