#!/usr/bin/env python
"""Asks a server for translations while all goes wrong; prints what came of it as JSON; exit code 1 if it fell.

    PYTHONPATH=. python scripts/faults.py [--seconds N] [--clients N] [--seed N]

Clients vanish, documents are damaged, no file can be written, no memory is left, workers are killed, calls fail in
every thread, clocks jump, the server is stopped and goes on, the model's folder is another one; in the end a signal
drains the server, and in another one the thread that decodes ends. Every request must be answered or refused, no answer
may be another than without faults, the server may not grow, and what `/readyz` says all the time must be true.
"""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import httpx
from processes import ROOT, SAMPLE, Server, children, memory_of, server

from tests.documents import package

LINES = [line for line in SAMPLE.read_text(encoding="utf-8").split("\n") if line.strip()]
PAIR = {"source": "de", "target": "en"}
REFUSALS = {400, 413, 429, 500, 503}
WAYS = ("text", "html", "document")
NUMBERS = 20
"""How many of the lines are asked for."""

PICTURE = random.Random(1).randbytes(3 << 20)
"""In every fourth document."""

REST = 0.5
"""Seconds after a fault in which it may still be felt."""

END_OF_THREAD = signal.SIGRTMIN


def serve(arguments: list[str]) -> None:
    """Runs a server; SIGUSR1 fails the next call in one of its threads, SIGUSR2 has the clock jump by an hour."""
    from specmt.cli.main import run
    from specmt.feeder import Feeder, SharedSession
    from specmt.serve import app, worker
    from specmt.serve.engine import Engine
    from specmt.serve.markup import Work
    from specmt.serve.service import Service
    from specmt.serve.uploads import Uploads

    clock, failing, hours = time.time, set[tuple[Any, str]](), [0]
    errors = RuntimeError(), MemoryError(), OSError(errno.ENOSPC, "No space left on device")
    points = (SharedSession, "work"), (Feeder, "cutting"), (Service, "find_pairs"), (Work, "run"), (worker, "_started")

    def may_fail(point: tuple[Any, str], error: Callable[[], BaseException]) -> None:
        call = getattr(*point)

        def fail_or_call(*given: Any, **more: Any) -> Any:
            if point in failing:
                failing.discard(point)
                raise error()
            return call(*given, **more)

        setattr(*point, fail_or_call)

    for each in points:
        may_fail(each, lambda: random.choice(errors))
    may_fail((Engine, "_fill"), SystemError)
    vars(app)["Uploads"] = partial(Uploads, seconds=60)  # or memory grows by what is kept, for half an hour
    time.time = lambda: clock() + 3600 * hours[0]
    signal.signal(signal.SIGUSR1, lambda *_: failing.add(random.choice(points)))
    signal.signal(signal.SIGUSR2, lambda *_: hours.__setitem__(0, -hours[0] or random.choice((-1, 1))))
    signal.signal(END_OF_THREAD, lambda *_: failing.add((Engine, "_fill")))
    sys.exit(run(arguments))


