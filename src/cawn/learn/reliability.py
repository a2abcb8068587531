"""How well probabilities agree with what happened: calibration error, Brier score, and the reliability diagram."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BINS = 15
SHOWN = {"rolling": "refitted as links arrive", "calibrated": "fitted on validation links", "raw": "not calibrated"}


def reliability(true: Array, false: Array) -> dict[str, Any]:
    """Expected calibration error and Brier score of the probabilities of positives and negatives.

    "bins" has a row for each of `BINS` equal intervals of the probability that is not empty: the mean probability, the
    share of positives, and the number of pairs.
    """
    p = np.concatenate([true, false])
    truth = np.repeat([1.0, 0.0], [len(true), len(false)])
    count, mean, share = sums_by_bin(p, truth, np.ones_like(p))
    bins = [[float(m / n), float(s / n), int(n)] for n, m, s in zip(count, mean, share, strict=True) if n > 0]
    error = float(np.abs(mean - share).sum() / len(p))
    return {"ece": error, "brier": float(((p - truth) ** 2).mean()), "bins": bins}


def sums_by_bin(p: Array, truth: Array, weight: Array) -> Array:
    """The sums of weights, probabilities and truths of pairs [n] by interval of the probability: [3, BINS]."""
    group = np.minimum((p * BINS).astype(int), BINS - 1)
    columns = weight, weight * p, weight * truth
    return np.stack([np.bincount(group, weights=column, minlength=BINS) for column in columns])


def diagram(found: dict[str, dict[str, Any]]) -> str:
    """The reliability diagram of a row of results, as SVG; needs matplotlib.

    Args:
        found: The "reliability" of the row.
    """
    from cawn.learn.plots import GRID, MARKERS, to_svg

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=GRID, zorder=0)
        for (kind, title), marker in zip(SHOWN.items(), MARKERS, strict=False):
            if "bins" in found.get(kind, {}):
                mean, share, _ = zip(*found[kind]["bins"], strict=True)
                axes.plot(mean, share, marker=marker, markersize=4, label=f"{title}: ECE {found[kind]['ece']:.3f}")
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="share of links", aspect="equal")
        axes.grid(True)
        axes.legend(loc="lower right")

    return to_svg(draw, (4.5, 4.5))
