"""Table 3 of the paper, the ablation of CAW-N; of what the default preset adds; and of the authors' code."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from cawn.caw.config import Config
from cawn.learn.plots import INK
from cawn.paper.experiments import Content, Experiment, Finding, Plot, Request, Table, titled
from cawn.paper.measurements import KINDS_OF_NEGATIVES, Measurement, inductive, training
from cawn.paper.published import NETWORKS, PaperValue, display_name, paper_value, published
from cawn.paper.records import MODEL, BySeed, MetricRecord, Records, comparable, first_run, main_settings
from cawn.paper.results import Result
from cawn.paper.variants import BY_NAME, paper_config, settings_of

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
CLAIMS = {  # of the paper: the first row is better than the second
    "f1 contributes": (ORIGINAL, "remove f1"),
    "f2 contributes": (ORIGINAL, "remove f2"),
    "f1 contributes more than f2": ("remove f2", "remove f1"),
    "I_CAW is better than I_AW": (ORIGINAL, "one-hot I_AW for f1"),
    "I_AW is better than no identities": ("one-hot I_AW for f1", "remove f1"),
    "uniform sampling is worse": (ORIGINAL, "alpha = 0"),
}


class Measure(NamedTuple):
    """How the runs are evaluated in a table."""

    title: str
    metric: str
    negatives: str


AS_IN_PAPER = Measure("random negatives, averaged over batches of 30 links", "auc_batch30", "random")
POOLED = Measure("random negatives, pooled", "auc", "random")
HISTORICAL = Measure("historical negatives, pooled", "auc", "historical")


class Ablation(Experiment):
    name = "ablation"
    texts = ("inductive", "ablation")
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

    def show(self, records: Records) -> Content | None:
        section = Content([])
        for preset in ROWS:
            one = Ablated(records.labelled(f"ablation, {preset}"), preset)
            if one.networks:
                section.used.extend(one.used)
                section.tables.extend(one.tables())
                section.claims.extend(one.claims())
                size = 2.0 + 2.4 * len(one.networks), 1.0 + 0.28 * len(one.rows)
                title = f"{one.title}: differences from the full model ({one.settings})"
                section.plots.append(Plot(title, partial(_draw, one), size))
        return section if section.used else None


class Ablated:
    """The results of a preset."""

    def __init__(self, records: Records, preset: str) -> None:
        self.title, self.rows = BY_NAME[preset].label, list(ROWS[preset])
        start, kept, full = f"ablation, {preset}, ", list[MetricRecord](), dict[str, Result]()
        for network in records.networks:
            own = records.where(network=network)
            own = Records(own.results, [record._replace(label=record.label.removeprefix(start)) for record in own])
            if (first := first_run(own, ORIGINAL)) is not None:
                full[network] = first
                kept += comparable(own, ORIGINAL, lambda record: ROWS[preset].get(record.label, {}))
        self.networks, found = list(full), Records(records.results, kept)
        self.settings = "; ".join(f"{display_name(name)}: {main_settings(run)}" for name, run in full.items())
        self.used = found.runs
        tested = found.where(links="all", clock="strict", scorer=MODEL)
        self._pivot = tested.by("network", "label", "metric", "negatives")

    def auc(self, network: str, row: str, how: Measure = AS_IN_PAPER) -> BySeed:
        return self._pivot[network, row, how.metric, how.negatives]

    def gain(self, network: str, row: str, other: str, how: Measure = AS_IN_PAPER) -> BySeed:
        """How much higher AUC is in one row than in another."""
        return self.auc(network, row, how) - self.auc(network, other, how)

    def worth(self, addition: str, how: Measure) -> BySeed:
        """How much an addition raises AUC, averaged over the networks, for the seeds that all of them have."""
        return BySeed.average(self.gain(network, ORIGINAL, f"without {addition}", how) for network in self.networks)

    def claims(self) -> list[Finding]:
        pairs = [(text, name, self.gain(name, *rows)) for text, rows in CLAIMS.items() for name in self.networks]
        claims = [Finding.of(*pair) for pair in pairs]
        claims += [claim for network in self.networks if _paper(network) for claim in self._order(network)]
        claims.append(self._attributes())
        for how in (AS_IN_PAPER, HISTORICAL) if len(self.rows) > len(PAPER_ROWS) else ():
            claims += [
                Finding.of(f"{name}: AUC is higher ({how.title})", titled(self.networks), self.worth(name, how))
                for name in ADDITIONS
            ]
        return [one._replace(claim=f"{self.title}: {one.claim}") for one in claims]

    def _order(self, network: str) -> list[Finding]:
        """Whether AUC ranks the rows as in the paper, and the pairs of rows that it ranks the other way."""
        paper = _paper(network)
        pairs = combinations(sorted(PAPER_ROWS, key=lambda name: -paper[name].mean), 2)
        gains = {pair: gain for pair in pairs if (gain := self.gain(network, *pair))}
        verdicts = [gain.verdict for gain in gains.values()]
        clear = len(verdicts) - verdicts.count("undecided")
        verdict = "contradicted" if "contradicted" in verdicts else "confirmed" if clear else "undecided"
        number = f"{verdict}; clear for {clear} of {len(gains)} pairs"
        claims = [Finding("AUC ranks the rows as in the paper", display_name(network), "", "", number)]
        for (high, low), gain in gains.items():
            if gain.mean < 0:
                overlap = paper[high].mean - paper[low].mean <= paper[high].half + paper[low].half
                note = " (the paper's own intervals overlap)" if overlap else ""
                claims.append(Finding.of(f"{high!r} is above {low!r}{note}", network, gain))
        return claims

    def _attributes(self) -> Finding:
        """Whether f1 and f2 matter more on networks without attributes, by the mean loss of the rows about them."""
        about = published()["networks"]
        known = [network for network in self.networks if network in about]
        groups = [[name for name in known if (about[name]["link attributes"] > 0) is has] for has in (False, True)]
        without, attributed = (
            BySeed.average(self.gain(name, ORIGINAL, row) for name in names for row in list(PAPER_ROWS)[1:5])
            for names in groups
        )
        where = " against ".join(map(titled, groups))
        return Finding.of("f1 and f2 matter more without attributes", where, without - attributed)

    # Tables and plot

    def tables(self) -> list[Table]:
        tables = [self._table(how) for how in (AS_IN_PAPER, POOLED, HISTORICAL)]
        if len(self.rows) > len(PAPER_ROWS):
            tables += [self._worth(how) for how in (AS_IN_PAPER, HISTORICAL)]
        return tables

    def _table(self, how: Measure) -> Table:
        """AUC, and its difference from the full model; the paper's values below ours if the evaluation is the same."""
        others = [name for name in NETWORKS if _paper(name) and name not in self.networks]
        shown = [*self.networks, *(others if how is AS_IN_PAPER else [])]
        rows = [[name, *(text for network in shown for text in self._cells(network, name, how))] for name in self.rows]
        headings = [text for network in shown for text in (display_name(network), "difference")]
        note = "In parentheses: the paper." if how is AS_IN_PAPER else ""
        return Table(["", *headings], rows, f"{self.title}: {how.title}", note)

    def _cells(self, network: str, row: str, how: Measure) -> list[str]:
        difference = "" if row == ORIGINAL else self.gain(network, row, ORIGINAL, how).signed
        texts, paper = [str(self.auc(network, row, how)), difference], _paper(network)
        if how is AS_IN_PAPER and row in paper:
            texts[0] += f"<br>({paper[row]})"
            texts[1] += "" if row == ORIGINAL else f"<br>({paper[row].mean - paper[ORIGINAL].mean:+.2f})"
        return texts

    def _worth(self, how: Measure) -> Table:
        rows = []
        for name in ADDITIONS:
            gains = [self.gain(network, ORIGINAL, f"without {name}", how) for network in self.networks]
            rows.append([name, *(gain.signed for gain in (*gains, self.worth(name, how)))])
        headings = ["", *map(display_name, self.networks), "mean"]
        return Table(headings, rows, f"Gain in AUC by each of our additions: {how.title}")


