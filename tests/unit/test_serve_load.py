"""The clients of the load test: every answer is counted, and what is wrong, refused or lost is told apart."""

from __future__ import annotations

import socket
import threading

import pytest
from load_test import NUMBERS, Round, ask, mix, table

from specmt.serve.clients import Limits
from specmt.text.parts import Part
from specmt.text.rules import Rules
from specmt.translator import Translator
from specmt.types import Hypothesis
from tests.serving import serving
from tests.sessions import fake_translator

TEXTS = ["a b", "c d e", "f"]
REVERSED = ["b a", "e d c", "f"]


def test_answers_are_counted_and_compared() -> None:
    with serving(fake_translator, limits=Limits(cache=0)) as client:
        url = str(client.base_url).rstrip("/")
        found = ask(url, TEXTS, REVERSED, 4, requests=50)
        assert (len(found.latencies), found.wrong, found.lost) == (50, 0, 0)
        assert ask(url, TEXTS, ["b a", "", ""], 2, requests=30).wrong == 20
    (row,) = table([found], found.speed / 2, [100.0]).rows
    assert (row[0], row[2], *row[4:]) == ("4", "2.00", "0, 0", "100")


def test_refusals_are_no_answers() -> None:
    with serving(fake_translator, limits=Limits(requests=5)) as client:
        found = ask(str(client.base_url).rstrip("/"), TEXTS, REVERSED, 1, requests=8)
    assert (len(found.latencies), found.refused, found.wrong, found.lost) == (5, 3, 0, 0)


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
    found = Round(1, latencies=[0.003, 0.001, 0.002])
    assert [found.quantile(share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]


def test_sentences_that_are_tried_again_are_in_the_mix(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    take = Rules.take

    def note(rules: Rules, part: Part, hypothesis: Hypothesis) -> list[Part]:
        again = take(rules, part, hypothesis)
        tried.extend([part.text] * bool(again))
        return again

    monkeypatch.setattr(Rules, "take", note)
    for text in NUMBERS:
        assert [*translator.translate([text])]
    assert len(tried) >= 3
    assert [text in NUMBERS for text in mix(["a", "b"], 40)] == [False, False, False, True] * 10
