"""Table 3 of the paper, the ablation of CAW-N; and an ablation of what the default preset adds."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

from cawn.learn.plots import INK
from cawn.paper.curves import (
    METHOD,
    METRIC,
    TESTED,
    average,
    comparable,
    difference,
    inductive,
    lowest_seed,
    main_settings,
    verdict,
)
from cawn.paper.experiments import Experiment, Plot, Request, Section, Table, counted
from cawn.paper.measurements import Measurement
from cawn.paper.published import NETWORKS, display_name, published
from cawn.paper.results import Cell, Result, Results, cell, check_same_splits, differences
from cawn.paper.variants import BY_NAME, settings_of

ORIGINAL = "original"
PAPER_ROWS: dict[str, dict[str, Any]] = {  # the rows of Table 3 in order: settings that differ from the full model
    ORIGINAL: {},
    "remove f1": {"identity": "none"},
    "remove f2": {"time": False},
    "remove f1 and f2": {"identity": "none", "time": False},
    "one-hot I_AW for f1": {"identity": "aw"},
    "alpha = 0": {"alpha": 0.0},
}
ADDITIONS: dict[str, dict[str, Any]] = {  # what the default preset adds, and the settings without it
    "rates": {"rates": False},
    "separate sides": {"sides": "joint"},
    "logarithms of times and counts": {"logarithms": False},
    "ladder of decays (else tau / 5)": {"alpha": "paper"},
    "mixed negatives in training": {"negatives": "random"},
    "degree": {"degree": False},
    "direction": {"directed": False, "sides": "symmetric"},
}
ROWS = {
    "paper-mean": PAPER_ROWS,
    "default": PAPER_ROWS | {f"without {name}": changes for name, changes in ADDITIONS.items()},
}
TITLES = {"paper-mean": "CAW-N-mean", "default": "CAW-N default"}
CLAIMS = {  # of the paper: the first row is better than the second
    "f1 contributes": (ORIGINAL, "remove f1"),
    "f2 contributes": (ORIGINAL, "remove f2"),
    "f1 contributes more than f2": ("remove f2", "remove f1"),
    "I_CAW is better than I_AW": (ORIGINAL, "one-hot I_AW for f1"),
    "I_AW is better than no identities": ("one-hot I_AW for f1", "remove f1"),
    "uniform sampling is worse": (ORIGINAL, "alpha = 0"),
}


class Evaluation(NamedTuple):
    """How the runs are evaluated in a table."""

    title: str
    metric: str
    negatives: str

    @property
    def wanted(self) -> dict[str, str]:
        return TESTED | {"negatives": self.negatives}


AS_IN_PAPER = Evaluation("random negatives, averaged over batches of 30 links", METRIC, "random")
POOLED = Evaluation("random negatives, pooled", "auc", "random")
HISTORICAL = Evaluation("historical negatives, pooled", "auc", "historical")


_PARTS = (
    "f1 encodes the relative identities of a walk's nodes, f2 the times of its links. I_CAW counts how often a node "
    "occurs at each position of both walk sets; I_AW numbers the nodes of a single walk. With alpha = 0, links are "
    "sampled uniformly."
)


class Ablation(Experiment):
    name = "ablation"
    title = "Table 3: ablation of CAW-N-mean and of the default preset"
    networks = ("wikipedia", "uci", "socialevolve", "enron")
    options = ("--seeds", "--systems", "--set")
    systems = tuple(ROWS)

    def plan(self, request: Request) -> list[Measurement]:
        presets = [name for name in ROWS if request.systems is None or name in request.systems]
        return [
            inductive(
                network,
                settings_of(BY_NAME[preset], network, request).with_(**changes),
                seed,
                f"ablation, {preset}, {name}",
            )
            for seed in request.seeds_of("inductive")
            for network in request.networks
            for preset in presets
            for name, changes in ROWS[preset].items()
        ]

    def show(self, results: Results) -> Section | None:
        section = Section([METHOD, _PARTS])
        for preset in ROWS:
            found = Ablated(results, preset)
            if found.networks:
                check_same_splits(found.used)
                section.used.extend(found.used)
                section.text.extend(found.statements())
                section.tables.extend(found.tables())
                section.plots.append(Plot(f"{TITLES[preset]}: differences from the full model", found.draw, found.size))
        return section if section.used else None


class Ablated:
    """The results of a preset."""

    def __init__(self, results: Results, preset: str) -> None:
        self.preset, self.rows = preset, list(ROWS[preset])
        self.runs: dict[tuple[str, str], list[Result]] = {}  # by network and row
        self.networks: list[str] = []
        for network in results.networks:
            full = lowest_seed(results.labelled(f"ablation, {preset}, {ORIGINAL}", network))
            if full is not None:
                self.networks.append(network)
                for name, changes in ROWS[preset].items():
                    runs = results.labelled(f"ablation, {preset}, {name}", network)
                    self.runs[network, name] = comparable(runs, full, changes)

    @property
    def used(self) -> list[Result]:
        return [run for runs in self.runs.values() for run in runs]

    def gains(self, network: str, row: str, other: str, how: Evaluation = AS_IN_PAPER) -> dict[int, float]:
        """By seed, how much higher AUC is in one row than in another."""
        return differences(self.runs[network, row], self.runs[network, other], how.metric, **how.wanted)

    def gain(self, network: str, row: str, other: str, how: Evaluation = AS_IN_PAPER) -> Cell | None:
        return Cell.of(self.gains(network, row, other, how).values())

    def worth(self, addition: str, how: Evaluation) -> Cell | None:
        """How much an addition raises AUC, averaged over the networks, for the seeds that all of them have."""
        found = [self.gains(network, ORIGINAL, f"without {addition}", how) for network in self.networks]
        return Cell.of(average(found).values())

    # In words

    def statements(self) -> list[str]:
        full = {network: self.runs[network, ORIGINAL] for network in self.networks}
        settings = [f"{display_name(network)}: {main_settings(runs[0])}" for network, runs in full.items()]
        lines = [f"**{TITLES[self.preset]}.** Settings of the full model: {'; '.join(settings)}."]
        lines += [self.order(network) for network in self.networks if network in _paper()[0]]
        lines += self.attributes()
        if self.preset == "default":
            lines += [line for how in (AS_IN_PAPER, HISTORICAL) if (line := self.additions(how))]
        return lines

    def order(self, network: str) -> str:
        """Whether AUC ranks the rows as in the paper, and the pairs of rows that it ranks the other way."""
        paper = {name: row[network] for name, row in zip(PAPER_ROWS, _paper(), strict=True)}
        pairs = list(combinations(sorted(PAPER_ROWS, key=lambda name: -paper[name][0]), 2))
        gains = {pair: gain for pair in pairs if (gain := self.gain(network, *pair)) is not None}
        clear = sum(gain.clear for gain in gains.values())
        others = []
        for (high, low), gain in gains.items():
            if gain.mean < 0:
                overlap = paper[high][0] - paper[low][0] <= paper[high][1] + paper[low][1]
                note = "; the paper's own intervals overlap" if overlap else ""
                others.append(f"{low!r} is above {high!r} ({(-gain).signed}{note})")
        if "contradicted" in map(verdict, gains.values()):
            outcome = "not confirmed"
        elif clear < len(pairs):
            outcome = "confirmed as far as the differences are clear" if clear else "undecided"
        else:
            outcome = "confirmed"
        listed = f"Unlike in the paper, {', '.join(others)}." if others else "All pairs are ranked as in the paper."
        return (
            f"{display_name(network)}: the paper's ranking of the rows is {outcome}; "
            f"the difference is clear for {clear} of {counted(len(gains), 'pair')} of rows. {listed}"
        )

    def attributes(self) -> list[str]:
        """Whether f1 and f2 matter more on networks without attributes, by the mean loss of the rows about them."""
        groups: dict[bool, list[str]] = {False: [], True: []}  # without and with attributes
        for network in self.networks:
            if network in published()["networks"]:
                groups[published()["networks"][network]["link attributes"] > 0].append(network)
        losses = {
            has: average(self.gains(network, ORIGINAL, row) for network in networks for row in list(PAPER_ROWS)[1:5])
            for has, networks in groups.items()
        }
        more = difference(losses[False], losses[True])
        if more is None:
            return []
        without, attributed = (", ".join(map(display_name, networks)) for networks in groups.values())
        claim = f"The claim that f1 and f2 matter more without attributes ({without}) than with them ({attributed})"
        return [f"{claim} is {verdict(more)} ({more.signed}, averaged over the rows that change f1 or f2)."]

    def additions(self, how: Evaluation) -> str:
        """Which additions raise AUC, and which do not."""
        worth = {name: found for name in ADDITIONS if (found := self.worth(name, how)) is not None}
        groups: dict[str, list[str]] = {"confirmed": [], "undecided": [], "contradicted": []}
        for name, found in sorted(worth.items(), key=lambda item: -item[1].mean):
            groups[verdict(found)].append(f"{name} {found.signed}")
        words = {"confirmed": "clearly better", "undecided": "no clear difference", "contradicted": "clearly worse"}
        parts = [f"{words[group]}: {', '.join(names)}" for group, names in groups.items() if names]
        where = ", ".join(map(display_name, self.networks))
        mean = "averaged over" if len(self.networks) > 1 else "on"
        return (
            f"Gain in AUC by each of our additions, {mean} {where} ({how.title}); {'; '.join(parts)}." if parts else ""
        )

    # Tables

    def tables(self) -> list[Table]:
        tables = [self._claims(), *(self._table(how) for how in (AS_IN_PAPER, POOLED, HISTORICAL))]
        return [*tables, self._worth(AS_IN_PAPER), self._worth(HISTORICAL)] if self.preset == "default" else tables

    def _claims(self) -> Table:
        rows = []
        for claim, pair in CLAIMS.items():
            gains = [self.gain(network, *pair) for network in self.networks]
            rows.append([claim, *("" if gain is None else f"{verdict(gain)}<br>{gain.signed}" for gain in gains)])
        title, note = f"{TITLES[self.preset]}: the paper's claims", "Undecided: the difference is not clear."
        return Table(["claim", *map(display_name, self.networks)], rows, title, note)

    def _table(self, how: Evaluation) -> Table:
        """AUC, and its difference from the full model; the paper's values below ours if the evaluation is the same."""
        beside = how is AS_IN_PAPER
        empty = [name for name in NETWORKS if name not in self.networks and name in _paper()[0]] if beside else []
        shown = [*self.networks, *empty]
        rows = [[name, *(text for network in shown for text in self._cells(network, name, how))] for name in self.rows]
        note = "In parentheses: the paper." if beside else ""
        headings = [text for network in shown for text in (display_name(network), "difference")]
        return Table(["", *headings], rows, f"{TITLES[self.preset]}: {how.title}", note)

    def _cells(self, network: str, row: str, how: Evaluation) -> list[str]:
        mean = gain = None
        if network in self.networks:
            mean = cell(self.runs[network, row], how.metric, **how.wanted)
            gain = None if row == ORIGINAL else self.gain(network, row, ORIGINAL, how)
        texts = ["" if mean is None else str(mean), "" if gain is None else gain.signed]
        if how is AS_IN_PAPER and row in PAPER_ROWS and network in _paper()[0]:
            (full, _), (paper, half) = (_paper()[number][network] for number in (0, list(PAPER_ROWS).index(row)))
            texts[0] += f"<br>({paper:.2f} ± {half:.2f})"
            texts[1] += "" if row == ORIGINAL else f"<br>({paper - full:+.2f})"
        return texts

    def _worth(self, how: Evaluation) -> Table:
        rows = []
        for name in ADDITIONS:
            gains = [self.gain(network, ORIGINAL, f"without {name}", how) for network in self.networks]
            rows.append([name, *("" if g is None else g.signed for g in (*gains, self.worth(name, how)))])
        headings = ["", *map(display_name, self.networks), "mean"]
        return Table(headings, rows, f"Gain in AUC by each of our additions: {how.title}")

    # Plot

    @property
    def size(self) -> tuple[float, float]:
        return 2.0 + 2.4 * len(self.networks), 1.0 + 0.28 * len(self.rows)

    def draw(self, figure: Any) -> None:
        """A panel per network: the difference of each row from the full model, with its interval."""
        rows = self.rows[1:]
        axes = figure.subplots(1, len(self.networks), squeeze=False, sharey=True)[0]
        for axis, network in zip(axes, self.networks, strict=True):
            for place, row in enumerate(rows):
                if (found := self.gain(network, row, ORIGINAL)) is not None:
                    axis.barh(place, found.mean, xerr=found.half, color="C0", ecolor=INK, capsize=2, height=0.6)
            axis.set(title=display_name(network), xlabel="AUC, difference in points")
            axis.grid(axis="x")
        axes[0].set_yticks(range(len(rows)), rows)
        axes[0].set_ylim(len(rows) - 0.5, -0.5)


def _paper() -> list[dict[str, list[float]]]:
    """The rows of Table 3: AUC and half the width of its interval, by network."""
    return list(published()["ablation"].values())
