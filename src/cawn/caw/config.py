"""Config: the settings of CAW-N."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Literal, Self

from cawn.data.decays import LADDERS, PAPER_RATIO, ladder
from cawn.data.events import Events
from cawn.errors import QueryError, brief
from cawn.index.features import NO_SEQUENCES, PairParts
from cawn.systems.settings import Alternatives, Settings, is_number, setting

Alpha = Literal["auto", "ladder", "slow", "fast", "paper"] | float | tuple[float, ...]
TRIAL_DIM = 32  # of the short training runs for alpha="auto"
NAMED_LADDERS = {"ladder": "wide", "slow": "slow", "fast": "fast"}  # values of alpha; see `cawn.data.decays.LADDERS`

_PAPER = {
    "length": 3,  # `cawn paper grid` chooses 2 or 3
    "alpha": "paper",
    "dim": 64,
    "sides": "joint",
    "logarithms": False,
    "degree": False,
    "rates": False,
    **NO_SEQUENCES,
    "directed": False,
    "standardise": False,
    "dropout_at": "walks",
    "weight_decay": 0.0,
    "negatives": "random",
    "pool": "training",
    "batch_size": 32,
    "lr": 1e-3,  # the paper: 1e-4, which needs two to three times the epochs on UCI
    "epochs": 50,
    "schedule": "constant",
}
# Where the authors' published code differs from the paper. Its f2 has 100 dimensions; the width of 200, of encoded
# walks and of the LSTM in one direction, is inferred from its 1.8 million parameters on UCI.
_AUTHORS = {
    "dim": 200,
    "frequencies": 100,
    "rnn": "bidirectional",
    "sides": "separate",
    "time_code": "age",
}


@dataclass(frozen=True)
class Config(Settings):
    """Settings of CAW-N. The defaults are the preset "default"; "paper-mean" and "paper-attn" follow the paper.

    "fast" has fewer and shorter walks and a narrower network than the default, "large" more walks and a wider one.
    "ranking" is trained with several random negatives per link, for ranking among all destinations. "walks" has no
    exact features of pairs: all it knows comes from walks. "authors" is "paper-mean" with the differences of the
    authors' published code.
    """

    # Walks
    num_walks: int = setting(64, "M, the walks from each node", 1, 100_000)
    length: int = setting(2, "m, the steps of a walk", 1, 255)
    tree: tuple[int, ...] = setting(
        (),
        "fan-outs (k_1, ..., k_m) with product M: walks share the k_1 links of the first step, the k_1 k_2 "
        "links of the second, and so on; (): independent walks",
    )
    alpha: Alpha = setting(
        "ladder",
        'decays, per unit of time; or how to choose them: "ladder" (wide), "slow" or "fast" ladders of '
        'decays, "auto" (the best of these), "paper"; see `decays`',
    )

    # Network
    dim: int = setting(64, "d, the width of hidden layers", 1, 4096)
    frequencies: int = setting(16, "frequencies of the time encoding f2", 1, 1024)
    rnn: Literal["lstm", "gru", "transformer", "bidirectional"] = setting(
        "lstm", '"bidirectional": as in the authors\' code'
    )
    pooling: Literal["mean", "attention", "transformer"] = setting(
        "mean",
        '"attention": the paper\'s Self-Att-AGG; "transformer": a layer with eight heads, then the mean, as in '
        "the authors' code",
    )
    sides: Literal["auto", "joint", "separate", "symmetric"] = setting(
        "auto",
        'pool S_u and S_v as one set, as in the paper, or separately, with their order kept ("separate") or '
        'ignored ("symmetric"); "auto": by `directed`',
    )
    identity: Literal["caw", "aw", "none"] = setting("caw", "relative identities: I_CAW, one-hot I_AW, or none")
    time: bool = setting(True, "the time encoding f2")
    time_code: Literal["elapsed", "age"] = setting(
        "elapsed",
        "f2 of t_{i-1} - t_i by cos and sin, as in the paper, or of t_0 - t_i by cos with a learned phase, as "
        "in the authors' code",
    )
    logarithms: bool = setting(True, "add log(1 + g), log(1 + elapsed) and log(1 + age) to the paper's features")
    degree: bool = setting(True, "log(1 + number of earlier links) of the node at each position")
    # Exact features of pairs, concatenated with the pooled walks
    rates: bool = setting(True, "decayed counts of the links of both ends and of the pair")
    since: bool = setting(True, "the number of links of each end since the last link of the pair")
    two_steps: bool = setting(True, "how often the recent partners of each end have linked to the other end")
    transitions: bool = setting(True, "how often nodes link to one end right after a recent partner of the other")

    directed: bool = setting(True, "the direction of each link")
    head: Literal["mlp", "linear"] = setting(
        "mlp", 'from the pair\'s embedding to the logit; "linear" makes walks additive'
    )
    dropout: float = setting(0.1, "dropout", 0, 0.95)
    num_negatives: int = setting(1, "K, per training link", 1, 1000)
    dropout_at: Literal["walks", "pairs"] = setting("pairs", "on each encoded walk, or on the pooled walks of a pair")

    MEMORY: ClassVar[tuple[str, ...]] = ("num_walks", "batch_size", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = Settings.SEARCHED | {
        "walks": [  # trees whose first fan-out is a multiple of the eight decays of a ladder
            {"num_walks": 32, "length": 1, "tree": ()},
            {"num_walks": 32, "length": 2, "tree": ()},
            {"num_walks": 64, "length": 1, "tree": ()},
            {"num_walks": 64, "length": 2, "tree": ()},
            {"num_walks": 64, "length": 2, "tree": (8, 8)},
            {"num_walks": 64, "length": 3, "tree": ()},
            {"num_walks": 128, "length": 2, "tree": ()},
            {"num_walks": 128, "length": 3, "tree": (16, 4, 2)},
        ],
        "alpha": ["ladder", "slow", "fast", "paper"],
        "dim": [32, 64, 128],
        "dropout": {"low": 0.0, "high": 0.4, "step": 0.1},
        "weight_decay": [0.0, 0.01, 0.1, 1.0],
        "num_negatives": [1, 2, 4],
    }
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "paper-mean": _PAPER,
        "paper-attn": _PAPER | {"pooling": "attention"},
        "fast": {"num_walks": 32, "length": 1, "dim": 32},
        "large": {"num_walks": 256, "dim": 128},
        "ranking": {"negatives": "random", "num_negatives": 4},
        "walks": {"rates": False, **NO_SEQUENCES},
        "authors": _PAPER | _AUTHORS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sides == "auto":
            object.__setattr__(self, "sides", "separate" if self.directed else "symmetric")
        if self.sides == "symmetric" and self.directed:
            raise QueryError("sides='symmetric' ignores which end is the source: give directed=false as well")
        if self.tree and (len(self.tree), self.widths[-1]) != (self.length, self.num_walks):
            raise QueryError(
                f"tree is {brief(self.tree)}: give length={self.length} fan-outs whose product is "
                f"num_walks={self.num_walks}"
            )
        if self.widths[0] % self.num_decays:
            what = f"the first fan-out of tree={brief(self.tree)}" if self.tree else f"num_walks={self.num_walks}"
            raise QueryError(f"{what} cannot be divided evenly among {self.num_decays} decays; change it or alpha")

    def with_(self, /, **changes: Any) -> Self:
        """Returns a copy with these settings changed; `sides` follows `directed` unless it is given."""
        if "directed" in changes and self.sides != "joint":
            changes = {"sides": "auto"} | changes
        return super().with_(**changes)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of links drawn at each step of the walks of a node: [m]."""
        return tuple(accumulate(self.tree, operator.mul)) if self.tree else (self.num_walks,) * self.length

    @property
    def num_decays(self) -> int:
        """Number of decays among which the first links of a node's walks are divided."""
        if isinstance(self.alpha, tuple):
            return len(self.alpha)
        return len(ladder(1.0, num_walks=self.num_walks)) if self.alpha in ("auto", *NAMED_LADDERS) else 1

    def decays(self, tau: float, name: str = "wide") -> tuple[float, ...]:
        """The decays for links of intensity tau: as given, by the paper's rule, or a ladder.

        The ladder is the one that `alpha` names; `name` for alpha="auto".
        """
        if not isinstance(self.alpha, str):
            return self.alpha if isinstance(self.alpha, tuple) else (self.alpha,)
        if self.alpha == "paper":
            return (tau / PAPER_RATIO,)
        return ladder(tau, num_walks=self.num_walks, name=NAMED_LADDERS.get(self.alpha, name))

    def alternatives(self, train: Events) -> Alternatives | None:
        """The ladders of decays that alpha="auto" compares."""
        if self.alpha != "auto":
            return None
        small = self.with_(dim=min(self.dim, TRIAL_DIM), epochs=1, schedule="constant", alpha="ladder")
        facts = {name: {"alpha": self.decays(train.intensity, name)} for name in LADDERS}
        return Alternatives("decays", small, facts)

    @property
    def symmetric(self) -> bool:
        """Whether the logits of (u, v) and (v, u) are equal, up to rounding."""
        joint = self.sides == "joint" and not self.directed and not self.pair_parts.any
        return self.sides == "symmetric" or joint

    @property
    def pair_parts(self) -> PairParts:
        """The exact features of pairs that are used in addition to walks."""
        return PairParts(self.rates, self.directed, self.since, self.two_steps, self.transitions)

    @property
    def uses_direction(self) -> bool:
        """Whether it matters which end of a link is its source."""
        return self.directed

    def _check(self, name: str, value: Any, hint: Any) -> None:
        if name == "tree":
            return _check_tree(value)
        if name != "alpha":
            return super()._check(name, value, hint)
        decays = value if isinstance(value, tuple) and value else (value,)
        named = isinstance(value, str) and value in ("auto", *NAMED_LADDERS, "paper")
        if not named and not all(is_number(a) and 0 <= a < math.inf for a in decays):
            raise QueryError(
                f"alpha is {brief(value)}: give 'auto', 'ladder', 'slow', 'fast', 'paper', a number >= 0, or a tuple "
                "of such numbers"
            )
        return None


def _check_tree(tree: Any) -> None:
    if not isinstance(tree, tuple) or not all(type(k) is int and k >= 1 for k in tree):
        raise QueryError(f"tree is {brief(tree)}: give a fan-out >= 1 for each step, such as (8, 8), or () for none")
