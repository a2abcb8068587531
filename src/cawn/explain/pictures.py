"""Explanations as pictures: bars for contributions, and the links on the walks on a time axis."""

from __future__ import annotations

from itertools import product

from cawn.data.names import Name
from cawn.errors import printable
from cawn.explain.drawing import HEAD, Drawing, Mark, isolate, text_width, wrap
from cawn.explain.time_axis import KINDS, SIZE, AxisKind, TimeAxis, better_axis, time_axis
from cawn.explain.views import Bar, EarlierLink, Evidence, ExplanationView, LawView, Shape, Walk, both_ends, signed

_WIDTH, _MARGIN = 800, 20
_COLUMN, _ZERO, _BAR = 455, 634, 100  # width of the texts beside bars, x of their zero, their full length
_LANE, _TOP = 26, 34
_NARROW = 500  # pixels: in narrower drawings, names are shorter
_DIGIT = 10  # size of the numbers of walks
Box = tuple[float, float, float, float]  # left, top, right, bottom


def picture(view: ExplanationView | LawView) -> Drawing:
    """The picture of an explanation or of a law."""
    return _link_picture(view) if isinstance(view, ExplanationView) else _law_picture(view)


def _link_picture(view: ExplanationView) -> Drawing:
    drawing, width = Drawing(_WIDTH, view.answer), _WIDTH - 2 * _MARGIN
    drawing.extend(8)
    drawing.paragraph(_MARGIN, view.answer, width, size=15, bold=True)
    drawing.extend(4)
    drawing.paragraph(_MARGIN, view.verdict, width, "faint", size=11)
    drawing.extend(12)
    _draw_bars(drawing, [*view.bars, view.total], view.scale)
    drawing.paragraph(_MARGIN, view.notes, width, "faint", size=11)
    drawing.extend(20)
    _draw_timeline(drawing, view, better_timeline(view, _WIDTH))
    drawing.extend(12)
    _draw_bars(drawing, [_walk_bar(view, i, walk) for i, walk in enumerate(view.walks, start=1)], view.scale)
    legend = "blue: raises the score · orange: lowers it · thicker: contributes more · numbers: the walks"
    drawing.paragraph(_MARGIN, f"{legend} · ×: how many of {view.num_walks} walks", width, "faint", size=10)
    for sentence in view.changes:
        drawing.extend(6)
        drawing.paragraph(_MARGIN, sentence, width)
    drawing.extend(16)
    return drawing


def _walk_bar(view: ExplanationView, number: int, walk: Walk) -> Bar:
    path = " → ".join(shorten(node) for node in walk.nodes)
    detail = f"{view.title(walk)}: {walk.meaning}   {walk.shape}"
    return Bar(str(number), f"{number}  {path}   ×{walk.count}", detail, walk.contribution)


def _draw_bars(drawing: Drawing, bars: list[Bar], scale: float) -> None:
    """Bars, with a title and a detail beside each."""
    top = drawing.top
    for bar in bars:
        length = _BAR * bar.value / scale
        drawing.bar(_ZERO, 3, length, 12, _colour(bar.value))
        beyond, anchor = (6, "start") if bar.value > 0 else (-6, "end")
        drawing.text(_ZERO + length + beyond, 13, signed(bar.value), anchor=anchor)
        drawing.extend(-2)
        drawing.paragraph(_MARGIN, bar.title, _COLUMN)
        if bar.detail:
            drawing.paragraph(_MARGIN, bar.detail, _COLUMN, "faint", size=10)
        drawing.extend(9)
    if bars:
        drawing.line((_ZERO, top - drawing.top), (_ZERO, -4), "faint")


def shorten(name: Name, limit: int = 16) -> str:
    """A name for a drawing; a long one loses its middle, since names often differ at their ends."""
    text = printable(name)
    return isolate(text if len(text) <= limit else f"{text[: limit // 2]}…{text[-(limit // 2 - 1) :]}")


# The links on the walks.


def better_timeline(view: ExplanationView, width: float) -> TimeAxis:
    """The axis on which the links of an explanation are spread best."""
    return better_axis([timeline_axis(view, width, kind) for kind in KINDS])


def timeline(view: ExplanationView, width: float, kind: AxisKind) -> Drawing:
    """The links on the walks on a time axis, as a drawing of its own."""
    axis = timeline_axis(view, width, kind)
    drawing = Drawing(width, f"The links on the walks and the link in question; {axis.label}.")
    _draw_timeline(drawing, view, axis)
    return drawing


def timeline_axis(view: ExplanationView, width: float, kind: AxisKind) -> TimeAxis:
    """The time axis of a drawing of this width."""
    limit = 16 if width >= _NARROW else 10
    names = [shorten(node, limit) for node in _lanes(view)]
    left = 12 + max(text_width(name) for name in names)
    times = [link.t for link in _links(view.walks)]
    return time_axis(kind, times, view.t, view.time, (left, width - 14))


