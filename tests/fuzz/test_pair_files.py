"""Malformed files of pairs and links through the command line: a result, or one line and exit code 2."""

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import cawn
from cawn import cli
from cawn.data import laws
from fuzz.mutations import LONGEST_MESSAGE, mutate, seeds


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    plain = laws.triadic_closure(40, 600, seed=0).events
    events = cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(plain.num_nodes)])
    config = cawn.Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)
    cawn.train(events, config, out=folder, quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
    return folder


def files() -> dict[str, bytes]:
    """The same pairs in every format."""
    rng = np.random.default_rng(0)
    rows = [(f"n{a}", f"n{b}", int(t)) for a, b, t in rng.integers(0, 40, (12, 3))]
    table = pa.table({"src": [r[0] for r in rows], "dst": [r[1] for r in rows], "t": [r[2] for r in rows]})
    csv = "src,dst,t\n" + "".join(f"{a},{b},{t}\n" for a, b, t in rows)
    parquet, file, stream = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    feather.write_feather(
        table.set_column(0, "src", table["src"].dictionary_encode()), file, compression="uncompressed"
    )
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return {
        "pairs.csv": csv.encode(),
        "pairs.tsv": csv.replace(",", "\t").encode(),
        "pairs.txt": "".join(f"{a}   {b} {t}\n" for a, b, t in rows).encode(),
        "pairs.csv.gz": gzip.compress(csv.encode(), mtime=0),
        "pairs.jsonl": "".join(json.dumps({"src": a, "dst": b, "t": t}) + "\n" for a, b, t in rows).encode(),
        "pairs.parquet": parquet.getvalue(),
        "pairs.arrow": file.getvalue(),
        "pairs.arrows": stream.getvalue(),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_malformed_pair_files(run: Path, tmp_path: Path, monkeypatch, capfd) -> None:
    whole = files()
    outcomes = {0: 0, 2: 0}
    for seed in seeds(80):
        rng = np.random.default_rng(seed)
        name = list(whole)[seed % len(whole)]
        path, out = tmp_path / name, tmp_path / "scored.csv"
        path.write_bytes(mutate(whole[name], rng))
        out.unlink(missing_ok=True)
        arguments = ["predict", str(run), str(path), "-o", str(out), "--device", "cpu", "--quiet"]
        code, message = command(arguments, monkeypatch, capfd)
        assert code in outcomes, f"seed {seed}: {name} ended with {code}: {message}"
        assert out.exists() == (code == 0), f"seed {seed}: {name}"
        if code == 2:
            assert message.count("\n") == 1, f"seed {seed}: {name}: {message}"
            assert len(message) < LONGEST_MESSAGE, f"seed {seed}: {name}: {message}"
        outcomes[code] += 1
    assert min(outcomes.values()) > 0


def command(arguments: list[str], monkeypatch, capfd) -> tuple[object, str]:
    """Exit code and stderr of a command, run in this process."""
    monkeypatch.setattr(sys, "argv", ["cawn", *arguments])
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, capfd.readouterr().err
