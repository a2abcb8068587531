"""Why a link has its score, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cawn.data.names import Name
from cawn.errors import printable
from cawn.explain.renderable import Renderable
from cawn.explain.views import Bar, EarlierLink, ExplanationView, Walk, interaction_in_words, scale, signed

BACKGROUND_PAIRS = 32  # sampled with background="pairs"
SHOWN = 6  # walks on either side of zero
SMALLEST = 0.0005  # log-odds: smaller contributions are not shown one by one
ADDITIONS = 3  # in words
UNCERTAIN = "uncertain"
_VERDICTS = ((0.9, "very likely"), (0.6, "likely"), (0.4, UNCERTAIN), (0.1, "unlikely"), (0.0, "very unlikely"))
_BACKGROUNDS = {
    "strangers": "two strangers: nodes without any links",
    "pairs": f"{BACKGROUND_PAIRS} random pairs of nodes with earlier links, on average",
}


@dataclass(frozen=True, slots=True)
class LinkPart:
    """A part of the model's input, and its contribution to the logit."""

    name: str  # a key of `TITLES`; the shape of a walk, in `Explanation.shapes`
    title: str
    detail: str  # what it is for this pair
    contribution: float
    counted: float = 0.0  # how much of it is due to exact counts; the rest is that of its walks
    num_walks: int = 0  # of the 2M sampled walks
    error: float = 0.0  # standard error; 0 if all coalitions were evaluated


@dataclass(frozen=True, slots=True)
class PairHistory:
    """The links before the query time."""

    src_links: int
    dst_links: int
    pair_links: int  # between the two, in either direction
    pair_last: int | float | None = None  # time of the last of them
    src_last: int | float | None = None
    dst_last: int | float | None = None


@dataclass(frozen=True, slots=True)
class Removal:
    """The fewest links found without which the prediction flips; those that change it most, if it does not."""

    links: list[EarlierLink]
    probability: float  # without them, over the same number of walk samples
    flipped: bool


