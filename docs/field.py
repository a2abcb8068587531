"""Writes the tables of docs/systems.md and draws docs/field.svg, both from docs/field.json.

docs/field.json holds what the commands of docs/systems.md measured, averaged over seeds.
"""

import json
import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

NETWORKS = {"uci": "UCI", "enron": "Enron", "wikipedia": "Wikipedia", "mooc": "MOOC"}
ORDER = (
    *("cawn", "rates", "counts", "tpnet", "dygformer", "nat", "graphmixer", "tgat", "tgn", "jodie", "dyrep"),
    *("jodie-original", "dyrep-original", "evolvegcn", "vgrnn", "dynaernn"),
    *("recency", "LR+LP+GR+GP", "LP+GP", "edgebank", "edgebank (window)", "popularity"),
)
COLUMNS = {
    "all/random": "random",
    "all/historical": "historical",
    "all/inductive": "inductive",
    "new-old/random": "new-old, random",
    "new-old/historical": "historical",
    "new-old/inductive": "inductive",
    "new-new/random": "new-new, random",
    "new-new/inductive": "inductive",
}
# AP under DyGLib's protocol, random negatives: transductive, inductive; as printed by later comparisons.
LATER = {
    "tgn": {"uci": (92.3, 88.1), "wikipedia": (98.5, 97.8), "enron": (86.5, 77.9), "mooc": (89.2, 89.0)},
    "jodie": {"uci": (89.4, 79.9), "wikipedia": (96.5, 94.8), "enron": (84.8, 80.7), "mooc": (80.2, 79.6)},
    "dyrep": {"uci": (65.1, 57.5), "wikipedia": (94.9, 92.4), "enron": (82.4, 74.6), "mooc": (82.0, 81.1)},
    "tgat": {"uci": (79.6, 79.5), "wikipedia": (96.9, 96.2), "enron": (71.1, 67.1), "mooc": (85.8, 85.5)},
    "graphmixer": {"uci": (93.25, None), "wikipedia": (97.25, None), "enron": (82.25, None), "mooc": (82.78, None)},
    "dygformer": {"uci": (95.79, None), "wikipedia": (99.03, None), "enron": (92.47, None), "mooc": (87.52, None)},
    "nat": {"uci": (93.4, None), "wikipedia": (98.0, None), "enron": (90.6, None), "mooc": (None, None)},
    "tpnet": {"uci": (97.35, 95.74), "wikipedia": (99.32, None), "enron": (92.90, None), "mooc": (96.39, 95.07)},
    "cawn": {},
}
Cell = list[float | None]


def accuracy_table(cells: dict[str, dict[str, Cell]]) -> str:
    """AP of every system on one network, in per cent, best of each column in bold."""
    columns = {key: title for key, title in COLUMNS.items() if key in cells}
    names = [name for name in ORDER if any(name in cells[key] for key in columns)]
    best = {key: max(cell[0] for cell in cells[key].values()) for key in columns}
    lines = [f"| system | {' | '.join(columns.values())} |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        row = [
            _cell(cells[key].get(name), bold=name in cells[key] and cells[key][name][0] == best[key]) for key in columns
        ]
        lines.append(f"| {name} | {' | '.join(row)} |")
    return "\n".join(lines)


def _cell(cell: Cell | None, *, bold: bool) -> str:
    if cell is None:
        return "-"
    mean, half = cell[0], cell[1]
    text = f"{100 * mean:.1f}" + ("" if half is None else f" ±{100 * half:.1f}")
    return f"**{text}**" if bold else text


def later_table(dyglib: dict[str, dict[str, dict[str, float]]]) -> str:
    """Our AP under DyGLib's protocol beside later published figures: transductive, inductive."""
    lines = [f"| system | {' | '.join(NETWORKS.values())} |", "|---" * (len(NETWORKS) + 1) + "|"]
    for name, printed in LATER.items():
        row = []
        for network in NETWORKS:
            ours = [
                dyglib.get(network, {}).get(key, {}).get(name) for key in ("transductive/random", "inductive/random")
            ]
            cells = []
            for value, other in zip(ours, printed.get(network, (None, None)), strict=True):
                cells.append(
                    ("-" if value is None else f"{100 * value:.1f}") + ("" if other is None else f" ({other})")
                )
            row.append(", ".join(cells))
        lines.append(f"| {name} | {' | '.join(row)} |")
    return "\n".join(lines)


def speed_table(speed: list[dict[str, float]]) -> str:
    """Speed of every system alone on one GPU."""
    lines = [
        "| system | training, links/s | published code | scoring, pairs/s | peak memory | weights |",
        "|---|---|---|---|---|---|",
    ]
    for row in sorted(speed, key=lambda row: ORDER.index(row["system"])):
        ratio = f"{row['published']:,.0f} ({row['links'] / row['published']:.1f} x)" if row.get("published") else "-"
        cells = [row["system"], f"{row['links']:,.0f}", ratio, f"{row['pairs']:,.0f}"]
        cells += [f"{row['memory'] / 2**20:,.0f} MiB", f"{row['weights']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: dict[str, object], path: Path) -> None:
    """AP on UCI under three kinds of negatives, against training speed; presets of CAW-N as open circles."""
    plt.rcParams.update({"svg.hashsalt": "cawn", "svg.fonttype": "none", "font.size": 9})
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    speed = {row["system"]: row["links"] for row in found["speed"]}
    for axis, kind in zip(axes, ("random", "historical", "inductive"), strict=True):
        cells = found["ap"]["uci"][f"all/{kind}"]
        for name, cell in cells.items():
            if name in speed:
                colour = "#b2182b" if name == "cawn" else "#2166ac"
                axis.errorbar(
                    [speed[name]], [100 * cell[0]], [100 * (cell[1] or 0)], fmt="o", color=colour, markersize=4
                )
                left = name in ("tpnet", "dygformer", "jodie-original")
                offset, side = ((-4, 3), "right") if left else ((4, 3), "left")
                axis.annotate(name, (speed[name], 100 * cell[0]), offset, textcoords="offset points", size=7, ha=side)
        for row in found["presets"]:
            if kind in row:
                axis.plot(row["links"], 100 * row[kind], "o", color="#b2182b", markersize=4, markerfacecolor="white")
                place = (row["links"], 100 * row[kind])
                axis.annotate(row["preset"], place, (0, 5), textcoords="offset points", size=7, ha="center")
        axis.axhline(100 * cells["recency"][0], color="#777777", linewidth=0.8, linestyle="--")
        axis.set(xscale="log", xlabel="training, links/s", title=f"{kind} negatives", ylim=(48, 100))
    axes[0].set_ylabel("AP, UCI, transductive")
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def main() -> None:
    here = Path(__file__).parent
    found = json.loads((here / "field.json").read_text())
    sections = {
        "LATER": later_table(found["dyglib"]),
        "SPEED": speed_table(found["speed"]),
    }
    for network in NETWORKS:
        if network in found["ap"]:
            sections[network.upper()] = accuracy_table(found["ap"][network])
    page = here / "systems.md"
    text = page.read_text()
    for name, table in sections.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        assert f"{begin}\n" in text, f"docs/systems.md has no place for {name}"
        text = re.sub(
            f"{begin}.*?{end}", lambda _, b=begin, e=end, t=table: f"{b}\n\n{t}\n\n{e}", text, flags=re.DOTALL
        )
    page.write_text(text)
    draw(found, here / "field.svg")


if __name__ == "__main__":
    main()
