"""What the server is made of, piece by piece."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specmt.cli import serve as command
from specmt.engine import threads
from specmt.errors import DataError
from specmt.feeder import number_of, place_of
from specmt.serve.asked import Caller
from specmt.serve.cache import Cache, size_of
from specmt.serve.clients import MOST_CLIENTS, Account, Keys, Limits, Rate
from specmt.serve.errors import RefusedError
from specmt.serve.glossaries import MOST as MOST_GLOSSARIES
from specmt.serve.glossaries import Glossaries, Glossary, Terms, read_entries
from specmt.serve.languages import MOST as MOST_LOOKED_AT
from specmt.serve.languages import Languages
from specmt.serve.metrics import Metrics
from specmt.serve.room import Claim, Room
from specmt.serve.uploads import MOST, Uploads
from specmt.text.lines import lines_of
from specmt.types import Tally
from tests.growth import assert_at_most


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_cache_is_bounded_and_drops_what_was_not_used() -> None:
    cache: Cache[str] = Cache(3000)
    for number in range(5):
        cache.put(("de-en", f"text {number}"), "x", 100)
        assert cache.get(("de-en", "text 0")) == "x"
    cache.put(("de-en", "text 0"), "another", 100)
    assert cache.get(("de-en", "text 0")) == "x"
    assert cache.get(("en-de", "text 0")) is None
    for number in range(100):
        cache.put(number, "x" * 50, size_of("x" * 50))
    held = [number for number in range(100) if cache.get(number) is not None]
    assert 2 < len(held) < 10 and held[-1] == 99
    cache.put("book", "x", 3001)
    assert cache.get("book") is None and cache.get(99) is not None
    nothing: Cache[str] = Cache(0)
    nothing.put("a", "b", 1)
    assert nothing.get("a") is None


@pytest.mark.parametrize(
    ("text", "entries_format", "status", "says"),
    [
        ("", "tsv", 400, "there are none"),
        ("\n \n", "tsv", 400, "there are none"),
        ("Hund", "tsv", 400, "line 1 must be a term and its translation"),
        ("Hund\tdog\tx", "tsv", 400, "line 1 must be"),
        ("Hund\tdog\n\t", "tsv", None, ""),
        ("Hund\tdog\nKatze\t ", "tsv", 400, "line 2 has an empty term"),
        ("Hund\tdog\nHund\thound", "tsv", 400, "line 2 has the term 'Hund' again"),
        ("Hund\td\x07g", "tsv", 400, "line 1 has a control character"),
        ("Hund\t" + "g" * 1025, "tsv", 400, "more than 1024 bytes"),
        ("Hund\t" + "g" * (1 << 20), "tsv", 413, "exceed the limit"),
        ("Hund,dog,x", "csv", 400, "line 1 must be"),
        ('Hund,dog\n"Katze"s,cat', "csv", 400, "line 2 is not CSV"),
        ('Hund,"do\ng"', "csv", 400, "control character"),
    ],
)
def test_entries_of_glossaries(text: str, entries_format: str, status: int | None, says: str) -> None:
    if status is None:
        assert read_entries(text, entries_format) == {"Hund": "dog"}
        return
    with pytest.raises(RefusedError) as caught:
        read_entries(text, entries_format)
    assert caught.value.status == status
    assert says in caught.value.message and "\n" not in caught.value.message


def test_entries_are_the_same_in_both_formats() -> None:
    meant = {"Hund": "dog", "großer Hund": 'big, "good" dog'}
    assert read_entries(' Hund \tdog\r\n\r\ngroßer Hund\tbig, "good" dog', "tsv") == meant
    assert read_entries('Hund, dog\r\n\r\ngroßer Hund,"big, ""good"" dog",DE,EN\r\n', "csv") == meant


def test_glossaries_belong_to_a_key_and_are_bounded() -> None:
    glossaries = Glossaries()
    pair = "de", "en"
    made = [Glossary(str(number), {pair: Terms(pair, {"Hund": "dog"})}) for number in range(MOST_GLOSSARIES + 1)]
    for each in made[:-1]:
        glossaries.put("a", each)
    with pytest.raises(RefusedError) as caught:
        glossaries.put("a", made[-1])
    assert caught.value.status == 456
    glossaries.put("b", made[-1])
    assert glossaries.all("b") == [made[-1]] and glossaries.all("c") == []
    with pytest.raises(RefusedError) as caught:
        glossaries.find("a", made[-1].id)
    assert caught.value.status == 404
    glossaries.remove("a", made[0].id)
    glossaries.put("a", made[-1])
    assert [each.name for each in glossaries.all("a")] == [str(number) for number in range(1, MOST_GLOSSARIES + 1)]


def test_the_languages_of_a_glossary_are_bounded_together() -> None:
    glossaries, pairs = Glossaries(), (("de", "en"), ("en", "de"))
    half = {str(number): "dog" * 200 for number in range(1000)}
    made = Glossary("a", {pairs[0]: Terms(pairs[0], half)})
    glossaries.put("a", made)
    with pytest.raises(RefusedError) as caught:
        glossaries.put("a", replace(made, terms={pair: Terms(pair, half) for pair in pairs}))
    assert (caught.value.status, glossaries.all("a")) == (413, [made])
    glossaries.put("a", renamed := replace(made, name="b"))
    assert glossaries.all("a") == [renamed]


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# ours\nsesam 100\n\nöffne\n", encoding="utf-8")
    keys = Keys.read(path)
    account, other = keys.find("sesam"), keys.find("öffne")
    assert account is not None and other is not None
    assert (account.limit, other.limit) == (100, None)
    assert "sesam" not in account.name and account.name != other.name
    assert keys.find("") is keys.find("# ours") is keys.find("\ud800") is None
    with account.charged(100), pytest.raises(RefusedError) as caught, account.charged(1):
        pass
    assert (caught.value.status, account.used) == (456, 100)
    for text in ("a b\n", "a 1 2\n", "a ²\n", "a -1\n", "\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError):
            Keys.read(path)


def test_a_client_may_ask_so_often_a_minute() -> None:
    clock = Clock()
    rate = Rate(6, clock)
    for _ in range(6):
        rate.take("a")
    rate.take("b")
    with pytest.raises(RefusedError) as caught:
        rate.take("a")
    assert (caught.value.status, caught.value.retry_after) == (429, 10)
    clock.now += 10.0
    rate.take("a")
    with pytest.raises(RefusedError):
        rate.take("a")
    clock.now += 1000.0
    for _ in range(6):
        rate.take("a")
    with pytest.raises(RefusedError):
        rate.take("a")
    for number in range(2 * MOST_CLIENTS):
        rate.take(str(number))
    assert len(rate._left) == MOST_CLIENTS


def test_languages_in_other_spellings() -> None:
    languages = Languages([("de", "en"), ("en", "de"), ("nds", "en"), ("pt-BR", "en")])
    found = {code: languages.find(code) for code in ("DE", "en-GB", "EN_US", " de ", "pt-br", "fr", "", "e")}
    assert found == {
        "DE": "de", "en-GB": "en", "EN_US": "en", " de ": "de", "pt-br": "pt-BR", "fr": None, "": None, "e": None,
    }  # fmt: skip
    assert languages.targets_of("nds") == ["en", "nds"]
    assert (languages.sources, languages.targets) == (["de", "en", "nds", "pt-BR"], ["de", "en"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Wo ist der Bahnhof?", "de"),
        ("Where is the station?", "en"),
        ("Où est la gare ?", "fr"),
        ("Das Dokument wurde nicht gespeichert.", "de"),
        ("The document was not saved.", "en"),
    ],
)
def test_languages_are_detected_among_those_that_there_are(text: str, code: str) -> None:
    languages = Languages([("de", "en"), ("fr", "en"), ("xx", "en")])
    ranked = languages.detect(text)
    assert ranked[0].language == code
    assert {each.language for each in ranked} == {"de", "en", "fr", "xx"}
    assert sum(each.confidence for each in ranked) == pytest.approx(100.0, abs=0.3)


def test_the_language_of_a_text_of_any_length_is_that_of_its_beginning() -> None:
    languages, text = Languages([("de", "en")]), "Das Dokument wurde nicht gespeichert. " * 500_000
    wanted = languages.detect(text[:MOST_LOOKED_AT])
    assert_at_most(0.2, lambda: languages.detect(text))
    assert languages.detect(text) == wanted


def test_languages_that_no_detector_knows_are_there_all_the_same() -> None:
    assert [each.language for each in Languages([("xx", "yy")]).detect("a")] == ["xx", "yy"]


def test_documents_are_dropped_after_a_time() -> None:
    clock = Clock()
    uploads = Uploads(seconds=60.0, clock=clock)
    uploads.keep("a.txt", b"1")
    clock.now += 40.0
    uploads.keep("b.txt", b"2")
    assert (uploads.find("a.txt"), uploads.find("b.txt")) == (b"1", b"2")
    clock.now += 30.0
    assert (uploads.find("a.txt"), uploads.find("b.txt")) == (None, b"2")
    uploads.keep("c.txt", b"x" * MOST)
    assert (uploads.find("b.txt"), len(uploads.find("c.txt") or b"")) == (None, MOST)


def test_the_lines_of_a_text_are_those_of_a_file() -> None:
    found = [(line.index, line.text, line.ending) for line in lines_of("\ufeffa\r\n\u2028b\n \r\n\nc\r")]
    assert found == [(0, "a", "\r\n"), (1, "\u2028b", "\n \r\n\n"), (4, "c\r", "")]
    assert list(lines_of("")) == []


def someone() -> Caller:
    return Caller("", Account(""), asyncio.Event().wait, Claim(Room(1, int)))


class Shouting:
    """A service that writes in capitals."""

    def __init__(self) -> None:
        self.limits = Limits(seconds=0.5)
        self.asked: list[str] = []

    def find_pairs(self, *_: object) -> list[Any]:
        return [(("de", "en"), None)]

    async def translate(self, texts: list[str], *_: object) -> list[Any]:
        self.asked += texts
        await asyncio.sleep(5.0 * ("schlaf" in texts))
        return [type("Answer", (), {"text": text.upper()}) for text in texts]


def test_a_long_text_is_translated_little_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specmt.serve.uploads.CHUNK", 12)
    service, uploads, caller = Shouting(), Uploads(), someone()

    async def translate(*texts: str) -> list[Any]:
        asked = (uploads.translate("a.txt", text.encode(), "de", "en", service, caller) for text in texts)  # type: ignore[arg-type]
        return await asyncio.gather(*asked, return_exceptions=True)

    text = "eins\nzwei\ndrei\n\nund so sehr viel mehr\nvier"
    (name,) = asyncio.run(translate(text))
    assert uploads.find(name) == text.upper().encode()
    assert service.asked == ["eins\nzwei\n", "drei\n\n", "und so sehr viel mehr\n", "vier"]
    started = time.monotonic()
    late = asyncio.run(translate(*["schlaf"] * 8))  # whether it waits for its turn or not
    assert time.monotonic() - started < 4 * service.limits.seconds
    assert [each.status for each in late] == [503] * 8


def test_names_of_documents_are_plain() -> None:
    uploads, service, caller = Uploads(), Shouting(), someone()
    for name, end in (
        ("..\\..\\x y.txt", ".x_y_en.txt"),
        ("/etc/ü.TXT", ".ü_en.txt"),
        ("u\u0308.txt", ".ü_en.txt"),
        ("a\r\nb.txt", ".a_b_en.txt"),
        ("हिन्दी-1.txt", ".हिन्दी-1_en.txt"),
        ('a\u202e"\ud800;.txt', ".a__en.txt"),
    ):
        found = asyncio.run(uploads.translate(name, b"abc", "de", "en", service, caller))  # type: ignore[arg-type]
        assert found.endswith(end) and uploads.find(found) == b"ABC"


def test_the_number_of_a_request_tells_its_place() -> None:
    places = [(0, 0, 0), (7, 1, 0), (7, 2, 0), (7, 2, 300), (0xFFFFF, 0, 0)]
    assert [place_of(number_of(*place)) for place in places] == places
    assert len({number_of(*place) for place in places}) == len(places)


@pytest.mark.parametrize(("fastest", "used"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_a_processor_is_left_to_http(monkeypatch: pytest.MonkeyPatch, fastest: int, used: int) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "available", lambda: 4)
    monkeypatch.setattr(command, "load", lambda *_, **__: threads.use_threads(fastest))
    command._load(Path("model"), {"threads": None}, quiet=True)
    assert threads.thread_count() == used
    command._load(Path("model"), {"threads": fastest}, quiet=True)
    assert threads.thread_count() == fastest


def test_what_came_of_drafts_is_told_to_prometheus() -> None:
    told = {"none": Tally(3, 40, 0.5, 80.0), "masked 5": Tally(2, 60, 0.25)}
    metrics = Metrics()
    metrics.watch("de-en", SimpleNamespace(running=1, waiting=2, tally=told))  # type: ignore[arg-type]
    lines = metrics.text().decode().splitlines()
    assert 'specmt_num_characters_waiting{model_name="de-en"} 2.0' in lines
    for way, name, value in (
        ("none", "turns_total", 3.0),
        ("none", "tokens_total", 40.0),
        ("none", "worth", 80.0),
        ("masked 5", "turns_total", 2.0),
        ("masked 5", "seconds_total", 0.25),
    ):
        assert f'specmt_drafting_{name}{{model_name="de-en",way="{way}"}} {value}' in lines
    assert not any("worth{" in line and "masked" in line for line in lines)  # of which nothing was expected
