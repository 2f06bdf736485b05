"""What no client can do to a server: ask from a foreign page, pay for nothing, have it all, or leave it half dead."""

from __future__ import annotations

import _thread
import asyncio
import gc
import json
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx
import pytest
from fastapi.responses import JSONResponse

from specmt.errors import UsageError
from specmt.feeder import SharedSession
from specmt.serve import app, deepl, deepl_glossaries, gate, parameters
from specmt.serve.app import create_app
from specmt.serve.clients import Keys, Limits
from specmt.serve.engine import Engine, StoppedError
from specmt.serve.fair import Slots
from specmt.serve.languages import Languages
from specmt.serve.origins import Origins
from specmt.serve.room import Claim
from specmt.serve.service import Service, Source
from specmt.serve.threads import Threads
from specmt.serve.uploads import OF_CLIENT, UNPACKED
from specmt.translator import Translator
from specmt.types import Hypothesis
from tests.serving import serving
from tests.sessions import FakeModel, FakeSession, reverse
from tests.unit.test_serve_engine import OPTIONS, Gated, Waiting, eventually, running

BODY = {"q": "a b", "source": "de", "target": "en"}
TERMS = {"name": "n", "source_lang": "de", "target_lang": "en", "entries": "a\tb"}
DEEPL = {"source_lang": "de", "target_lang": "en"}
FOREIGN = "https://evil.example"


def load(decode: Callable[[Sequence[list[int]]], list[Hypothesis]] = reverse) -> Translator:
    return Translator(FakeModel(), session=FakeSession(decode))  # type: ignore[arg-type]


def statuses(client: httpx.Client, **headers: str) -> list[int]:
    """Asks for a translation, a language, a look, documents, the glossaries, and the removal of one."""
    key = {"api_key": "sesam"}
    form = client.post("/translate", data=BODY | key, headers=headers)  # needs no preflight
    found = [form, client.post("/detect", json={"q": "a"} | key, headers=headers)]
    found.append(client.post("/look", data=BODY | key, headers=headers))
    file = {"file": ("a.txt", b"a")}
    found.append(client.post("/translate_file", files=file, data=BODY | key, headers=headers))
    headers["Authorization"] = "DeepL-Auth-Key sesam"
    found.append(client.post("/v2/document", files=file, data=DEEPL, headers=headers))
    found += [client.get(f"/{version}/glossaries", headers=headers) for version in ("v2", "v3")]
    found += [client.delete(f"/{version}/glossaries/none", headers=headers) for version in ("v2", "v3")]
    return [each.status_code for each in found]


@pytest.mark.parametrize(
    ("allowed", "keys", "foreign", "answer"),
    [
        ([], None, [403] * 9, None),
        ([FOREIGN], None, [200] * 5 + [403] * 4, FOREIGN),
        (["*"], None, [200] * 5 + [403] * 4, "*"),
        (["https://other.example"], None, [403] * 9, None),
        ([], Keys({"sesam": None}), [200] * 7 + [404] * 2, "*"),
    ],
)
def test_pages_of_others_ask_with_keys_or_where_they_are_listed(
    allowed: list[str], keys: Keys | None, foreign: list[int], answer: str | None
) -> None:
    with serving(load, keys=keys, origins=Origins(allowed=allowed)) as client:
        own = str(client.base_url).rstrip("/")
        assert statuses(client) == statuses(client, Origin=own) == [200] * 7 + [404] * 2
        assert statuses(client, Origin=FOREIGN) == foreign
        said = client.post("/translate", json=BODY | {"api_key": "sesam"}, headers={"Origin": FOREIGN}).headers
        assert said.get("access-control-allow-origin") == answer
        asked = {"Origin": FOREIGN, "Access-Control-Request-Method": "POST"}
        assert (client.options("/translate", headers=asked).status_code == 200) == (answer is not None)
        for method in ("PUT", "PATCH"):
            told = client.options("/v3/glossaries/none", headers=asked | {"Access-Control-Request-Method": method})
            assert (told.status_code == 200) == (keys is not None)
        image = client.get("/translate", params=BODY | {"api_key": "sesam"}, headers={"Sec-Fetch-Site": "cross-site"})
        assert (image.status_code == 200) == ("*" in allowed or keys is not None)


def test_a_page_is_not_the_servers_own_by_a_name_that_anyone_can_have() -> None:
    with serving(load, origins=Origins(public_url="https://mt.example.org/mt/", host="box")) as client:
        for host, origin, status in (
            ("evil.example:5000", "http://evil.example:5000", 403),  # its name leads here (DNS rebinding)
            ("evil.example", "null", 403),
            ("localhost:5000", "http://localhost:3000", 403),
            ("[::1", "http://[::1", 403),
            ("localhost:5000", "http://localhost:5000", 200),
            ("[::1]:5000", "http://[::1]:5000", 200),
            ("192.168.0.9:8080", "http://192.168.0.9:8080", 200),
            ("box:5000", "http://box:5000", 200),
            ("127.0.0.1", "https://mt.example.org", 200),
        ):
            assert client.post("/translate", json=BODY, headers={"Host": host, "Origin": origin}).status_code == status


