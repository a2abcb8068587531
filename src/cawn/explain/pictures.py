"""Explanations as pictures: bars for contributions, and the links on the walks on a time axis."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, cast

from cawn.data.names import Name
from cawn.data.times import format_time
from cawn.errors import printable
from cawn.explain.drawing import HEAD, Drawing, isolate, text_width, wrap
from cawn.explain.law import Law, LawPart, Shape
from cawn.explain.link import BACKGROUND_PAIRS, OVERLAP, Explanation, Link, Part, Walk
from cawn.explain.report import Report
from cawn.explain.time_axis import KINDS, SIZE, Kind, TimeAxis, better_axis, time_axis

SHOWN = 6  # walks on either side of zero
SMALLEST = 0.0005  # log-odds: smaller contributions are not shown one by one
FULL_BAR = 0.5  # log-odds: a bar of full length is at least this
EVIDENCE = (
    "Evidence is how much more a part contributes to a true link than to a false one, on average; "
    "the evidence of all parts adds up to the difference of the mean logits"
)
_WIDTH, _MARGIN = 800, 20
_COLUMN, _ZERO, _BAR = 455, 634, 100  # width of the texts beside bars, x of their zero, their full length
_LANE, _TOP = 26, 34
_NARROW = 500  # pixels: in narrower drawings, names are shorter
_DIGIT = 10  # size of the numbers of walks
Box = tuple[float, float, float, float]  # left, top, right, bottom


class Row(NamedTuple):
    """A contribution to the log-odds, as it is shown."""

    key: str
    title: str
    detail: str
    value: float


# What is shown, on pages, pictures and terminals.


def part_rows(why: Explanation) -> list[Row]:
    """The base and the parts, largest first; they add up to the logit. Parts that contribute nothing are one row."""
    large = [part for part in why.largest if abs(part.contribution) >= SMALLEST]
    small = [part for part in why.largest if abs(part.contribution) < SMALLEST]
    rows = [Row("base", "base", background(why), why.base)]
    rows += [Row(part.name, part.title, _part_detail(part), part.contribution) for part in large]
    if small:
        titles = ", ".join(part.title for part in small)
        rows.append(
            Row("others", titles, f"less than {SMALLEST} in absolute value", sum(x.contribution for x in small))
        )
    return rows


def _part_detail(part: Part) -> str:
    if part.counted == 0:
        return part.detail
    if part.num_walks == 0:
        return part.detail
    return f"{part.detail}; {signed(part.counted)} of it from exact counts"


def background(why: Explanation) -> str:
    """What the parts of a pair are compared with."""
    if why.background == "strangers":
        return "two strangers: nodes without any links"
    return f"{BACKGROUND_PAIRS} random pairs of nodes with earlier links, on average"


def notes(why: Explanation) -> list[str]:
    """What the values mean, and whether parts can replace each other."""
    words = [
        f"Each part is compared with {background(why)}.",
        "The values are Shapley values: base and parts add up to the log-odds before calibration.",
    ]
    return [*words, why.interaction_in_words] if why.interaction_in_words else words


def probability_note(why: Explanation) -> str:
    """How the probability is meant."""
    return f"assuming a prior of {100 * why.prior:.3g} % positives; mean over {why.draws} walk samples"


def shown_walks(why: Explanation) -> list[Walk]:
    """The walks that are shown: the largest contributions that raise the score, then those that lower it."""
    raised, lowered = (
        [walk for walk in walks if abs(walk.contribution) >= SMALLEST][:SHOWN] for walks in (why.raised, why.lowered)
    )
    return raised + lowered


def bar_scale(why: Explanation) -> float:
    """The log-odds of a bar of full length."""
    values = [why.base, why.logit, *(part.contribution for part in why.parts)]
    values += [walk.contribution for walk in why.walks]
    return max([FULL_BAR, *map(abs, values)])


def time_text(of: Explanation | Link) -> str:
    """A time as the data had it."""
    return of.time or format_time(of.t)


def largest_evidence(law: Law) -> list[LawPart]:
    """The parts by absolute evidence, largest first."""
    return sorted(law.parts, key=lambda part: -abs(part.evidence))


def interaction_note(law: Law) -> str:
    """The interaction between the pair's own history and its walks in words."""
    if law.interaction is None:
        return ""
    both = "Over true links, the pair's own history and the walks"
    if abs(law.interaction) < OVERLAP:
        return f"{both} contribute independently of each other, on average ({signed(law.interaction)})."
    verb, more = ("are partly redundant", "less") if law.interaction < 0 else ("reinforce each other", "more")
    size = f"{abs(law.interaction):.3f} {more}"
    return f"{both} {verb}: on average, they contribute {size} together than separately."


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, and zero without."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def percent(share: float) -> str:
    """A share in percent."""
    return f"{signed(100 * share, 1).removeprefix('+')} %"


