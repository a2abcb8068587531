"""The kernels of DyRep on single messages; whole streams and gradients are in tests/systems/test_dyrep_original.py."""

import math

import numpy as np
import pytest

from cawn.kernels.cpu.dyrep import Messages, Tables, Weights, forward


def run(rows: list[int], writer: list[int], share: list[float], kind: int) -> Tables:
    """One message on two states of width 1: 0.2 with the attention (0.5, 0.5, 0), and 0.4 without any."""
    one = np.ones((1, 1), np.float32)
    rate_one = math.log(math.e - 1)  # log(1 + exp(.)) is 1
    weights = Weights(
        struct=2 * one,
        rec=3 * one,
        h=one,
        omega=np.zeros((2, 2), np.float32),
        bias=np.array([rate_one, 3 * rate_one], np.float32),
        psi=np.array([1, 3], np.float32),
    )
    messages = Messages(
        rows=np.array([rows]),
        previous=np.array([-1]),
        writer=np.array([writer]),
        share=np.array([share], np.float32),
        kinds=np.array([kind]),
        drive=0.5 * one,
    )
    tables = Tables(
        z=np.array([[0.2], [0.4], [np.nan]], np.float32),
        projected=np.full((3, 1), np.nan, np.float32),
        attention=np.array([[0.5, 0.5, 0], [0, 0, 0], [np.nan] * 3], np.float32),
        new=np.empty((1, 1), np.float32),
        averaged=np.empty(1, np.int64),
        h=np.empty((1, 1), np.float32),
        best=np.empty((1, 1), np.int64),
        q=np.empty((1, 3), np.float32),
        rate=np.empty(1, np.float32),
    )
    forward(weights, messages, tables)
    return tables


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_attention_after_an_association() -> None:
    """Two partners with 0.5 each; a third with lambda 1: twice 0.5 - (1/2 - 1/3), and 1/3 + 1, divided by their sum."""
    tables = run([0, 1, -1, -1, -1], writer=[-1, -1, 0], share=[1 / 2, 1 / 3], kind=0)
    assert tables.rate[0] == pytest.approx(1)
    np.testing.assert_allclose(tables.attention[2], np.array([1 / 3, 1 / 3, 4 / 3]) / 2, rtol=1e-5)


def test_attention_after_a_communication() -> None:
    """The second of two partners again, with lambda 3."""
    tables = run([0, 1, -1, -1, -1], writer=[-1, 0, -1], share=[1 / 2, 1 / 2], kind=1)
    np.testing.assert_allclose(tables.attention[2], np.array([0.5, 3.5, 0]) / 4, rtol=1e-5)


def test_the_state_without_and_with_partners_of_the_other_end() -> None:
    alone = run([0, 1, -1, -1, -1], writer=[-1, -1, 0], share=[1 / 2, 1 / 3], kind=0)
    assert alone.z[2, 0] == pytest.approx(sigmoid(3 * 0.2 + 0.5))
    partners = run([1, 0, 0, 1, -1], writer=[0, -1, -1], share=[0, 1], kind=0)  # states 0.2 and 0.4, q of 1/2 each
    assert partners.best[0, 0] == 1
    assert partners.z[2, 0] == pytest.approx(sigmoid(2 * sigmoid(0.4 / 2) + 3 * 0.4 + 0.5))
