#!/usr/bin/env python
"""Asks a server for translations while all goes wrong; prints what came of it as JSON; exit code 1 if it fell.

    PYTHONPATH=. python scripts/faults.py [--seconds N] [--clients N] [--seed N]

Clients vanish, documents are damaged, no file can be written, no memory is left, workers are killed, a step of the
session fails, clocks jump, the server is stopped and goes on, the model's folder is another one. Every request must be
answered or refused, no answer may be another than without faults, and in the end the server is ready and no larger.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

ROOT = Path(__file__).parents[1]
LINES = [line for line in (ROOT / "data/sample.de").read_text(encoding="utf-8").split("\n") if line.strip()]
PAIR = {"source": "de", "target": "en"}
REFUSALS = {400, 413, 429, 500, 503}


def serve(model: str) -> None:
    """Serves a model; SIGUSR1 fails the next step of its session, SIGUSR2 has the clock jump by an hour."""
    from specmt.cli.main import run
    from specmt.feeder import SharedSession

    work, clock, failing, hours = SharedSession.work, time.time, threading.Event(), [0]

    def fail_or_work(session: SharedSession, *given: object) -> None:
        if failing.is_set():
            failing.clear()
            raise RuntimeError
        work(session, *given)  # type: ignore[arg-type]

    SharedSession.work = fail_or_work  # type: ignore[assignment,method-assign]
    time.time = lambda: clock() + 3600 * hours[0]
    signal.signal(signal.SIGUSR1, lambda *_: failing.set())
    signal.signal(signal.SIGUSR2, lambda *_: hours.__setitem__(0, -hours[0] or random.choice((-1, 1))))
    sys.exit(run(["serve", "--port", "0", "--model", model, "--cache-size", "0", "--req-limit", "0"]))


def document(text: str) -> bytes:
    """Returns a DOCX of one paragraph."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        body = f'<w:document xmlns:w="{space}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>'
        archive.writestr(zipfile.ZipInfo("word/document.xml"), body)
    return out.getvalue()


class Soak:
    """Clients of one server, and what comes of their requests."""

    def __init__(self, url: str, process: int, model: Path) -> None:
        self.url, self.process, self.model = url, process, model
        self.counts: Counter[str] = Counter()
        self.expected: dict[tuple[str, int], bytes] = {}
        self.ends = threading.Event()
        self.fault = ""

    def ask(self, client: httpx.Client, way: str, number: int, damage: random.Random | None = None) -> bytes | None:
        """Asks for a translation; returns what is refused as ``None``."""
        line = LINES[number]
        try:
            if way == "document":
                data = document(line)
                if damage is not None:
                    place = damage.randrange(len(data))
                    data = data[:place] + damage.randbytes(2) + data[place + damage.choice((2, 60)) :]
                files = {"file": ("a.docx", data)}
                answer = client.post("/translate_file", data=PAIR, files=files)
                if answer.status_code == 200:
                    answer = client.get(answer.json()["translatedFileUrl"])
            else:
                text = f"<p>{line}</p>" if way == "html" else line
                answer = client.post("/translate", data=PAIR | {"q": text, "format": way})
        except httpx.TransportError as error:
            self.counts[f"lost after {self.fault}: {error}"] += 1
            return None
        self.counts[f"{way} {answer.status_code}"] += 1
        if answer.status_code not in REFUSALS | {200}:
            self.counts["wrong status"] += 1
        return answer.content if answer.status_code == 200 else None

    def client(self, seed: int) -> None:
        """Asks until the soak ends."""
        draw = random.Random(seed)
        with httpx.Client(base_url=self.url, timeout=180) as client:
            while not self.ends.is_set():
                way, number = draw.choice(("text", "text", "text", "html", "document")), draw.randrange(20)
                chance = draw.random()
                if chance < 0.1:
                    self.vanish(draw)
                elif chance < 0.2:
                    self.ask(client, "document", number, draw)
                else:
                    said = self.ask(client, way, number)
                    self.counts["wrong"] += said is not None and said != self.expected[way, number]

    def vanish(self, draw: random.Random) -> None:
        """Asks, wholly or in part, and waits for no answer."""
        with (
            suppress(httpx.TransportError),
            httpx.Client(base_url=self.url, timeout=draw.uniform(0.001, 0.2)) as client,
        ):
            client.post("/translate", data=PAIR | {"q": "\n".join(draw.choices(LINES, k=30))})
        self.counts["vanished"] += 1

    def limit(self, what: int, most: int) -> None:
        """Leaves the server so much of something for a second."""
        old = resource.prlimit(self.process, what)
        resource.prlimit(self.process, what, (most, old[1]))
        time.sleep(1)
        resource.prlimit(self.process, what, old)

    def memory(self, name: str) -> int:
        """Returns the bytes that the server has."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="utf-8")
        return int(next(row.split()[1] for row in status.split("\n") if row.startswith(f"{name}:"))) << 10

    def kill_worker(self) -> None:
        """Kills a process that reads a document."""
        for child in children(self.process):
            for worker in children(child):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                return

    def pause(self) -> None:
        os.kill(self.process, signal.SIGSTOP)
        time.sleep(2)
        os.kill(self.process, signal.SIGCONT)

    def replace_model(self) -> None:
        """Puts a damaged folder in the place of the model's, and that back."""
        other = self.model.with_name("other")
        other.mkdir(exist_ok=True)
        for path in self.model.iterdir():
            (other / path.name).write_bytes(b"damaged")
        aside = self.model.with_name("aside")
        self.model.rename(aside)
        other.rename(self.model)
        time.sleep(2)
        shutil.rmtree(self.model)
        aside.rename(self.model)

    def faults(self) -> dict[str, Callable[[], object]]:
        return {
            "no file can be written": lambda: self.limit(resource.RLIMIT_FSIZE, 0),
            "no memory is left": lambda: self.limit(resource.RLIMIT_AS, self.memory("VmSize") + (4 << 20)),
            "a worker is killed": self.kill_worker,
            "a step fails": lambda: os.kill(self.process, signal.SIGUSR1),
            "the clock jumps": lambda: os.kill(self.process, signal.SIGUSR2),
            "the server is stopped": self.pause,
            "the model is another": self.replace_model,
        }


