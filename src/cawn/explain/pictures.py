"""Explanations as pictures: walks on a time axis, and bars for their contributions."""

from __future__ import annotations

from typing import cast

from cawn.data.names import Name
from cawn.data.times import format_time
from cawn.errors import printable
from cawn.explain.drawing import Drawing
from cawn.explain.law import Law, Shape
from cawn.explain.link import Explanation, Walk
from cawn.explain.report import Report

SHOWN = 6  # walks drawn on either side of zero
SMALLEST = 0.0005  # log-odds: smaller contributions are not drawn
FULL_BAR = 0.5  # log-odds: a bar of full length is at least this
_WIDTH = 720
_RIGHT = 78  # margin right of the time axis
_LANE, _TOP, _BOTTOM = 26, 18, 58
_ROW = 36
_LETTER = 7.2  # width of a wide letter at 12 pixels


def shown_walks(why: Explanation) -> list[Walk]:
    """The walks that are drawn: the largest contributions that raise the score, then those that lower it."""
    raised, lowered = (
        [walk for walk in walks if abs(walk.contribution) >= SMALLEST][:SHOWN] for walks in (why.raised, why.lowered)
    )
    return raised + lowered


def contributions(why: Explanation) -> list[tuple[str, str, float]]:
    """The parts of the log-odds: (key, description, value)."""
    rows = [("base", "two nodes without history", why.base)]
    if why.rates is not None:
        rows.append(("rates", describe_past(why), why.rates))
    each = "" if why.method == "additive" else ", each left out separately"
    rows.append(("walks", f"all {len(why.walks):,} distinct walks{each}", why.walked))
    if why.method != "additive":
        rows.append(("rest", "interaction between the parts", why.rest))
    return rows


def describe_past(why: Explanation) -> str:
    """The earlier links of the pair and of its nodes in words."""
    past = why.past
    times = {0: "never linked", 1: "linked once"}.get(past.pair_links, f"linked {past.pair_links:,} times")
    last = "" if past.pair_last is None else f", last {format_time(past.pair_last)}"
    return f"past links: the pair {times}{last}; {past.src_links:,} and {past.dst_links:,} links in total"


def bar_scale(why: Explanation) -> float:
    """The log-odds of a bar of full length."""
    values = [walk.contribution for walk in why.walks] + [value for _, _, value in contributions(why)]
    return max([FULL_BAR, *map(abs, values)])


def format_lift(row: Shape) -> str:
    """The lift with its interval."""
    return "{} ({} to {})".format(*(f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in (row.lift, row.low, row.high)))


