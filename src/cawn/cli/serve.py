"""`cawn serve`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cawn.cli.options import AsJson, Command, DeviceName, MaxAhead, OptionGroup, Quiet, RunFolder, say, use_threads

StateFolder = Annotated[
    Path | None, typer.Option("--state", metavar="FOLDER", help="State folder (stored links); RUN/live by default.")
]
INSTALL = 'pip install "cawn[serve]"'
_NEEDED = ("starlette", "msgspec", "uvicorn", "prometheus_client")


def serve(
    run: RunFolder,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 for any free port.")] = 8000,
    state: StateFolder = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of lines 'read TOKEN' or 'write TOKEN'.")
    ] = None,
    late: Annotated[
        str, typer.Option(metavar="insert|refuse", help="What to do with late links (older than the newest).")
    ] = "insert",
    source: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A stream to read links from; may be repeated.")
    ] = None,
    replica: Annotated[
        bool, typer.Option("--replica", help="Take links from one --source alone, as all replicas on it do.")
    ] = False,
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
    max_ahead: MaxAhead = None,
    retain: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove older links: an age such as 90d, or '5e6 links' in all.")
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Serve a run over HTTP: store arriving links, and score, rank and explain with them.

    Tokens come from --token-file or from CAWN_READ_TOKEN and CAWN_WRITE_TOKEN in the environment; without
    tokens, the server listens only on loopback addresses. Ctrl-C or SIGTERM stops it after all requests in progress are
    answered and their links stored.

    Other commands: cawn serve backup RUN FILE copies the state of a server, cawn serve restore RUN FILE puts it back,
    cawn serve export RUN FOLDER writes a run folder with all its links.

    Example: cawn serve runs/mine --port 8000
    """
    _refuse_missing()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads of PyTorch leave their cores to others
    from cawn.checks import check_choice
    from cawn.kernels.threads import num_cores
    from cawn.learn.runs import read_description
    from cawn.serve.server import Server, listen
    from cawn.serve.service import ServiceSettings
    from cawn.serve.state import holds_state
    from cawn.serve.tokens import Tokens

    check_choice(late, "--late", ("insert", "refuse"))
    read_description(run, in_state=holds_state(run / "live" if state is None else state))
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
        max_ahead=max_ahead,
        retain=retain,
        sources=tuple(source or ()),
        replica=replica,
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


def backup(
    run: RunFolder,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.", show_default=False)],
    state: StateFolder = None,
    quiet: Quiet = False,
) -> None:
    """Copy the state of a server to one file, also while the server runs.

    Example: cawn serve backup runs/mine monday.sqlite
    """
    from cawn.serve.store import backup as copy

    copy(run / "live" if state is None else state, target)
    say(f"{target}: {target.stat().st_size / 1e6:,.1f} MB", quiet)


def restore(
    run: RunFolder,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What backup has written.", show_default=False)],
    state: StateFolder = None,
    quiet: Quiet = False,
) -> None:
    """Put a backup in the place of the state of a server, which must not be running.

    Example: cawn serve restore runs/mine monday.sqlite
    """
    from cawn.serve.store import restore as put_back

    folder = run / "live" if state is None else state
    put_back(source, folder)
    say(f"{folder}: restored from {source}", quiet)


def export(
    run: RunFolder,
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new run folder.", show_default=False)],
    state: StateFolder = None,
    quiet: Quiet = False,
) -> None:
    """Write a run folder with all links of the state of a server, which must not be running.

    Example: cawn serve export runs/mine runs/monday
    """
    from cawn.serve.state import open_state

    predictor, store = open_state(run, state, device="cpu")
    try:
        predictor.save(target)
    finally:
        store.close()
    say(f"{target}: {predictor.num_links:,} links", quiet)


class ServeGroup(OptionGroup):
    """`cawn serve RUN` and the commands beside it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without the name of another command, RUN is served."""
        if not args or args[0] not in ("backup", "restore", "export"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=ServeGroup)
app.command("run", cls=Command, hidden=True)(serve)
app.command("backup", cls=Command)(backup)
app.command("restore", cls=Command)(restore)
app.command("export", cls=Command)(export)


def _refuse_missing() -> None:
    from importlib.util import find_spec

    from cawn.errors import QueryError

    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise QueryError(f"cawn serve needs {missing[0]}: {INSTALL}")