def children(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text(errors="replace").rpartition(")")[2].split()[1]) == process:
                found.append(int(path.parent.name))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    draw = random.Random(arguments.seed)
    with TemporaryDirectory() as place:
        model, log = Path(place, "de-en"), Path(place, "log")
        shutil.copytree(ROOT / "specmt/assets/de-en", model)
        command = [sys.executable, __file__, "--serve", str(model)]
        with log.open("wb") as errors, subprocess.Popen(command, stderr=errors) as process:
            try:
                while b"http://" not in log.read_bytes():
                    time.sleep(0.1)
                url = next(word for word in log.read_text().split() if word.startswith("http://")).rstrip("/,.")
                soak = Soak(url, process.pid, model)
                with httpx.Client(base_url=url, timeout=180) as client:
                    while client.get("/readyz").status_code != 200:
                        time.sleep(0.1)
                    for way in ("text", "html", "document"):
                        for number in range(20):
                            said = soak.ask(client, way, number)
                            assert said is not None
                            soak.expected[way, number] = said
                    memory, injected = [], Counter[str]()
                    with ThreadPoolExecutor(arguments.clients) as pool:
                        clients = [pool.submit(soak.client, draw.random()) for _ in range(arguments.clients)]
                        until = time.monotonic() + arguments.seconds
                        while time.monotonic() < until and process.poll() is None:
                            name, fault = draw.choice([*soak.faults().items()])
                            soak.fault = name
                            fault()
                            injected[name] += 1
                            time.sleep(draw.uniform(0, 2))
                            memory.append(soak.memory("VmRSS") >> 20)
                        soak.ends.set()
                    for each in clients:
                        each.result()
                    is_ready = process.poll() is None and client.get("/readyz").status_code == 200
                    after = [soak.ask(client, *key) == said for key, said in soak.expected.items()] if is_ready else []
            finally:
                process.kill()
        rest = memory[len(memory) // 4 :]
        early, late = max(rest[: len(rest) // 2], default=0), max(rest[len(rest) // 2 :], default=0)
        lost = sum(count for what, count in soak.counts.items() if what.startswith("lost"))
        figures = {
            "requests": dict(sorted(soak.counts.items())),
            "faults": dict(injected),
            "ready": is_ready,
            "right_afterwards": f"{sum(after)} of {len(soak.expected)}",
            "most_mib": (early, late),
        }
        if lost or not is_ready:
            figures["log"] = [line for line in log.read_text(errors="replace").split("\n") if line[:1] != "{"][-20:]
    print(json.dumps(figures, indent=2))
    is_kept = is_ready and all(after) and not lost and not soak.counts["wrong"] and not soak.counts["wrong status"]
    return not (is_kept and late <= 1.2 * early)


if __name__ == "__main__":
    sys.exit(main())