def shorten(name: Name, limit: int = 16) -> str:
    """A name for a drawing; a long one loses its middle, since names often differ at their ends."""
    text = printable(name)
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-(limit // 2 - 1) :]}"


def picture(report: Report) -> Drawing:
    """The picture of an `Explanation` or a `Law`."""
    return _link_picture(report) if isinstance(report, Explanation) else _law_picture(cast(Law, report))


def _link_picture(why: Explanation) -> Drawing:
    """A title, the walks on a time axis, and the contributions as bars."""
    rows = [(text, "", value) for _, text, value in contributions(why)]
    for i, walk in enumerate(shown_walks(why), start=1):
        path = " → ".join(shorten(node) for node in walk.nodes)
        rows.append((f"{i}  {path}   ×{walk.count}", f"{walk.shape}   {walk.meaning}", walk.contribution))
    bar = 120
    zero = 20 + _LETTER * max(max(len(text), 0.85 * len(detail)) for text, detail, _ in rows) + bar + 50
    drawing = Drawing(max(zero + bar + 70, _WIDTH), "The links on the walks in order of time, and their contributions.")
    pair = f"{printable(why.src)} and {printable(why.dst)} at {format_time(why.t)}"
    drawing.text(20, 22, f"{pair}: {why.probability:.3f} ± {why.error:.4f}", size=15)
    drawing.extend(30)
    _draw_timeline(drawing, why, _WIDTH)
    drawing.text(
        zero,
        16,
        f"contribution to the log-odds, {why.logit:+.3f} before calibration",
        "faint",
        size=11,
        anchor="middle",
    )
    for i, (text, detail, value) in enumerate(rows):
        y, length = 26 + _ROW * i, bar * value / bar_scale(why)
        drawing.text(20, y + 13, text)
        drawing.text(20, y + 27, detail, "faint", size=10)
        drawing.bar(zero, y + 3, length, 14, _colour(value))
        beyond, anchor = (6, "start") if value > 0 else (-6, "end")
        drawing.text(zero + length + beyond, y + 14, f"{value:+.3f}", anchor=anchor)
    bottom = 24 + _ROW * len(rows)
    drawing.line((zero, 24), (zero, bottom), "faint")
    legend = "blue: raises the score · orange: lowers it · thicker: contributes more · numbers: the walks"
    drawing.text(20, bottom + 16, f"{legend} · ×: how many of {why.num_walks} walks", "faint", size=10)
    drawing.extend(bottom + 30)
    return drawing


def timeline(why: Explanation) -> Drawing:
    """The walks on a time axis, narrow enough for a phone."""
    drawing = Drawing(480, f"The links on the walks in order of time, up to {format_time(why.t)}.")
    _draw_timeline(drawing, why, drawing.width)
    return drawing


def _draw_timeline(drawing: Drawing, why: Explanation, width: float) -> None:
    """Nodes as lanes, links as lines between them in order of time, the link in question dashed at the end."""
    walks = shown_walks(why)
    lanes = {node: _TOP + _LANE * i for i, node in enumerate(_lanes(why, walks))}
    links = sorted({link.event: link for walk in walks for link in walk.links}.values(), key=lambda x: (x.t, x.event))
    left, end = 20 + 1.1 * _LETTER * max(len(shorten(node)) for node in lanes), width - _RIGHT
    for node, y in lanes.items():
        drawing.line((left, y), (end + 12, y), "lane")
        colour = "ink" if node in (why.src, why.dst) else "faint"
        drawing.text(left - 8, y + 4, shorten(node), colour, size=13, anchor="end")
    largest = max((abs(walk.contribution) for walk in walks), default=1.0)
    for i, link in enumerate(links):
        through = tuple(n for n, walk in enumerate(walks) if any(step.event == link.event for step in walk.links))
        contribution = max((walks[n].contribution for n in through), key=abs)
        x, y1, y2 = left + (i + 0.5) * (end - left) / len(links), lanes[link.src], lanes[link.dst]
        title = f"{printable(link.src)} → {printable(link.dst)}, {format_time(link.t)}"
        thickness, colour = 1.2 + 3.8 * abs(contribution) / largest, _colour(contribution)
        drawing.line((x, y1), (x, y2), colour, width=thickness, title=title, walks=through)
        for y in {y1, y2}:
            drawing.dot(x, y, 3.5, colour, through)
        drawing.text(x + 5, min(y1, y2) + 16, ",".join(str(n + 1) for n in through[:3]), "faint", size=10)
    src, dst = lanes[why.src], lanes[why.dst]
    drawing.line((end + 12, src), (end + 12, dst), "ink", width=2, dashed=True)
    for y in (src, dst):
        drawing.dot(end + 12, y, 4.5, "ink")
    drawing.text(end + 22, (src + dst) / 2 + 4, f"{why.probability:.3f}", size=14)
    axis = max(lanes.values()) + _BOTTOM - 26
    drawing.line((left, axis - 14), (end + 12, axis - 14), "lane")
    if links:
        drawing.text(left, axis, format_time(links[0].t), "faint", size=11)
    drawing.text(end + 12, axis, format_time(why.t), "faint", size=11, anchor="end")
    note = "earlier ← in order, not to scale → now"
    drawing.text((left + end) / 2, axis + 18, note, "faint", size=11, anchor="middle")
    drawing.extend(axis + 26)


def _law_picture(law: Law, top: int = 8, bottom: int = 4) -> Drawing:
    """The shapes with the highest and the lowest scores, of causal anonymous walks and of anonymous walks."""
    tables = {
        f"Causal anonymous walks, {law.links:,} links": law.shapes,
        "Anonymous walks, each walk considered alone": law.orders,
    }
    kept = {
        title: rows if len(rows) <= top + bottom else [*rows[:top], *rows[-bottom:]] for title, rows in tables.items()
    }
    longest = max((len(row.shape) for rows in kept.values() for row in rows), default=0)
    zero = max(330, _LETTER * longest + 120)
    drawing = Drawing(zero + 410, "Scores of walk shapes, and how often they occur.")
    for title, rows in kept.items():
        _draw_shapes(drawing, title, rows, zero)
    return drawing


def _draw_shapes(drawing: Drawing, title: str, rows: list[Shape], zero: float) -> None:
    """A row per shape: its score as a bar, and how often it occurs with positives and with negatives."""
    bar, share, share_bar = 80, zero + 130, 110
    drawing.text(20, 24, title, size=15)
    columns = (20, "shape"), (zero - 30, "score"), (share, "positives, negatives"), (share + share_bar + 20, "lift")
    for x, heading in columns:
        drawing.text(x, 44, heading, "faint", size=11)
    largest = max((abs(row.score) for row in rows), default=1.0) or 1.0
    for i, row in enumerate(rows):
        y = 52 + 26 * i
        drawing.text(20, y + 15, row.shape)
        drawing.bar(zero, y + 4, bar * row.score / largest, 14, _colour(row.score))
        drawing.text(zero + bar + 8, y + 15, f"{row.score:+.3f}", "faint", size=11)
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


def _lanes(why: Explanation, walks: list[Walk]) -> list[Name]:
    """From top to bottom: source, nodes only its walks reach, shared nodes, nodes of the other walks, destination."""
    reached: dict[str, list[Name]] = {"src": [], "dst": []}
    for walk in walks:
        reached[walk.start] += [node for node in walk.nodes[1:] if node not in (why.src, why.dst)]
    of_src, of_dst = (list(dict.fromkeys(reached[side])) for side in ("src", "dst"))
    only_src, both = ([node for node in of_src if (node in of_dst) == shared] for shared in (False, True))
    only_dst = [node for node in reversed(of_dst) if node not in of_src]
    return list(dict.fromkeys([why.src, *only_src, *both, *only_dst, why.dst]))
