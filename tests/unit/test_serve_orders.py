"""Documents that are translated while nobody waits, as DeepL's contract has them."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import deepl
import httpx
import pytest
from deepl.translator import DocumentHandle, DocumentStatus

from specmt.serve import orders
from specmt.serve.clients import Keys, Limits
from specmt.types import Hypothesis
from tests.serving import serving
from tests.sessions import fake_translator, reverse

KEYS: dict[str, int | None] = {"sesam": None, "other": None, "third": None}
DONE = DocumentStatus.Status.DONE
PAGE = "<!DOCTYPE html><title>e d</title><p>c <b>b</b> a"
GERMAN = "Der Hund schläft nicht ."


def api(client: httpx.Client, key: str = "sesam") -> deepl.DeepLClient:
    return deepl.DeepLClient(key, server_url=str(client.base_url).rstrip("/"))


def send(client: deepl.DeepLClient, text: str | bytes, name: str = "Übersicht 1.txt", **more: str) -> DocumentHandle:
    given = {"source_lang": "DE", "target_lang": "EN-US", "filename": name} | more
    return client.translate_document_upload(text, **given)  # type: ignore[arg-type]


def end_of(client: deepl.DeepLClient, handle: DocumentHandle) -> DocumentStatus:
    """Waits until a document is translated, or cannot be."""
    while (status := client.translate_document_get_status(handle)).ok and not status.done:
        time.sleep(0.01)
    return status


def used(client: deepl.DeepLClient) -> int | None:
    return client.get_usage().character.count


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(fake_translator, keys=Keys(KEYS | {"poor": 10}), limits=Limits(queue=1000)) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "a b\nc d"),
        ("a.html", PAGE),
        ("a.html", PAGE + " " * (1 << 15)),  # in a process of its own
        ("a.properties", "a=a b\n"),
    ],
)
def test_a_document_is_sent_and_fetched_once(client: httpx.Client, name: str, text: str) -> None:
    ours, form = api(client), {"source": "de", "target": "en", "api_key": "sesam"}
    url = client.post("/translate_file", files={"file": (name, text)}, data=form).json()["translatedFileUrl"]
    before = used(ours)
    handle = send(ours, text, name)
    assert used(ours) == (before or 0) + len(text)
    status = end_of(ours, handle)
    assert (status.status, status.billed_characters) == (DONE, len(text))
    with io.BytesIO() as file:
        ours.translate_document_download(handle, file)
        assert file.getvalue() == client.get(url).content != text.encode()
    for again in (ours.translate_document_download, ours.translate_document_get_status):
        with pytest.raises(deepl.DeepLException, match="Not found"):
            again(handle)


def test_it_is_for_those_who_have_its_key_alone(client: httpx.Client) -> None:
    ours, text = api(client), "a b"
    handle = send(ours, text)
    assert len(handle.document_id) == 32 and len(handle.document_key) == 64
    end_of(ours, handle)
    wrong = DocumentHandle(handle.document_id, handle.document_key[::-1])
    for stranger, asked in ((api(client, "other"), handle), (ours, wrong), (ours, DocumentHandle("x", "é"))):
        for ask in (stranger.translate_document_get_status, stranger.translate_document_download):
            with pytest.raises(deepl.DeepLException, match="Not found"):
                ask(asked)
    for name in (handle.document_id, f"{handle.document_id}/{handle.document_key}"):
        assert client.get(f"/download_file/{name}").status_code == 404
        assert client.get(f"/download_file/{name.replace('/', '%2F')}").status_code == 404
    body, headers = {"document_key": handle.document_key}, {"Authorization": "DeepL-Auth-Key sesam"}
    found = client.post(f"/v2/document/{handle.document_id}/result", json=body, headers=headers)
    assert found.content == b"b a"
    assert "filename*=UTF-8''%C3%9Cbersicht_1_en.txt" in found.headers["content-disposition"]


@pytest.mark.parametrize(
    ("text", "more", "why"),
    [
        (b"\xff", {}, "not UTF-8 at byte offset 0"),
        (b"PK\3\4 damaged", {"name": "a.docx"}, "the document"),
        (GERMAN.encode(), {"target_lang": "DE", "source_lang": ""}, "Source and target language are equal"),
    ],
)
def test_a_failure_is_told_and_costs_nothing(client: httpx.Client, text: bytes, more: dict[str, str], why: str) -> None:
    ours = api(client)
    before = used(ours)
    handle = send(ours, text, **more)
    status = end_of(ours, handle)
    assert not status.ok and why in str(status.error_message) and status.billed_characters is None
    with pytest.raises(deepl.DeepLException, match="Bad request") as caught:
        ours.translate_document_download(handle)
    assert caught.value.http_status_code == 400
    assert used(ours) == before


def test_a_failure_is_forgotten_after_a_time(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "SECONDS", 0.0)
    handle = send(api(client), b"\xff")
    with pytest.raises(deepl.DeepLException, match="Not found"):
        while True:
            end_of(api(client), handle)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"name": "a.invalid"}, "file extension"),
        ({"source_lang": "EN"}, "Source and target language are equal"),
        ({"target_lang": "FR"}, "target_lang"),
        ({"source_lang": "FR"}, "source_lang"),
        ({"output_format": "html"}, "output_format"),
        ({"formality": "more"}, "formality"),
        ({"glossary": "none"}, "Glossary not found"),
        ({"text": ""}, "empty file"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(client: httpx.Client, more: dict[str, str], why: str) -> None:
    with pytest.raises(deepl.DeepLException, match=why):
        send(api(client), **{"text": "a b"} | more)
    with pytest.raises(deepl.QuotaExceededException):
        send(api(client, "poor"), "a b c d e f")
    assert used(api(client, "poor")) == 0


def test_no_more_wait_than_there_is_room_for_and_a_server_that_stops_waits_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    decoded: list[list[int]] = []

    def decode(sources: Sequence[list[int]]) -> list[Hypothesis]:
        decoded.extend(sources)
        time.sleep(0.005 * len(sources))
        return reverse(sources)

    with serving(lambda: fake_translator(decode), keys=Keys(KEYS), limits=Limits(cache=0)) as client:
        ours, other, third = (api(client, key) for key in KEYS)
        text = "".join(f"<p>a b {number}</p>\n" for number in range(600))
        handles = [send(ours, text) for _ in range(2)]
        for name, bound, is_full in (
            ("MOST", (2, 1 << 20), True),
            ("MOST", (100, 2 * len(text)), True),
            ("OF_CLIENT", (2, 1 << 20), False),
            ("OF_CLIENT", (100, 2 * len(text)), False),
        ):
            monkeypatch.setattr(orders, name, bound)
            for asked, is_refused in ((ours, True), (other, is_full)):
                with pytest.raises(deepl.exceptions.TooManyRequestsException) if is_refused else nullcontext():
                    send(asked, "a b")
            monkeypatch.undo()
            monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
        assert ours.translate_document_get_status(handles[1]).status.value == "queued"  # of a client's, one at a time
        with pytest.raises(deepl.exceptions.DocumentNotReadyException):
            ours.translate_document_download(handles[1])
        # One is worked on in the loop, one in a thread, one in a process.
        last = send(other, text, "a.html"), send(third, text + " " * (1 << 15), "a.html")
        for asked, handle in zip((other, third), last, strict=True):
            while asked.translate_document_get_status(handle).status.value != "translating":
                time.sleep(0.01)
        before = len(decoded)
    assert before < len(decoded) + 1 < 600


def test_what_is_longer_than_may_wait_goes_to_the_model_little_by_little(client: httpx.Client) -> None:
    ours = api(client)
    handle = send(ours, "a b\n" * 1000)
    assert end_of(ours, handle).status is DONE
    found = ours.translate_document_download(handle)
    assert found is not None and found.content == b"b a\n" * 1000
