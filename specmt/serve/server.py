"""Runs the application on uvicorn: connections that dawdle are closed, and a signal ends nothing half-way."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, cast, final

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from specmt import signals
from specmt.errors import OutputError

HEADER_SECONDS: Final = 10.0
"""How long a client may take to say what it wants."""

KEEP_ALIVE_SECONDS: Final = 75
"""How long a connection may be idle: longer than proxies keep theirs, which close first."""

MOST_CONNECTIONS: Final = 4096

SWITCH_SECONDS: Final = 0.0005
"""How long a thread that decodes waits for the interpreter where HTTP keeps it busy; Python's own 5 ms are a step."""

BLOCK: Final = -3, 1 << 20
"""glibc's M_MMAP_THRESHOLD, and its value: blocks of so many bytes are given back when they are freed."""


@final
class _Protocol(HttpToolsProtocol):
    """HTTP that closes a connection whose header does not come."""

    _timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEADER_SECONDS, transport.abort)

    @override
    def data_received(self, data: bytes) -> None:
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)
        super().data_received(data)

    @override
    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@final
class Server(uvicorn.Server):
    """A server that stops at the first signal, when everyone has an answer, and at the second at once."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        started: Callable[[int], object] = lambda port: None,
        failed: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        :param started: is told the port
        :param failed: whether there is no use in going on; asked every second
        """
        super().__init__(
            uvicorn.Config(
                cast(Any, app),
                host=host,
                port=port,
                http=_Protocol,
                lifespan="on",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_notify=1,
                callback_notify=self._watch,
            )
        )
        self._tell = started
        self._failed = failed

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # where there are no signals
            yield
            return
        with signals.graceful((signal.SIGTERM, signal.SIGINT), self.stop):
            yield

    @override
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._tell(self.servers[0].sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Takes no more connections and ends when those that there are have their answers."""
        self.should_exit = True

    async def _watch(self) -> None:
        if self._failed():
            self.stop()


def run(server: Server) -> None:
    """Serves until a signal says otherwise.

    :raises OutputError: the address cannot be had.
    """
    host, port = server.config.host, server.config.port
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=server.config.backlog)
    except OSError as error:
        raise OutputError(f"{host}:{port}: cannot be listened on ({error.strerror or error}).") from None
    for name in ("uvicorn", "python_multipart"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what clients do wrong is in our own log
    sys.setswitchinterval(SWITCH_SECONDS)
    with contextlib.suppress(OSError, AttributeError):  # by itself it gives back less, the larger those it has freed
        ctypes.CDLL(None).mallopt(*BLOCK)
    server.run([listener])
