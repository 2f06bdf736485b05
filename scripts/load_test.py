#!/usr/bin/env python
"""Asks servers for the translation of many sentences, from more and more clients, and says what came of it.

The sentences are those of a file; `specmt translate` translates them before and after, to compare every answer and to
judge the speed by. It starts `specmt serve` without a cache, and CTranslate2 behind the same code (with --peers), and
asks from this process. What it prints is Markdown.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import click
from load_client import Round, ask, quantile, request_of, unfinished

SAMPLE: Final = Path(__file__).parents[1] / "data" / "sample.de"
SERVE: Final = ("-m", "specmt", "serve", "--port", "0", "--model", "de-en", "--cache-size", "0")
PEERS: Final = {"CTranslate2, 32 a call": "32", "CTranslate2, one a call": "1"}
BOOK: Final = 200
"""The lines of a text that keeps the server busy."""


class Started:
    """A server that was started, and its log."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        found = re.search(r"http://[^/\s]+", process.stderr.readline())
        assert found is not None, "the server did not start"
        self.url = found[0]
        self.process = process
        self.log: list[str] = []
        self._reader = Thread(target=lambda: self.log.extend(process.stderr or ()), daemon=True)
        self._reader.start()
        while not self._is_ready():
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        try:
            urlopen(f"{self.url}/readyz").close()
        except HTTPError:
            return False
        return True

    def stop(self) -> int:
        """Sends SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.process.wait()

    def statuses(self) -> list[int]:
        """Returns the statuses of all translations; the server has ended."""
        self._reader.join()
        entries = [json.loads(line) for line in self.log]
        return [entry["status"] for entry in entries if entry["path"] == "/translate"]

    def resident(self) -> float:
        """Returns the MiB that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


