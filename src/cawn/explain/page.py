"""Explanations as one HTML file that opens anywhere: no script, font or picture is fetched."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from cawn.data.times import format_time
from cawn.errors import printable
from cawn.explain.law import CONFIDENCE, Law, Shape
from cawn.explain.link import Explanation, Walk
from cawn.explain.pictures import largest_part, lift_text, parts, shown_walks, timeline
from cawn.explain.scene import stylesheet

_STYLE = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:52rem;padding:1rem;background:var(--paper);color:var(--ink);line-height:1.45}
h1{font-size:1.25rem;overflow-wrap:anywhere}h2{font-size:1.05rem;margin-top:2rem}
p,td,th,li{font-size:.95rem}small,.faint{color:var(--faint)}
svg{width:100%;height:auto;display:block}
.big{font-size:2rem;font-weight:600}
.track{position:relative;height:.7rem;background:var(--lane);border-radius:.35rem}
.track i{position:absolute;top:0;bottom:0;border-radius:.35rem}
.raise{background:var(--raise)}.lower{background:var(--lower)}
details{border-top:1px solid var(--lane);padding:.45rem 0}
summary{cursor:pointer;display:grid;grid-template-columns:1fr auto;gap:.25rem .6rem;align-items:baseline}
summary .track{grid-column:1/-1}
summary::-webkit-details-marker{display:none}summary{list-style:none}
.path::before{content:'▸ ';color:var(--faint)}details[open] .path::before{content:'▾ '}
summary:focus-visible{outline:2px solid var(--raise);outline-offset:2px}
summary code{font-size:.85rem}.path{font-weight:600;overflow-wrap:anywhere}
details ol{margin:.4rem 0;padding-left:1.4rem}
.number .track{margin-left:auto}.number{text-align:right;font-variant-numeric:tabular-nums}
.dimmed [data-walks]{opacity:.15}.dimmed [data-walks].on{opacity:1}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}td code{white-space:nowrap}
td,th{padding:.3rem .4rem;text-align:left;border-top:1px solid var(--lane);vertical-align:top}
td .track{width:7rem;margin:.15rem 0}@media(max-width:40rem){td .track{width:3rem}td,th{font-size:.8rem;padding:.2rem}}
"""

_SCRIPT = """
const drawing = document.querySelector('#drawing');
for (const walk of document.querySelectorAll('details[data-walk]'))
  walk.addEventListener('toggle', () => {
    const open = [...document.querySelectorAll('details[data-walk][open]')].map(other => other.dataset.walk);
    drawing.classList.toggle('dimmed', open.length > 0);
    for (const part of drawing.querySelectorAll('[data-walks]'))
      part.classList.toggle('on', part.dataset.walks.split(' ').some(number => open.includes(number)));
  });
"""


def link_page(why: Explanation) -> str:
    """Why one link is scored as it is."""
    src, dst, when = escape(printable(why.src)), escape(printable(why.dst)), escape(format_time(why.t))
    walks = shown_walks(why)
    largest = largest_part(why)
    raised = "".join(_walk(i, walk, largest, why.num_walks) for i, walk in enumerate(walks) if walk.contribution > 0)
    lowered = "".join(_walk(i, walk, largest, why.num_walks) for i, walk in enumerate(walks) if walk.contribution < 0)
    left = len(why.walks) - len(walks)
    more = f"<p class=faint>{left:,} more kinds of walk add less; this page's data has them all.</p>" if left else ""
    body = f"""
<h1>Will {src} and {dst} link at {when}?</h1>
<p><span class=big id=probability>{why.probability:.3f}</span> ± <span id=error>{why.error:.4f}</span>
<span class=faint>probability beside one false link, from {why.draws} draws of walks</span></p>
<div class=track><i class=raise style="left:0;width:{100 * why.probability:.1f}%"></i></div>
<h2>What it rests on</h2>
{_sum(why, largest)}
<h2>The links that walks took</h2>
<div id=drawing>{timeline(why, width=480).to_svg(alone=False)}</div>
<p class=faint>Each walk goes back in time from one of the two nodes, from link to link. Blue speaks for the link,
orange against it; thicker is stronger. A link that walks of both kinds took has the colour of the stronger one. The
numbers are those of the walks below; open one to see it alone. In grey is its shape: how far each node is from the
source and from the destination among all walks.</p>
<h2>For the link</h2>{raised or "<p>No walk speaks for it.</p>"}
<h2>Against it</h2>{lowered or "<p>No walk speaks against it.</p>"}
{more}
"""
    return _page(f"{src} and {dst}", body, why.to_dict(), _SCRIPT)


