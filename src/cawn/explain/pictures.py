"""Explanations drawn: walks along an axis of time, and bars for what they add."""

from __future__ import annotations

from cawn.data.names import Name
from cawn.data.times import format_time
from cawn.errors import printable
from cawn.explain.law import Law, Shape
from cawn.explain.link import Explanation, Link, Walk
from cawn.explain.scene import Bar, Dot, Line, Scene, Words

SHOWN = 6  # walks drawn on either side of zero
LEAST = 0.0005  # log-odds: what adds less is not drawn
SMALL = 0.5  # log-odds: bars are drawn against this, or what is larger
KEY = "blue: for the link · orange: against it · thicker: stronger · the numbers are those of the walks"
_WIDTH = 720
_RIGHT = 78  # beside the axis of time
_LANE, _TOP, _BOTTOM = 26, 18, 58
_ROW = 36
_LETTER = 7.2  # of 12 pixels, about as wide as it gets


def shown_walks(why: Explanation) -> list[Walk]:
    """The walks that are drawn: the strongest for the link, then the strongest against it."""
    telling = [[walk for walk in walks if abs(walk.contribution) >= LEAST] for walks in (why.raised, why.lowered)]
    return [*telling[0][:SHOWN], *telling[1][:SHOWN]]


def parts(why: Explanation) -> list[tuple[str, str, float]]:
    """What the log-odds are made of: a name, words and the share of each."""
    rows = [("base", "what it says of two strangers", why.base)]
    if why.rates is not None:
        rows.append(("rates", past_words(why), why.rates))
    each = "" if why.method == "additive" else ", each kind left out by itself"
    rows.append(("walks", f"all {len(why.walks):,} kinds of walk{each}", why.walked))
    if why.method != "additive":
        rows.append(("rest", "what these say only together, or say twice", why.rest))
    return rows


def past_words(why: Explanation) -> str:
    """The counted past in words."""
    past = why.past
    times = {0: "they never linked", 1: "they linked once"}.get(
        past.pair_links, f"they linked {past.pair_links:,} times"
    )
    last = "" if past.pair_last is None else f", last {format_time(past.pair_last)}"
    return f"counted past: {times}{last}; {past.src_links:,} and {past.dst_links:,} links in all"


def largest_part(why: Explanation) -> float:
    """What bars are drawn against, so that little looks little."""
    values = [walk.contribution for walk in why.walks] + [value for _, _, value in parts(why)]
    return max([SMALL, *map(abs, values)])


def timeline(why: Explanation, width: float = _WIDTH) -> Scene:
    """Nodes as lanes, links as the lines between them in the order of time, the link in question dashed at the end."""
    walks = shown_walks(why)
    lanes = {node: _TOP + _LANE * i for i, node in enumerate(_lanes(why, walks))}
    taken = {link.event: link for walk in walks for link in walk.links}
    links = sorted(taken.values(), key=lambda link: (link.t, link.event))
    left, end = 20 + 1.1 * _LETTER * max(len(short(node)) for node in lanes), width - _RIGHT
    place = {link.event: left + (i + 0.5) * (end - left) / len(links) for i, link in enumerate(links)}
    height = max(lanes.values()) + _BOTTOM
    scene = Scene(width, height, about=f"The links behind the walks, in the order of time, up to {format_time(why.t)}.")
    draw = scene.items.append
    for node, y in lanes.items():
        asked = node in (why.src, why.dst)
        draw(Line(left, y, end + 12, y, "lane"))
        draw(Words(left - 8, y + 4, short(node), "end" if asked else "faint", 13, "end"))
    strongest = max((abs(walk.contribution) for walk in walks), default=1.0)
    for link in links:
        through = tuple(i for i, walk in enumerate(walks) if any(step.event == link.event for step in walk.links))
        weight = walks[max(through, key=lambda i: abs(walks[i].contribution))].contribution
        kind = "raise" if weight > 0 else "lower"
        x, y1, y2 = place[link.event], lanes[link.src], lanes[link.dst]
        draw(Line(x, y1, x, y2, kind, 1.2 + 3.8 * abs(weight) / strongest, title=_told(link), walks=through))
        for y in {y1, y2}:
            draw(Dot(x, y, 3.5, kind, through))
        draw(Words(x + 5, min(y1, y2) + 16, ",".join(str(i + 1) for i in through[:3]), "faint", 10))
    draw(Line(end + 12, lanes[why.src], end + 12, lanes[why.dst], "end", 2, dashed=True))
    for node in (why.src, why.dst):
        draw(Dot(end + 12, lanes[node], 4.5, "end"))
    draw(Words(end + 22, (lanes[why.src] + lanes[why.dst]) / 2 + 4, f"{why.probability:.3f}", "end", 14))
    floor = height - 26
    draw(Line(left, floor - 14, end + 12, floor - 14, "lane"))
    if links:
        draw(Words(left, floor, format_time(links[0].t), "faint", 11))
    draw(Words(end + 12, floor, format_time(why.t), "faint", 11, "end"))
    draw(Words((left + end) / 2, floor + 18, "earlier ← in order, not to scale → now", "faint", 11, "middle"))
    return scene


