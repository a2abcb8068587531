"""`cawn serve`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from cawn.cli.options import AsJson, DeviceName, Quiet, RunFolder, say, use_threads

INSTALL = 'pip install "cawn[serve]"'
_NEEDED = ("starlette", "msgspec", "uvicorn", "prometheus_client")


def serve(
    run: RunFolder,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 for any free port.")] = 8000,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="State folder (stored links); RUN/live by default.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of lines 'read TOKEN' or 'write TOKEN'.")
    ] = None,
    late: Annotated[
        str, typer.Option(metavar="insert|refuse", help="What to do with late links (older than the newest).")
    ] = "insert",
    source: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A stream to read links from; may be repeated.")
    ] = None,
    learn: Annotated[bool, typer.Option("--learn/--no-learn", help="Train a shadow model on arriving links.")] = False,
    weights: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Weights to serve: of promotion N; 0: of the run.")
    ] = None,
    device: DeviceName = "auto",
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Number of CPU threads; all cores but one by default.")
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Largest request body.")] = 8 << 20,
    max_connections: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most connections; one address may have half of them.")
    ] = 800,
    batch_pairs: Annotated[int, typer.Option(min=1, metavar="N", help="Most pairs to score together.")] = 1_024,
    batch_wait_ms: Annotated[
        float, typer.Option(min=0.0, max=1000.0, metavar="MS", help="Time a request waits for others to form a batch.")
    ] = 0.0,
    queue: Annotated[int, typer.Option(min=1, metavar="N", help="Most links waiting to be stored.")] = 100_000,
    score_queue: Annotated[int, typer.Option(min=1, metavar="N", help="Most pairs waiting to be scored.")] = 10_000,
    snapshot_every: Annotated[int, typer.Option(min=1, metavar="N", help="Links between two snapshots.")] = 500_000,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Serve a run over HTTP: store arriving links, and score, rank and explain with them.

    Tokens come from --token-file or from CAWN_READ_TOKEN and CAWN_WRITE_TOKEN in the environment; without
    tokens, the server listens only on loopback addresses. Ctrl-C or SIGTERM stops it after all requests in progress are
    answered and their links stored.

    Example: cawn serve runs/mine --port 8000
    """
    _refuse_missing()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads of PyTorch leave their cores to others
    from cawn.checks import check_choice
    from cawn.kernels.threads import num_cores
    from cawn.learn.runs import read_description
    from cawn.serve.server import Server, listen
    from cawn.serve.service import ServiceSettings
    from cawn.serve.tokens import Tokens

    check_choice(late, "--late", ("insert", "refuse"))
    read_description(run, in_state=((state or run / "live") / "state.json").exists())
    tokens = Tokens.read(token_file)
    threads = max(num_cores() - 1, 1) if threads is None else threads
    use_threads(threads)
    settings = ServiceSettings(
        run,
        state,
        device=device,
        threads=threads,
        late="refuse" if late == "refuse" else "insert",
        batch_pairs=batch_pairs,
        batch_wait=batch_wait_ms / 1000,
        queue=queue,
        score_queue=score_queue,
        snapshot_every=snapshot_every,
        sources=tuple(source or ()),
        learn=learn,
        weights=weights,
    )
    server = Server(
        settings,
        tokens,
        listen(host, port, tokens),
        max_body=max_body,
        max_connections=max_connections,
        access_log=access_log,
        quiet=quiet,
    )

    def announce() -> None:
        facts = server.facts()
        if as_json:
            print(json.dumps(facts), flush=True)
        else:
            roles = ", ".join(facts["roles"]) or "none, for this machine only"
            say(f"{facts['address']} serves {run}: {facts['links']:,} links; tokens: {roles}", quiet)

    server.run(announce)


def _refuse_missing() -> None:
    from importlib.util import find_spec

    from cawn.errors import QueryError

    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise QueryError(f"cawn serve needs {missing[0]}: {INSTALL}")
