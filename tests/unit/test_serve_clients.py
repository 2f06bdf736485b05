"""Programs that people use: two libraries as they are, and the requests that others are known to send."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import deepl
import httpx
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
from libretranslatepy import LibreTranslateAPI

from specmt.models.hub import load_model
from specmt.serve.clients import Keys
from specmt.translator import Translator
from tests.serving import serving
from tests.sessions import fake_translator

GERMAN = "Der Hund schläft nicht ."
REVERSED = ". nicht schläft Hund Der"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(fake_translator, keys=Keys({"sesam": None, "poor": 3})) as found:
        yield found


def test_libretranslatepy(client: httpx.Client) -> None:
    api = LibreTranslateAPI(str(client.base_url), api_key="sesam")
    assert api.translate(GERMAN, "de", "en") == REVERSED
    assert api.translate(GERMAN, "auto", "en") == REVERSED
    assert api.detect(GERMAN)[0]["language"] == "de"
    assert {each["code"] for each in api.languages()} == {"de", "en"}


def test_deepl(client: httpx.Client) -> None:
    api = deepl.DeepLClient("sesam", server_url=str(client.base_url).rstrip("/"))
    one = api.translate_text(GERMAN, target_lang="EN-GB")
    assert isinstance(one, deepl.TextResult)
    assert (one.text, one.detected_source_lang, one.billed_characters) == (REVERSED, "DE", len(GERMAN))
    assert one.model_type_used is None
    fast = api.translate_text(GERMAN, target_lang="EN-GB", model_type="prefer_quality_optimized")
    assert isinstance(fast, deepl.TextResult) and fast.model_type_used == "quality_optimized"
    many = api.translate_text([GERMAN, "a b"], source_lang="DE", target_lang="EN-US", split_sentences="nonewlines")
    assert isinstance(many, list)
    assert [each.text for each in many] == [REVERSED, "b a"]
    assert [language.code for language in api.get_source_languages()] == ["DE", "EN"]
    assert {language.code for language in api.get_target_languages()} == {"DE", "EN"}
    assert api.get_glossary_languages() != []
    assert (api.get_usage().character.count or 0) >= len(GERMAN)
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        api.translate_text("a", target_lang="FR")
    poor = deepl.DeepLClient("poor", server_url=str(client.base_url).rstrip("/"))
    with pytest.raises(deepl.QuotaExceededException):
        poor.translate_text(GERMAN, target_lang="EN-GB")
    nobody = deepl.DeepLClient("nobody", server_url=str(client.base_url).rstrip("/"))
    with pytest.raises(deepl.AuthorizationException):
        nobody.get_usage()


@pytest.fixture(scope="module")
def real() -> Iterator[httpx.Client]:
    with serving(lambda: Translator(load_model()), keys=Keys({"sesam": None, "other": 9})) as found:
        yield found


PAIR = {"source_lang": "de", "target_lang": "en", "entries": "Hund\tdog"}
TERMS = {"Hund": "hound", "Bahnhof": "railway halt"}
SENTENCE = "Wo ist der Bahnhof? Der Hund schläft nicht."


def test_deepl_glossaries(real: httpx.Client) -> None:
    url = str(real.base_url).rstrip("/")
    api, stranger = (deepl.DeepLClient(key, server_url=url) for key in ("sesam", "other"))
    pairs = [(each.source_lang, each.target_lang) for each in api.get_glossary_languages()]
    assert pairs == [("de", "en"), ("en", "de")]
    made = api.create_glossary("Tiere", "DE", "EN-GB", TERMS)
    table = api.create_glossary_from_csv("Tabelle", "DE", "EN", 'Hund,"dachshund",de,en\n')
    assert (made.name, made.ready, made.source_lang, made.target_lang) == ("Tiere", True, "DE", "EN")
    assert (made.entry_count, table.entry_count) == (2, 1)
    age = datetime.datetime.now(datetime.timezone.utc) - made.creation_time
    assert -1 < age.total_seconds() < 60
    assert [each.glossary_id for each in api.list_glossaries()] == [made.glossary_id, table.glossary_id]
    assert stranger.list_glossaries() == []
    assert api.get_glossary(made.glossary_id).name == "Tiere"
    assert api.get_glossary_entries(made) == TERMS
    assert api.get_glossary_entries(table) == {"Hund": "dachshund"}

    def alone(text: str, terms: dict[str, str]) -> str:
        forms = {term: [translation] for term, translation in terms.items()}
        return next(iter(Translator(load_model()).translate([text], glossary=forms))).text

    def say(glossary: deepl.GlossaryInfo | None, text: str = SENTENCE, **more: object) -> str:
        found = api.translate_text(text, source_lang="DE", target_lang="EN-US", glossary=glossary, **more)  # type: ignore[arg-type]
        assert isinstance(found, deepl.TextResult)
        return found.text

    with ThreadPoolExecutor(8) as pool:  # all of them in one session, and some from the cache
        said = list(pool.map(say, [made, None, table] * 8))
    assert said == [alone(SENTENCE, TERMS), alone(SENTENCE, {}), alone(SENTENCE, {"Hund": "dachshund"})] * 8
    assert "hound" in said[0] and "railway halt" in said[0] and "dachshund" in said[2]
    with_tags = api.translate_text_with_glossary("Der <b>Hund</b> schläft.", made, tag_handling="xml")
    assert isinstance(with_tags, deepl.TextResult)
    assert "<b>hound</b>" in with_tags.text

    with_names = api.translate_text(
        "Der <x>Hund</x> schläft.", target_lang="EN-US", tag_handling="xml", ignore_tags="x,y"
    )
    assert isinstance(with_names, deepl.TextResult)
    assert "<x>Hund</x>" in with_names.text

    with pytest.raises(deepl.GlossaryNotFoundException):
        stranger.get_glossary(made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="Glossary not found"):
        stranger.translate_text("a", source_lang="DE", target_lang="EN-US", glossary=made)
    with pytest.raises(deepl.DeepLException, match="not for en to de"):
        api.translate_text("a", source_lang="EN", target_lang="DE", glossary=made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        api.create_glossary("x", "DE", "FR", TERMS)
    with pytest.raises(deepl.DeepLException, match="source_lang"):
        api.create_glossary("x", "DE", "DE", TERMS)
    with pytest.raises(deepl.DeepLException, match="line 2 must have forms of 1 to 40 pieces"):
        api.create_glossary("x", "DE", "EN", TERMS | {"Bahnhof": "station " * 50})
    with pytest.raises(deepl.DeepLException, match="exceed the limit"):
        api.create_glossary("x", "DE", "EN", {f"Hund {n}": "dog" * 100 for n in range(5000)})
    api.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        api.delete_glossary(made)
    assert [each.name for each in api.list_glossaries()] == ["Tabelle"]
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("nobody", server_url=url).list_glossaries()


def test_deepl_glossaries_of_several_languages(real: httpx.Client) -> None:
    url = str(real.base_url).rstrip("/")
    api, stranger = (deepl.DeepLClient(key, server_url=url) for key in ("sesam", "other"))
    back = {each: term for term, each in TERMS.items()}
    made = api.create_multilingual_glossary("Beide", [Entries("DE", "EN", TERMS), Entries("EN", "DE", back)])
    assert [(each.source_lang, each.target_lang, each.entry_count) for each in made.dictionaries] == [
        ("DE", "EN", 2),
        ("EN", "DE", 2),
    ]

    def pairs() -> list[tuple[str, str, int]]:
        found = api.get_multilingual_glossary(made.glossary_id).dictionaries
        return [(each.source_lang, each.target_lang, each.entry_count) for each in found]

    def entries(source: str, target: str) -> str:
        (found,) = api.get_multilingual_glossary_entries(made, source, target).dictionaries
        return str(found.entries)

    def say() -> str:
        found = api.translate_text(SENTENCE, source_lang="DE", target_lang="EN-US", glossary=made)
        assert isinstance(found, deepl.TextResult)
        return found.text

    assert "hound" in say() and "railway halt" in say()
    renamed = api.update_multilingual_glossary_name(made, "Alle")
    assert (renamed.name, renamed.creation_time) == ("Alle", made.creation_time)
    assert pairs() == [("DE", "EN", 2), ("EN", "DE", 2)]
    api.update_multilingual_glossary_dictionary(made, Entries("DE", "EN-GB", {"Hund": "dachshund", "Katze": "cat"}))
    assert entries("DE", "EN") == "Hund\tdachshund\nBahnhof\trailway halt\nKatze\tcat"
    assert "dachshund" in say() and "railway halt" in say()
    api.replace_multilingual_glossary_dictionary_from_csv(made, "DE", "EN", "Hund,whippet\n")
    assert entries("DE", "EN") == "Hund\twhippet"
    assert "whippet" in say() and "railway halt" not in say()

    handle = api.translate_document_upload(
        f"<p>{SENTENCE}", source_lang="DE", target_lang="EN-US", filename="a.html", glossary=made
    )
    while not (status := api.translate_document_get_status(handle)).done:
        assert status.ok
    document = api.translate_document_download(handle)
    assert document is not None and b"whippet" in document.content

    for name in (made.glossary_id, "none"):  # v2 is of one pair of languages
        with pytest.raises(deepl.GlossaryNotFoundException):
            api.get_glossary(name)
        with pytest.raises(deepl.GlossaryNotFoundException):
            stranger.update_multilingual_glossary_name(name, "x")
    api.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    assert (pairs(), api.get_glossary(made.glossary_id).entry_count) == ([("DE", "EN", 1)], 1)
    with pytest.raises(deepl.GlossaryNotFoundException, match="dictionary"):
        api.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    with pytest.raises(deepl.DeepLException, match="not for en to de"):
        api.translate_text("a", source_lang="EN", target_lang="DE", glossary=made.glossary_id)

    api.delete_multilingual_glossary(made)
    assert made.glossary_id not in [each.glossary_id for each in api.list_multilingual_glossaries()]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"name": "a"}, "Parameter 'dictionaries' not specified"),
        ({"dictionaries": [PAIR]}, "Parameter 'name' not specified"),
        ({"name": "a", "dictionaries": "Hund"}, "must be a list of objects"),
        ({"name": "a", "dictionaries": [PAIR, PAIR]}, "de to en again"),
        ({"name": "a", "dictionaries": [PAIR | {"entries": ["Hund"]}]}, "entries must be text"),
        ({"name": "a", "dictionaries": [PAIR | {"entries": "\ud800\tdog"}]}, "surrogate"),
    ],
)
def test_a_glossary_of_several_needs_all_that_it_is(real: httpx.Client, body: dict[str, object], why: str) -> None:
    headers = {"Authorization": "DeepL-Auth-Key sesam"}
    response = real.post("/v3/glossaries", content=json.dumps(body), headers=headers)
    assert response.status_code == 400 and why in response.json()["message"]
    assert all(each["name"] != "a" for each in real.get("/v3/glossaries", headers=headers).json()["glossaries"])


@pytest.mark.parametrize("left_out", ["name", "source_lang", "target_lang", "entries"])
def test_a_glossary_needs_all_that_it_is(real: httpx.Client, left_out: str) -> None:
    body = {"name": "a", "source_lang": "de", "target_lang": "en", "entries": "Hund\tdog", "auth_key": "sesam"}
    response = real.post("/v2/glossaries", json={key: value for key, value in body.items() if key != left_out})
    assert (response.status_code, response.json()) == (400, {"message": f"Parameter '{left_out}' not specified."})
    for wrong in ({"name": "a" * 1025}, {"entries_format": "tmx"}, {"entries": ["Hund"]}):
        assert real.post("/v2/glossaries", json=body | wrong).status_code == 400


def test_weblate(client: httpx.Client) -> None:
    """weblate/machinery/libretranslate.py: the languages, then one JSON request a text."""
    pairs = {(each["code"], target) for each in client.get("/languages").json() for target in each["targets"]}
    assert ("de", "en") in pairs
    body = {"api_key": "sesam", "q": GERMAN, "source": "de", "target": "en"}
    assert client.post("/translate", json=body).json()["translatedText"] == REVERSED


def test_mastodon(client: httpx.Client) -> None:
    """app/lib/translation_service/libre_translate.rb, for a post whose language is not known."""
    body = {"q": [GERMAN, "Und der Vogel singt ."], "source": "auto", "target": "en", "api_key": "sesam"}
    found = client.post("/translate", json=body).json()
    assert found["translatedText"][0] == REVERSED
    assert [each["language"] for each in found["detectedLanguage"]] == ["de", "de"]


def test_discourse(client: httpx.Client) -> None:
    """discourse-translator: forms, to detect and to translate."""
    assert client.post("/detect", data={"q": GERMAN, "api_key": "sesam"}).json()[0]["language"] == "de"
    form = {"q": GERMAN, "source": "de", "target": "en", "format": "text", "api_key": "sesam"}
    assert client.post("/translate", data=form).json() == {"translatedText": REVERSED}


def test_libreoffice(client: httpx.Client) -> None:
    """linguistic/source/translate.cxx: a form with the key in it."""
    form = f"auth_key=sesam&target_lang=EN&text={GERMAN.replace(' ', '+')}"
    response = client.post(
        "/v2/translate", content=form.encode(), headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert response.json()["translations"][0]["text"] == REVERSED