def bars(why: Explanation) -> Scene:
    """What the parts of the past add to the log-odds: what was counted, then the walks that are drawn."""
    walks = shown_walks(why)
    rows = [(words, "", value) for _, words, value in parts(why)]
    for i, walk in enumerate(walks, start=1):
        path = " → ".join(short(node) for node in walk.nodes)
        rows.append((f"{i}  {path}   ×{walk.count}", f"{walk.shape}   {walk.meaning}", walk.contribution))
    reach = 120
    zero = 20 + _LETTER * max(max(len(words), 0.85 * len(more)) for words, more, _ in rows) + reach + 50
    scene = Scene(max(zero + reach + 70, _WIDTH), _ROW * len(rows) + 54, about="What each part adds to the log-odds.")
    draw, largest = scene.items.append, largest_part(why)
    draw(Words(zero, 16, f"adds to the log-odds, {why.logit:+.3f} before calibration", "faint", 11, "middle"))
    for i, (words, more, value) in enumerate(rows):
        y = 26 + _ROW * i
        size = reach * abs(value) / largest
        draw(Words(20, y + 13, words))
        draw(Words(20, y + 27, more, "faint", 10))
        draw(Bar(zero if value > 0 else zero - size, y + 3, max(size, 0.5), 14, "raise" if value > 0 else "lower"))
        label, anchor = (zero + size + 6, "start") if value > 0 else (zero - size - 6, "end")
        draw(Words(label, y + 14, f"{value:+.3f}", "ink", 12, anchor))
    draw(Line(zero, 24, zero, 24 + _ROW * len(rows), "faint"))
    draw(Words(20, 40 + _ROW * len(rows), f"{KEY} · ×: so many of {why.num_walks} walks", "faint", 10))
    return scene


def link_picture(why: Explanation) -> Scene:
    """Both, with a line that says what is shown."""
    title = Scene(_WIDTH, 30)
    pair = f"{printable(why.src)} and {printable(why.dst)} at {format_time(why.t)}"
    words = f"{pair}: {why.probability:.3f} ± {why.error:.4f}"
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
    scene = Scene(share + 280, 84 + 26 * len(rows), about=f"{title}: scores of shapes, and how often they occur.")
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
        draw(Words(zero + reach + 8, y + 15, f"{row.score:+.3f}", "faint", 11))
        draw(Bar(share, y + 3, max(wide * row.with_true, 0.5), 8, "raise"))
        draw(Bar(share, y + 12, max(wide * row.with_false, 0.5), 8, "lower"))
        draw(Words(share + wide + 20, y + 15, lift_text(row), "ink" if row.tells else "faint", 11))
    draw(Line(zero, 50, zero, 52 + 26 * len(rows), "faint"))
    draw(
        Words(
            20,
            68 + 26 * len(rows),
            "blue: with true links · orange: with false ones · grey lift: may be chance",
            "faint",
            10,
        )
    )
    return scene


def lift_text(row: Shape) -> str:
    """The lift with its interval."""
    return "{} ({} to {})".format(*(f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in (row.lift, row.low, row.high)))


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


def short(name: Name, most: int = 16) -> str:
    """A name for a drawing; long ones lose their middle, since their ends tell them apart."""
    text = printable(name)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2 - 1) :]}"


def _told(link: Link) -> str:
    return f"{printable(link.src)} → {printable(link.dst)}, {format_time(link.t)}"
