"""`cawn train --devices N`."""

from command_line import assert_refused, call_cawn


def test_bad_options_are_refused_before_processes_are_started(tmp_path) -> None:
    assert_refused(call_cawn("train", "x.csv", "--devices", "0", "-o", tmp_path / "run"), "--devices")
