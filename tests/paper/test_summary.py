"""What is reproduced and surpassed, on results made by hand: the words follow the numbers in both directions."""

from cawn.paper.results import Result
from cawn.paper.summary import beside_counting, compact, reproduced, summary, surpassed
from paper_results import gather, row, trained


def uci(label: str, percent: float) -> Result:
    """A transductive training on UCI, where the paper has AUC 95.25 (mean) and 95.14 (attn)."""
    return trained(label, row(percent / 100))


def test_within_one_point_or_above_is_reproduced() -> None:
    results = gather(uci("CAW-N-mean", 94.25), uci("CAW-N-attn", 94.13))
    assert [(one.label, one.ahead) for one in reproduced(results, "auc")] == [
        ("CAW-N-mean", -1.0),
        ("CAW-N-attn", -1.01),
    ]
    section = summary(results)
    assert "in 1 of 2 measured cells (UCI)" in section.text[0]
    assert section.tables[0].rows == [["UCI", "transductive", "CAW-N-attn", "94.13", "95.14 ± 0.25", "-1.01"]]


def test_all_reproduced() -> None:
    section = summary(gather(uci("CAW-N-mean", 96.0), uci("CAW-N-attn", 96.0)))
    assert "in 2 of 2 measured cells (UCI)" in section.text[0]
    assert section.tables == []


def test_the_better_of_our_presets_counts() -> None:
    ahead = gather(uci("CAW-N default", 95.0), uci("CAW-N large", 95.26))
    assert [(one.label, one.ahead) for one in surpassed(ahead, "auc")] == [("CAW-N large", 0.01)]
    assert "in 1 of 1 measured cell (UCI)" in summary(ahead).text[0]
    equal = gather(uci("CAW-N default", 95.25))
    assert "in 0 of 1 measured cell (UCI)" in summary(equal).text[0]
    assert summary(equal).tables[0].rows == [
        ["UCI", "transductive", "CAW-N default", "95.25", "95.25 ± 0.30", "+0.00"],
    ]


def test_auc_and_ap_are_counted_separately() -> None:
    section = summary(gather(uci("CAW-N default", 95.3)))  # the paper's best AP is 95.33
    assert [text.split(" measured cell (")[0].split()[-3:] for text in section.text] == [
        ["1", "of", "1"],
        ["0", "of", "1"],
    ]


def test_networks_and_systems_that_are_not_in_the_paper_do_not_count() -> None:
    results = gather(trained("CAW-N-mean", row(0.5), network="flights"), uci("TGN", 50.0))
    assert summary(results).text == []
    assert compact(results) is None


def test_the_compact_table() -> None:
    table = compact(gather(uci("CAW-N-mean", 94.0), uci("CAW-N default", 96.0)))
    assert table is not None
    assert table.headings[2:] == ["CAW-N-mean", "paper", "CAW-N-attn", "paper", "default", "large"]
    assert table.rows == [
        ["UCI", "transductive", "94.00", "95.25 ± 0.30", "", "95.14 ± 0.25", "**96.00**", ""],
    ]


def test_beside_counting_has_only_the_seeds_of_both() -> None:
    def run(label: str, seed: int, ap: float, **more: object) -> Result:
        rows = [row(ap, negatives=kind, digest=kind, **more) for kind in ("random", "historical")]
        return trained(label, *rows, seed=seed)

    recency = {"recency": {"ap": 0.7}}
    ours = [run("CAW-N default", seed, 0.9 + seed / 100) for seed in range(3)]
    table = beside_counting(gather(*ours, run("rates", 1, 0.8, baselines=recency)))
    assert table is not None
    assert table.rows == [["UCI", "transductive", "1", "91.00", "91.00", "80.00", "70.00", "91.00", "80.00", "70.00"]]
    table = beside_counting(gather(*ours))
    assert table is not None
    assert table.rows == [["UCI", "transductive", "3", "91.00", "91.00", "", "", "91.00", "", ""]]
    assert beside_counting(gather()) is None


def test_historical_negatives_that_are_all_random_are_left_out() -> None:
    rows = [row(0.9, negatives=kind, digest="same") for kind in ("random", "historical")]
    table = beside_counting(gather(trained("CAW-N default", *rows)))
    assert table is not None
    assert table.rows[0][4:] == ["90.00", "", "", "", "", ""]