def format_lift(row: Shape) -> str:
    """The lift with its interval."""
    return "{} ({} to {})".format(*(f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in (row.lift, row.low, row.high)))


def shorten(name: Name, limit: int = 16) -> str:
    """A name for a drawing; a long one loses its middle, since names often differ at their ends."""
    text = printable(name)
    return isolate(text if len(text) <= limit else f"{text[: limit // 2]}…{text[-(limit // 2 - 1) :]}")


# Pictures.


def picture(report: Report) -> Drawing:
    """The picture of an `Explanation` or a `Law`."""
    return _link_picture(report) if isinstance(report, Explanation) else _law_picture(cast(Law, report))


def _link_picture(why: Explanation) -> Drawing:
    drawing, width = Drawing(_WIDTH, why.answer), _WIDTH - 2 * _MARGIN
    drawing.extend(8)
    drawing.paragraph(_MARGIN, why.answer, width, size=15, bold=True)
    drawing.extend(4)
    probability = f"probability {why.probability:.3f} ± {why.error:.4f}, {probability_note(why)}"
    drawing.paragraph(_MARGIN, probability, width, "faint", size=11)
    drawing.extend(12)
    total = Row("logit", "= log-odds before calibration", "", why.logit)
    _draw_rows(drawing, [*part_rows(why), total], bar_scale(why))
    drawing.paragraph(_MARGIN, " ".join(notes(why)), width, "faint", size=11)
    drawing.extend(20)
    _draw_timeline(drawing, why, better_timeline(why, _WIDTH))
    drawing.extend(12)
    walks = [
        Row(
            str(i),
            f"{i}  {' → '.join(shorten(node) for node in walk.nodes)}   ×{walk.count}",
            f"{part_title(why, walk)}: {walk.meaning}   {walk.shape}",
            walk.contribution,
        )
        for i, walk in enumerate(shown_walks(why), start=1)
    ]
    _draw_rows(drawing, walks, bar_scale(why))
    legend = "blue: raises the score · orange: lowers it · thicker: contributes more · numbers: the walks"
    drawing.paragraph(_MARGIN, f"{legend} · ×: how many of {why.num_walks} walks", width, "faint", size=10)
    for sentence in why.what_if.in_words if why.what_if else []:
        drawing.extend(6)
        drawing.paragraph(_MARGIN, sentence, width)
    drawing.extend(16)
    return drawing


def part_title(why: Explanation, walk: Walk) -> str:
    """The title of the part that a walk belongs to."""
    return next((part.title for part in why.parts if part.name == walk.part), walk.part)


def _draw_rows(drawing: Drawing, rows: list[Row], largest: float) -> None:
    """A title, a detail and a bar for each row."""
    top = drawing.top
    for row in rows:
        length = _BAR * row.value / largest
        drawing.bar(_ZERO, 3, length, 12, _colour(row.value))
        beyond, anchor = (6, "start") if row.value > 0 else (-6, "end")
        drawing.text(_ZERO + length + beyond, 13, signed(row.value), anchor=anchor)
        drawing.extend(-2)
        drawing.paragraph(_MARGIN, row.title, _COLUMN)
        if row.detail:
            drawing.paragraph(_MARGIN, row.detail, _COLUMN, "faint", size=10)
        drawing.extend(9)
    if rows:
        drawing.line((_ZERO, top - drawing.top), (_ZERO, -4), "faint")


# The links on the walks.


def better_timeline(why: Explanation, width: float) -> TimeAxis:
    """The axis on which the links of an explanation are spread best."""
    return better_axis([timeline_axis(why, width, kind) for kind in KINDS])


def timeline(why: Explanation, width: float, kind: Kind) -> Drawing:
    """The links on the walks on a time axis, as a drawing of its own."""
    axis = timeline_axis(why, width, kind)
    drawing = Drawing(width, f"The links on the walks and the link in question; {axis.label}.")
    _draw_timeline(drawing, why, axis)
    return drawing


def timeline_axis(why: Explanation, width: float, kind: Kind) -> TimeAxis:
    """The time axis of a drawing of this width."""
    limit = 16 if width >= _NARROW else 10
    names = [shorten(node, limit) for node in _lanes(why, shown_walks(why))]
    left = 12 + max(text_width(name) for name in names)
    times = [link.t for link in _links(shown_walks(why))]
    return time_axis(kind, times, why.t, time_text(why), (left, width - 14))


