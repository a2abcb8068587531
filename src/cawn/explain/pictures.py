"""Explanations drawn: walks along an axis of time, and bars for what they add."""

from __future__ import annotations

from cawn.explain.law import Law, Shape
from cawn.explain.link import Explanation, Link, Name, Walk
from cawn.explain.scene import Bar, Dot, Line, Scene, Words
from cawn.summary import moment, shown

SHOWN = 6  # walks drawn on either side of zero
_WIDTH = 720
_LEFT, _RIGHT = 112, 84  # beside the axis of time
_LANE, _TOP, _BOTTOM = 26, 16, 58
_ROW = 22
_LETTER = 7.2  # of 12 pixels, about as wide as it gets


def shown_walks(why: Explanation) -> list[Walk]:
    """The walks that are drawn: the strongest for the link, then the strongest against it."""
    return [*why.raised[:SHOWN], *why.lowered[:SHOWN]]


def timeline(why: Explanation, width: float = _WIDTH) -> Scene:
    """Nodes as lanes, links as the lines between them in the order of time, the link in question dashed at the end."""
    walks = shown_walks(why)
    lanes = {node: _TOP + _LANE * i for i, node in enumerate(_lanes(why, walks))}
    taken = {link.event: link for walk in walks for link in walk.links}
    links = sorted(taken.values(), key=lambda link: (link.t, link.event))
    end = width - _RIGHT
    place = {link.event: _LEFT + (i + 0.5) * (end - _LEFT) / len(links) for i, link in enumerate(links)}
    height = max(lanes.values()) + _BOTTOM
    scene = Scene(width, height, about=f"The links behind the walks, in the order of time, up to {moment(why.t)}.")
    draw = scene.items.append
    for node, y in lanes.items():
        asked = node in (why.src, why.dst)
        draw(Line(_LEFT, y, end + 12, y, "lane"))
        draw(Words(_LEFT - 8, y + 4, _short(node), "end" if asked else "faint", 14 if asked else 13, "end"))
    strongest = max((abs(walk.contribution) for walk in walks), default=1.0) or 1.0
    for link in links:
        through = [i for i, walk in enumerate(walks) if any(step.event == link.event for step in walk.links)]
        weight = max(through, key=lambda i: abs(walks[i].contribution))
        kind = "raise" if walks[weight].contribution > 0 else "lower"
        thick = 1.2 + 3.8 * abs(walks[weight].contribution) / strongest
        x, y1, y2 = place[link.event], lanes[link.src], lanes[link.dst]
        draw(Line(x, y1, x, y2, kind, thick, title=_told(link), walks=tuple(through)))
        for y in {y1, y2}:
            draw(Dot(x, y, 3.5, kind, tuple(through)))
    draw(Line(end + 12, lanes[why.src], end + 12, lanes[why.dst], "end", 2, dashed=True))
    for node in (why.src, why.dst):
        draw(Dot(end + 12, lanes[node], 4.5, "end"))
    draw(Words(end + 24, (lanes[why.src] + lanes[why.dst]) / 2 + 4, f"{why.probability:.3f}", "end", 14))
    floor = height - 26
    draw(Line(_LEFT, floor - 14, end + 12, floor - 14, "lane"))
    if links:
        draw(Words(_LEFT, floor, moment(links[0].t), "faint", 11))
    draw(Words(end + 12, floor, moment(why.t), "faint", 11, "end"))
    draw(Words((_LEFT + end) / 2, floor + 18, "earlier ← in order, not to scale → now", "faint", 11, "middle"))
    return scene


def bars(why: Explanation) -> Scene:
    """What the drawn walks add to the logit."""
    walks = shown_walks(why)
    labels = [f"{walk.shape}   ×{walk.count}" for walk in walks]
    reach = 150
    zero = max(_WIDTH - reach - 70, _LETTER * max(map(len, labels), default=0) + reach + 90)
    scene = Scene(zero + reach + 70, _ROW * len(walks) + 30, about="What each walk adds to the log-odds.")
    draw = scene.items.append
    largest = max((abs(walk.contribution) for walk in walks), default=1.0) or 1.0
    draw(Words(20, 16, "walk (distance from source, from destination)", "faint", 11))
    draw(Words(zero, 16, "adds to the log-odds", "faint", 11, "middle"))
    for i, (walk, words) in enumerate(zip(walks, labels, strict=True)):
        y = 26 + _ROW * i
        size = reach * abs(walk.contribution) / largest
        raises = walk.contribution > 0
        draw(Words(20, y + 13, words))
        draw(Bar(zero if raises else zero - size, y + 3, max(size, 0.5), _ROW - 8, "raise" if raises else "lower"))
        label, anchor = (zero + size + 6, "start") if raises else (zero - size - 6, "end")
        draw(Words(label, y + 13, f"{walk.contribution:+.3f}", "ink", 12, anchor))
    draw(Line(zero, 24, zero, 24 + _ROW * len(walks), "faint"))
    return scene