def document(text: str, picture: bytes = b"") -> bytes:
    """Returns a DOCX of one paragraph and perhaps a picture."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f'<w:document xmlns:w="{space}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>'
    return package({"word/document.xml": body, "word/media/image1.png": picture})


class Soak:
    """Clients of one server, and what comes of their requests."""

    def __init__(self, server: Server, model: Path) -> None:
        self.url, self.process, self.log = server
        self.model = model
        self.counts: Counter[str] = Counter()
        self.expected: dict[tuple[str, int], bytes] = {}
        self.ends = threading.Event()
        self.fault = ""
        self.faults = 0
        """How many there were."""

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=180)

    def ask(
        self, client: httpx.Client, way: str, number: int, damage: random.Random | None = None
    ) -> httpx.Response | None:
        """Asks for a translation; returns ``None`` where there is no answer."""
        line = LINES[number]
        try:
            if way == "document":
                data = document(line, b"" if number % 4 else PICTURE)
                if damage is not None:
                    place = damage.randrange(len(data))
                    data = data[:place] + damage.randbytes(2) + data[place + damage.choice((2, 60)) :]
                answer = client.post("/translate_file", data=PAIR, files={"file": ("a.docx", data)})
                if answer.status_code == 200:
                    answer = client.get(answer.json()["translatedFileUrl"])
            else:
                text = f"<p>{line}</p>" if way == "html" else line
                answer = client.post("/translate", data=PAIR | {"q": text, "format": way})
        except httpx.TransportError as error:
            self.counts[f"lost after {self.fault}: {error!r}"] += 1
            return None
        during = f" ({self.fault or 'leftover'})" if answer.status_code >= 500 else ""
        self.counts[f"{'damaged ' * (damage is not None)}{way} {answer.status_code}{during}"] += 1
        self.counts["wrong status"] += answer.status_code not in REFUSALS | {200}
        if damage is None:
            self.counts["wrong"] += answer.status_code == 200 and answer.content != self.expected[way, number]
            if answer.status_code == 400:  # whoever asked did nothing wrong
                self.counts[f"blamed after {self.fault}: {answer.text[:200]}"] += 1
        return answer

    def learn(self) -> None:
        """Notes what is answered without faults."""
        with self.client() as client:
            for key in ((way, number) for way in WAYS for number in range(NUMBERS)):
                self.expected[key] = b""
                answer = self.ask(client, *key)
                assert answer is not None and answer.status_code == 200
                self.expected[key] = answer.content
        self.counts.clear()

    def count_right(self) -> int:
        """Returns how much is answered as it was before."""
        with self.client() as client:
            answers = [(self.ask(client, *key), wanted) for key, wanted in self.expected.items()]
        return sum(answer is not None and answer.content == wanted for answer, wanted in answers)

    def work(self, seed: float) -> None:
        """Asks until the soak ends."""
        draw = random.Random(seed)
        with self.client() as client:
            while not self.ends.is_set():
                way, number = draw.choice(("text", "text", "text", "html", "document")), draw.randrange(NUMBERS)
                chance = draw.random()
                if chance < 0.05:
                    self.vanish(draw)
                elif chance < 0.1:
                    self.hang_up(draw)
                elif chance < 0.2:
                    self.ask(client, "document", number, draw)
                else:
                    self.ask(client, way, number)

    def vanish(self, draw: random.Random) -> None:
        """Asks and waits for no answer."""
        with (
            suppress(httpx.TransportError),
            httpx.Client(base_url=self.url, timeout=draw.uniform(0.001, 0.2)) as client,
        ):
            client.post("/translate", data=PAIR | {"q": "\n".join(draw.choices(LINES, k=30))})
        self.counts["vanished"] += 1

    def hang_up(self, draw: random.Random) -> None:
        """Asks in part."""
        place = httpx.URL(self.url)
        data = document(LINES[0], PICTURE)
        head = "POST /translate_file HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=a\r\n"
        part = '--a\r\nContent-Disposition: form-data; name="file"; filename="a.docx"\r\n\r\n'
        asked = f"{head}Content-Length: {len(data)}\r\n\r\n{part}".encode() + data
        with suppress(OSError), socket.create_connection((place.host, place.port or 80), timeout=5) as connection:
            connection.sendall(asked[: draw.choice((draw.randrange(len(head)), draw.randrange(len(asked))))])
        self.counts["hung up"] += 1

    def watch(self) -> None:
        """Asks whether the server is ready, and then for a translation, until the soak ends.

        Where it says that it is, it may not say that it stops; and while nothing is wrong, it is, and translates.
        """
        draw = random.Random(0)
        with self.client() as client:
            while not self.ends.is_set():
                faults, is_well = self.faults, not self.fault
                try:
                    status = client.get("/readyz").status_code
                except httpx.TransportError as error:
                    self.counts[f"lost after {self.fault}: readyz, {error!r}"] += 1
                    continue
                answer = self.ask(client, "text", draw.randrange(NUMBERS)) if status == 200 else None
                said = answer.status_code if answer is not None else 0
                is_well = is_well and faults == self.faults
                self.counts[f"readyz {status}{' while all was well' * is_well}"] += 1
                if (status == 200 and said == 503) or (is_well and said != 200):
                    self.counts[f"untrue: readyz {status}, then {said}"] += 1
                time.sleep(0.01)

    def limit(self, what: int, most: int) -> None:
        """Leaves the server so much of something for a second."""
        old = resource.prlimit(self.process.pid, what)
        resource.prlimit(self.process.pid, what, (most, old[1]))
        time.sleep(1)
        resource.prlimit(self.process.pid, what, old)

    def kill(self, find: Callable[[], list[int]]) -> None:
        """Kills a process as soon as there is one."""
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for found in find()[:1]:
                with suppress(ProcessLookupError):
                    os.kill(found, signal.SIGKILL)
                    self.counts["killed"] += 1
                    return

    def servers(self) -> list[int]:
        """Returns what processes that read documents are forked from."""
        every = children()
        return [each for each in every[self.process.pid] if every[each]]

    def workers(self) -> list[int]:
        """Returns the processes that read documents."""
        every = children()
        return [worker for server in self.servers() for worker in every[server]]

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(random.choice((0.5, 2, 12)))
        self.process.send_signal(signal.SIGCONT)

    def replace_model(self, *, is_damaged: bool) -> None:
        """Puts a damaged folder in the place of the model's, or another model, and that back."""
        other, aside = self.model.with_name("other"), self.model.with_name("aside")
        shutil.copytree(ROOT / "specmt/assets/en-de", other)
        for path in other.iterdir() if is_damaged else ():
            path.write_bytes(b"damaged")
        self.model.rename(aside)
        other.rename(self.model)
        time.sleep(2)
        shutil.rmtree(self.model)
        aside.rename(self.model)

    def ways(self) -> dict[str, Callable[[], object]]:
        """Returns the faults that there are."""
        return {
            "no file can be written": lambda: self.limit(resource.RLIMIT_FSIZE, 0),
            "no file can be opened": lambda: self.limit(resource.RLIMIT_NOFILE, 0),
            "no memory is left": lambda: self.limit(resource.RLIMIT_AS, memory_of(self.process.pid, "VmSize")),
            "a worker is killed": lambda: self.kill(self.workers),
            "what workers come from is killed": lambda: self.kill(self.servers),
            "a call fails": lambda: self.process.send_signal(signal.SIGUSR1),
            "the clock jumps": lambda: self.process.send_signal(signal.SIGUSR2),
            "the server is stopped": self.pause,
            "the model is damaged": lambda: self.replace_model(is_damaged=True),
            "the model is another": lambda: self.replace_model(is_damaged=False),
        }

    def drain(self) -> str:
        """Has a signal end the server while it is asked; returns what is wrong with that."""
        data = PAIR | {"q": "\n".join(LINES)}
        with ExitStack() as stack, ThreadPoolExecutor(5) as pool:
            clients = [stack.enter_context(self.client()) for _ in range(4)]
            for client in clients:
                client.get("/health")  # which connects it
            asked = [pool.submit(client.post, "/translate", data=data) for client in clients]
            while b" 0.0" in httpx.get(f"{self.url}/metrics").content.partition(b"num_requests_running{")[2][:40]:
                time.sleep(0.01)
            time.sleep(0.2)
            watch = pool.submit(self.watch_end)
            self.process.terminate()
            statuses, wrong = [each.result().status_code for each in asked], watch.result()
        code = self.process.wait(60)
        return wrong if statuses == [200] * 4 and code == 0 and not wrong else f"{statuses}, exit {code}, {wrong}"

    def end_thread(self) -> str:
        """Ends the thread that decodes; returns what is wrong with that."""
        self.process.send_signal(END_OF_THREAD)
        wrong = self.watch_end()
        code = self.process.wait(60)
        return wrong if code == 1 and not wrong else f"exit {code}, {wrong}"

    def watch_end(self) -> str:
        """Asks, on connections of their own, until there is no server; returns what it said that was not true."""
        while True:
            try:
                with self.client() as client:
                    is_ready = client.get("/readyz").status_code == 200
                    said = client.post("/translate", data=PAIR | {"q": LINES[0]}).status_code
            except httpx.TransportError:
                if self.process.poll() is not None:
                    return ""
                continue
            if is_ready and said not in (200, 500):  # what is in a thread as it ends has failed
                return f"ready, then {said}"


