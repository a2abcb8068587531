"""The score of a pair as a game: its value is the logit if only some parts of the input are present.

A part that is left out takes the values of a *stand-in*, another pair: two strangers by default. Exact features are
replaced by those of the stand-in, and so are times and attributes on walks. Walks that are left out are replaced by as
many walks of the stand-in, and they are not counted in the relative identities of the walks that are present.

With all parts present, the value is the logit of the pair; with none, that of the stand-in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.caw.features import WALK_SEED, Batch, Batcher
from cawn.caw.model import CAWN
from cawn.caw.system import WalkScorer
from cawn.checks import Array
from cawn.explain.distinct_walks import distinct_walks
from cawn.explain.parts import InputParts, walk_kinds
from cawn.explain.shapley import all_coalitions, join_weights, shapley_values
from cawn.walks.kernels.prefixes import Level

_PAIRS = 64  # whose coalitions are evaluated at once, at most
_POSITIONS = 64 * 64 * 3  # on the walks of one side of these pairs
_INPUTS = ("parent", "owner", "own", "other", "weight", "elapsed", "age", "x", "order")  # fields of a level


@dataclass(frozen=True, slots=True)
class StandIns:
    """The pairs whose values left-out parts take."""

    batch: Batch  # of Z pairs
    number: Array  # [B] the stand-in of each pair that is explained
    features: Array  # [B, R] its exact features at the time of that pair

    @classmethod
    def strangers(cls, batcher: Batcher, t: Array) -> StandIns:
        """Two nodes without links, at times t [B]."""
        unknown = np.full(len(t), batcher.events.num_nodes)
        batch = batcher.trace(unknown[:1], unknown[:1] + 1, t[:1], seed=WALK_SEED)
        _, times = batcher.queries(unknown, t)
        return cls(batch, np.zeros(len(t), np.int64), batcher.exact_features(unknown, unknown + 1, times))

    @classmethod
    def pairs(cls, batcher: Batcher, src: Array, dst: Array, t: Array) -> StandIns:
        """The pairs (src, dst) at times t, one for each pair that is explained."""
        batch = batcher.trace(src, dst, t, seed=WALK_SEED)
        return cls(batch, np.arange(len(t)), batch.pair_features)


class Contributions(NamedTuple):
    """What the parts of B pairs contribute to their logits."""

    table: Array  # [B, 2^n] the value of each coalition of parts
    parts: Array  # [B, n]
    walks: Array  # [distinct walks] the share of each in the contribution of its part
    counted: Array  # [B, n] the share of exact features in the contributions of parts that have walks as well


class Players(NamedTuple):
    """The player that each exact feature, each distinct walk, times and attributes belong to; -1 for none."""

    number: int  # n
    feature: Array  # [R]
    walk: Array  # [distinct walks]
    steps: tuple[int, int]  # of times and of attributes


class Game:
    """The games of B pairs (src, dst) at times t."""

    def __init__(self, scorer: WalkScorer, src: Array, dst: Array, t: Array, stand_ins: StandIns | None = None) -> None:
        self.batcher = batcher = scorer.batcher
        config = batcher.config
        self._module, self._head = scorer.module.eval(), _Head(scorer.module)
        self.parts = parts = InputParts.of(config, batcher.events, len(batcher.history.alpha))
        self._stand_ins = StandIns.strangers(batcher, t) if stand_ins is None else stand_ins
        nodes, times = batcher.queries(np.concatenate([src, dst]), np.concatenate([t, t]))
        self._rows = np.arange(2 * len(src)).reshape(2, -1).T  # [B, 2] the queries of each pair
        self._sampled = batcher.walks(nodes, times, seed=WALK_SEED)
        vectors, levels = batcher.prefix_trees(self._sampled, self._rows, merge=False)
        u, v = nodes.reshape(2, -1)
        self._features = batcher.exact_features(u, v, times[: len(src)])
        self.walks = distinct_walks(Batch(config.num_walks, vectors, levels, self._features))
        kind = walk_kinds(self.walks.shapes, self.walks.side, config.length)
        self.part_of_walk = parts.walk[kind]  # [distinct walks]

    @property
    def num_pairs(self) -> int:
        return len(self._rows)

    @property
    def players(self) -> Players:
        """Each part is a player."""
        parts = self.parts
        return Players(len(parts.names), parts.feature, self.part_of_walk, (parts.time, parts.attributes))

    def contributions(self) -> Contributions:
        """The exact contributions of all parts and of the walks within them, from all coalitions."""
        n = len(self.parts.names)
        table, counted = np.empty((self.num_pairs, 1 << n)), np.zeros((self.num_pairs, n))
        shares = np.zeros(len(self.part_of_walk))
        for pairs in self._pieces():
            evaluated = self._evaluate(pairs, all_coalitions(n), self.players)
            table[pairs] = evaluated.values
            self._add_shares(evaluated, shares, counted)
        parts = shapley_values(table)
        return Contributions(table, parts, *self._with_remainder(parts, shares, counted))

    def values(self, coalitions: Array, players: Players) -> Array:
        """The values of coalitions [C, n]: [B, C]."""
        return np.concatenate([self._evaluate(pairs, coalitions, players).values for pairs in self._pieces()])

    def _pieces(self) -> list[Array]:
        config = self.batcher.config
        size = min(max(_POSITIONS // (config.num_walks * (config.length + 1)), 1), _PAIRS)
        return [np.arange(i, min(i + size, self.num_pairs)) for i in range(0, self.num_pairs, size)]

    @torch.no_grad()
    def _evaluate(self, pairs: Array, coalitions: Array, players: Players) -> _Evaluated:
        """The values of coalitions [C, n] of P pairs."""
        features, of_features = _distinct_rows(coalitions, players.feature)
        walks, of_walks = _distinct_rows(coalitions, players.walk)
        steps, of_steps = _distinct_rows(coalitions, np.array(players.steps))
        held = np.zeros((self.num_pairs, players.number), bool)  # whether a pair has walks of a player
        held[self.walks.pair, players.walk] = True
        # Coalitions that differ only in walks that a pair does not have are the same.
        known = (walks & held[pairs][:, None]).reshape(-1, players.number)  # [P * walk coalitions, n]
        keys = np.column_stack([np.repeat(np.arange(len(pairs)), len(walks)), np.packbits(known, axis=1)])
        _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        sets = self._walk_sets(pairs[first // len(walks)], known[first], players.walk)  # V of them
        number = of_steps * len(first) + number.reshape(len(pairs), -1)[:, of_walks]  # [P, C]
        known_steps = [[player < 0 or row[player] for player in players.steps] for row in steps]
        pooled = [self._pool(sets, *known) for known in known_steps]
        hidden = torch.cat([self._head.from_walks(one.means) for one in pooled])[self._tensor(number)]  # [P, C, h]
        from_features = hidden.new_zeros(len(pairs), 1, 1)
        if len(players.feature):
            from_features = self._from_features(pairs, features[:, players.feature])[:, self._tensor(of_features)]
        hidden = hidden + from_features
        values = self._head.output(hidden).double().cpu().numpy()
        return _Evaluated(pairs, values, hidden, from_features, sets, pooled, number)

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self._head.device)

    def _from_features(self, pairs: Array, known: Array) -> Tensor:
        """What exact features add to the hidden layer, if some are known: [rows, R] to [P, rows, h]."""
        own, stand_in = self._features[pairs], self._stand_ins.features[pairs]
        mixed = np.where(known, own[:, None], stand_in[:, None])  # [P, rows, R]
        found = self._head.from_features(self._tensor(mixed.reshape(-1, mixed.shape[2])))
        return found.reshape(len(pairs), len(known), -1)

    # Walks.

    def _walk_sets(self, pairs: Array, known: Array, player: Array) -> _WalkSets:
        """The walks of V pairs if those of some players are known, [V, players], with walks of stand-ins for others."""
        present = known[np.arange(len(pairs))[:, None, None], player[self._walk_numbers[pairs]]]  # [V, 2, M]
        nodes, times, events = (values[self._rows[pairs]] for values in self._sampled)  # [V, 2, M, L]
        nodes[..., 1:][~present] = -1  # these walks end where they start
        rows = np.arange(2 * len(pairs)).reshape(-1, 2)
        nodes, times, events = (values.reshape(-1, *values.shape[2:]) for values in (nodes, times, events))
        vectors, levels = self.batcher.prefix_trees((nodes, times, events), rows, merge=False)
        M, absent = present.shape[2], (~present).sum(axis=2).reshape(-1)  # [2V]
        ending = np.rint(levels[0].weight * M) - absent  # there is one prefix of depth 0 for each side
        levels[0] = levels[0]._replace(weight=(ending / M).astype(np.float32))
        stand_ins = _select_pairs(self._stand_ins.batch, self._stand_ins.number[pairs])
        share = (absent / M).astype(np.float32)
        replacing = [level._replace(weight=level.weight * share[level.owner]) for level in stand_ins.levels]
        ends = np.concatenate([level.weight for level in levels]) > 0
        walk = np.full(len(ends), -1)
        keys = _path_keys(levels, 2 * np.repeat(pairs, 2) + np.tile([0, 1], len(pairs)))
        walk[ends] = self._find_walks(np.concatenate(keys)[ends])
        return _WalkSets(pairs, Trees(vectors, levels), Trees(stand_ins.vectors, replacing), walk)

    @cached_property
    def _walk_numbers(self) -> Array:
        """The distinct walk that each sampled walk is: [B, 2, M]."""
        nodes, _, events = (values[self._rows] for values in self._sampled)  # [B, 2, M, L]
        owner = np.arange(2 * self.num_pairs).reshape(-1, 2, 1)
        return self._find_walks(_walk_keys(np.broadcast_to(owner, nodes.shape[:3]), nodes, events))

    def _find_walks(self, keys: Array) -> Array:
        known, order = self._sorted_keys
        return np.asarray(order[np.searchsorted(known, keys)])

    @cached_property
    def _sorted_keys(self) -> tuple[Array, Array]:
        keys = _walk_keys(2 * self.walks.pair + self.walks.side, self.walks.nodes, self.walks.events)
        order = np.argsort(keys)
        return keys[order], order

    def _pool(self, sets: _WalkSets, times_known: bool, attributes_known: bool) -> _Pooled:
        """Encode and pool walks, with or without their times and attributes."""
        levels = sets.known.levels
        if not times_known:
            levels = self._without(levels, sets.pairs, self.parts.time_columns, self.batcher.config.time_code)
        if not attributes_known:
            levels = self._without(levels, sets.pairs, self.parts.attribute_columns)
        trees = _join_trees(Trees(sets.known.vectors, levels), sets.replacing)
        features = np.empty((len(sets.pairs), 0), np.float32)
        batch = Batch(self.batcher.config.num_walks, trees.vectors, trees.levels, features).to(self._head.device)
        terms = self._module.pooling_terms(batch)  # of the prefixes of each level, known walks first
        sizes = [len(level.parent) for pair in zip(levels, sets.replacing.levels, strict=True) for level in pair]
        return _Pooled(_sum_by_set(terms, batch, self._joint), torch.cat(torch.split(terms, sizes)[::2]))

    @property
    def _joint(self) -> bool:
        return self.batcher.config.sides == "joint"

    def _without(self, levels: list[Level], pairs: Array, columns: list[int], f2_input: str = "") -> list[Level]:
        """The levels with columns of X, and the input of f2, of the stand-ins."""
        found = []
        for level, (times, x) in zip(levels, self._stand_in_steps, strict=True):
            own = self._stand_ins.number[pairs][level.owner >> 1], level.owner & 1
            mixed = level.x.copy()
            mixed[:, columns] = x[own][:, columns]
            found.append(level._replace(x=mixed, **{f2_input: times[own]} if f2_input else {}))
        return found

    @cached_property
    def _stand_in_steps(self) -> list[tuple[Array, Array]]:
        """The inputs of f2 and X of a typical step of each side of the stand-ins, at each depth: [Z, 2], [Z, 2, width].

        It is the step with the median time; zero where there is none.
        """
        batch, found = self._stand_ins.batch, []
        for level in batch.levels:
            times, x = getattr(level, self.batcher.config.time_code), level.x
            order = np.lexsort((times, level.owner))
            owner, first, size = np.unique(level.owner[order], return_index=True, return_counts=True)
            middle = order[first + size // 2]
            of_times = np.zeros(2 * batch.num_pairs, np.float32)
            of_x = np.zeros((2 * batch.num_pairs, x.shape[1]), np.float32)
            of_times[owner], of_x[owner] = times[middle], x[middle]
            found.append((of_times.reshape(-1, 2), of_x.reshape(batch.num_pairs, 2, x.shape[1])))
        return found

    # What walks and features contribute within their part.

    @torch.no_grad()
    def _add_shares(self, evaluated: _Evaluated, shares: Array, counted: Array) -> None:
        """Add what the encoding of each walk, and exact features, add to the contribution of their part.

        A part joins a coalition along a straight line in the input of the hidden layer. What this adds to the logit is
        divided among the walks by the mean slope on that line.
        """
        n, sets = len(self.parts.names), evaluated.sets
        coalitions, weights = np.arange(1 << n), join_weights(n).astype(np.float32)
        part_of_row = np.where(sets.walk >= 0, self.part_of_walk[sets.walk], -1)  # of each prefix
        owner, weight = (np.concatenate([level[i] for level in sets.known.levels]) for i in (1, 4))
        means = torch.cat([one.means for one in evaluated.pooled])
        same_walks = 1 << self.parts.first_walks  # consecutive coalitions
        for part in self.parts.walks:
            without = coalitions[coalitions >> part & 1 == 0]
            before, after = (self._tensor(one) for one in (without, without | 1 << part))
            slope = self._head.slope(evaluated.hidden[:, before], evaluated.hidden[:, after])  # [P, C / 2, h]
            slope = slope * self._tensor(weights[np.bitwise_count(without)])[:, None]
            if (self.parts.feature == part).any():
                change = evaluated.from_features[:, after] - evaluated.from_features[:, before]
                counted[evaluated.pairs, part] = (slope * change).sum(dim=(1, 2)).double().cpu().numpy()
            rows = np.flatnonzero(part_of_row == part)
            if len(rows) == 0:
                continue
            slope = slope.reshape(len(slope), -1, same_walks, slope.shape[2]).sum(dim=2)
            some = without[::same_walks]
            before, after = (self._tensor(evaluated.number[:, one]) for one in (some, some | 1 << part))
            slope = self._head.slope_of_sides(slope, means, before, after)  # [P, ..., 2, d]
            of_set = slope.new_zeros(len(evaluated.pooled) * len(sets.pairs), *slope.shape[2:])
            of_set = of_set.index_add(0, after.reshape(-1), slope.flatten(0, 1))
            at, side, ending = (self._tensor(values[rows]) for values in (owner >> 1, owner & 1, weight))
            instead = self._stand_in_means[self._tensor(self._stand_ins.number[sets.pairs])[at], side]
            instead = instead * ending[:, None] / (1 + self._joint)
            for one, direction in zip(evaluated.pooled, torch.split(of_set, len(sets.pairs)), strict=True):
                share = ((one.terms[self._tensor(rows)] - instead) * direction[at, side]).sum(dim=1)
                np.add.at(shares, sets.walk[rows], share.double().cpu().numpy())

    @cached_property
    def _stand_in_means(self) -> Tensor:
        """The mean encoding of the walks of each side of the stand-ins: [Z, 2, d]."""
        batch = self._stand_ins.batch.to(self._head.device)
        means = _sum_by_set(self._module.pooling_terms(batch), batch, False)
        return means.reshape(-1, 2, means.shape[1]) * (1 + self._joint)

    def _with_remainder(self, parts: Array, shares: Array, counted: Array) -> tuple[Array, Array]:
        """Shares of walks and of exact features that add up to the contributions of parts [B, n].

        What is missing is due to relative identities: a part's walks are counted in those of other walks. It is divided
        evenly among the sampled walks of the part.
        """
        walks, n = self.walks, len(self.parts.names)
        group, size = walks.pair * n + self.part_of_walk, self.num_pairs * n
        found, count = (np.bincount(group, weights=values, minlength=size) for values in (shares, walks.count))
        missing = parts.reshape(-1) - found - counted.reshape(-1)
        shares = shares + missing[group] * walks.count / count[group]
        only_counted = np.where((count == 0).reshape(-1, n), parts, counted)
        return shares, np.where(np.isin(np.arange(n), self.parts.walks), only_counted, 0)


class Trees(NamedTuple):
    """Trees of prefixes, see `Batch`."""

    vectors: Array
    levels: list[Level]


class _WalkSets(NamedTuple):
    """V walk sets of pairs; of the prefixes of known walks, `walk` is the distinct walk that ends there, or -1."""

    pairs: Array  # [V]
    known: Trees
    replacing: Trees
    walk: Array  # [n]


class _Pooled(NamedTuple):
    means: Tensor  # [2V, d], or [V, d] with joint sides
    terms: Tensor  # [n, d] of the prefixes of known walks


class _Evaluated(NamedTuple):
    """C coalitions of P pairs. Walk sets are numbered through all coalitions of steps."""

    pairs: Array  # [P]
    values: Array  # [P, C]
    hidden: Tensor  # [P, C, h]
    from_features: Tensor  # [P, C, h] the part of it that is due to exact features
    sets: _WalkSets
    pooled: list[_Pooled]  # for each coalition of steps
    number: Array  # [P, C] the walk set of each coalition


class _Head:
    """The last layers of the network. The hidden layer is a sum over walks and exact features, before its ReLU."""

    def __init__(self, module: CAWN) -> None:
        self._module = module
        layers: list[Any] = [*module.head] if isinstance(module.head, nn.Sequential) else [module.head]
        first = layers[0]
        self._width = module.width - (0 if module.from_pair is None else module.config.dim)
        self._weight: Tensor = first.weight.detach()  # [h, width]
        self._bias: Tensor = first.bias.detach()  # [h]
        self._last: Any = layers[-1] if len(layers) > 1 else None
        self.device = self._weight.device

    def from_walks(self, pooled: Tensor) -> Tensor:
        """From pooled walks: [V, h], with the bias."""
        return self._module.join_sides(pooled) @ self._weight[:, : self._width].T + self._bias

    def from_features(self, features: Tensor) -> Tensor:
        """From exact features: [n, R] to [n, h]."""
        encoded = self._module.encode_features(features)
        assert encoded is not None
        return encoded @ self._weight[:, self._width :].T

    def output(self, hidden: Tensor) -> Tensor:
        """Logits: [..., h] to [...]."""
        logits: Tensor = hidden if self._last is None else self._last(hidden.relu())
        return logits.squeeze(-1)

    def slope(self, before: Tensor, after: Tensor) -> Tensor:
        """The mean gradient of the output on the line between two hidden layers: [..., h]."""
        if self._last is None:
            return torch.ones_like(before)
        return _secant(before, after, torch.relu, (before > 0).to(before)) * self._last.weight[0]  # type: ignore[no-any-return]

    def slope_of_sides(self, slope: Tensor, means: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """The same for the pooled walks of each side: [P, n, h] to [P, n, 2, d].

        Args:
            means: Of all walk sets, as `_Pooled.means`.
            before, after: [P, n] the numbers of the walk sets.
        """
        found = slope @ self._weight[:, : self._width]
        sides = self._module.config.sides
        if sides == "joint":
            return torch.stack([found, found], dim=2)
        found = found.reshape(*found.shape[:2], 2, -1)
        if sides == "separate":
            return found
        of_mean, of_difference = found.unbind(2)
        u, v = means.reshape(-1, 2, means.shape[1]).unbind(1)
        first, last = (u - v)[before], (u - v)[after]
        of_difference = of_difference * _secant(first, last, torch.abs, first.sign())
        return torch.stack([of_mean / 2 + of_difference, of_mean / 2 - of_difference], dim=2)


def _secant(before: Tensor, after: Tensor, function: Any, gradient: Tensor) -> Tensor:
    """The mean gradient of an elementwise function between two points; `gradient` is that at the first."""
    change = after - before
    return torch.where(change == 0, gradient, (function(after) - function(before)) / change)


def _select_pairs(batch: Batch, pairs: Array) -> Trees:
    """The trees of these pairs of a batch, in any order and possibly repeated."""
    starts = [np.searchsorted(level.owner, 2 * np.arange(batch.num_pairs + 1)) for level in batch.levels]
    levels, offset = [], np.zeros(len(pairs), np.int64)
    for level, start in zip(batch.levels, starts, strict=True):
        sizes = (start[1:] - start[:-1])[pairs]
        begins = np.cumsum(sizes) - sizes
        copy = np.repeat(np.arange(len(pairs)), sizes)
        at = np.arange(sizes.sum()) + (start[pairs] - begins)[copy]
        chosen = Level(*(None if field is None else field[at] for field in level))
        levels.append(chosen._replace(owner=2 * copy + (chosen.owner & 1), parent=chosen.parent + offset[copy]))
        offset = begins - start[pairs]
    return Trees(batch.vectors, levels)


def _join_trees(first: Trees, second: Trees) -> Trees:
    """The trees of both, for the same pairs; owners are no longer in order."""
    levels, above, vectors = [], 0, len(first.vectors)
    for one, other in zip(first.levels, second.levels, strict=True):
        moved = other._replace(parent=other.parent + above, own=other.own + vectors, other=other.other + vectors)
        fields = {
            name: None if getattr(one, name) is None else np.concatenate([getattr(one, name), getattr(moved, name)])
            for name in _INPUTS
        }
        levels.append(Level(**fields))
        above = len(one.parent)
    return Trees(np.concatenate([first.vectors, second.vectors]), levels)


def _sum_by_set(terms: Tensor, batch: Batch, joint: bool) -> Tensor:
    """The sum of the terms of each set: [2V, d], or [V, d] with joint sides."""
    owner = torch.cat([level.owner for level in batch.levels])
    sums = terms.new_zeros((1 if joint else 2) * batch.num_pairs, terms.shape[1])
    return sums.index_add(0, owner >> 1 if joint else owner, terms)


def _distinct_rows(coalitions: Array, players: Array) -> tuple[Array, Array]:
    """The coalitions [C, n] without all but these players: distinct ones [rows, n], and which of them each is: [C]."""
    only = np.zeros(coalitions.shape[1], bool)
    only[players[players >= 0]] = True
    distinct, number = np.unique(coalitions & only, axis=0, return_inverse=True)
    return distinct, number.reshape(-1)


# Walks are recognised by a hash of their pair, side and links.


def _walk_keys(owner: Array, nodes: Array, events: Array) -> npt.NDArray[np.uint64]:
    """The keys of walks: [...], [..., L], [..., L] to [...]."""
    key = _mix(owner.astype(np.uint64))
    for i in range(1, nodes.shape[-1]):
        key = np.where(nodes[..., i] >= 0, _step_key(key, events[..., i]), key)
    return key


def _path_keys(levels: list[Level], owner: Array) -> list[npt.NDArray[np.uint64]]:
    """The keys of the walks that end at each prefix of each level; `owner` is that of each pair and side."""
    keys = [_mix(owner.astype(np.uint64))[levels[0].owner]]
    for level in levels[1:]:
        keys.append(_step_key(keys[-1][level.parent], level.event))
    return keys


def _step_key(key: npt.NDArray[np.uint64], event: Array) -> npt.NDArray[np.uint64]:
    return _mix(key + event.astype(np.uint64))


def _mix(key: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of SplitMix64."""
    key = (key + np.uint64(0x9E3779B97F4A7C15)) ^ (key >> np.uint64(30))
    key = key * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