def test_origins_and_urls_are_checked() -> None:
    for wrong in ({"allowed": ["example.org"]}, {"allowed": ["ftp://a"]}, {"public_url": "mt.example.org"}):
        with pytest.raises(UsageError, match="must be as https"):
            Origins(**wrong)  # type: ignore[arg-type]
    assert Origins(allowed=["*", "null", "https://a.example/"]).allowed == ["*", "https://a.example", "null"]


@pytest.mark.parametrize(
    ("public", "host", "begins"),
    [
        ("", "localhost:99", "http://localhost:99/download_file/"),
        ("", "evil.example", "http://127.0.0.1:{port}/download_file/"),
        ("https://mt.example.org/mt", "evil.example", "https://mt.example.org/mt/download_file/"),
        ("https://mt.example.org", "mt.example.org", "https://mt.example.org/download_file/"),
    ],
)
def test_the_address_of_a_document_is_the_servers(public: str, host: str, begins: str) -> None:
    with serving(load, origins=Origins(public_url=public)) as client:
        sent = {"files": {"file": ("a.txt", b"a b")}, "data": {"source": "de", "target": "en"}}
        url = client.post("/translate_file", headers={"Host": host}, **sent).json()["translatedFileUrl"]  # type: ignore[arg-type]
        assert url.startswith(begins.format(port=client.base_url.port))
        assert client.get(f"/download_file/{url.rpartition('/')[2]}").content == b"b a"


def test_figures_and_pages_can_be_switched_off() -> None:
    with serving(load, metrics=False, page=False) as client:
        assert {client.get(path).status_code for path in ("/metrics", "/", "/docs", "/page/page.js")} == {404}
        assert client.post("/translate", json=BODY).json() == {"translatedText": "b a"}


def test_what_is_not_answered_is_given_back_and_alternatives_cost_their_number() -> None:
    fails = threading.Event()

    def decode(sources: Sequence[list[int]]) -> list[Hypothesis]:
        if fails.is_set():
            raise RuntimeError
        return reverse(sources)

    with serving(lambda: load(decode), keys=Keys({"sesam": 100})) as client:
        key = {"Authorization": "DeepL-Auth-Key sesam", "api_key": "sesam"}

        def used() -> int:
            return int(client.get("/v2/usage", headers=key).json()["character_count"])

        fails.set()
        body = BODY | {"api_key": "sesam", "q": "e d c"}
        for path, sent in (
            ("/translate", {"json": body}),
            ("/translate", {"json": body | {"format": "html"}}),
            ("/v2/translate", {"json": {"text": ["x"], "target_lang": "EN", "source_lang": "DE"}}),
            ("/translate_file", {"data": body, "files": {"file": ("a.txt", b"e d")}}),
            ("/translate_file", {"data": body, "files": {"file": ("a.txt", b"\xff")}}),
            ("/translate_file", {"data": body, "files": {"file": ("a.po", b"damaged")}}),
            ("/look", {"json": body}),
        ):
            assert client.post(path, headers=key, **sent).status_code in (200, 400, 500)  # type: ignore[arg-type]
            assert used() == 0, path
        fails.clear()
        assert client.post("/translate", json=body).status_code == 200
        assert used() == 5
        assert client.post("/translate", json=body | {"alternatives": 3}).status_code == 200
        assert used() == 25
        assert client.post("/translate", json=body | {"alternatives": 10}).status_code == 200
        assert client.post("/translate", json=body | {"q": "f", "alternatives": 10}).status_code == 200
        assert client.post("/translate", json=body | {"alternatives": 10}).status_code == 403
        assert used() == 91


@pytest.mark.parametrize("kind", ["text", "html"])
def test_alternatives_take_no_time_of_their_own(kind: str) -> None:
    def decode(sources: Sequence[list[int]]) -> list[Hypothesis]:
        time.sleep(0.7)
        return reverse(sources)

    with serving(lambda: load(decode), limits=Limits(seconds=1.0)) as client:
        assert client.post("/translate", json=BODY | {"format": kind, "alternatives": 1}).status_code == 503


def test_a_body_may_take_its_time_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.4)
    pause = threading.Event()

    def slowly(parts: int, size: int) -> int:
        def body() -> object:
            for _ in range(parts):
                yield b" " * size
                pause.wait(0.2)
            yield b'{"q": "a b", "source": "de", "target": "en"}'

        headers = {"Content-Type": "application/json"}
        return httpx.post(f"{client.base_url}/translate", content=body(), headers=headers).status_code  # type: ignore[arg-type]

    with serving(load) as client:
        assert slowly(5, gate.BODY_RATE) == 200
        assert slowly(5, 1) == 408


