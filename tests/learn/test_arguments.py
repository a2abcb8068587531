"""Arguments of a training, checked before anything is read or computed."""

import pytest

import cawn
from cawn.learn.arguments import with_global_batch


def test_the_learning_rate_follows_the_global_batch() -> None:
    config, rule = with_global_batch(cawn.Config(batch_size=128, lr=1e-3), 1024, scaled=True)
    assert (config.batch_size, config.lr) == (1024, pytest.approx(8e-3))
    assert rule == "global batch of 1,024 links: lr 0.001 x 1,024 / 128 = 0.008"


def test_a_learning_rate_that_was_given_is_kept() -> None:
    config, rule = with_global_batch(cawn.Config(batch_size=128, lr=2e-3), 256, scaled=False)
    assert (config.batch_size, config.lr) == (256, 2e-3)
    assert rule == "global batch of 256 links; lr 0.002 as given"
