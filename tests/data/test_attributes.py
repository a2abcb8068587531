"""Attributes: encoded by what training links say, the same for later links, nothing of the test in it."""

import json
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.caw.config import Config
from cawn.data.attributes import BUCKETS, MAX_DEVIATIONS, MAX_LEVELS, Attribute, Encoder
from cawn.data.forms import Form, NameForm
from cawn.data.names import NameIndex
from cawn.data.reading import Reading
from cawn.data.times import TimeForm
from cawn.data.updates import Draft, GrowingEvents, KnownIds, UpdateRules
from cawn.learn.runs import read_description, read_events
from cawn.learn.trainer import Trainer

TINY = Config(alpha="ladder", num_walks=4, length=1, dim=4, frequencies=2, batch_size=64, epochs=1)
PRESENT = (Attribute("age"), Attribute("in the table of nodes", "presence"))


def with_columns(msg, columns: tuple[Attribute, ...], **more) -> cawn.Events:
    size = len(msg)
    events = cawn.Events(np.arange(size), np.arange(size) + 1, np.arange(size), msg=msg, **more)
    events.columns = columns
    return events


def test_numbers_are_standardised_by_training_links() -> None:
    events = with_columns([[1.0, 5], [3, 5], [1e9, 6], [2, 7]], ())
    encoder = Encoder.fit(events, np.array([0, 1]))
    found = encoder.transform(events)
    np.testing.assert_allclose(found.msg, [[-1, 0], [1, 0], [MAX_DEVIATIONS, 0], [0, 0]])
    assert encoder.transform(found) is found
    assert found[1:].encoder is encoder
    assert events.msg[2, 0] == 1e9
    assert Encoder.fit(events, np.arange(2), standardise=False) is None
    assert Encoder.fit(cawn.Events([0, 1], [1, 2], [1, 2]), np.arange(2)) is None


def test_categories_are_one_hot_with_a_place_for_others() -> None:
    columns = (Attribute("kind", "category", ("b", "a", "rare")), Attribute("amount"))
    events = with_columns([[0, 7], [1, 7], [1, 9], [2, 9]], columns)
    encoder = Encoder.fit(events, np.array([0, 1, 2]), standardise=False)
    assert encoder.transform(events).msg.tolist() == [[0, 1, 0, 7], [1, 0, 0, 7], [1, 0, 0, 9], [0, 0, 1, 9]]
    assert encoder.widths == (4, 0)
    other_codes = with_columns([[0, 1], [1, 2]], (Attribute("kind", "category", ("new", "b")), Attribute("amount")))
    assert encoder.transform(other_codes).msg.tolist() == [[0, 0, 1, 1], [0, 1, 0, 2]]
    standard = Encoder.fit(with_columns([[0, 0.1], [1, 0.7], [2, 0.9]], columns, x=np.arange(4) / 3), np.arange(3))
    assert Encoder.from_dict(json.loads(json.dumps(standard.to_dict()))) == standard


def test_many_levels_are_hashed() -> None:
    levels = tuple(f"level {i}" for i in range(MAX_LEVELS + 1))
    events = with_columns(np.arange(len(levels)), (Attribute("kind", "category", levels),))
    encoder = Encoder.fit(events, np.arange(len(levels)))
    found = encoder.transform(events).msg
    assert found.shape == (len(levels), BUCKETS)
    assert (found.sum(axis=1) == 1).all()
    alone = with_columns([0, 0], (Attribute("kind", "category", (levels[5],)),))
    assert encoder.transform(alone).msg[0].tolist() == found[5].tolist()
    assert Encoder.fit(events, np.arange(MAX_LEVELS)).widths == (MAX_LEVELS + 1, 0)


def test_nodes_are_standardised_by_those_of_training_links_that_have_attributes() -> None:
    events = cawn.Events([0, 1, 2], [1, 0, 3], [1, 2, 3], x=[[1.0], [3], [100], [5]])
    encoder = Encoder.fit(events, np.array([0, 1]))
    assert encoder.transform(events).x.tolist() == [[-1], [1], [MAX_DEVIATIONS], [3]]
    events = cawn.Events([0, 1], [1, 2], [1, 2], x=[[1.0, 1], [3, 1], [0, 0]])
    events.node_columns = PRESENT
    encoder = Encoder.fit(events, np.array([0, 1]))
    assert encoder.transform(events).x.tolist() == [[-1, 1], [1, 1], [0, 0]]


DAMAGE = [{"kind": "text"}, {"width": 3}, {"width": 10**9}, {"mean": "a"}, {"mean": float("nan")}, {"std": -1.0}]
DAMAGE += [{"std": None}, {"levels": ["a"]}, {"levels": 5}, {"name": 5}, {"surplus": 1}]


@pytest.mark.parametrize("change", DAMAGE)
def test_damaged_descriptions_are_refused(change) -> None:
    good = {"name": "a", "kind": "number", "width": 1, "mean": 1.0, "std": 2.0, "levels": []}
    Encoder.from_dict({"msg": [good], "x": []})
    for found in ({"msg": [good | change], "x": []}, {"msg": []}, [], {"msg": 5, "x": []}, {"msg": [5], "x": []}):
        with pytest.raises(cawn.DataError, match="not the description of encoded attributes"):
            Encoder.from_dict(found)


