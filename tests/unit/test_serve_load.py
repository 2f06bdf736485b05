"""The clients of the load test: every answer is counted, and what is wrong, refused or lost is told apart."""

from __future__ import annotations

import socket
import threading

from load_client import ask, quantile, unfinished
from load_test import table

from specmt.serve.clients import Limits
from specmt.translator import Translator
from tests.serving import serving
from tests.sessions import FakeModel, FakeSession, reverse

TEXTS = ["a b", "c d e", "f"]
REVERSED = ["b a", "e d c", "f"]


def load() -> Translator:
    return Translator(FakeModel(), session=FakeSession(reverse))  # type: ignore[arg-type]


def test_answers_are_counted_and_compared() -> None:
    with serving(load, limits=Limits(cache=0)) as client:
        url = str(client.base_url).rstrip("/")
        begun: list[float] = []
        found = ask(url, TEXTS, REVERSED, 4, requests=50, begun=lambda: begun.append(unfinished(url)))
        assert (len(found.latencies), found.wrong, found.lost, len(begun)) == (50, 0, 0, 1)
        assert ask(url, TEXTS, ["b a", "", ""], 2, requests=30).wrong == 20
        assert unfinished(url) == 0
    head, _, row = table({"specmt": [found], "other": [found]}, found.speed / 2, [100.0])
    assert head.count("|") == row.count("|") == 9
    assert row.startswith("| 4 | ") and " | 2.00 | " in row and " | 0, 0 | 100 | " in row


def test_refusals_are_no_answers() -> None:
    with serving(load, limits=Limits(requests=5)) as client:
        found = ask(str(client.base_url).rstrip("/"), TEXTS, REVERSED, 1, requests=8)
    assert (len(found.latencies), len(found.refusals), found.wrong, found.lost) == (5, 3, 0, 0)


def test_requests_without_an_answer_are_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close() -> None:
            for _ in range(3):
                connection, _ = listener.accept()
                connection.recv(1000)
                connection.close()

        thread = threading.Thread(target=close)
        thread.start()
        found = ask(f"http://127.0.0.1:{listener.getsockname()[1]}", TEXTS, REVERSED, 3, requests=30)
        thread.join()
    assert (found.lost, len(found.latencies)) == (3, 0)


def test_quantiles() -> None:
    seconds = [0.003, 0.001, 0.002]
    assert [quantile(seconds, share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]
