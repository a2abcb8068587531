"""The process: a socket, uvicorn and a `Service`, from start to a graceful stop."""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

from cawn.errors import QueryError, reason
from cawn.progress import progress
from cawn.serve.app import create_app
from cawn.serve.bodies import MAX_BODY
from cawn.serve.connections import MAX_CONNECTIONS, limited
from cawn.serve.service import Service, ServiceSettings, ServiceStopped
from cawn.serve.tokens import Tokens

DRAIN_SECONDS = 30  # for requests in progress when the server stops
SWITCH_INTERVAL = 0.0005  # seconds; Python's own 5 ms would delay the event loop while a batch is scored
INTERRUPTED = 130

_logger = logging.getLogger(__name__)


def listen(host: str, port: int, tokens: Tokens) -> socket.socket:
    """A listening socket; QueryError for an address other machines can reach if there are no tokens."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise QueryError(f"--host {host!r}: {reason(error)}; give an address of this machine") from error
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback and not tokens:
        raise QueryError(
            f"--host {host}: other machines can reach this address; give tokens (--token-file) to allow it"
        )
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(address, family=family, backlog=2048, dualstack_ipv6=both)
    except OSError as error:
        raise QueryError(f"--host {host} --port {port}: {reason(error)}; choose another address or port") from error


class Server:
    """Serves a run until SIGTERM or Ctrl-C. It listens at once; requests are refused (503) until links are loaded."""

    def __init__(
        self,
        settings: ServiceSettings,
        tokens: Tokens,
        listening: socket.socket,
        *,
        max_body: int = MAX_BODY,
        max_connections: int = MAX_CONNECTIONS,
        access_log: bool = False,
        quiet: bool = False,
    ) -> None:
        self._service, self._tokens, self._socket, self._quiet = Service(settings), tokens, listening, quiet
        self._failure: BaseException | None = None
        host, port = listening.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._access_log = access_log
        config = uvicorn.Config(
            create_app(self._service, tokens, max_body=max_body),
            http=limited(max_connections),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=access_log,
            server_header=False,
            proxy_headers=access_log,  # they are for the log alone
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        self._server = _Uvicorn(config, self._service)

    def facts(self) -> dict[str, Any]:
        """The facts in the line printed at the start."""
        service = self._service
        return {
            "address": self.address,
            "run": str(service.settings.run),
            "links": service.predictor.num_links,
            "roles": self._tokens.roles,
        }

    def run(self, announce: Callable[[], object] = lambda: None) -> None:
        """Serve until stopped; `announce` is called once when the service is ready."""
        loading = threading.Thread(target=self._load, args=(announce,), name="load", daemon=True)
        sys.setswitchinterval(SWITCH_INTERVAL)
        warnings.filterwarnings("ignore", "t is ", UserWarning)  # about distant times, which clients sent
        with self._socket, self._server.capture_signals(), _logging(self._access_log):
            loading.start()
            self._server.run(sockets=[self._socket])
            self._service.refuse()
            loading.join()
            self._service.stop()
        if self._failure is not None:
            raise self._failure

    def _load(self, announce: Callable[[], object]) -> None:
        try:
            with progress("loading links", quiet=self._quiet) as report:
                self._service.start(lambda done, _total: report(done))
            gc.freeze()  # loaded objects are never garbage: exclude them from collection
            if not self._server.should_exit:
                announce()
        except ServiceStopped:
            _logger.info("stopped before all links were loaded")
        except BaseException as error:
            self._failure = error
            self._server.should_exit = True


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM and Ctrl-C stop the server; a second one ends the process at once."""
        if self.should_exit:
            os._exit(INTERRUPTED)  # nothing that was acknowledged is lost: it is on disk
        self._service.refuse()
        self.should_exit = True


@contextmanager
def _logging(access_log: bool) -> Iterator[None]:
    """Write errors of the service to stderr and, if asked for, a line for every request."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    # Not its warnings: anybody who sends something other than HTTP could fill the log with them.
    levels = {"cawn": logging.INFO, "uvicorn.error": logging.ERROR}
    levels |= {"uvicorn.access": logging.INFO} if access_log else {}
    before = {name: logging.getLogger(name).level for name in levels}
    for name, level in levels.items():
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).setLevel(level)