def test_what_grows_with_a_body_is_done_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: list[str] = []

    def watch(owner: object, name: str) -> None:
        work = getattr(owner, name)

        def watched(*given: Any, **how: Any) -> Any:
            with suppress(RuntimeError):
                asyncio.get_running_loop()
                on_loop.append(name)
            return work(*given, **how)

        monkeypatch.setattr(owner, name, watched)

    lines, terms = "\n" * 70_000, "a\tb\n" * 20_000
    deepl_body = {"target_lang": "EN", "source_lang": "DE", "split_sentences": "0"}
    with serving(load) as client:
        watch(Languages, "detect")
        watch(Service, "etag")
        watch(JSONResponse, "render")
        watch(json, "loads")
        watch(deepl, "_joined")
        watch(deepl_glossaries, "read_entries")
        watch(parameters, "_checked")
        for path, body, status, singles in (
            ("/detect", {"q": "a"}, 200, {"loads"}),
            ("/look", BODY | {"source": "auto"}, 400, {"loads"}),  # it is English
            ("/translate", BODY | {"q": ["a"] * 20_000}, 400, set()),
            ("/translate", BODY | {"q": lines}, 200, set()),
            ("/v2/translate", deepl_body | {"text": [lines]}, 200, set()),
            ("/v2/glossaries", TERMS | {"entries": terms}, 400, set()),  # a term again
        ):
            on_loop.clear()
            assert client.post(path, json=body).status_code == status, path
            counts = Counter(on_loop)
            assert counts.pop("_checked") < 10  # the language and the like
            assert counts.pop("render", 0) <= (status != 200 or path == "/detect")  # what is small
            assert counts.keys() == singles, path


def test_uploads_and_pages_need_no_file_and_no_thread_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    with serving(load) as client:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        monkeypatch.setattr(anyio.to_thread, "run_sync", fail)
        file = {"file": ("a.txt", b"a b" + b" " * (2 << 20))}
        sent = client.post("/translate_file", files=file, data={"source": "de", "target": "en"})
        assert client.get(sent.json()["translatedFileUrl"]).content[:4] == b"b a "
        assert [client.get(path).status_code for path in ("/", "/docs", "/page/page.js")] == [200] * 3


def test_a_thread_that_never_begins_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, start = Threads(2), _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: 1)  # as where no memory is left for what it begins with
    first = pool.submit(str, 1)
    monkeypatch.setattr(_thread, "start_new_thread", start)
    assert (pool.submit(str, 2).result(10), first.result(10)) == ("2", "1")
    assert isinstance(pool.submit(int, "x").exception(10), ValueError)
    pool.shutdown()


def test_nothing_of_a_request_that_was_refused_waits_for_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    claims: list[weakref.ref[Claim]] = []

    def claim(*given: Any, **how: Any) -> Claim:
        claims.append(weakref.ref(made := Claim(*given, **how)))
        return made

    gc.disable()
    try:
        with serving(load, limits=Limits(characters=10)) as client:
            monkeypatch.setattr(gate, "Claim", claim)
            for path, sent in (
                ("translate", {"json": BODY | {"q": "a" * 11}}),
                ("translate", {"content": b"a" * (8 << 20)}),
                ("translate", {"json": BODY, "headers": {"Origin": FOREIGN}}),
                ("translate_file", {"data": BODY, "files": {"file": ("a.po", b"damaged")}}),
            ):  # each on a connection of its own, which holds its last request
                assert httpx.post(f"{client.base_url}/{path}", **sent).status_code in (400, 403)  # type: ignore[arg-type]
            eventually(lambda: not any(each() for each in claims))
    finally:
        gc.enable()


def test_no_client_has_all_places_for_documents() -> None:
    async def work() -> None:
        slots, free, working = Slots(UNPACKED, OF_CLIENT), asyncio.Event(), []

        async def one(client: str) -> None:
            async with slots.of(client):
                working.append(client)
                await free.wait()

        tasks = [asyncio.create_task(one("a")) for _ in range(20)]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(one(client)) for client in "bcdefg"]
        for _ in range(50):
            await asyncio.sleep(0)
        assert working == [*"a" * OF_CLIENT, *"bcdefg"][:UNPACKED] and UNPACKED > OF_CLIENT
        free.set()
        await asyncio.gather(*tasks)
        assert not slots._own

    asyncio.run(work())