def _draw(one: Ablated, figure: Any) -> None:
    """A panel per network: the difference of each row from the full model, with its interval."""
    rows = one.rows[1:]
    axes = figure.subplots(1, len(one.networks), squeeze=False, sharey=True)[0]
    for axis, network in zip(axes, one.networks, strict=True):
        for place, row in enumerate(rows):
            if found := one.gain(network, row, ORIGINAL):
                axis.barh(place, found.mean, xerr=found.half, color="C0", ecolor=INK, capsize=2, height=0.6)
        axis.set(title=display_name(network), xlabel="AUC, difference in points")
        axis.grid(axis="x")
    axes[0].set_yticks(range(len(rows)), rows)
    axes[0].set_ylim(len(rows) - 0.5, -0.5)


def _paper(network: str) -> dict[str, PaperValue]:
    """The column of Table 3, by row; empty for networks that it does not have."""
    rows = zip(PAPER_ROWS, published()["ablation"].values(), strict=True)
    return {name: PaperValue(*values[network]) for name, values in rows if network in values}


# The authors' code

EQUATIONS, ALL, BY_ROWS = "the equations", "all of these", "ties read row by row"
_AUTHORS = Config.PRESETS["authors"]
DIFFERENCES: dict[str, dict[str, Any]] = {
    "each end's walks pooled by themselves": {"sides": "separate"},
    "age instead of elapsed time": {name: _AUTHORS[name] for name in ("time_code", "frequencies")},
    "two bidirectional LSTMs": {"rnn": "bidirectional"},
    f"width {_AUTHORS['dim']}": {"dim": _AUTHORS["dim"]},
    BY_ROWS: {},
}


