"""LibreTranslate's and DeepL's contracts over a real socket, and what else may come in over one."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pytest

from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.serve import gate, server
from specmt.serve.clients import Keys, Limits
from specmt.translator import Translator
from specmt.types import Hypothesis, Stats
from tests.serving import serving
from tests.sessions import FakeModel, fake_translator, reverse

TEXT = "Ein Satz.\r\n\n  Noch einer, länger als der erste: %s!\nUnd &amp; so weiter"
LIMITS = Limits(characters=2000, texts=50, upload=1 << 20)


@pytest.fixture(scope="module")
def model(either_model: Path) -> Model:
    return load_model(either_model, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def expected(model: Model) -> str:
    return "".join(
        each.text + ("\r\n", "\n", "\n", "")[each.line.index]
        for each in Translator(model).translate(TEXT.replace("\r\n", "\n").split("\n"))
    )


@pytest.fixture(scope="module")
def log() -> list[str]:
    return []


@pytest.fixture(scope="module")
def client(model: Model, log: list[str]) -> Iterator[httpx.Client]:
    with serving(lambda: Translator(model), limits=LIMITS, log=log.append) as found:
        yield found


def ask(client: httpx.Client, **values: object) -> httpx.Response:
    return client.post("/translate", json={"q": TEXT, "source": "de", "target": "en"} | values)


def test_json_forms_and_queries_have_the_answer_of_the_command_line(client: httpx.Client, expected: str) -> None:
    values = {"q": TEXT, "source": "de", "target": "en"}
    for response in (
        client.post("/translate", json=values),
        client.post("/translate", data=values),
        client.post("/translate", files={name: (None, value) for name, value in values.items()}),
        client.post("/translate", params=values),
        client.get("/translate", params=values),
        client.post("/translate", content=json.dumps(values)),  # as some clients do
    ):
        assert (response.status_code, response.json()) == (200, {"translatedText": expected})
        assert response.headers["etag"]


def test_lists_keep_their_order_and_doubles(client: httpx.Client, expected: str) -> None:
    texts = [TEXT, "", "\n", TEXT]
    assert ask(client, q=texts).json() == {"translatedText": [expected, "", "\n", expected]}
    assert ask(client, q=[]).json() == {"translatedText": []}
    assert ask(client, q=[TEXT]).json() == {"translatedText": [expected]}
    form = client.post("/translate", data={"q": texts[:2], "source": "de", "target": "en"})
    assert form.json() == {"translatedText": [expected, ""]}


def test_the_source_is_found_out_among_the_languages_that_there_are(client: httpx.Client, expected: str) -> None:
    found = ask(client, source="auto").json()
    assert found["translatedText"] == expected
    assert found["detectedLanguage"]["language"] == "de"
    assert 50.0 < found["detectedLanguage"]["confidence"] <= 100.0
    both = ask(client, q=["Das ist ein deutscher Satz.", "This is an English one."], source="auto").json()
    assert [each["language"] for each in both["detectedLanguage"]] == ["de", "en"]
    assert both["translatedText"][1] == "This is an English one."
    assert {each["language"] for each in client.post("/detect", data={"q": "Où est la gare ?"}).json()} == {"de", "en"}


def test_etags_are_those_of_the_answer(client: httpx.Client) -> None:
    first = ask(client)
    again = client.post(
        "/translate",
        json={"q": TEXT, "source": "de", "target": "en"},
        headers={"If-None-Match": f'"other", {first.headers["etag"]}'},
    )
    assert (again.status_code, again.content) == (304, b"")
    for values in ({"q": "Anders."}, {"q": [TEXT]}, {"source": "auto"}, {"source": "en", "target": "de"}):
        assert ask(client, **values).headers["etag"] != first.headers["etag"]


def test_languages_health_and_settings(client: httpx.Client) -> None:
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "en", "name": "English", "targets": ["de", "en"]},
    ]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 2000
    assert ".txt" in settings["supportedFilesFormat"]
    paths = client.get("/openapi.json").json()["paths"]
    assert client.get("/spec").json()["paths"] == paths
    assert paths["/translate"]["post"]["requestBody"]
    assert {code for path in paths.values() for each in path.values() for code in each["responses"]} == {
        "200", "201", "204", "default",
    }  # fmt: skip


def test_pages_need_nothing_from_other_servers(client: httpx.Client) -> None:
    for path in ("/", "/docs"):
        page = client.get(path)
        assert "default-src 'none'; script-src 'self';" in page.headers["content-security-policy"]
        links = re.findall(r'(?:src|href)="(?!data:)([^"]+)"', page.text)
        assert len(links) >= 3 and not [link for link in links if ":" in link or link.startswith("/")]
        for link in links:
            assert client.get(f"/{link}").status_code == 200
    assert client.get("/page/redoc.standalone.js").status_code == 404


def test_how_sure_a_text_is(client: httpx.Client) -> None:
    plain = ask(client).json()["translatedText"]
    answer = ask(client, confidence=True).json()
    assert answer["translatedText"] == plain == "".join(part for part, _ in answer["parts"])
    known = [probability for _, probability in answer["parts"] if probability is not None]
    assert all(0 <= probability <= 1 for probability in known)
    assert ask(client, q=[TEXT, "1\n"], confidence=True).json()["parts"] == [
        answer["parts"],
        [["1", None], ["\n", None]],
    ]
    refused = ask(client, confidence=True, format="html")
    assert (refused.status_code, refused.json()["error"]) == (400, "Invalid request: confidence is told of format text")


def test_alternatives_are_what_beam_search_finds(client: httpx.Client) -> None:
    plain = ask(client).json()["translatedText"]
    answer = ask(client, alternatives=3).json()
    assert answer["translatedText"] == plain
    assert 1 <= len(answer["alternatives"]) <= 3
    assert len({plain, *answer["alternatives"]}) == 1 + len(answer["alternatives"])
    lists = ask(client, q=[TEXT, TEXT], alternatives=3).json()
    assert lists["alternatives"] == [answer["alternatives"]] * 2


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"q": None}, "missing q"),
        ({"source": None}, "missing source"),
        ({"target": None}, "missing target"),
        ({"q": 7}, "q must be text"),
        ({"q": ["a", {}]}, "q must be text"),
        ({"q": "\ud800"}, "surrogate"),
        ({"source": "xx"}, "xx is not supported"),
        ({"target": ["en"]}, "target must be text"),
        ({"source": "de", "target": "xx"}, "xx is not supported"),
        ({"format": "pdf"}, "pdf format"),
        ({"alternatives": -1}, "alternatives"),
        ({"alternatives": True}, "alternatives"),
        ({"alternatives": 11}, r"alternatives must be at most 10"),
        ({"q": "x" * 2001}, r"\(2001\) exceeds text limit \(2000\)"),
        ({"q": ["x"] * 10_000}, r"\(10000\) exceeds text limit \(50\)"),
    ],
)
def test_wrong_values_are_refused_in_the_words_of_the_contract(
    client: httpx.Client, values: dict[str, object], says: str
) -> None:
    body = {"q": TEXT, "source": "de", "target": "en"} | values
    response = client.post("/translate", content=json.dumps(body))
    assert response.status_code == 400
    assert list(response.json()) == ["error"]
    assert re.search(says, response.json()["error"])


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"7", b"\xff\xfe", b'{"q": "\xff"}', b"[" * 100_000, b'{"q": ' + b"9" * 5000 + b"}", b"",
    ],
)  # fmt: skip
def test_broken_json_is_refused(client: httpx.Client, body: bytes) -> None:
    response = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"].startswith("Invalid")


def test_other_broken_bodies(client: httpx.Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for content, headers in (
        (b"q=%FF&source=de&target=en", form),
        (b"&".join(b"a=1" for _ in range(20_000)), form),
        (b"no boundary here", {"Content-Type": "multipart/form-data; boundary=x"}),
        (b"", {"Content-Type": "multipart/form-data"}),
    ):
        response = client.post("/translate", content=content, headers=headers)
        assert (response.status_code, list(response.json())) == (400, ["error"])
    assert client.get("/nothing").status_code == 404
    assert client.put("/translate").status_code == 405


def test_bodies_that_are_too_large_are_not_read(client: httpx.Client) -> None:
    big = b'{"q": "' + b"x" * (10 << 20) + b'"}'
    response = client.post("/translate", content=big)
    assert (response.status_code, list(response.json())) == (400, ["error"])
    chunks = (b"x" * 65536 for _ in range(200))
    with suppress(httpx.WriteError):  # where the server had said so, and closed
        assert client.post("/v2/translate", content=chunks).status_code == 413
    assert ask(client).status_code == 200


def test_deepl_translates_texts(client: httpx.Client, expected: str) -> None:
    body = {"text": [TEXT, "Hallo"], "target_lang": "EN-US", "source_lang": "DE", "show_billed_characters": True}
    first, second = client.post("/v2/translate", json=body).json()["translations"]
    assert first == {"detected_source_language": "DE", "text": expected, "billed_characters": len(TEXT)}
    assert second["billed_characters"] == 5
    form = client.post("/v2/translate", data={"text": [TEXT], "target_lang": "EN", "auth_key": "any"})
    assert form.json() == {"translations": [{"detected_source_language": "DE", "text": expected}]}


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"text": None}, 400),
        ({"text": []}, 400),
        ({"target_lang": None}, 400),
        ({"target_lang": "XX"}, 400),
        ({"source_lang": "XX"}, 400),
        ({"formality": "more"}, 400),
        ({"split_sentences": "2"}, 400),
        ({"glossary_id": "x", "source_lang": "DE"}, 404),
        ({"glossary_id": "x"}, 400),
        ({"glossary_ids": ["x"]}, 400),
        ({"style_id": "x"}, 400),
        ({"ignore_tags": ["x"]}, 400),
        ({"splitting_tags": "x"}, 400),
        ({"outline_detection": "perhaps"}, 400),
        ({"tag_handling": "xml", "text": ["a & b"]}, 400),
        ({"tag_handling": "json"}, 400),
        ({"preserve_formatting": "perhaps"}, 400),
        ({"text": ["x" * 2001]}, 413),
        ({"text": ["x"] * 51}, 413),
    ],
)
def test_deepl_refuses_with_a_message(client: httpx.Client, values: dict[str, object], status: int) -> None:
    response = client.post("/v2/translate", json={"text": ["Hallo"], "target_lang": "EN"} | values)
    assert (response.status_code, list(response.json())) == (status, ["message"])


def test_deepl_joins_lines_where_they_do_not_end_sentences(client: httpx.Client) -> None:
    def say(text: str, **more: object) -> str:
        body = {"text": [text], "target_lang": "EN", "source_lang": "DE"} | more
        return str(client.post("/v2/translate", json=body).json()["translations"][0]["text"])

    wrapped, whole = "Wo ist \r\n der Hund?\n\nHier.\n", "Wo ist der Hund?\n\nHier.\n"
    assert say(whole) == say(wrapped, split_sentences="0") == say(wrapped, split_sentences="nonewlines")
    assert say(wrapped) == say(wrapped, split_sentences="1") != say(whole)
    assert say(f"  {whole}", preserve_formatting="1") == f"  {say(whole)}"


def test_deepl_cuts_lines_but_where_it_is_told_not_to() -> None:
    with serving(fake_translator) as client:
        body = {"text": ["Da bellt. Er geht"], "target_lang": "EN", "source_lang": "DE"}
        html = {"text": ["<p>Da bellt. Er geht</p>"], "tag_handling": "html"}
        for more in ({}, html, {}):  # cached, too
            for split in ("1", "nonewlines", "0"):
                answer = client.post("/v2/translate", json=body | more | {"split_sentences": split}).json()
                words = "Er bellt. Da" if split == "0" else "bellt. Da geht Er"
                assert words in answer["translations"][0]["text"], (more, split)


def test_an_etag_stands_for_rules_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    def etag(**options: bool) -> str:
        with serving(fake_translator, options=DecodingOptions(**options)) as client:
            return str(ask(client).headers["etag"])

    plain = etag()
    assert etag() == plain
    assert len({plain, etag(split=False), etag(keep_numbers=False), etag(protect=False)}) == 4
    monkeypatch.setattr("specmt.serve.service.VERSION", 0)
    assert etag() != plain


def test_an_etag_and_the_cache_stand_for_the_terms_of_a_file_as_it_is(model: Model, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("Haus\tcabin\n")
    with serving(lambda: Translator(model), options=DecodingOptions(glossary=terms)) as client:
        asked = [ask(client, q="Das Haus."), ask(client, q="<b>Das Haus.</b>", format="html")]
        terms.write_text("Haus\thut\n")
        again = [ask(client, q="Das Haus."), ask(client, q="<b>Das Haus.</b>", format="html")]
    assert not {each.headers["etag"] for each in asked} & {each.headers["etag"] for each in again}
    assert ["cabin" in each.text for each in [*asked, *again]] == [True, True, False, False]


def test_nothing_is_answered_or_cached_before_the_last_attempt() -> None:
    model = FakeModel()

    def lose(sources: list[list[int]]) -> list[Hypothesis]:
        """Says no numbers, and stand-ins at the end."""
        kept = [[i for i, word in zip(ids, model.pieces.pieces(ids), strict=True) if word[0] > "9"] for ids in sources]
        held = [[i for i in ids if model.pieces.words[i][0] == "%"] for ids in sources]
        return [Hypothesis(one + other, 0.0, Stats(sentences=1)) for one, other in zip(kept, held, strict=True)]

    with serving(lambda: fake_translator(lose, model)) as client:
        for _ in range(2):
            said = client.post(
                "/translate", json={"q": "da 12 bellt. Er geht\n7 e", "source": "de", "target": "en"}
            ).json()
            assert said == {"translatedText": "da bellt. 12 Er geht\ne 7"}


def test_deepl_languages_and_usage(client: httpx.Client) -> None:
    assert client.get("/v2/languages").json()[0] == {"language": "DE", "name": "German"}
    assert client.get("/v2/languages?type=target").json()[1]["supports_formality"] is False
    assert client.get("/v2/languages?type=x").status_code == 400
    before = client.get("/v2/usage").json()["character_count"]
    client.post("/v2/translate", json={"text": ["12345"], "target_lang": "DE"})
    assert client.get("/v2/usage").json()["character_count"] == before + 5


def test_documents(client: httpx.Client, expected: str) -> None:
    def send(name: str, content: bytes) -> httpx.Response:
        return client.post("/translate_file", files={"file": (name, content)}, data={"source": "de", "target": "en"})

    response = send("../../etc/Mein Text.TXT", TEXT.encode())
    url = response.json()["translatedFileUrl"]
    assert url.endswith(".Mein_Text_en.txt")
    fetched = client.get(url)
    assert fetched.content.decode() == expected
    assert fetched.headers["content-disposition"].startswith(f'attachment; filename="{url.rpartition("/")[2]}";')
    url = send("übersicht 手引き.txt", TEXT.encode()).json()["translatedFileUrl"]
    key, dot, name = unquote(url).rpartition("/")[2].partition(".")
    assert len(key) * 6 >= 128 and url.isascii() and name == "übersicht_手引き_en.txt"
    fetched = client.get(url)
    assert fetched.content.decode() == expected
    plain, coded = f"{key}.ubersicht__en.txt", quote(key + dot + name)
    assert fetched.headers["content-disposition"] == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{coded}"
    response = send("texte.de.yml", b"a: 12\n")
    assert response.status_code == 200, response.text
    assert response.json()["translatedFileUrl"].endswith(".texte_de_en.yml")
    for name, content in (
        ("a.yml", b"a: b\n"),
        ("a.exe", b"x"),
        ("a.txt", b""),
        ("a.txt", b"\xff"),
        ("", b"x"),
        ("a.txt.gz", b"\x1f\x8b"),
    ):
        assert (send(name, content).status_code, list(send(name, content).json())) == (400, ["error"])
    for name in ("x.txt", "..%2f..%2fetc%2fpasswd", "%00"):
        assert client.get(f"/download_file/{name}").status_code == 404
    missing = client.post("/translate_file", data={"source": "de", "target": "en"})
    assert missing.json() == {"error": "Invalid request: missing file parameter"}
    assert client.post("/translate_file", data={"file": "text", "source": "de", "target": "en"}).status_code == 400


def test_head_is_answered_as_get_without_a_body(client: httpx.Client, log: list[str]) -> None:
    paths = ["/", "/docs", "/page/page.js", "/health", "/readyz", "/languages", "/frontend/settings", "/openapi.json"]
    paths += ["/v2/languages", "/v2/usage", "/v2/glossary-language-pairs", "/v2/glossaries", "/v2/glossaries/none"]
    paths += ["/v3/glossaries", "/v3/glossaries/none", "/v3/glossaries/none/entries"]
    paths += ["/translate?q=Ja.&source=de&target=en", "/download_file/none", "/suggest", "/nothing", "/metrics"]
    for path in paths:
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        if path != "/metrics":  # which counts them
            assert {**head.headers, "date": ""} == {**got.headers, "date": ""}
    client.head("/health")
    time.sleep(0.05)  # an entry comes after its answer
    entry = json.loads(log[-1])
    assert (entry["method"], entry["path"], entry["status"], entry["sent"]) == ("HEAD", "/health", 200, 0)


def test_a_look_inside_is_a_stream_of_events(client: httpx.Client) -> None:
    with client.stream("POST", "/look", data={"q": "Ein Satz. Noch einer.", "source": "de", "target": "en"}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = [block.split("\n") for block in "".join(stream.iter_text()).strip().split("\n\n")]
    kinds = [kind for kind, _ in events]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    assert kinds[-1] == "event: done" and set(kinds[:-1]) == {"event: step"}
    assert data[-1]["text"] == ask(client, q="Ein Satz. Noch einer.").json()["translatedText"]
    said: list[str] = []
    for step in data[:-1]:
        assert said == step["prefix"]
        accepted = [draft["token"] for draft in step["drafts"] if draft["verdict"] == "accepted"]
        assert accepted == [token["token"] for token in step["tokens"] if token["origin"] == "accepted"]
        said += [token["token"] for token in step["tokens"]]
        said = [] if said[-1] == "</s>" else said
    assert any(step["drafts"] for step in data[:-1])
    assert [(step["line"], step["sentence"]) for step in data[:-1] if step["prefix"] == []] == [(0, 0), (0, 1)]
    assert {(step["attempt"], step["fragment"]) for step in data[:-1]} == {(0, 0)}
    assert client.post("/look", data={"q": "x" * 2001, "source": "de", "target": "en"}).status_code == 400


def test_whoever_looks_away_stops_the_look(client: httpx.Client) -> None:
    def running() -> float:
        found = re.findall(
            r"specmt_num_(?:requests_running|characters_waiting)\{.*\} (\S+)", client.get("/metrics").text
        )
        return sum(map(float, found))

    text = "Ein Satz und noch einer, der nicht endet.\n" * 40
    with client.stream("POST", "/look", data={"q": text, "source": "de", "target": "en"}) as stream:
        next(stream.iter_lines())
    for _ in range(500):
        if running() == 0:
            break
        time.sleep(0.01)
    assert running() == 0


def test_the_log_has_no_texts(client: httpx.Client, log: list[str]) -> None:
    client.get("/translate", params={"q": "Geheimnis", "source": "de", "target": "en", "api_key": "Schlüssel"})
    client.get("/Geheimnis")
    client.post("/translate", json={"q": "Geheimnis", "source": "Geheimnis", "target": "en"})
    entries = [json.loads(line) for line in log]
    assert {"time", "client", "method", "path", "status", "read", "sent", "ms"} == set(entries[-1])
    assert not any(word in line for line in log for word in ("Geheimnis", "Schl", "Satz"))


def test_metrics_are_there_for_prometheus(client: httpx.Client) -> None:
    ask(client, q="Etwas ganz Neues für die Zähler.")
    found = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    model = '{model_name="de-en"}'
    assert float(found[f"specmt_request_success_total{model}"]) >= 1
    assert float(found[f"specmt_generation_tokens_total{model}"]) > 0
    assert float(found[f"specmt_num_requests_running{model}"]) == 0
    assert float(found[f"specmt_e2e_request_latency_seconds_count{model}"]) >= 1
    assert float(found["specmt_cache_hits_total"]) > 0


def test_keys_and_quotas() -> None:
    log: list[str] = []
    with serving(fake_translator, keys=Keys({"sesam": 8, "other": None}), log=log.append) as client:
        body = {"q": "a b", "source": "de", "target": "en"}
        assert client.post("/translate", json=body).json()["error"].startswith("Please contact")
        assert client.post("/translate", json=body | {"api_key": "no"}).json() == {"error": "Invalid API key"}
        assert client.post("/translate", json=body | {"api_key": "no"}).status_code == 403
        assert client.post("/detect", json={"q": "a"}).status_code == 403
        assert client.get("/languages").status_code == 200
        assert client.get("/frontend/settings").json()["keyRequired"] is True
        header = {"Authorization": "DeepL-Auth-Key sesam"}
        texts = {"text": ["a b"], "target_lang": "EN", "source_lang": "DE"}
        assert client.post("/v2/translate", json=texts).status_code == 403
        assert client.post("/v2/translate", json=texts, headers=header).json()["translations"][0]["text"] == "b a"
        assert client.post("/translate", json=body | {"api_key": "sesam"}).json() == {"translatedText": "b a"}
        usage = client.get("/v2/usage", headers=header).json()
        assert usage == {"character_count": 6, "character_limit": 8}
        over = client.post("/v2/translate", json=texts, headers=header)
        assert (over.status_code, list(over.json())) == (456, ["message"])
        assert client.post("/translate", json=body | {"api_key": "sesam"}).status_code == 403
        assert client.post("/translate", json=body | {"api_key": "other"}).status_code == 200
        assert not any(key in said for said in (client.get("/metrics").text, *log) for key in ("sesam", "other"))


def test_too_many_requests_and_too_full_a_queue() -> None:
    slow: list[float] = []

    def decode(sources: list[list[int]]) -> object:
        time.sleep(slow[0] if slow else 0.0)
        return reverse(sources)

    def load() -> Translator:
        return fake_translator(decode)

    body = {"q": "a b", "source": "de", "target": "en"}
    with serving(load, limits=Limits(requests=2)) as client:
        assert [client.post("/translate", json=body).status_code for _ in range(3)] == [200, 200, 429]
        response = client.post("/translate", json=body)
        assert 1 <= int(response.headers["retry-after"]) <= 30
        assert client.post("/v2/translate", json={"text": ["a"], "target_lang": "EN"}).json()["message"]

    slow.append(1.0)
    with serving(load, limits=Limits(queue=1, seconds=2.5)) as client:

        def post(text: str) -> httpx.Response:
            return httpx.post(f"{client.base_url}/translate", json=body | {"q": text}, timeout=60)

        with ThreadPoolExecutor() as pool:
            book = pool.submit(post, "\n".join(f"a {n}" for n in range(500)))
            time.sleep(0.3)
            refused = post("z")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert not book.done()
            late = book.result()
            assert (late.status_code, late.json()["error"]) == (503, "This took longer than 2.5 seconds")
        slow[0] = 0.0
        time.sleep(1.5)  # the step that ran may end
        assert post("y z").json() == {"translatedText": "z y"}  # what was given up does not block


def test_it_says_when_it_is_ready_and_refuses_until_then() -> None:
    may_load = threading.Event()

    def load() -> Translator:
        assert may_load.wait(60)
        return fake_translator()

    with serving(load, is_ready=lambda client: client.get("/health").status_code == 200) as client:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json(), ready.headers["retry-after"]) == (503, {"status": "loading"}, "2")
        for path, body, key in (
            ("/translate", {"q": "a b", "source": "de", "target": "en"}, "error"),
            ("/v2/translate", {"text": ["a b"], "target_lang": "EN"}, "message"),
        ):
            early = client.post(path, json=body)
            assert (early.status_code, list(early.json())) == (503, [key])
            assert early.headers["retry-after"] == "2"
        may_load.set()
        while client.get("/readyz").status_code != 200:
            time.sleep(0.02)
        assert client.post("/translate", json={"q": "a b", "source": "de", "target": "en"}).status_code == 200


def test_clients_that_dawdle_or_leave_disturb_nobody(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, expected: str
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.3)
    address = (client.base_url.host, client.base_url.port or 0)

    def connect(sent: bytes) -> socket.socket:
        connection = socket.create_connection(address, timeout=20)
        connection.sendall(sent)
        return connection

    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n"
    slow_head, slow_body, silent = connect(head[:30]), connect(head + b"\r\n{"), connect(b"")
    garbage, half = connect(b"\x16\x03\x01\x02\x00\x01\r\n\r\n"), connect(head + b"\r\n{")
    half.shutdown(socket.SHUT_WR)
    assert ask(client).json() == {"translatedText": expected}
    answers = ((slow_head, b""), (silent, b""), (slow_body, b"HTTP/1.1 408"), (garbage, b"HTTP/1.1 400"))
    for connection, answer in answers:
        received = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(4096):
                received += part
        assert received.startswith(answer) and (answer or not received)
        connection.close()
    half.close()
    assert ask(client).json() == {"translatedText": expected}


def test_a_failure_of_the_program_shows_nothing_of_it(monkeypatch: pytest.MonkeyPatch, client: httpx.Client) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the inside")

    monkeypatch.setattr("specmt.serve.languages.Languages.targets_of", fail)
    response = client.get("/languages")
    assert (response.status_code, response.json()) == (500, {"error": "Internal error"})
    assert "Traceback" not in response.text