@contextmanager
def started() -> Iterator[Soak]:
    """Yields a soak of a server that is ready, of a copy of a bundled model."""
    with TemporaryDirectory() as place:
        model = shutil.copytree(ROOT / "specmt/assets/de-en", Path(place, "de-en"))
        options = ["--model", str(model), "--cache-size", "0", "--req-limit", "0"]
        with server(*options, program=[sys.executable, __file__]) as found:
            yield Soak(found, model)


@click.command(help=__doc__)
@click.option("--seconds", default=1800.0, show_default=True)
@click.option("--clients", default=6, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(seconds: float, clients: int, seed: int) -> None:
    draw, memory, injected = random.Random(seed), [], Counter[str]()
    with started() as soak:
        soak.learn()
        memory.append(memory_of(soak.process.pid) >> 20)
        with ThreadPoolExecutor(clients + 1) as pool:
            asking = [pool.submit(soak.work, draw.random()) for _ in range(clients)]
            asking.append(pool.submit(soak.watch))
            until, ways = time.monotonic() + seconds, [*soak.ways().items()]
            while time.monotonic() < until and soak.process.poll() is None:
                name, fault = draw.choice(ways)
                soak.fault, soak.faults = name, soak.faults + 1
                fault()
                injected[name] += 1
                time.sleep(REST)
                soak.fault = ""
                time.sleep(draw.uniform(0, 2))
                memory.append(memory_of(soak.process.pid) >> 20)
            soak.ends.set()
        for each in asking:
            each.result()
        soak.count_right()  # after which no call is left that is to fail
        right = soak.count_right()
        ends = {"drained": soak.drain() if soak.process.poll() is None else "it has ended"}
        said = [line for line in soak.log.read_text(errors="replace").split("\n") if line[:1] != "{"][-40:]
    with started() as other:
        ends["a thread ended"] = other.end_thread()
    rest = memory[len(memory) // 4 :]
    early, late = max(rest[: len(rest) // 2], default=0), max(rest[len(rest) // 2 :], default=0)
    figures = {
        "seconds": seconds,
        "requests": dict(sorted(soak.counts.items())),
        "faults": dict(sorted(injected.items())),
        "right_afterwards": f"{right} of {len(soak.expected)}",
        "mib": memory[:: len(memory) // 16 + 1],
        "most_mib": (early, late),
        "ends": {name: wrong or "as it should" for name, wrong in ends.items()},
    }
    names = ("blamed", "lost", "untrue", "wrong")
    is_kept = right == len(soak.expected) and not any(ends.values()) and late <= 1.2 * early
    is_kept = is_kept and not any(count for what, count in soak.counts.items() if what.startswith(names))
    if not is_kept:
        figures["log"] = said
    print(json.dumps(figures, indent=2))
    sys.exit(not is_kept)


if __name__ == "__main__":
    serve(sys.argv[1:]) if sys.argv[1:2] == ["serve"] else main()
