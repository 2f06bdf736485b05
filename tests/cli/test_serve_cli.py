"""`specmt serve` as a process, with the bundled models: the command line's bytes, signals, clients that vanish."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
SERVE = [sys.executable, "-m", "specmt", "serve", "--port", "0"]
TEXT = (ROOT / "data" / "sample.de").read_text(encoding="utf-8")

ASK = """
import socket, sys, time, urllib.parse
place = urllib.parse.urlsplit(sys.argv[1])
body = urllib.parse.urlencode({"q": sys.stdin.read(), "source": "de", "target": "en"}).encode()
head = "POST /translate HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/x-www-form-urlencoded\\r\\n"
connections = [socket.create_connection((place.hostname, place.port)) for _ in range(50)]
for connection in connections:
    connection.sendall(f"{head}Content-Length: {len(body)}\\r\\n\\r\\n".encode() + body)
time.sleep(600)
"""


@contextmanager
def started(*options: str, command: Sequence[str] = SERVE) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields a server that is ready, and where it is."""
    process = subprocess.Popen([*command, *options], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.search(r"http://[\d.]+:\d+", first)
        assert found is not None, first
        url = found[0]
        for _ in range(600):
            if httpx.get(f"{url}/readyz").status_code == 200:
                break
            time.sleep(0.05)
        yield process, url
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def running(url: str) -> float:
    text = httpx.get(f"{url}/metrics").text
    return sum(
        float(each) for each in re.findall(r"specmt_num_(?:requests_running|characters_waiting)\{.*\} (\S+)", text)
    )


def test_answers_are_those_of_the_command_line_and_nobody_who_vanishes_leaves_work_behind() -> None:
    def translate(text: str, source: str, target: str) -> str:
        command = [sys.executable, "-m", "specmt", "translate", "-q", "--from", source, "--to", target]
        return subprocess.run(command, env=ENVIRONMENT, input=text, capture_output=True, text=True, check=True).stdout

    expected = translate(TEXT, "de", "en")
    with started("--cache-size", "0") as (_, url):
        readers = subprocess.Popen([sys.executable, "-c", ASK, url], stdin=subprocess.PIPE, text=True)
        assert readers.stdin is not None
        readers.stdin.write(TEXT * 4)
        readers.stdin.close()
        for _ in range(1000):
            if running(url) > 50 * 4 * 36:
                break
            time.sleep(0.02)
        else:
            pytest.fail("they never came")
        readers.kill()
        readers.wait()
        for _ in range(200):
            if running(url) == 0:
                break
            time.sleep(0.02)
        assert running(url) == 0

        async def ask_all() -> list[str]:
            async with httpx.AsyncClient(base_url=url, timeout=120) as client:

                async def ask(text: str) -> str:
                    form = {"q": text, "source": "de", "target": "en"}
                    return str((await client.post("/translate", data=form)).json()["translatedText"])

                return await asyncio.gather(*map(ask, [TEXT, *TEXT.splitlines()]))

        whole, *lines = asyncio.run(ask_all())
        assert whole == expected
        assert lines == expected.splitlines()
        back = httpx.post(f"{url}/translate", data={"q": expected, "source": "en", "target": "de"}, timeout=120)
        assert back.json()["translatedText"] == translate(expected, "en", "de")


@pytest.mark.parametrize("twice", [False, True])
def test_sigterm_ends_when_everyone_has_an_answer_and_the_second_at_once(twice: bool) -> None:
    with started("--cache-size", "0") as (process, url):

        async def ask() -> list[httpx.Response | BaseException]:
            async with httpx.AsyncClient(timeout=120) as client:
                form = {"source": "de", "target": "en"}
                texts = [TEXT * 20 if twice else f"{n} {TEXT}" for n in range(8)]
                answers = [
                    asyncio.create_task(client.post(f"{url}/translate", data=form | {"q": text})) for text in texts
                ]
                while await asyncio.to_thread(running, url) < 8:
                    await asyncio.sleep(0.01)
                process.terminate()
                if twice:
                    await asyncio.sleep(0.5)
                    process.terminate()
                found = await asyncio.gather(*answers, return_exceptions=True)
                with suppress(httpx.HTTPError):
                    found.append(await client.get(f"{url}/health"))
                return found

        answers = asyncio.run(ask())
        code = process.wait(30)
        if twice:
            assert code == 128 + signal.SIGTERM
        else:
            assert [each.status_code for each in answers if isinstance(each, httpx.Response)] == [200] * 8
            assert len(answers) == 8, "it took a request after the signal"
            assert code == 0


def test_where_it_cannot_listen_it_says_at_once() -> None:
    command = [sys.executable, "-m", "specmt", "serve", "--host", "192.0.2.1", "--port", "0"]
    found = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (74, ""), found.stderr
    assert found.stderr.startswith("specmt: error: ") and "192.0.2.1" in found.stderr and found.stderr.count("\n") == 1


def test_a_model_that_is_damaged_ends_it(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(ROOT / "specmt" / "assets" / "de-en", model)
    (model / "verifier.safetensors").write_bytes(b"no weights")
    command = [sys.executable, "-m", "specmt", "serve", "-q", "--port", "0", "--model", str(model)]
    found = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 69, found.stderr
    assert found.stderr.count("\n") == 1 and "verifier.safetensors" in found.stderr


def test_a_thread_that_ends_ends_it_with_1() -> None:
    fails = (
        "import sys; from specmt.cli.main import run; from specmt.serve.engine import Engine\n"
        "Engine._fill = lambda self: 1 // (not self._queue)\n"
        "sys.exit(run(['serve', '--port', '0', '--model', 'de-en']))"
    )
    with started(command=[sys.executable, "-c", fails]) as (process, url):
        assert httpx.post(f"{url}/translate", data={"q": "Ja.", "source": "de", "target": "en"}).status_code == 500
        assert process.wait(30) == 1


def test_the_log_is_json_on_standard_error_and_figures_and_pages_can_be_switched_off() -> None:
    with started("--model", "de-en", "--no-metrics", "--no-page") as (process, url):
        assert {httpx.get(f"{url}/{path}").status_code for path in ("metrics", "", "docs")} == {404}
        damaged = {"Content-Type": "multipart/form-data; boundary=x"}
        assert httpx.post(f"{url}/translate", content=b"no boundary", headers=damaged).status_code == 400
        httpx.post(f"{url}/translate", data={"q": "Geheimnis", "source": "de", "target": "en"})
        process.terminate()
        _, log = process.communicate(timeout=30)
    entries = [json.loads(line) for line in log.splitlines()]
    assert entries[-1]["path"] == "/translate" and entries[-1]["status"] == 200
    assert "Geheimnis" not in log