def _draw_timeline(drawing: Drawing, view: ExplanationView, axis: TimeAxis) -> None:
    """Nodes as lanes, links as arrows between them, the link in question dashed at the end."""
    walks, width, (left, end) = view.walks, drawing.width, axis.ends
    lanes = {node: _TOP + _LANE * i for i, node in enumerate(_lanes(view))}
    limit = 16 if width >= _NARROW else 10
    for node, y in lanes.items():
        drawing.line((left, y), (end, y), "lane")
        is_end = node in (view.src, view.dst)
        drawing.text(left - 8, y + 4, shorten(node, limit), "ink" if is_end else "faint", anchor="end", bold=is_end)
    links = _links(walks)
    through = [tuple(n for n, walk in enumerate(walks) if link in walk.links) for link in links]
    largest = max((abs(walk.contribution) for walk in walks), default=1.0)
    for link, x, on in zip(links, axis.x, through, strict=True):
        contribution = max((walks[n].contribution for n in on), key=abs)
        numbers = ", ".join(str(n + 1) for n in on)
        mark = Mark(on, f"{printable(link.src)} → {printable(link.dst)}, {link.time}, on walk {numbers}")
        thickness, colour = 1.2 + 2.8 * abs(contribution) / largest, _colour(contribution)
        y1, y2 = lanes[link.src], lanes[link.dst]
        if y1 != y2:
            drawing.arrow(x, (y1, y2), colour, width=thickness, mark=mark)
        drawing.dot(x, y1, 3 if y1 != y2 else 5, colour, mark)
    heights = [(min(y), max(y)) for y in ((lanes[link.src], lanes[link.dst]) for link in links)]
    _number_links(drawing, axis, heights, through)
    _draw_query(drawing, view, end, (lanes[view.src], lanes[view.dst]))
    _draw_axis(drawing, axis, max(lanes.values()) + 16)


def _draw_query(drawing: Drawing, view: ExplanationView, x: float, ends: tuple[float, float]) -> None:
    drawing.line((x, ends[0]), (x, ends[1]), "ink", width=2, dashed=True)
    for y in ends:
        drawing.dot(x, y, 4.5, "ink")
    drawing.text(x + 8, min(ends) - 12, f"{view.probability:.3f}", size=13, anchor="end", bold=True)


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
                drawing.text(left, y + 17, text, "faint", size=_DIGIT, mark=Mark(on))
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


def _links(walks: list[Walk]) -> list[EarlierLink]:
    """The links on some walks in order of time."""
    return sorted({link.event: link for walk in walks for link in walk.links}.values(), key=lambda x: (x.t, x.event))


def _lanes(view: ExplanationView) -> list[Name]:
    """From top to bottom: source, nodes only its walks reach, shared nodes, nodes of the other walks, destination."""
    reached: dict[str, list[Name]] = {"src": [], "dst": []}
    for walk in view.walks:
        reached[walk.start] += [node for node in walk.nodes[1:] if node not in (view.src, view.dst)]
    of_src, of_dst = (list(dict.fromkeys(reached[side])) for side in ("src", "dst"))
    only_src, both = ([node for node in of_src if (node in of_dst) == shared] for shared in (False, True))
    only_dst = [node for node in reversed(of_dst) if node not in of_src]
    return list(dict.fromkeys([view.src, *only_src, *both, *only_dst, view.dst]))


# The picture of a law.


def _law_picture(view: LawView) -> Drawing:
    """Its sentences, the evidence of each part, and the shapes with the highest and the lowest scores."""
    tables = {"Causal anonymous walks": view.shapes, "Anonymous walks, each walk considered alone": view.orders}
    kept = {title: both_ends(rows) for title, rows in tables.items()}
    longest = max((text_width(row.shape) for rows in kept.values() for row in rows), default=0)
    zero = max(330, longest + 120)
    drawing = Drawing(max(zero + 450, _WIDTH), view.sentences[0])
    width = drawing.width - 2 * _MARGIN
    drawing.extend(8)
    drawing.paragraph(_MARGIN, view.sentences[0], width, size=15, bold=True)
    for sentence in view.sentences[1:]:
        drawing.extend(3)
        drawing.paragraph(_MARGIN, sentence, width)
    drawing.extend(4)
    drawing.paragraph(_MARGIN, view.figures, width, "faint", size=11)
    drawing.extend(14)
    _draw_bars(drawing, [_evidence_bar(row) for row in view.evidence], view.scale)
    notes = f"{view.meaning}, {view.total}. {view.interaction}"
    drawing.paragraph(_MARGIN, notes, width, "faint", size=11)
    drawing.extend(16)
    for title, shapes in kept.items():
        _draw_shapes(drawing, title, shapes, zero)
    return drawing


def _evidence_bar(row: Evidence) -> Bar:
    interval = f"{row.interval}{'' if row.significant else ', not significant'}"
    detail = f"{interval}; {row.share} of the evidence; AP without it {row.ap} ({row.drop})"
    return Bar(row.title, row.title, detail, row.value)


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
        drawing.text(share + share_bar + 20, y + 15, row.lift_in_words, colour, size=11)
    bottom = 52 + 26 * len(rows)
    drawing.line((zero, 50), (zero, bottom), "faint")
    drawing.text(20, bottom + 16, "blue: positives · orange: negatives · grey lift: not significant", "faint", size=10)
    drawing.extend(bottom + 32)


def _colour(value: float) -> str:
    return "raise" if value > 0 else "lower"
