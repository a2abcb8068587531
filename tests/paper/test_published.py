"""Figures of the paper, against cells copied from it by hand."""

import pytest

from cawn.data.datasets import CATALOG
from cawn.paper.published import CAWN, NAMES, NETWORKS, TESTS, paper_value, published


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (("auc", "uci", "CAW-N-mean", "transductive"), (95.25, 0.30)),
        (("auc", "uci", "CAW-N-attn", "new-new"), (93.16, 0.25)),
        (("auc", "wikipedia", "CAW-N-mean", "new-old"), (98.77, 0.13)),
        (("auc", "enron", "DyRep", "transductive"), (96.71, 0.04)),
        (("auc", "mooc", "EvolveGCN", "new-new"), (52.31, 4.14)),
        (("auc", "socialevolve", "CAW-N-attn", "transductive"), (92.54, 0.58)),
        (("auc", "reddit", "TGAT", "new-old"), (97.25, 0.18)),
        (("ap", "uci", "CAW-N-mean", "transductive"), (95.33, 0.30)),
        (("ap", "reddit", "CAW-N-mean", "transductive"), (98.72, 0.09)),
        (("ap", "enron", "CAW-N-mean", "transductive"), (92.12, 0.09)),
    ],
)
def test_cells_of_tables_2_and_6(cell: tuple, expected: tuple[float, float]) -> None:
    assert paper_value(*cell) == expected


def test_the_best_variant() -> None:
    assert paper_value("auc", "uci", "best", "transductive") == (95.25, 0.30)  # of mean
    assert paper_value("auc", "enron", "best", "transductive") == (92.06, 0.16)  # of attn


def test_cells_that_the_paper_does_not_have() -> None:
    assert paper_value("auc", "flights", "CAW-N-mean", "new-new") is None
    assert paper_value("auc", "flights", "best", "new-new") is None
    assert paper_value("auc", "uci", "DyGFormer", "new-new") is None


@pytest.mark.parametrize("metric", ["auc", "ap"])
def test_no_cell_is_missing(metric: str) -> None:
    cells = published()[metric]
    assert set(cells) == set(NETWORKS)
    assert all(set(cells[network][method]) == set(TESTS) for network in cells for method in cells[network])
    assert all(method in cells[network] for network in cells for method in CAWN)


def test_ablation_and_names() -> None:
    assert published()["ablation"]["1"]["wikipedia"] == [98.94, 0.11]
    assert set(NAMES) == set(CATALOG)
