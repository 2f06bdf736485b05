"""Texts with markup and documents, through the server."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator

import httpx
import pytest

from specmt.models.hub import load_model
from specmt.translator import Translator
from tests.serving import serving

pytest.importorskip("specmt.documents")

LINK = '<a href="https://a.example/?a=1&amp;b=2" class="mention">'
TOOT = f"<p>Wo ist der {LINK}Bahnhof</a>?<br>Das ist ein <em>Test</em>.</p>"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(lambda: Translator(load_model())) as found:
        yield found


def ask(client: httpx.Client, q: object, **values: object) -> httpx.Response:
    return client.post("/translate", json={"q": q, "source": "de", "target": "en", "format": "html"} | values)


def tags(text: str) -> list[str]:
    return sorted(re.findall(r"<[/!a-z][^>]*>", text))


def test_tags_are_kept_and_the_rest_is_translated(client: httpx.Client) -> None:
    found = ask(client, TOOT).json()["translatedText"]
    assert tags(found) == tags(TOOT)
    assert "station" in found and "Bahnhof" not in found and found.startswith("<p>") and found.endswith("</p>")


def test_answers_with_markup_are_cached_too(client: httpx.Client) -> None:
    def counts() -> tuple[float, float]:
        text = client.get("/metrics").text
        names = ("cache_hits_total", r'request_success_total\{model_name="de-en"\}')
        hits, done = (re.findall(rf"(?m)^specmt_{name} (\S+)", text)[0] for name in names)
        return float(hits), float(done)

    text = "<p>Der Hund <b>schläft</b> nie.</p>"
    first = ask(client, [text, text], source="auto").json()
    hits, done = counts()
    assert ask(client, [text, text], source="auto").json() == first
    assert counts() == (hits + 1, done)
    assert ask(client, text).json() == {"translatedText": first["translatedText"][0]}
    assert counts() == (hits + 1, done + 1)


def test_alternatives_have_the_tags_too(client: httpx.Client) -> None:
    found = ask(client, [TOOT, "<br>"], alternatives=3).json()
    assert found["translatedText"] == ask(client, [TOOT, "<br>"]).json()["translatedText"]
    first, second = found["alternatives"]
    assert 1 <= len(first) <= 3 and len({found["translatedText"][0], *first}) == 1 + len(first)
    assert [tags(each) for each in first] == [tags(TOOT)] * len(first)
    assert second == []
    plain = ask(client, "Der Hund schläft.", format="text", alternatives=3).json()
    marked = ask(client, "<p>Der Hund schläft.</p>", alternatives=3).json()
    assert marked["alternatives"] == [f"<p>{each}</p>" for each in plain["alternatives"]]


def test_mastodon_sends_lists_of_html_in_a_language_that_it_does_not_know(client: httpx.Client) -> None:
    found = ask(client, [TOOT, "<p>The weather is nice today.</p>", ""], source="auto").json()
    assert [each["language"] for each in found["detectedLanguage"]][:2] == ["de", "en"]
    assert found["translatedText"][1:] == ["<p>The weather is nice today.</p>", ""]
    assert tags(found["translatedText"][0]) == tags(TOOT)


@pytest.mark.parametrize(
    "text",
    [
        '<p translate="no">Der Hund</p>',
        '<span class="notranslate">Der Hund</span>',
        "<!-- Der Hund --><br/><hr>",
        "<script>let der = 'Hund'</script>",
        "&nbsp;&lt;&amp;",
        '<meta charset="utf-16">',
    ],
)
def test_what_is_not_to_be_translated_stays_as_it_is(client: httpx.Client, text: str) -> None:
    assert ask(client, text).json()["translatedText"] == text


def test_broken_markup_and_entities_do_no_harm(client: httpx.Client) -> None:
    for text in ("<p>Der Hund", "Der Hund</p>", "<b><i>Der</b> Hund</i>", "1 < 2 & 3 > 2 ist wahr.", "<", "<p " * 1000):
        found = ask(client, text)
        assert found.status_code == 200
        assert tags(found.json()["translatedText"]) == tags(text)
    assert "&amp;" in ask(client, "Der Hund &amp; die Katze").json()["translatedText"]
    declared = ask(client, '<meta charset="latin1"><p>Schön ist die Straße.</p>').json()["translatedText"]
    assert "Ã" not in declared


def test_deepl_with_tags(client: httpx.Client) -> None:
    body = {"text": [TOOT], "target_lang": "EN", "tag_handling": "html"}
    (found,) = client.post("/v2/translate", json=body).json()["translations"]
    assert tags(found["text"]) == tags(TOOT)


@pytest.mark.parametrize(
    ("values", "text", "kept"),
    [
        ({}, "Drücken Sie <x id='1'>Weiter</x>.", ["<x id='1'>", "</x>"]),
        ({"ignore_tags": ["x"]}, "Drücken Sie <x>Weiter</x>.", ["<x>Weiter</x>"]),
        (
            {"ignore_tags": "x,y"},
            "Drücken Sie <y>Weiter</y> oder <x>Der Hund</x>.",
            ["<x>Der Hund</x>", "<y>Weiter</y>"],
        ),
        ({"splitting_tags": "x"}, "Der Hund <x>Der Hund</x>", ["<x>The dog</x>"]),
        ({"tag_handling": "html", "ignore_tags": ["X"]}, "Drücken Sie <x>Weiter</x>.", ["<x>Weiter</x>"]),
        ({"tag_handling": "html", "non_splitting_tags": "x"}, "Der <x>Hund</x> schläft.", ["<x>", "</x>"]),
    ],
)
def test_deepl_with_rules_for_tags(client: httpx.Client, values: dict[str, object], text: str, kept: list[str]) -> None:
    body = {"text": [text], "target_lang": "EN", "source_lang": "DE", "tag_handling": "xml"} | values
    response = client.post("/v2/translate", json=body)
    found = response.json()["translations"][0]["text"]
    assert found != text
    assert all(each in found for each in kept)
    assert tags(found) == tags(text)
    again = client.post("/v2/translate", json=body, headers={"If-None-Match": response.headers["etag"]})
    assert again.status_code == 304
    other = client.post("/v2/translate", json=body | {"ignore_tags": ["z"]})
    assert other.headers["etag"] != response.headers["etag"]


def test_documents_of_many_kinds(client: httpx.Client) -> None:
    assert {".txt", ".html", ".po", ".docx"} <= set(client.get("/frontend/settings").json()["supportedFilesFormat"])

    def send(name: str, content: bytes) -> httpx.Response:
        return client.post("/translate_file", files={"file": (name, content)}, data={"source": "de", "target": "en"})

    page = client.get(send("Seite.html", TOOT.encode()).json()["translatedFileUrl"])
    assert page.text == ask(client, TOOT).json()["translatedText"]
    for name, content in (("a.docx", b"no zip"), ("a.docx", bomb()), ("a.po", b"\xff"), ("a.html.gz", b"\x1f\x8b")):
        response = send(name, content)
        assert (response.status_code, list(response.json())) == (400, ["error"]), name


def bomb() -> bytes:
    """A document of a few kilobytes with 300 MB in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as member:
        for _ in range(300):
            member.write(b"\0" * (1 << 20))
    return out.getvalue()