def link_picture(why: Explanation) -> Scene:
    """Both, with a line that says what is shown."""
    title = Scene(_WIDTH, 30)
    words = f"{_short(why.src)} and {_short(why.dst)} at {moment(why.t)}: {why.probability:.3f} ± {why.error:.4f}"
    title.items.append(Words(20, 22, words, "ink", 15))
    return bars(why).below(timeline(why).below(title))


def law_picture(law: Law, top: int = 8, bottom: int = 4) -> Scene:
    """The highest and lowest shapes of causal anonymous walks, and those of anonymous walks under them."""
    kept = law.shapes if len(law.shapes) <= top + bottom else [*law.shapes[:top], *law.shapes[-bottom:]]
    of_walks = _table(f"Causal anonymous walks, {law.links:,} links", kept)
    of_orders = law.orders if len(law.orders) <= top + bottom else [*law.orders[:top], *law.orders[-bottom:]]
    return _table("Anonymous walks, each by itself", of_orders).below(of_walks)


def _table(title: str, rows: list[Shape]) -> Scene:
    """A row for each shape: its score as a bar, and how often it occurs with true and with false links."""
    reach, wide = 80, 110
    zero = max(330, _LETTER * max((len(row.shape) for row in rows), default=0) + reach + 40)
    share = zero + 130
    scene = Scene(share + 260, 56 + 26 * len(rows), about=f"{title}: scores of shapes, and how often they occur.")
    draw = scene.items.append
    draw(Words(20, 24, title, "ink", 15))
    for x, words in ((20, "shape"), (zero - 30, "adds"), (share, "with true, false"), (share + wide + 20, "lift")):
        draw(Words(x, 44, words, "faint", 11))
    largest = max((abs(row.score) for row in rows), default=1.0) or 1.0
    for i, row in enumerate(rows):
        y = 52 + 26 * i
        size = reach * abs(row.score) / largest
        kind = "raise" if row.score > 0 else "lower"
        draw(Words(20, y + 15, row.shape))
        draw(Bar(zero if row.score > 0 else zero - size, y + 4, max(size, 0.5), 14, kind))
        draw(Words(zero + reach + 8, y + 15, f"{row.score:+.2f}", "faint", 11))
        draw(Bar(share, y + 3, max(wide * row.with_true, 0.5), 8, "raise"))
        draw(Bar(share, y + 12, max(wide * row.with_false, 0.5), 8, "lower"))
        draw(Words(share + wide + 20, y + 15, lift_text(row), "ink" if row.tells else "faint", 11))
    draw(Line(zero, 50, zero, 52 + 26 * len(rows), "faint"))
    return scene


def lift_text(row: Shape) -> str:
    """The lift with its interval."""
    return "{} ({} to {})".format(*(f"{x:,.0f}" if x >= 10 else f"{x:.2g}" for x in (row.lift, row.low, row.high)))


def _lanes(why: Explanation, walks: list[Walk]) -> list[Name]:
    """From top to bottom: source, what its walks reach, what both reach, what the other's reach, destination."""
    reached: dict[str, list[Name]] = {"src": [], "dst": []}
    for walk in walks:
        reached[walk.start] += walk.nodes[1:]
    ends = {why.src, why.dst}
    both = {node for node in reached["src"] if node in reached["dst"]} - ends
    one, other = ([n for n in dict.fromkeys(reached[side]) if n not in both | ends] for side in ("src", "dst"))
    middle = [node for node in dict.fromkeys(reached["src"]) if node in both]
    return list(dict.fromkeys([why.src, *one, *middle, *reversed(other), why.dst]))


def _short(name: Name, most: int = 14) -> str:
    text = shown(name)
    return text if len(text) <= most else text[: most - 1] + "…"


def _told(link: Link) -> str:
    return f"{shown(link.src)} → {shown(link.dst)}, {moment(link.t)}"
