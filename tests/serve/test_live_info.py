"""What `cawn info` says of a live state."""

from pathlib import Path

from cawn.serve.ingest import Ingest
from cawn.serve.links import Links
from cawn.serve.live_info import live_info
from cawn.serve.log import LinkLog
from cawn.serve.sources import Rejected
from cawn.serve.sources.rejected import RejectedEntries
from live_history import ListHistory


def test_no_state(tmp_path: Path) -> None:
    assert live_info(tmp_path / "live") is None


def test_a_state_in_use(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    for position, links in ((5, 100), (20, 300)):
        folder = tmp_path / "snapshots" / f"{position:020d}"
        folder.mkdir(parents=True)
        (folder / "snapshot.json").write_text(f'{{"position": {position}, "links": {links}}}')
    (tmp_path / "snapshots" / f"{30:020d}").mkdir()  # being written or removed
    log = LinkLog(tmp_path)
    ingest = Ingest(ListHistory(), log)
    ingest.start()
    ingest.submit(Links(["a"], ["b"], [1]), offsets={"redis:s": "0-0:7-0"}).result()
    ingest.stop()
    log.store()
    RejectedEntries(tmp_path).add("redis:s", [Rejected("1-0", "x", "not JSON"), Rejected("2-0", "x", "not JSON")])
    found = live_info(tmp_path)
    assert (found["links"], found["position"], found["rejected"]) == (300, 20, 2)
    assert found["sources"] == {"redis:s": "0-0:7-0"}
    assert found["bytes"] > 0
    log.close()


def test_a_state_without_anything(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    found = live_info(tmp_path)
    assert (found["links"], found["sources"], found["rejected"]) == (None, {}, 0)
