"""The glossaries of DeepL's contract."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from specmt.serve.context import schema, service_of
from specmt.serve.deepl import STRING, authorize, find_target
from specmt.serve.errors import RefusedError
from specmt.serve.glossaries import FORMATS, MOST_BYTES_OF_TERM, Terms, read_entries
from specmt.serve.parameters import Parameters, beside

router: Final = APIRouter(prefix="/v2", tags=["DeepL"])


@router.get("/glossary-language-pairs", summary="The languages that there can be glossaries for")
async def glossary_language_pairs(request: Request) -> Any:
    authorize(request, await Parameters.read(request))
    pairs = service_of(request).languages.pairs
    return {"supported_languages": [{"source_lang": source, "target_lang": target} for source, target in pairs]}


@router.post(
    "/glossaries",
    summary="Make a glossary",
    status_code=201,
    openapi_extra=schema(
        {
            "name": STRING,
            "source_lang": STRING,
            "target_lang": STRING,
            "entries": STRING,
            "entries_format": {"enum": list(FORMATS), "default": "tsv"},
        },
        ["name", "source_lang", "target_lang", "entries"],
    ),
)
async def create(request: Request) -> Response:
    service, given = service_of(request), await Parameters.read(request)
    caller = authorize(request, given)
    name, source, entries = given.text("name"), given.text("source_lang"), given.text("entries")
    for key, value in (("name", name), ("source_lang", source), ("entries", entries)):
        if not value:
            raise RefusedError(400, f"Parameter '{key}' not specified.")
    assert name is not None and source is not None and entries is not None
    if len(name.encode()) > MOST_BYTES_OF_TERM:
        raise RefusedError(400, f"Value for 'name' not supported: it has more than {MOST_BYTES_OF_TERM} bytes")
    entries_format = given.text("entries_format") or "tsv"
    if entries_format not in FORMATS:
        raise RefusedError(400, f"Value for 'entries_format' not supported: {entries_format[:40]}")
    pair = service.languages.find(source) or "", find_target(service, given)
    if pair not in service.languages.pairs:
        raise RefusedError(400, f"Value for 'source_lang' not supported: {source[:40]}")
    terms = Terms(name, pair, await beside(len(entries), read_entries, entries, entries_format))
    service.glossaries.check_room(caller.owner)
    await service.cutter(terms)
    service.glossaries.add(caller.owner, terms)
    return JSONResponse(_described(terms), 201)


@router.get("/glossaries", summary="The glossaries of the key")
async def find_all(request: Request) -> Any:
    caller = authorize(request, await Parameters.read(request))
    return {"glossaries": [_described(terms) for terms in service_of(request).glossaries.all(caller.owner)]}


@router.get("/glossaries/{glossary_id}", summary="What a glossary is")
async def find(request: Request, glossary_id: str) -> Any:
    return _described(await _find(request, glossary_id))


@router.get("/glossaries/{glossary_id}/entries", summary="The entries of a glossary, as TSV")
async def entries(request: Request, glossary_id: str) -> Response:
    return Response((await _find(request, glossary_id)).tsv, media_type="text/tab-separated-values; charset=utf-8")


@router.delete("/glossaries/{glossary_id}", summary="Drop a glossary", status_code=204)
async def remove(request: Request, glossary_id: str) -> Response:
    caller = authorize(request, await Parameters.read(request))
    service_of(request).glossaries.remove(caller.owner, glossary_id)
    return Response(status_code=204)


async def _find(request: Request, name: str) -> Terms:
    caller = authorize(request, await Parameters.read(request))
    return service_of(request).glossaries.find(caller.owner, name)


def _described(terms: Terms) -> dict[str, object]:
    return {
        "glossary_id": terms.id,
        "name": terms.name,
        "ready": True,
        "source_lang": terms.pair[0],
        "target_lang": terms.pair[1],
        "creation_time": terms.created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "entry_count": len(terms.entries),
    }
