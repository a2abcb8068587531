"""An index on a GPU, and the features of pairs that are computed from it there. Imports Triton."""

from __future__ import annotations

import numpy as np
import torch
import triton
from torch import Tensor

from cawn.index.features import DEPTH, RECENT, PairParts, part_widths
from cawn.index.index import Index
from cawn.index.kernels.building import LINK
from cawn.index.kernels.cuda import DeviceIndex, DeviceLists, rate_features_kernel, sequence_features_kernel
from cawn.index.kernels.rates import AGES
from cawn.index.kernels.sequences import STRIDE
from cawn.index.kinds import KINDS, NODES, PARTNERS
from cawn.kernels.cuda.launch import block_of, place

_FEW = 1 << 12  # pairs, for which more programs pay: searches are chains of dependent loads
_PAIRS = {"rates": (16, 4), "sequences": (32, 1)}  # of a program, among many pairs and among few


def place_index(index: Index, device: torch.device) -> DeviceIndex:
    """A copy of an index on a device, with its lists one after the other."""
    flat = index.flat()
    host, hop, decay = flat.common, flat.nodes.hop, np.array([flat.decay])
    arrays = [host.t, host.alphas, decay, host.time, hop, host.logsum, host.partner, host.totals, host.firsts]
    lists = {kind: flat.lists(kind) for kind in KINDS if kind is not PARTNERS}
    lists[NODES] = lists[NODES]._replace(link=hop[:0, LINK])  # on the device it is a column of the copy of `hop`
    columns = [array for one in lists.values() for array in (one.span, one.link, one.sums, one.keys, one.slots)]
    placed = place([*arrays, *columns], device, "the index")
    found = []
    for i, kind in enumerate(lists):
        span, link, sums, keys, slots = placed[len(arrays) + 5 * i :][:5]
        link = placed[4][:, LINK] if kind is NODES else link
        found.append(DeviceLists(span, link, sums, link.stride(0), sums.shape[1], kind.bits, keys, slots, len(slots)))
    return DeviceIndex._make([*placed[: len(arrays)], *found])


class DevicePairFeatures:
    """Computes what `PairFeatures` does, on a device."""

    def __init__(self, parts: PairParts, index: DeviceIndex) -> None:
        self.parts, self.index = parts, index

    def fill(self, src: Tensor, dst: Tensor, t: Tensor, unit: Tensor, out: Tensor) -> None:
        """Write the features [B, `PairParts.width`] of the pairs (src, dst) at times t, [B] each; unit [1] float64."""
        parts, index, B, D = self.parts, self.index, len(src), len(self.index.alphas)
        sizes = B, len(index.t), len(index.nodes.span)
        rates, sequences = (pairs[B <= _FEW] for pairs in _PAIRS.values())
        if parts.rates and B:
            pair, end, _ = part_widths(D)
            rate_features_kernel[(-(-B // rates), 6 if parts.directed else 3)](
                *(index, src, dst, t, unit, out, *sizes, len(index.time), out.shape[1]),
                D=D,
                AGES=AGES,
                PAIR=pair,
                END=end,
                BLOCK=rates,
                DECAYS=block_of(D, 1 << 20),
                num_warps=1,
            )
        if parts.sequences and B:
            used = -(-D // STRIDE) * parts.two_steps
            sequence_features_kernel[(-(-B // sequences), 2)](
                *(index, src, dst, t, out, *sizes, len(index.firsts), out.shape[1], parts.widths(D)[0]),
                SINCE=parts.since,
                PARTNERS=RECENT * parts.two_steps,
                STRIDE=STRIDE,
                DEPTH=DEPTH * parts.transitions,
                D=used,
                DECAYS=triton.next_power_of_2(max(used, 1)),
                BLOCK=sequences,
                num_warps=1,
            )
