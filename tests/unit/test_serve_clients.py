"""Programs that people use: two libraries as they are, and the requests that others are known to send."""

from __future__ import annotations

from collections.abc import Iterator

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from specmt.serve.clients import Keys
from specmt.translator import Translator
from tests.serving import serving
from tests.sessions import FakeModel, FakeSession, reverse

GERMAN = "Der Hund schläft nicht ."
REVERSED = ". nicht schläft Hund Der"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    def load() -> Translator:
        return Translator(FakeModel(), session=FakeSession(reverse))  # type: ignore[arg-type]

    with serving(load, keys=Keys({"sesam": None, "poor": 3})) as found:
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
    many = api.translate_text([GERMAN, "a b"], source_lang="DE", target_lang="EN-US", split_sentences="nonewlines")
    assert isinstance(many, list)
    assert [each.text for each in many] == [REVERSED, "b a"]
    assert [language.code for language in api.get_source_languages()] == ["DE", "EN"]
    assert {language.code for language in api.get_target_languages()} == {"DE", "EN"}
    assert (api.get_usage().character.count or 0) >= len(GERMAN)
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        api.translate_text("a", target_lang="FR")
    poor = deepl.DeepLClient("poor", server_url=str(client.base_url).rstrip("/"))
    with pytest.raises(deepl.QuotaExceededException):
        poor.translate_text(GERMAN, target_lang="EN-GB")
    nobody = deepl.DeepLClient("nobody", server_url=str(client.base_url).rstrip("/"))
    with pytest.raises(deepl.AuthorizationException):
        nobody.get_usage()


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