@dataclass(frozen=True, slots=True)
class Addition:
    """One more link, and the probability it would lead to."""

    src: Name
    dst: Name
    t: int | float
    probability: float
    time: str = ""  # t as text, as in `EarlierLink`


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would change the prediction that was explained."""

    probability: float  # as things are
    removal: Removal
    additions: list[Addition]  # largest change first

    @property
    def in_words(self) -> list[str]:
        """A sentence for the removal, and one for each of the additions that would change most."""
        removed, links = self.removal, _list_links(self.removal.links)
        if not removed.links:
            change = "lowers" if self.probability >= 0.5 else "raises"
            words = [f"None of the earlier links that were tried {change} the score when it is removed."]
        elif removed.flipped:
            words = [f"Without {links}, the prediction would flip: {self._change(removed.probability)}."]
        else:
            words = [f"Even without {links}, the prediction would not flip: {self._change(removed.probability)}."]
        return words + [
            f"If {printable(one.src)} and {printable(one.dst)} had linked at {one.time}: "
            f"{self._change(one.probability)}."
            for one in self.additions[:ADDITIONS]
        ]

    def _change(self, after: float) -> str:
        return f"{self.probability:.2f} → {after:.2f}"


@dataclass(frozen=True, slots=True)
class Explanation(Renderable):
    """Why a link has its score. The walks are those of the first sample; the probability is a mean over `draws`.

    Base and parts add up to the logit.
    """

    src: Name
    dst: Name
    t: int | float
    probability: float
    error: float  # its standard error over the samples of walks
    draws: int
    logit: float  # with the walks listed here
    base: float  # the logit of the background
    parts: list[LinkPart]  # in the order of `TITLES`
    walks: list[Walk]  # by absolute contribution, largest first
    num_walks: int  # M, from each node
    past: PairHistory
    prior: float = 0.5  # assumed share of positives
    background: str = "strangers"  # where the values of left-out parts come from; or "pairs"
    interaction: float | None = None  # between the pair's own history and its walks; None without exact features
    shapes: list[LinkPart] = field(default_factory=list)  # contributions of walk shapes, if asked for
    what_if: WhatIf | None = None
    time: str = ""  # t as text: a date if the data had dates or t looks like Unix seconds, else the number

    @property
    def walked(self) -> float:
        """The sum of the contributions of all walks."""
        return sum(walk.contribution for walk in self.walks)

    @property
    def raised(self) -> list[Walk]:
        """The walks that raise the score, largest contribution first."""
        return [walk for walk in self.walks if walk.contribution > 0]

    @property
    def lowered(self) -> list[Walk]:
        """The walks that lower the score, largest contribution first."""
        return [walk for walk in self.walks if walk.contribution < 0]

    @property
    def largest(self) -> list[LinkPart]:
        """The parts by absolute contribution, largest first."""
        return _largest(self.parts)

    @property
    def answer(self) -> str:
        """The answer and its main reason in one sentence."""
        verdict = next(words for least, words in _VERDICTS if self.probability >= least)
        pair = f"A link between {printable(self.src)} and {printable(self.dst)} at {self.time}"
        found = f"{pair} is {verdict} (probability {self.probability:.2f})"
        if verdict == UNCERTAIN:
            return f"{found}; the largest contribution comes from {_reason(self.largest[0])}."
        sign = 1 if self.probability >= 0.5 else -1
        reasons = [part for part in self.largest if sign * part.contribution > 0]
        if sign < 0 and (not reasons or reasons[0].contribution > self.base):
            return f"{found}: no part of its history raises the score enough."
        return f"{found}, mainly because of {_reason(reasons[0])}." if reasons else f"{found}."

    @property
    def interaction_in_words(self) -> str:
        """What `interaction` means."""
        return "" if self.interaction is None else interaction_in_words(self.interaction)

    def to_dict(self) -> dict[str, Any]:
        """The values as types that JSON has."""
        found = Renderable.to_dict(self)
        if self.what_if is not None:
            found["what_if"] |= {"in_words": self.what_if.in_words}
        words = {"answer": self.answer, "interaction_in_words": self.interaction_in_words}
        return found | words | {"walked": self.walked}

    def view(self) -> ExplanationView:
        """What is shown: the parts as bars, and the walks with the largest contributions."""
        walks = [walk for walks in (self.raised, self.lowered) for walk in list(filter(_is_large, walks))[:SHOWN]]
        background = _BACKGROUNDS[self.background]
        notes = [
            f"Each part is compared with {background}.",
            "The values are Shapley values: base and parts add up to the log-odds before calibration.",
            self.interaction_in_words,
        ]
        contributions = [part.contribution for part in self.parts] + [walk.contribution for walk in self.walks]
        return ExplanationView(
            src=self.src,
            dst=self.dst,
            t=self.t,
            time=self.time,
            answer=self.answer,
            probability=self.probability,
            error=self.error,
            assumptions=f"assuming a prior of {100 * self.prior:.3g} % positives; mean over {self.draws} walk samples",
            bars=[Bar("base", "base", background, self.base), *_bars(self.largest)],
            total=Bar("logit", "= log-odds before calibration", "", self.logit),
            scale=scale([self.base, self.logit, *contributions]),
            notes=" ".join(filter(None, notes)),
            walks=walks,
            hidden=len(self.walks) - len(walks),
            num_walks=self.num_walks,
            titles={part.name: part.title for part in self.parts},
            shapes=[_shape_bar(shape) for shape in _largest(self.shapes)],
            changes=[] if self.what_if is None else self.what_if.in_words,
        )


def _largest(parts: list[LinkPart]) -> list[LinkPart]:
    return sorted(parts, key=lambda part: -abs(part.contribution))


def _is_large(one: LinkPart | Walk) -> bool:
    return abs(one.contribution) >= SMALLEST


def _bars(parts: list[LinkPart]) -> list[Bar]:
    """The parts; those that contribute nothing are one bar."""
    found = [Bar(part.name, part.title, _detail(part), part.contribution) for part in parts if _is_large(part)]
    small = [part for part in parts if not _is_large(part)]
    if small:
        titles = ", ".join(part.title for part in small)
        total = sum(part.contribution for part in small)
        found.append(Bar("others", titles, f"less than {SMALLEST} in absolute value", total))
    return found


def _detail(part: LinkPart) -> str:
    if part.counted == 0 or part.num_walks == 0:
        return part.detail
    return f"{part.detail}; {signed(part.counted)} of it from exact counts"


def _shape_bar(shape: LinkPart) -> Bar:
    detail = shape.name if shape.num_walks else ""
    return Bar(shape.name, shape.title, detail, shape.contribution, shape.error, shape.num_walks)


def _reason(part: LinkPart) -> str:
    return f"{part.title} ({part.detail})"


def _list_links(links: list[EarlierLink]) -> str:
    listed = [f"{printable(link.src)} → {printable(link.dst)} at {link.time}" for link in links]
    return "the link" + ("s " if len(links) > 1 else " ") + ", ".join(listed)