class Authors(Experiment):
    name = "authors"
    title = "Beyond the paper: the effect of each difference between the authors' code and the equations"
    beyond = True
    networks = ("uci",)
    systems = ("paper-mean",)
    seeds = 3

    def plan(self, request: Request) -> list[Measurement]:
        everything = {name: value for changes in DIFFERENCES.values() for name, value in changes.items()}
        return [
            training(
                network,
                paper_config(request, network).with_(**changes),
                task="transductive",
                seed=seed,
                label=f"authors, {name}",
                negatives=KINDS_OF_NEGATIVES,
                ties="rows" if name in (BY_ROWS, ALL) else "strict",
            )
            for seed in request.seeds_of("transductive")
            for network in request.networks
            for name, changes in {EQUATIONS: {}, **DIFFERENCES, ALL: everything}.items()
        ]

    def show(self, records: Records) -> Content | None:
        found = records.labelled("authors")
        section = Content(found.runs)
        pivot = found.where(metric=AS_IN_PAPER.metric, scorer=MODEL, negatives="random").by("network", "label")
        for network in found.networks:
            equations = pivot[network, f"authors, {EQUATIONS}"]
            rows = [[EQUATIONS, str(equations), ""]]
            for name in (*DIFFERENCES, ALL):
                auc = pivot[network, f"authors, {name}"]
                gain = auc - equations
                rows.append([name, str(auc), gain.signed + (" (not clear)" if gain and not gain.is_clear else "")])
                section.claims.append(Finding.of(f"the authors' code, {name}: AUC is higher", network, gain))
            if (paper := paper_value("auc", network, "CAW-N-mean", "transductive")) is not None:
                rows.append(["the paper", str(paper), ""])
            if (first := first_run(found.where(network=network), f"authors, {EQUATIONS}")) is not None:
                title = f"{display_name(network)} ({main_settings(first)})"
                section.tables.append(Table(["CAW-N-mean with", "AUC", "gain"], rows, title))
        return section if section.tables else None