def _draw_timeline(drawing: Drawing, why: Explanation, axis: TimeAxis) -> None:
    """Nodes as lanes, links as arrows between them, the link in question dashed at the end."""
    walks, width, (left, end) = shown_walks(why), drawing.width, axis.ends
    lanes = {node: _TOP + _LANE * i for i, node in enumerate(_lanes(why, walks))}
    limit = 16 if width >= _NARROW else 10
    for node, y in lanes.items():
        drawing.line((left, y), (end, y), "lane")
        is_end = node in (why.src, why.dst)
        drawing.text(left - 8, y + 4, shorten(node, limit), "ink" if is_end else "faint", anchor="end", bold=is_end)
    links = _links(walks)
    through = [tuple(n for n, walk in enumerate(walks) if link in walk.links) for link in links]
    largest = max((abs(walk.contribution) for walk in walks), default=1.0)
    for link, x, on in zip(links, axis.x, through, strict=True):
        contribution = max((walks[n].contribution for n in on), key=abs)
        numbers = ", ".join(str(n + 1) for n in on)
        title = f"{printable(link.src)} → {printable(link.dst)}, {time_text(link)}, on walk {numbers}"
        thickness, colour = 1.2 + 2.8 * abs(contribution) / largest, _colour(contribution)
        y1, y2 = lanes[link.src], lanes[link.dst]
        if y1 != y2:
            drawing.arrow(x, (y1, y2), colour, width=thickness, title=title, walks=on)
        drawing.dot(x, y1, 3 if y1 != y2 else 5, colour, on, title)
    heights = [(min(y), max(y)) for y in ((lanes[link.src], lanes[link.dst]) for link in links)]
    _number_links(drawing, axis, heights, through)
    _draw_query(drawing, why, end, (lanes[why.src], lanes[why.dst]))
    _draw_axis(drawing, axis, max(lanes.values()) + 16)


def _draw_query(drawing: Drawing, why: Explanation, x: float, ends: tuple[float, float]) -> None:
    drawing.line((x, ends[0]), (x, ends[1]), "ink", width=2, dashed=True)
    for y in ends:
        drawing.dot(x, y, 4.5, "ink")
    drawing.text(x + 8, min(ends) - 12, f"{why.probability:.3f}", size=13, anchor="end", bold=True)


def _number_links(
    drawing: Drawing, axis: TimeAxis, heights: list[tuple[int, int]], through: list[tuple[int, ...]]
) -> None:
    """Write the numbers of walks beside their links, where they cover nothing; a link without room has none.

    Args:
        heights: The top and bottom y of each link.
        through: The walks on each link.
    """
    half, (start, end) = HEAD / 2, axis.ends
    taken = [(x - half, top - 3, x + half, bottom + 3) for x, (top, bottom) in zip(axis.x, heights, strict=True)]
    for x, (top, bottom), on in zip(axis.x, heights, through, strict=True):
        text = ",".join(str(n + 1) for n in on[:3]) + ("…" if len(on) > 3 else "")
        width = text_width(text, _DIGIT)
        for y, left in product(range(top, max(bottom, top + 1), _LANE), (x + 7, x - 7 - width)):
            box = (left - 2, y + 7, left + width + 2, y + 19)
            if start < box[0] and box[2] < end - 4 and not any(_overlap(box, other) for other in taken):
                drawing.text(left, y + 17, text, "faint", size=_DIGIT, walks=on)
                taken.append(box)
                break


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _draw_axis(drawing: Drawing, axis: TimeAxis, y: float) -> None:
    """The axis with a mark at the true time of each link, and its ticks."""
    left, end = axis.ends
    drawing.line((left, y), (end if axis.kind == "linear" else max([*axis.true, left]), y), "faint")
    for x in axis.true:
        drawing.line((x, y - 5), (x, y), "faint")
    for x, text in axis.ticks:
        half = text_width(text, SIZE) / 2
        drawing.line((x, y), (x, y + 5), "faint")
        at = min(max(x, half + 2), drawing.width - half - 2)
        drawing.text(at, y + 17, text, "faint", size=SIZE, anchor="middle")
    lines = wrap(axis.label, drawing.width - 8, SIZE)
    for i, line in enumerate(lines):
        drawing.text(drawing.width / 2, y + 35 + 15 * i, line, "faint", size=SIZE, anchor="middle")
    drawing.extend(y + 30 + 15 * len(lines))


def _links(walks: list[Walk]) -> list[Link]:
    """The links on some walks in order of time."""
    return sorted({link.event: link for walk in walks for link in walk.links}.values(), key=lambda x: (x.t, x.event))


