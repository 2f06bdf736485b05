"""A server on a real port, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from specmt.options import DecodingOptions
from specmt.serve.app import create_app
from specmt.serve.clients import Keys, Limits
from specmt.serve.server import Server
from specmt.serve.service import Service, Source
from specmt.translator import Translator

PAIRS = (("de", "en"), ("en", "de"))


@contextmanager
def serving(
    load: Callable[[], Translator],
    *,
    pairs: Sequence[tuple[str, str]] = PAIRS,
    options: DecodingOptions | None = None,
    limits: Limits | None = None,
    keys: Keys | None = None,
    log: Callable[[str], object] | None = None,
    is_ready: Callable[[httpx.Client], bool] = lambda client: client.get("/readyz").status_code == 200,
    **how: Any,
) -> Iterator[httpx.Client]:
    """Yields a client of a server that is ready; whatever the pair of languages, one model answers.

    :param how: further arguments of `create_app`
    """
    sources = [Source(pair, "0" * 64, load) for pair in pairs]
    service = Service(sources, options or DecodingOptions(), limits, keys=keys)
    ports: list[int] = []
    server = Server(create_app(service, log=log, **how), "127.0.0.1", 0, started=ports.append)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not ports:
            time.sleep(0.01)
        with httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", timeout=60) as client:
            while not is_ready(client):
                time.sleep(0.02)
            yield client
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()