def law_page(law: Law) -> str:
    """The law a model goes by."""
    note = (
        f"Over {law.links:,} true links and as many false ones. A shape is written as the distances of the walk's "
        "nodes from source and destination, ∞ where no walk from there meets the node. What it adds is the mean, in "
        "log-odds, over the links that have such walks, of all of them together. Lift is how much more often it occurs "
        f"with true links than with false ones; with {CONFIDENCE:.0%} confidence all intervals of a table hold, and a "
        "lift whose interval excludes 1 is in bold. The two can differ: walks that stand beside a telling one occur "
        "with true links too, and the model may need none of them."
    )
    body = f"""
<h1>The law this model goes by</h1>
<p class=faint>{note}</p>
<h2>Causal anonymous walks</h2>
{_shapes(law.shapes, "shapes")}
<p class=faint>{law.rare:,} shapes occur too seldom to be told of.</p>
<h2>Anonymous walks</h2>
<p class=faint>The same walks, each by itself: nodes numbered in the order of their appearance.</p>
{_shapes(law.orders, "orders")}
<p class=faint>{_method(law.method)}</p>
"""
    return _page("The law this model goes by", body, law.to_dict(), "")


def _page(title: str, body: str, data: dict[str, Any], script: str) -> str:
    held = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # no name can end the script
    return f"""<!DOCTYPE html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content="width=device-width,initial-scale=1">
<meta name=color-scheme content="light dark">
<link rel=icon href="data:,">
<title>{title}</title>
<style>{stylesheet(":root")}{_STYLE}</style>
<body>{body}
<script type=application/json id=data>{held}</script>
<script>{script}</script>
</body>
</html>
"""


def _walk(i: int, walk: Walk, largest: float, num_walks: int) -> str:
    path = " → ".join(escape(printable(node)) for node in walk.nodes)
    links = "".join(
        f"<li>{escape(printable(f'{link.src} → {link.dst}'))} "
        f"<span class=faint>{escape(format_time(link.t))}</span></li>"
        for link in walk.links
    )
    start = escape(printable(walk.nodes[0]))
    newest = f", {escape(format_time(walk.links[0].t))}" if walk.links else ""
    return f"""<details data-walk={i}><summary>
<span class=path>{i + 1}. {path}</span><span class=number>{walk.contribution:+.3f}</span>
{_signed(walk.contribution, largest)}
<small>{escape(walk.meaning)} <code>{escape(walk.shape)}</code></small>
<small class=number>{walk.count} of {num_walks} walks from {start}{newest}</small></summary>
<ol>{links or "<li>no link before this time</li>"}</ol></details>"""


def _sum(why: Explanation, largest: float) -> str:
    cells = "".join(
        f"<tr><td>{escape(words)}<td class=number><span id={name}>{value:+.3f}</span>{_signed(value, largest)}</tr>"
        for name, words, value in parts(why)
    )
    total = f"<tr><td>log-odds of the walks shown, before calibration<td class=number id=logit>{why.logit:+.3f}</tr>"
    return f"<table>{cells}{total}</table><p class=faint>{_method(why.method)}</p>"


def _method(method: str) -> str:
    if method == "additive":
        return "The model's last layer is linear: what walks add is exact and sums to the logit."
    return (
        "What a walk adds is how much the log-odds fall when it and all identical ones are left out, asked of the "
        "model itself. Walks that say the same lose little one by one; what is lost so, or gained only together, is "
        "the last part."
    )


def _shapes(rows: list[Shape], name: str) -> str:
    """The telling shapes and the ends of the list; the others are folded away."""
    largest = max((abs(row.score) for row in rows), default=1.0) or 1.0
    first = [i for i, row in enumerate(rows) if row.tells or i < 8 or i >= len(rows) - 4]
    others = [row for i, row in enumerate(rows) if i not in set(first)]
    head = "<tr><th>shape<th>adds<th>with true links<th>with false links<th>lift</tr>"
    main = "".join(_shape(rows[i], largest) for i in first)
    more = "".join(_shape(row, largest) for row in others)
    folded = (
        f"<details><summary>{len(others):,} more shapes</summary><table>{head}{more}</table></details>" if more else ""
    )
    return f"<div class=scroll><table id={name}>{head}{main}</table>{folded if others else ''}</div>"


def _shape(row: Shape, largest: float) -> str:
    lift = f"<b>{lift_text(row)}</b>" if row.tells else lift_text(row)
    return (
        f"<tr><td><code>{escape(row.shape)}</code><br><small>{escape(row.meaning)}</small>"
        f"<td>{row.score:+.3f}{_signed(row.score, largest)}"
        f"<td>{row.with_true:.3f}{_share(row.with_true, 'raise')}"
        f"<td>{row.with_false:.3f}{_share(row.with_false, 'lower')}<td>{lift}</tr>"
    )


def _signed(value: float, largest: float) -> str:
    """A bar from the middle to the right or to the left."""
    size = 50 * abs(value) / largest
    kind, left = ("raise", 50.0) if value > 0 else ("lower", 50 - size)
    return f'<div class=track><i class={kind} style="left:{left:.1f}%;width:{size:.1f}%"></i></div>'


def _share(share: float, kind: str) -> str:
    return f'<div class=track><i class={kind} style="left:0;width:{100 * share:.1f}%"></i></div>'
