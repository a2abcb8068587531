"""What explanations show, as plain data: the terminal, pictures and pages all draw these views.

A view knows neither what it is a view of nor who draws it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cawn.data.names import Name

FULL_BAR = 0.5  # log-odds: a bar of full length is at least this
OVERLAP = 0.05  # log-odds: smaller interactions are called none


@dataclass(frozen=True, slots=True)
class Bar:
    """A contribution to the log-odds."""

    key: str
    title: str
    detail: str
    value: float
    error: float = 0.0  # standard error; 0 if it is exact
    num_walks: int = 0


@dataclass(frozen=True, slots=True)
class EarlierLink:
    """A link of the past."""

    src: Name
    dst: Name
    t: int | float
    event: int  # its position in `Events`
    time: str  # t as text: a date if the data had dates or t looks like Unix seconds, else the number


@dataclass(frozen=True, slots=True)
class Walk:
    """A distinct walk: all sampled walks over the same links."""

    start: str  # "src" or "dst"
    count: int  # how many of the M walks from there are this one
    contribution: float  # to the logit; those of the walks of a part, and what it counted, add up to that of the part
    shape: str  # coordinates (d_uw, d_vw) of its nodes
    nodes: list[Name]  # in order, from the start
    links: list[EarlierLink]  # newest first
    meaning: str = ""  # the shape in words
    part: str = "apart"


@dataclass(frozen=True, slots=True)
class Shape:
    """A walk shape, over all pairs of a law."""

    shape: str
    score: float  # mean contribution of its walks to the logit, over the pairs that have any
    error: float  # standard error of the score
    with_true: float  # share of the positives that have such a walk
    with_false: float  # share of the negatives
    lift: float  # the ratio of the two shares, with half a pair added to each count
    low: float  # confidence interval of the lift, simultaneous over the table
    high: float
    meaning: str = ""  # the shape in words; empty for anonymous walks

    @property
    def significant(self) -> bool:
        """Whether it occurs significantly more or less often with positives than with negatives."""
        return not self.low <= 1 <= self.high

    @property
    def lift_in_words(self) -> str:
        """The lift with its interval."""
        lift, low, high = (f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in (self.lift, self.low, self.high))
        return f"{lift} ({low} to {high})"


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """What is shown of the explanation of a link."""

    src: Name
    dst: Name
    t: int | float
    time: str
    answer: str
    probability: float
    error: float
    assumptions: str  # of the probability
    bars: list[Bar]  # the base and the parts, largest first
    total: Bar  # their sum
    scale: float  # the log-odds of a bar of full length
    notes: str  # what the bars mean
    walks: list[Walk]  # the largest contributions that raise the score, then those that lower it
    hidden: int  # number of other walks
    num_walks: int  # M, from each node
    titles: dict[str, str]  # of parts, by their names
    shapes: list[Bar]
    changes: list[str]  # what would change the prediction

    @property
    def verdict(self) -> str:
        """The probability, and how it is meant."""
        return f"probability {self.probability:.3f} ± {self.error:.4f}, {self.assumptions}"

    def title(self, walk: Walk) -> str:
        """The title of the part that a walk belongs to."""
        return self.titles.get(walk.part, walk.part)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a part, as a row of a table."""

    title: str
    value: float
    significant: bool
    interval: str
    share: str
    ap: str  # average precision without the part
    drop: str  # how much that is less, in points
    means: list[tuple[str, str] | None]  # in each group: the mean, and that of absolute values; None without links


@dataclass(frozen=True, slots=True)
class LawView:
    """What is shown of the law of a model."""

    sentences: list[str]  # the first is the answer
    figures: str  # what it is based on
    evidence: list[Evidence]  # of parts, largest first
    scale: float  # the evidence of a bar of full length
    meaning: str  # of evidence
    total: str  # evidence of all parts
    confidence: str  # of intervals, in percent
    groups: list[tuple[str, str]]  # of links: their name, and their number
    interaction: str
    shapes: list[Shape]  # of causal anonymous walks
    orders: list[Shape]  # of anonymous walks
    rare: int  # shapes that are not listed


def both_ends(rows: list[Shape]) -> list[Shape]:
    """The rows with the highest and the lowest scores."""
    return rows if len(rows) <= 12 else [*rows[:8], *rows[-4:]]


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, and zero without."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def scale(values: list[float]) -> float:
    """The value of a bar of full length."""
    return max([FULL_BAR, *map(abs, values)])


def interaction_in_words(value: float, *, mean: bool = False) -> str:
    """What an interaction between the pair's own history and its walks means, or the mean of those over true links."""
    both = "Over true links, the pair's own history and the walks" if mean else "The pair's own history and the walks"
    if abs(value) < OVERLAP:
        return f"{both} contribute independently of each other" + (f", on average ({signed(value)})." if mean else ".")
    verb, more = ("are partly redundant", "less") if value < 0 else ("reinforce each other", "more")
    size = f"on average, they contribute {abs(value):.3f}" if mean else f"they contribute {abs(value):.2f}"
    return f"{both} {verb}: {size} {more} together than separately."
