#!/usr/bin/env python
"""Asks a server for the translation of many sentences, from more and more clients, and times the answers.

It starts `specmt serve` without a cache (or takes --url), asks from this process, whose clients each keep a connection
and send the next sentence when they have an answer, and compares every answer with what `specmt translate` says. The
speed of `specmt translate` on the same sentences is measured before and after, to judge the rest by.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import click

SAMPLE = Path(__file__).parents[1] / "data" / "sample.de"


@dataclass
class Round:
    """What came of so many clients."""

    clients: int
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    lost: int = 0
    refused: int = 0

    def quantile(self, share: float) -> float:
        """Returns a latency in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000.0 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def ask(url: str, sentences: list[str], expected: list[str], clients: int, seconds: float) -> Round:
    """Has clients ask for so long."""
    place = urlsplit(url)
    found = Round(clients)
    bodies = [urlencode({"q": text, "source": "de", "target": "en"}).encode() for text in sentences]
    head = f"POST /translate HTTP/1.1\r\nHost: {place.hostname}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    numbers = iter(range(10**9))
    until = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        while time.perf_counter() < until:
            number = next(numbers) % len(sentences)
            started = time.perf_counter()
            try:
                writer.write(f"{head}Content-Length: {len(bodies[number])}\r\n\r\n".encode() + bodies[number])
                header = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)content-length: (\d+)", header)
                body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
            except (OSError, asyncio.IncompleteReadError):
                found.lost += 1
                return
            found.latencies.append(time.perf_counter() - started)
            if header.startswith("HTTP/1.1 429"):
                found.refused += 1
            elif body.get("translatedText") != expected[number]:
                found.wrong += 1
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    found.seconds = time.perf_counter() - started
    return found


@contextmanager
def server(command: list[str]) -> Iterator[tuple[str, int]]:
    """Yields where a server is, and its process."""
    folder = Path(__file__).parent  # where the peers are
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        wait_until_ready(found[0].rstrip("/"))
        Thread(target=process.stderr.read, daemon=True).start()  # a log that nobody reads must not stop it
        try:
            yield found[0].rstrip("/"), process.pid
        finally:
            process.terminate()


def wait_until_ready(url: str) -> None:
    """Waits until the models are loaded."""
    while True:
        try:
            urlopen(f"{url}/readyz").close()
            return
        except HTTPError:
            time.sleep(0.2)


def translate(path: Path, output: Path) -> float:
    """Returns the seconds that `specmt translate` takes, the loading of the model aside."""
    stats = output.with_suffix(".json")
    command = [sys.executable, "-m", "specmt", "translate", "-q", str(path), "-o", str(output), "--stats", str(stats)]
    subprocess.run(command, check=True)
    return float(json.loads(stats.read_text(encoding="utf-8"))["seconds"])


def resident(pid: int) -> float:
    """Returns the MiB that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=SAMPLE)
@click.option("--lines", default=2000, show_default=True, help="Sentences of SOURCE, German, to ask for.")
@click.option("--clients", default="1,8,32,128", show_default=True, help="How many clients, one after another.")
@click.option("--seconds", default=60.0, show_default=True, help="For each number of clients.")
@click.option("--option", "options", multiple=True, help="An option of `specmt serve`, as --option=--threads=1.")
@click.option("--url", help="A server that runs already.")
@click.option("--peer", type=int, metavar="BATCH", help="CTranslate2 behind the same code, so many requests a call.")
def main(
    source: Path,
    lines: int,
    clients: str,
    seconds: float,
    options: tuple[str, ...],
    url: str | None,
    peer: int | None,
) -> None:
    """Load-test `specmt serve` with the sentences of SOURCE."""
    command = ["-m", "specmt", "serve", "--port", "0", "--model", "de-en", "--cache-size", "0"]
    if peer is not None:
        command = ["-c", "from peers.serve_ctranslate2 import main; main()", str(peer)]
    command = [sys.executable, *command, *(word for option in options for word in option.split("=", 1))]
    texts = [line for line in source.read_text(encoding="utf-8").split("\n") if line.strip()][:lines]
    with TemporaryDirectory() as folder:
        path, output = Path(folder, "in.de"), Path(folder, "out.en")
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        before = translate(path, output)
        expected = output.read_text(encoding="utf-8").split("\n")[: len(texts)]

        def rounds(url: str, pid: int | None) -> None:
            click.echo("clients  sentences/s  of offline  p50 ms  p95 ms  p99 ms  answers  wrong  lost  429  MiB")
            for count in map(int, clients.split(",")):
                found = asyncio.run(ask(url, texts, expected, count, seconds))
                speed = len(found.latencies) / found.seconds
                memory = "" if pid is None else f"{resident(pid):.0f}"
                share = speed * before / len(texts)
                quantiles = "".join(f"{found.quantile(each):8.1f}" for each in (0.5, 0.95, 0.99))
                click.echo(
                    f"{count:7}{speed:13.1f}{share:12.2f}{quantiles}"
                    f"{len(found.latencies):9}{found.wrong:7}{found.lost:6}{found.refused:5}  {memory}"
                )

        click.echo(f"offline: {len(texts) / before:.1f} sentences/s, batch 32; {os.cpu_count()} cores")
        if url is not None:
            rounds(url, None)
        else:
            with server(command) as (place, pid):
                rounds(place, pid)
        after = translate(path, output)
        click.echo(f"offline: {len(texts) / after:.1f} sentences/s")


if __name__ == "__main__":
    main()
