"""Draws docs/throughput.svg from docs/throughput.json, which `python -m benchmarks.gpu --scaling` measures."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

PANELS = {
    "batch_size": "batch size, links",
    "num_walks": "walks per node, M",
    "length": "walk length, m",
    "links": "links in the network",
}
LINES = {  # colour and label
    "walks": ("#6a51a3", "walks/s"),
    "scoring": ("#1b7837", "scoring, pairs/s"),
    "training": ("#2166ac", "training, links/s"),
}


def main() -> None:
    here = Path(__file__).parent
    measured = json.loads((here / "throughput.json").read_text())
    plt.rcParams.update(
        {
            "svg.hashsalt": "cawn",
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), sharey=True, layout="constrained")
    for axis, (name, title) in zip(axes, PANELS.items(), strict=True):
        points = measured[name]
        sizes = [point["size"] for point in points]
        for what, (colour, label) in LINES.items():
            if what != "training" and name == "batch_size":
                continue  # only training has this batch size
            axis.plot(sizes, [point[what] for point in points], "o-", color=colour, label=label, markersize=3.5)
        axis.set(xscale="log", yscale="log", xlabel=title, ylim=(3e4, 3e10))
        axis.set_xticks(sizes, [f"{size:,}" if size < 10_000 else f"$10^{len(str(size)) - 1}$" for size in sizes])
        axis.minorticks_off()
        axis.grid(axis="y", color="#dddddd", linewidth=0.6)
        if name == "batch_size":
            axis.set_xticks([32, 128, 512, 2048, 8192], ["32", "128", "512", "2,048", "8,192"])
    axes[0].set_ylabel("per second")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(here / "throughput.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
