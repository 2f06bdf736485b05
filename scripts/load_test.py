#!/usr/bin/env python3
"""Asks `specmt serve` for the translation of many sentences, from more and more clients, and says what came of it.

The sentences are those of a file, and every fourth one has numbers, of which the model loses some at its first attempt;
`specmt translate` translates them before and after, to compare every answer and to judge the speed by. The server has
no cache. What is printed is Markdown; exit code 1 where the bounds of latency and speed do not hold.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlencode, urlsplit

import click
import uvloop
from processes import SAMPLE, decoding_seconds, memory_of, server

from specmt.evaluation.tables import Table

NUMBERS: Final = (
    "Die Rechnung vom 14.03.2023 über 1.249,90 Euro wurde am 2. April bezahlt.",
    "Zug 4711 fährt um 17:42 Uhr von Gleis 12 ab und kommt um 21:05 Uhr an.",
    "Zimmer 305 und 306 sind vom 24. bis zum 31. Dezember belegt.",
    "Das Paket wiegt 3,75 kg und misst 40 x 30 x 12,5 cm.",
    "Die Aktie stieg um 3,2 Prozent auf 87,15 Euro.",
    "Rufen Sie bitte unter 030 901820 oder 0171 5556677 an.",
    "Die Strecke ist 127 km lang, davon liegen 43 km über 1.500 m Höhe.",
    "In Version 2.14.3 wurden 57 Fehler behoben, 9 davon seit 2.13.",
)
"""Of the first three the bundled model loses a number, so that they are tried again."""

MOST_TIMES: Final = 4.0
"""How many times the latency (p95) of one client that of eight may be."""

LEAST_SHARE: Final = 0.85
"""Of the speed offline, that of 32 clients."""

HEAD: Final = "POST /translate HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
_LENGTH: Final = re.compile(rb"(?i)content-length: (\d+)")


@dataclass
class Round:
    """What came of so many clients."""

    clients: int
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    """Answers of status 429."""

    wrong: int = 0
    lost: int = 0
    """Requests on a connection that was closed without an answer."""

    @property
    def speed(self) -> float:
        """Sentences a second."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Returns the latency in milliseconds that so many are not above."""
        ordered = sorted(self.latencies)
        return 1000.0 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def mix(read: Sequence[str], count: int) -> list[str]:
    """Returns so many sentences, of which every fourth has numbers."""
    return [NUMBERS[at // 4 % len(NUMBERS)] if at % 4 == 3 else read[at % len(read)] for at in range(count)]


def request_of(url: str, text: str) -> bytes:
    """Returns the bytes of a request."""
    body = urlencode({"q": text, "source": "de", "target": "en"}).encode()
    return f"{HEAD.format(urlsplit(url).hostname)}Content-Length: {len(body)}\r\n\r\n".encode() + body


def ask(
    url: str,
    texts: Sequence[str],
    expected: Sequence[str],
    clients: int,
    *,
    seconds: float = 1e9,
    requests: int = 10**12,
) -> Round:
    """Has clients ask for so long, or so often, each on a connection of its own that it keeps."""
    place, found = urlsplit(url), Round(clients)
    sent = [request_of(url, text) for text in texts]
    numbers = iter(range(requests))

    async def client(until: float) -> None:
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
                break
            if header.startswith(b"HTTP/1.1 429"):
                found.refused += 1
                continue
            found.latencies.append(time.perf_counter() - started)
            found.wrong += body.get("translatedText") != expected[number % len(expected)]
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def work() -> None:
        started = time.perf_counter()
        await asyncio.gather(*(client(started + seconds) for _ in range(clients)))
        found.seconds = time.perf_counter() - started

    uvloop.run(work())
    return found


def table(rounds: Sequence[Round], offline: float, memory: Sequence[float]) -> Table:
    """Returns a row for each number of clients."""
    rows = []
    for found, size in zip(rounds, memory, strict=True):
        shares = " / ".join(f"{found.quantile(share):.1f}" for share in (0.5, 0.95, 0.99))
        speeds = f"{found.speed:.1f}", f"{found.speed / offline:.2f}"
        rows.append((f"{found.clients}", *speeds, shares, f"{found.wrong}, {found.lost}", f"{size:.0f}"))
    return Table("", ("clients", "specmt", "of offline", "p50 / p95 / p99 ms", "wrong, lost", "MiB"), rows)


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=SAMPLE)
@click.option("--lines", default=2000, show_default=True, help="Sentences of SOURCE, German, to ask for, repeatedly.")
@click.option("--clients", default="1,8,32,128", show_default=True, help="How many clients, one after another.")
@click.option("--seconds", default=60.0, show_default=True, help="For each number of clients.")
@click.option("--requests", default=0, show_default=True, help="Then 32 clients ask so often, for what is lost.")
@click.option("--threads", type=int, help="Those that decode, offline too.  [default: the programs' own]")
def main(source: Path, lines: int, clients: str, seconds: float, requests: int, threads: int | None) -> None:
    """Load-test `specmt serve` with the sentences of SOURCE."""
    read = [line for line in source.read_text(encoding="utf-8").split("\n") if line.strip()]
    texts = mix(read, lines)
    chosen = [] if threads is None else ["--threads", str(threads)]
    with TemporaryDirectory() as folder:
        path, output = Path(folder, "in.de"), Path(folder, "out.en")
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        speeds = [len(texts) / decoding_seconds(path, "-o", output, *chosen)]
        expected = output.read_text(encoding="utf-8").split("\n")[: len(texts)]
        with server("--model", "de-en", "--cache-size", "0", *chosen) as (url, process, _):
            ask(url, texts, expected, 8, requests=100)
            rounds, memory = [], []
            for count in map(int, clients.split(",")):
                rounds.append(ask(url, texts, expected, count, seconds=seconds))
                memory.append(memory_of(process.pid) / (1 << 20))
            more = ask(url, texts, expected, 32, requests=requests)
            memory.append(memory_of(process.pid) / (1 << 20))
        speeds.append(len(texts) / decoding_seconds(path, "-o", output, *chosen))
    offline = sum(speeds) / len(speeds)
    click.echo(table(rounds, offline, memory[:-1]).markdown())
    click.echo(f"- offline, 32 side by side: {speeds[0]:.1f} sentences a second before, {speeds[1]:.1f} after")
    by_clients = {each.clients: each for each in rounds}
    is_kept = not any(each.wrong or each.lost for each in rounds)
    if {1, 8} <= by_clients.keys():
        times = by_clients[8].quantile(0.95) / by_clients[1].quantile(0.95)
        is_kept = is_kept and times < MOST_TIMES
        click.echo(f"- p95 at 8 clients is {times:.2f} times that of one (under {MOST_TIMES:g} asked)")
    if 32 in by_clients:
        share = by_clients[32].speed / offline
        is_kept = is_kept and share >= LEAST_SHARE
        click.echo(f"- 32 clients have {share:.3f} of the speed offline (at least {LEAST_SHARE:g} asked)")
    if requests:
        click.echo(
            f"- {requests:,} requests of 32 clients: {len(more.latencies):,} answers, {more.lost} lost, {more.wrong} "
            f"wrong, {more.speed:.0f} a second; the server held {memory[-2]:.0f} MiB before and {memory[-1]:.0f} after"
        )
    sys.exit(not is_kept)


if __name__ == "__main__":
    main()