def _lanes(why: Explanation, walks: list[Walk]) -> list[Name]:
    """From top to bottom: source, nodes only its walks reach, shared nodes, nodes of the other walks, destination."""
    reached: dict[str, list[Name]] = {"src": [], "dst": []}
    for walk in walks:
        reached[walk.start] += [node for node in walk.nodes[1:] if node not in (why.src, why.dst)]
    of_src, of_dst = (list(dict.fromkeys(reached[side])) for side in ("src", "dst"))
    only_src, both = ([node for node in of_src if (node in of_dst) == shared] for shared in (False, True))
    only_dst = [node for node in reversed(of_dst) if node not in of_src]
    return list(dict.fromkeys([why.src, *only_src, *both, *only_dst, why.dst]))


# The picture of a law.


def _law_picture(law: Law, top: int = 8, bottom: int = 4) -> Drawing:
    """Its sentences, the evidence of each part, and the shapes with the highest and the lowest scores."""
    tables = {"Causal anonymous walks": law.shapes, "Anonymous walks, each walk considered alone": law.orders}
    kept = {
        title: rows if len(rows) <= top + bottom else [*rows[:top], *rows[-bottom:]] for title, rows in tables.items()
    }
    longest = max((text_width(row.shape) for rows in kept.values() for row in rows), default=0)
    zero = max(330, longest + 120)
    drawing = Drawing(max(zero + 450, _WIDTH), law.in_words[0])
    width = drawing.width - 2 * _MARGIN
    drawing.extend(8)
    drawing.paragraph(_MARGIN, law.in_words[0], width, size=15, bold=True)
    for sentence in law.in_words[1:]:
        drawing.extend(3)
        drawing.paragraph(_MARGIN, sentence, width)
    drawing.extend(4)
    drawing.paragraph(_MARGIN, law_figures(law), width, "faint", size=11)
    drawing.extend(14)
    rows = [Row(part.name, part.title, evidence_detail(law, part), part.evidence) for part in largest_evidence(law)]
    _draw_rows(drawing, rows, evidence_scale(law))
    drawing.paragraph(
        _MARGIN, " ".join([f"{EVIDENCE}, {signed(law.evidence)}.", interaction_note(law)]), width, "faint", size=11
    )
    drawing.extend(16)
    for title, shapes in kept.items():
        _draw_shapes(drawing, title, shapes, zero)
    return drawing


def law_figures(law: Law) -> str:
    """What a law is based on."""
    size = f"{law.links:,} test links and as many random negatives"
    return f"{size}: AUC {100 * law.auc:.1f} %, average precision {100 * law.ap:.1f} %"


def evidence_scale(law: Law) -> float:
    """The evidence of a bar of full length."""
    return max([FULL_BAR, *(abs(part.evidence) for part in law.parts)])


def evidence_detail(law: Law, part: LawPart) -> str:
    """The interval, the share and the use of a part."""
    interval = f"{signed(part.low)} to {signed(part.high)}{'' if part.significant else ', not significant'}"
    without = f"AP without it {100 * part.ap_without:.1f} % ({signed(100 * (part.ap_without - law.ap), 1)})"
    return f"{interval}; {percent(part.share)} of the evidence; {without}"


def _draw_shapes(drawing: Drawing, title: str, rows: list[Shape], zero: float) -> None:
    """A row per shape: its score as a bar, and how often it occurs with positives and with negatives."""
    bar, share, share_bar = 80, zero + 148, 110
    drawing.text(20, 24, title, size=15)
    columns = (20, "shape"), (zero - 30, "score"), (share, "positives, negatives"), (share + share_bar + 20, "lift")
    for x, heading in columns:
        drawing.text(x, 44, heading, "faint", size=11)
    largest = max((abs(row.score) for row in rows), default=1.0) or 1.0
    for i, row in enumerate(rows):
        y = 52 + 26 * i
        drawing.text(20, y + 15, row.shape)
        drawing.bar(zero, y + 4, bar * row.score / largest, 14, _colour(row.score))
        drawing.text(zero + bar + 8, y + 15, signed(row.score), "faint", size=11)
        drawing.bar(share, y + 3, share_bar * row.with_true or 0.5, 8, "raise")
        drawing.bar(share, y + 12, share_bar * row.with_false or 0.5, 8, "lower")
        colour = "ink" if row.significant else "faint"
        drawing.text(share + share_bar + 20, y + 15, format_lift(row), colour, size=11)
    bottom = 52 + 26 * len(rows)
    drawing.line((zero, 50), (zero, bottom), "faint")
    drawing.text(20, bottom + 16, "blue: positives · orange: negatives · grey lift: not significant", "faint", size=10)
    drawing.extend(bottom + 32)


def _colour(value: float) -> str:
    return "raise" if value > 0 else "lower"
