"""The clients of a load test: each keeps a connection and asks for the next sentence when it has an answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import uvloop

HEAD: Final = "POST /translate HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
_LENGTH: Final = re.compile(rb"(?i)content-length: (\d+)")
_FORM: Final = {"source": "de", "target": "en"}


@dataclass
class Round:
    """What came of so many clients."""

    clients: int
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    """How long answers of status 429 took."""

    wrong: int = 0
    lost: int = 0
    """Requests on a connection that was closed without an answer."""

    @property
    def speed(self) -> float:
        """Sentences a second."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Returns a latency in milliseconds."""
        return quantile(self.latencies, share)


def quantile(seconds: list[float], share: float) -> float:
    """Returns the value in milliseconds that so many are not above."""
    ordered = sorted(seconds)
    return 1000.0 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def request_of(url: str, text: str) -> bytes:
    """Returns the bytes of a request."""
    body = urlencode({"q": text, **_FORM}).encode()
    return f"{HEAD.format(urlsplit(url).hostname)}Content-Length: {len(body)}\r\n\r\n".encode() + body


def ask(
    url: str,
    texts: list[str],
    expected: list[str],
    clients: int,
    *,
    seconds: float = 1e9,
    requests: int = 10**12,
    begun: Callable[[], object] = lambda: None,
) -> Round:
    """Has clients ask for so long, or so often.

    :param begun: is called in a thread when they have begun
    """
    return uvloop.run(_ask(url, texts, expected, clients, seconds, requests, begun))


async def _ask(
    url: str,
    texts: list[str],
    expected: list[str],
    clients: int,
    seconds: float,
    requests: int,
    begun: Callable[[], object],
) -> Round:
    place = urlsplit(url)
    found = Round(clients)
    sent = [request_of(url, text) for text in texts]
    numbers = iter(range(requests))
    until = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        while time.perf_counter() < until and (number := next(numbers, None)) is not None:
            started = time.perf_counter()
            try:
                writer.write(sent[number % len(sent)])
                header = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(header)
                body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
            except (OSError, asyncio.IncompleteReadError):
                found.lost += 1
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
                return
            took = time.perf_counter() - started
            if header.startswith(b"HTTP/1.1 429"):
                found.refusals.append(took)
                continue
            found.latencies.append(took)
            found.wrong += body.get("translatedText") != expected[number % len(expected)]
        writer.close()

    started = time.perf_counter()
    work = asyncio.gather(*(client() for _ in range(clients)))
    await asyncio.gather(work, asyncio.to_thread(begun))
    found.seconds = time.perf_counter() - started
    return found


def unfinished(url: str) -> float:
    """Returns how many sentences are in the session and how many lines wait."""
    with urlopen(f"{url}/metrics") as response:
        text = response.read().decode()
    return sum(float(each) for each in re.findall(r"specmt_num_requests_(?:running|waiting)\{.*\} (\S+)", text))