@contextmanager
def server(*command: str) -> Iterator[Started]:
    """Yields a server that is ready."""
    folder = Path(__file__).parent  # where the peers are
    with subprocess.Popen([sys.executable, *command], cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Started(process)
        finally:
            process.kill()


def translate(path: Path, output: Path, threads: list[str]) -> float:
    """Returns the seconds that `specmt translate` takes, the loading of the model aside."""
    stats = output.with_suffix(".json")
    command = [sys.executable, "-m", "specmt", "translate", "-q", str(path), "-o", str(output), "--stats", str(stats)]
    subprocess.run([*command, *threads], check=True)
    return float(json.loads(stats.read_text(encoding="utf-8"))["seconds"])


def until(holds: Callable[[], bool], seconds: float = 60.0) -> float:
    """Waits; returns for how many milliseconds."""
    started = time.perf_counter()
    while not holds():
        if time.perf_counter() - started > seconds:
            raise click.ClickException("it never came to be")
        time.sleep(0.005)
    return 1000.0 * (time.perf_counter() - started)


def vanish(texts: list[str], threads: list[str]) -> str:
    """Kills a process with 50 clients that have asked for a book each."""
    with server(*SERVE, *threads) as started:
        book = request_of(started.url, "\n".join((texts * BOOK)[:BOOK]))
        place = urlsplit(started.url)
        child = os.fork()
        if child == 0:
            connections = [socket.create_connection((place.hostname, place.port)) for _ in range(50)]
            for connection in connections:
                connection.sendall(book)
            signal.pause()
        until(lambda: unfinished(started.url) > 49 * BOOK)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        took = until(lambda: unfinished(started.url) == 0)
        return f"kill −9 of 50 clients in flight: no row and no line of theirs is left after {took:.0f} ms"


def overload(texts: list[str], expected: list[str], threads: list[str]) -> str:
    """Asks while the queue is full."""
    with server(*SERVE, *threads, "--max-queue", "100", "--char-limit", "0") as started:
        place, book = urlsplit(started.url), request_of(started.url, "\n".join((texts * BOOK)[: 20 * BOOK]))
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(book)
            until(lambda: unfinished(started.url) > 100)
            found = ask(started.url, texts, expected, 8, requests=200)
    worst = quantile(found.refusals, 1.0)
    return (
        f"overload: {len(found.refusals)} of 200 requests beside a full queue got 429, after "
        f"{quantile(found.refusals, 0.5):.1f} ms (median) and {worst:.1f} ms (longest)"
    )


def terminate(texts: list[str], expected: list[str], threads: list[str]) -> str:
    """Sends SIGTERM while 32 clients ask."""
    with server(*SERVE, *threads) as started:

        def begun() -> None:
            time.sleep(2.0)
            started.process.terminate()

        found = ask(started.url, texts, expected, 32, seconds=60.0, begun=begun)
        code = started.process.wait()
        statuses = started.statuses()
    answered = sum(status == 200 for status in statuses)
    return (
        f"SIGTERM under the load of 32 clients: of {len(statuses)} requests that it took in, {answered} were answered, "
        f"and {len(found.latencies)} answers came, {found.wrong} of them wrong; exit code {code}"
    )


def endure(requests: int, texts: list[str], expected: list[str], threads: list[str]) -> str:
    """Asks very often."""
    with server(*SERVE, *threads) as started:
        ask(started.url, texts, expected, 32, requests=max(1000, requests // 20))
        before = started.resident()
        found = ask(started.url, texts, expected, 32, requests=requests)
        after = started.resident()
    return (
        f"{requests:,} requests of 32 clients: {len(found.latencies):,} answers, {found.lost} lost, {found.wrong} "
        f"wrong, {found.speed:.0f} a second; the server held {before:.0f} MiB before and {after:.0f} after"
    )


def table(rounds: dict[str, list[Round]], offline: float, memory: list[float]) -> Iterator[str]:
    """Yields the lines of a table, a row for each number of clients."""
    own, *others = rounds
    yield (
        f"| clients | {own} | of offline | p50 / p95 / p99 ms | wrong, lost | MiB |"
        + "".join(f" {name} | p50 / p95 ms |" for name in others)
    )
    yield "|-:" * (6 + 2 * len(others)) + "|"
    for number, found in enumerate(rounds[own]):
        cells = [f"{found.clients}", f"{found.speed:.1f}", f"{found.speed / offline:.2f}"]
        cells.append(" / ".join(f"{found.quantile(share):.1f}" for share in (0.5, 0.95, 0.99)))
        cells += [f"{found.wrong}, {found.lost}", f"{memory[number]:.0f}"]
        for name in others:
            other = rounds[name][number]
            cells += [f"{other.speed:.1f}", f"{other.quantile(0.5):.1f} / {other.quantile(0.95):.1f}"]
        yield f"| {' | '.join(cells)} |"


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=SAMPLE)
@click.option(
    "--lines", default=2000, show_default=True, help="Sentences of SOURCE, German, to ask for, again and again."
)
@click.option("--clients", default="1,8,32,128", show_default=True, help="How many clients, one after another.")
@click.option("--seconds", default=60.0, show_default=True, help="For each number of clients.")
@click.option("--requests", default=0, show_default=True, help="Then ask so often, and count what is lost.")
@click.option("--faults/--no-faults", default=True, help="Clients that vanish, overload and SIGTERM.")
@click.option("--peers/--no-peers", default=True, help="CTranslate2 behind the same code.")
@click.option("--threads", type=int, help="Those that decode, offline too.  [default: the programs' own]")
def main(
    source: Path,
    lines: int,
    clients: str,
    seconds: float,
    requests: int,
    faults: bool,
    peers: bool,
    threads: int | None,
) -> None:
    """Load-test `specmt serve` with the sentences of SOURCE."""
    found = [line for line in source.read_text(encoding="utf-8").split("\n") if line.strip()]
    texts = (found * (lines // len(found) + 1))[:lines]
    counts = [int(each) for each in clients.split(",")]
    chosen = [] if threads is None else ["--threads", str(threads)]
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # which CTranslate2 is told
    commands = {"specmt": (*SERVE, *chosen)}
    if peers:
        commands |= {
            name: ("-c", "from peers.serve_ctranslate2 import main; main()", batch) for name, batch in PEERS.items()
        }
    with TemporaryDirectory() as folder:
        path, output = Path(folder, "in.de"), Path(folder, "out.en")
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        speeds = [len(texts) / translate(path, output, chosen)]
        expected = output.read_text(encoding="utf-8").split("\n")[: len(texts)]
        rounds: dict[str, list[Round]] = {name: [] for name in commands}
        memory = []
        for name, command in commands.items():
            with server(*command) as started:
                ask(started.url, texts, expected, 8, requests=100)
                for count in counts:
                    rounds[name].append(ask(started.url, texts, expected, count, seconds=seconds))
                    if name == "specmt":
                        memory.append(started.resident())
            if name == "specmt":
                speeds.append(len(texts) / translate(path, output, chosen))
    offline = sum(speeds) / len(speeds)
    click.echo("\n".join(table(rounds, offline, memory)) + "\n")
    click.echo(f"- offline, 32 side by side: {speeds[0]:.1f} sentences a second before, {speeds[1]:.1f} after")
    by_clients = {each.clients: each for each in rounds["specmt"]}
    if {1, 8} <= by_clients.keys():
        one, eight = by_clients[1].quantile(0.95), by_clients[8].quantile(0.95)
        click.echo(f"- p95 at 8 clients is {eight / one:.1f} times that of one")
    if requests:
        click.echo(f"- {endure(requests, texts, expected, chosen)}")
    if faults:
        click.echo(f"- {vanish(texts, chosen)}")
        click.echo(f"- {overload(texts, expected, chosen)}")
        click.echo(f"- {terminate(texts, expected, chosen)}")


if __name__ == "__main__":
    main()