def test_other_columns_are_refused() -> None:
    events = with_columns([[0, 1.0], [1, 2]], (Attribute("kind", "category", ("a", "b")), Attribute("amount")))
    encoder = Encoder.fit(events, np.arange(2))
    with pytest.raises(cawn.DataError, match=r"1 link attributes, the model's 2 \('kind', 'amount'\); give the same"):
        encoder.transform(with_columns([1, 2], ()))
    with pytest.raises(cawn.DataError, match=r"'msg\[0\]' is a number, but the model was trained with a category"):
        encoder.transform(with_columns([[1, 2], [1, 2]], ()))
    other = Encoder.fit(events, np.arange(1))
    with pytest.raises(cawn.DataError, match="encoded for another run"):
        encoder.transform(other.transform(events))


def network(change_last: bool = False) -> cawn.Events:
    """80 links, with an amount in two clusters and a currency."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 12, (2, 80))
    amount, currency = rng.normal(100, 20, 80), rng.integers(0, 3, 80)
    levels = ("eur", "usd", "chf")
    if change_last:
        amount[60:] += 1_000
        currency[60:] = 3
        levels = (*levels, "xyz")
    events = cawn.Events(src, dst, np.arange(80), msg=np.stack([amount, currency], axis=1), x=rng.normal(size=12))
    events.columns = (Attribute("amount"), Attribute("currency", "category", levels))
    return events


def test_test_links_change_no_encoder() -> None:
    encoders = [Trainer(network(change), TINY, quiet=True).events.encoder for change in (False, True)]
    assert encoders[0] == encoders[1]
    assert encoders[0].widths == (5, 1)


def test_a_run_keeps_its_encoder_and_encodes_updates_alike(tmp_path: Path) -> None:
    events, options = network(), {"out": tmp_path / "run", "quiet": True, "task": cawn.Task(negatives=("random",))}
    run = cawn.train(events, TINY, **options)
    encoder = run.events.encoder
    assert Encoder.from_dict(read_description(tmp_path / "run")["encoder"]) == encoder
    held = read_events(tmp_path / "run")
    assert held.encoder == encoder
    np.testing.assert_array_equal(held.msg, run.events.msg)
    for again in (events, held):
        assert cawn.train(again, TINY, resume=True, **options).results == run.results
    with pytest.raises(cawn.QueryError, match="encoded for another run"):
        cawn.train(held, TINY, quiet=True)
    predictor = cawn.LinkPredictor.load(tmp_path / "run", device="cpu")
    new = cawn.Events([3], [4], [90], msg=[[100.0, 0]])
    new.columns = (Attribute("amount"), Attribute("currency", "category", ("never seen",)))
    predictor.update(new)
    assert predictor.score(3, 5, 95).shape == (1,)
    predictor.save(tmp_path / "saved")
    saved, amount = read_events(tmp_path / "saved"), encoder.msg[0]
    np.testing.assert_allclose(saved.msg[-1], [(100 - amount.mean) / amount.std, 0, 0, 0, 1], rtol=1e-6)
    assert saved.encoder == encoder


def test_attributes_may_be_left_as_they_are(tmp_path: Path) -> None:
    """By a setting, and in the paper's presets."""
    plain = cawn.Events(*np.random.default_rng(0).integers(0, 9, (2, 80)), np.arange(80), msg=np.arange(80))
    for preset in ("paper-mean", "paper-attn"):
        config = Config.preset(preset).with_(num_walks=4, dim=4, frequencies=2)
        assert Trainer(plain, config, quiet=True).events is plain
    run = cawn.train(
        plain, TINY.with_(standardise=False), out=tmp_path / "run", quiet=True, task=cawn.Task(negatives=("random",))
    )
    assert run.events.encoder is read_description(tmp_path / "run")["encoder"] is None
    assert read_events(tmp_path / "run").msg.max() == 79


def test_updates_keep_attributes_of_nodes_that_their_table_lacks() -> None:
    held = cawn.Events([0, 1], [1, 0], [1, 2], x=[[1.0, 1], [3, 1]])
    new = cawn.Events([0], [2], [3], x=[[0.0, 0], [5, 1], [9, 1]])
    held.node_columns = new.node_columns = PRESENT
    history, labels = Encoder.fit(held, np.arange(2)).transform(held), NameIndex.of(held.labels)
    form = Form.of(NameForm.of(labels, None), TimeForm.of(held.t, Reading()), history, Reading())
    for links, last in ((new, [7, 1]), (cawn.Events([0], [2], [3]), [0, 0])):
        draft = Draft(history, labels, form, KnownIds(), UpdateRules())
        draft.add(form.events(links))
        both, _ = GrowingEvents(history).add(draft.finish()[0])
        assert both.x.tolist() == [[-1, 1], [1, 1], last]