def test_texts_with_markup_that_wait_for_their_turn_are_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specmt.serve.service._THREADS", (2, 1))
    session = Gated()

    def gated() -> Translator:
        return Translator(FakeModel(), session=session)  # type: ignore[arg-type]

    with serving(gated, limits=Limits(seconds=1.0)) as client, ThreadPoolExecutor() as pool:

        def post(number: int) -> tuple[int, bool]:
            started, body = time.monotonic(), BODY | {"q": f"<p>a {number}", "format": "html"}
            status = httpx.post(f"{client.base_url}/translate", json=body, timeout=60).status_code
            return status, time.monotonic() - started < 4.0

        assert [*pool.map(post, range(6))] == [(503, True)] * 6
        session.gate.release(1_000_000)


def test_a_look_ends_whatever_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> str:
        raise ValueError("the inside")

    monkeypatch.setattr(Service, "watch", fail)
    with serving(load) as client, client.stream("POST", "/look", json=BODY, timeout=5) as stream:
        assert "".join(stream.iter_text()) == 'event: error\ndata: {"error": "Internal error"}\n\n'


def test_a_thread_that_ends_leaves_nobody_waiting_and_the_server_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service([Source(("de", "en"), "0" * 64, load)], OPTIONS, Limits())
    service.start()
    eventually(lambda: service.is_ready)

    def fail(*_: object) -> None:
        raise SystemError

    monkeypatch.setattr(SharedSession, "work", fail)
    monkeypatch.setattr(Engine, "_drop", fail)
    (engine,) = service._engines.values()
    waiting = [Waiting("a b"), Waiting("c d")]
    engine.submit([each.job for each in waiting])
    engine.cancel([waiting[0].job])
    for each in waiting:
        with pytest.raises(SystemError):
            each.text()
    assert isinstance(service.failure, SystemError) and not service.is_ready
    with pytest.raises(StoppedError):
        engine.submit([Waiting("e").job])


def test_a_server_that_finishes_what_it_has_is_not_ready() -> None:
    session = Gated()
    service = Service([Source(("de", "en"), "0" * 64, lambda: Translator(FakeModel(), session=session))], OPTIONS)  # type: ignore[arg-type]
    service.start()
    eventually(lambda: service.is_ready)
    (engine,) = service._engines.values()
    engine.submit([(asked := Waiting("a b")).job])
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(service.stop)
        eventually(lambda: not service.is_ready)
        session.gate.release(100)
        assert (asked.text(), stopping.result(20)) == ("b a", None)
    assert not service.is_ready and service.failure is None


def test_a_log_that_cannot_be_written_does_no_harm() -> None:
    def fail(_: str) -> None:
        raise OSError(28, "No space left on device")

    async def ask() -> int:
        gate = create_app(Service([Source(("de", "en"), "0" * 64, load)], OPTIONS), log=fail)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://localhost") as client:
            return (await client.get("/health")).status_code

    assert asyncio.run(ask()) == 200


def test_whoever_cannot_be_told_does_no_harm() -> None:
    def fail(_: object) -> None:
        raise RuntimeError("Event loop is closed")

    with running(FakeSession(reverse)) as engine:
        deaf, other = Waiting("a b"), Waiting("c d")
        deaf.job.done = fail
        engine.submit([deaf.job])
        eventually(lambda: deaf.job.is_done)
        engine.submit([other.job])
        assert other.text() == "d c"


def test_a_detector_that_cannot_be_loaded_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Languages, "detect", lambda *_: 1 // 0)
    service = Service([Source(("de", "en"), "0" * 64, load)], OPTIONS)
    service.start()
    eventually(lambda: isinstance(service.failure, ZeroDivisionError))
    service.stop()


def test_an_engine_counts_its_own_sentences() -> None:
    session = Gated()
    with running(session) as engine:
        assert engine.translator is not None
        others = iter(engine.translator.translate(["x y"] * 100, OPTIONS))
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(next, others)
            eventually(lambda: len(session.inner.requests) > 10)
            asked = Waiting("a b")
            session.gate.release(10)  # the session is let go of in between
            engine.submit([asked.job])
            eventually(lambda: engine.running == 1)
            session.gate.release(1_000_000)
            assert (asked.text(), first.result(20).text) == ("b a", "y x")
        assert engine.running == 0


def test_texts_in_all_threads_do_not_keep_a_server_from_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_THREADS", 2)
    stopped, stop = threading.Event(), Service.stop

    def stop_and_tell(service: Service) -> None:
        stop(service)
        stopped.set()

    monkeypatch.setattr(Service, "stop", stop_and_tell)

    async def live() -> list[bool]:
        served = create_app(Service([Source(("de", "en"), "0" * 64, load)], OPTIONS)).app
        async with served.router.lifespan_context(served):  # type: ignore[attr-defined]
            loop = asyncio.get_running_loop()
            texts = [loop.run_in_executor(None, stopped.wait, 10) for _ in range(4)]
        return await asyncio.gather(*texts)

    assert asyncio.run(live()) == [True] * 4
