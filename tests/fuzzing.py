"""What is almost a document, glossary, memory, request, project, record or configuration, and what must hold of it."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import tempfile
import time
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import httpx
from fastapi import Request
from starlette.exceptions import HTTPException

from specmt.cli.render import renderer
from specmt.documents import translate_documents
from specmt.errors import SpecmtError
from specmt.formats import names, read_document
from specmt.formats.document import FormatOptions
from specmt.models.folder import CONFIG, ModelFolder
from specmt.options import DecodingOptions
from specmt.project import NAME, options_of, read_project
from specmt.serve.errors import RefusedError
from specmt.serve.glossaries import read_entries
from specmt.serve.parameters import Parameters
from specmt.text.lines import read_lines
from specmt.text.memory import read_memory
from specmt.text.tbx import read_tbx
from specmt.types import Alternative, Translation
from specmt.update.record import parse, written
from tests.documents import SAMPLES, Shouting, package
from tests.unit.test_growth import MEMBERS, REPEATED

SECONDS, BYTES_A_SECOND = 0.5, 100_000
"""Of processor time, the most for an input: so much, and by its size."""

BUNDLED = Path(__file__).parents[1] / "specmt/assets/de-en"
_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
_ANYWHERE = [
    *("\0", "\r", "\n", "\n\n", "\t", " ", "\u2028", "\ufeff", "\u0301", "😀", "‮", "\x85", "\x1b", "\ufffe"),
    *"<>&\"'`{}[]()%$#@*_|\\/=:;,.!?-+~^0",
    *(
        "&amp;", "&#0;", "&#1114112;", "&x;", "<!--", "-->", "<![CDATA[", "]]>", "<?", "?>", "</", "/>", "{{", "}}",
        "${",
    ),
    *(
        "%s", "%1$s", "{0}", "\\u0041", "\\u0001", "\\ud800", "\\ud83d\\ude00", "&#1;", "\\n", "1e999", "-1",
        "9" * 30, "null", "true", "NaN", "a" * 300, "9" * 5000, "[" * 3000,
    ),
]  # fmt: skip
_TEXTS = {
    "tbx": '<martif><text><body><termEntry><langSet xml:lang="de"><tig><term>Haus</term></tig></langSet><langSet '
    'xml:lang="en"><ntig><termGrp><term>house</term></termGrp></ntig></langSet></termEntry></body></text></martif>',
    "memory.tmx": '<tmx version="1.4"><body><tu><tuv xml:lang="de"><seg>Ein <bpt i="1">b</bpt>Haus</seg></tuv>'
    '<tuv xml:lang="en-US"><seg>A <hi>house</hi></seg></tuv></tu></body></tmx>',
    "memory.tsv": "Haus\thouse\trest\nein\\tHof\ta\\\\b\n\nalt\told|aged\n",
    "entries.tsv": "Haus\thouse\nHof\tyard\n",
    "entries.csv": 'Haus,house\n"Hof, groß",yard,de,en\n',
    "body.json": '{"q": ["ein Haus", "zwei"], "source": "de", "target": "en", "alternatives": 3, "text": "x"}',
    "body.form": "q=ein+Haus&q=zwei&source=de&target=en&alternatives=3&text[]=%41%C3%A4&file=x",
    "body.parts": '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: a/b\r\n\r\n'
    'ein Haus\r\n--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nde\r\n--x--\r\n',
    CONFIG: (BUNDLED / CONFIG).read_text(encoding="utf-8"),
    "lines.jsonl": "Ein Haus.\n\n  Zwei \u2028 Häuser\t%s\r\n\ufeffdrei\x85\n",
    NAME: 'version = 1\nfrom = "de"\nto = ["en", "pt-BR"]\nignore = ["weg/**"]\nkeep = ["Haus"]\nfuzzy_below = 0.5\n'
    'memory = ["a.tmx"]\ntone = { en = "du" }\n[languages.pt-BR]\nto = "pt"\n[glossary]\nen = "a.tsv"\n[[files]]\n'
    'source = "texte/**/*.md"\ntarget = "{to}/{path}"\nkeys = ["title"]\n[[files]]\nsource = "a_{from}.json"\n'
    'target = "{dir}/{stem}_{posix}{ext}"\nformat = "json"\n[check]\nfail_on = "error"\nignore = ["x"]\n',
    "record.specmt": f"specmt-record 1 json de en {'a' * 40} -\n{'1' * 16} - {'2' * 16} m entry:a%2Fb {'c' * 8}/"
    f"{'d' * 8}h\n<<<<<<< HEAD\n- - - c text /\n=======\n{'3' * 16} {'4' * 16} - h text:x%C3 /\n>>>>>>> b\n"
    f"- - {'5' * 16} ! p /\n",
}
"""What is read beside documents."""

KINDS = [*names(), *_TEXTS]


def check(kind: str, seed: int) -> bool:
    """Makes an input and reads it; returns whether it was one.

    :raises AssertionError: something does not hold.
    """
    for _ in range(3):  # the least of three counts: what a library loads, and a collection, are not this input's time
        draw = random.Random(f"{kind} {seed}")
        started = time.process_time()
        try:
            size = (_document if kind in names() else _other)(kind, draw)
        except (SpecmtError, RefusedError, HTTPException):
            return False
        taken = time.process_time() - started
        if taken <= SECONDS + size / BYTES_A_SECOND:
            return True
    raise AssertionError(f"{taken:.2f} s for {size} bytes")


def _document(name: str, draw: random.Random) -> int:
    """Reads a document, writes it as it was and in capitals, and reads that."""
    sample = draw.choice([each for each in SAMPLES if each.format == name])
    text = _changed(sample.source, _fragments(name), draw)
    member = sample.member or MEMBERS.get(name)
    data = package({"mimetype": "x", member: text}) if member else text.encode(sample.encoding, "replace")
    data = _damaged(data, draw)
    options = FormatOptions(**sample.options)  # type: ignore[arg-type]
    document = read_document(data, "a", name, options)
    assert document.write({}, lambda *_: None) == data
    (written,) = translate_documents(Shouting(), [("a", document)], DecodingOptions())  # type: ignore[arg-type]
    try:
        read_document(written.data, "a", name, options)
    except SpecmtError as error:
        raise AssertionError(f"what is written is not read: {error}") from error
    return len(data)


def _other(kind: str, draw: random.Random) -> int:
    data = _damaged(_changed(_TEXTS[kind], _ANYWHERE, draw).encode(errors="replace"), draw)
    _READERS[kind](data)
    return len(data)


def _memory(name: str) -> Callable[[bytes], object]:
    return lambda data: [*read_memory(_file(name, data), "de", "en")]


def _request(kind: str) -> Callable[[bytes], object]:
    async def read(data: bytes) -> None:
        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": data}

        headers = [(b"content-type", kind.encode())]
        given = await Parameters.read(
            Request({"type": "http", "app": None, "headers": headers, "query_string": b""}, receive)
        )
        for get in (given.text, given.texts, given.number, given.flag, given.file, given.is_list, given.has):
            for name in ("q", "source", "alternatives", "text", "file"):
                try:
                    found = get(name)
                except RefusedError:
                    continue
                httpx.Response(200, text=str(found))  # can be written down

    return lambda data: asyncio.run(read(data))


def _lines(data: bytes) -> None:
    """Writes lines as an object each, and as a table."""
    for line in read_lines(_file("lines", data), errors="strict"):
        said = Translation(line, line.text[::-1], score=math.nan, alternatives=[Alternative(line.text, 0.5)])
        for name in ("jsonl", "tsv"):
            out = renderer(name, counts=True, n_best=2)(said)
            assert out.count("\n") == 1
            assert name == "tsv" or json.loads(out)["source"] == line.text
            assert name == "jsonl" or len(out.rstrip("\n").split("\t")) == 3


def _project(data: bytes) -> None:
    """Reads a project, and finds its files."""
    for name in ("texte/eins/a.md", "weg/b.md", "a_de.json", "en/a.md"):
        _file(f"project/{name}", b'{"de": "x"}')
    project = read_project(_file(f"project/{NAME}", data))
    for pair in project.pairs():
        options_of(pair.source, (project.source_language, pair.to), pair.settings)
        assert project.pair_of(pair.target) is not None
        project.rebase(pair)("../b.md")


def _record(data: bytes) -> None:
    """Reads a record, and what is written of it."""
    record = parse(data.decode(errors="replace"), ["2" * 16, "-"])
    assert parse(written(record)) == record


_READERS: dict[str, Callable[[bytes], object]] = {
    "tbx": lambda data: [*read_tbx(BytesIO(data), "a", "de", "en")],
    "memory.tmx": _memory("memory.tmx"),
    "memory.tsv": _memory("memory.tsv"),
    "entries.tsv": lambda data: read_entries(data.decode(errors="replace"), "tsv"),
    "entries.csv": lambda data: read_entries(data.decode(errors="replace"), "csv"),
    "body.json": _request("application/json"),
    "body.form": _request("application/x-www-form-urlencoded"),
    "body.parts": _request("multipart/form-data; boundary=x"),
    CONFIG: lambda data: ModelFolder.read(_file(CONFIG, data).parent),
    "lines.jsonl": _lines,
    NAME: _project,
    "record.specmt": _record,
}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def _file(name: str, data: bytes) -> Path:
    path = Path(_folder().name, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@cache
def _fragments(name: str) -> list[str]:
    units = [unit.replace("¦", "|") for _, units, _ in REPEATED.get(name, ()) for unit in units.split("|")]
    return [*units * 4, *_ANYWHERE]


def _changed(text: str, fragments: list[str], draw: random.Random) -> str:
    """Returns a text some of whose tokens are left out, repeated, elsewhere, or replaced by fragments."""
    tokens = _TOKEN.findall(text)
    for _ in range(draw.choice((0, 1, 1, 2, 3, 8))):
        start = draw.randint(0, len(tokens))
        end = start + draw.choice((0, 1, 1, 2, 5, 20))
        part = [draw.choice(fragments)] if draw.random() < 0.6 else tokens[start:end]
        place = draw.choice((start, draw.randint(0, len(tokens))))
        if draw.random() < 0.5:
            tokens[start:end] = []
        tokens[place:place] = part * draw.choice((0, 1, 1, 1, 2, 2, 30))
    return "".join(tokens)


def _damaged(data: bytes, draw: random.Random) -> bytes:
    """Returns bytes of which, now and then, some are others or left out."""
    if draw.random() < 0.9:
        return data
    start = draw.randint(0, len(data))
    return data[:start] + draw.randbytes(draw.randint(0, 3)) + data[start + draw.choice((0, 1, 2, 40, 10**9)) :]
