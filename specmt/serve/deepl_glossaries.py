"""The glossaries of DeepL's contract: those of one pair of languages (v2), and of several (v3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from specmt.serve.asked import Pair
from specmt.serve.context import schema
from specmt.serve.deepl import STRING, authorize, find_target, unsupported
from specmt.serve.errors import RefusedError
from specmt.serve.glossaries import FORMATS, MOST_BYTES_OF_TERM, Glossary, Terms, read_entries
from specmt.serve.parameters import Parameters, beside
from specmt.serve.service import Service

router: Final = APIRouter(tags=["DeepL"])

_DICTIONARY: Final = {
    "source_lang": STRING,
    "target_lang": STRING,
    "entries": STRING,
    "entries_format": {"enum": list(FORMATS), "default": "tsv"},
}
_DICTIONARIES: Final = {"type": "array", "items": {"type": "object", "properties": _DICTIONARY}}
_JSON: Final = ("application/json",)


@router.get("/v2/glossary-language-pairs", summary="The languages that there can be glossaries for")
async def glossary_language_pairs(request: Request) -> Any:
    service, _, _ = await authorize(request)
    pairs = service.languages.pairs
    return {"supported_languages": [{"source_lang": source, "target_lang": target} for source, target in pairs]}


@router.post(
    "/v2/glossaries",
    summary="Make a glossary",
    status_code=201,
    openapi_extra=schema({"name": STRING, **_DICTIONARY}, ["name", "source_lang", "target_lang", "entries"]),
)
async def create(request: Request) -> Response:
    made = await _create(request, lambda given: [given])
    return JSONResponse(_described_single(made), 201)


@router.get("/v2/glossaries", summary="The glossaries of the key that are for one pair of languages")
async def find_all(request: Request) -> Any:
    service, _, caller = await authorize(request)
    found = service.glossaries.all(caller.owner)
    return {"glossaries": [_described_single(each) for each in found if len(each.terms) == 1]}


@router.get("/v2/glossaries/{glossary_id}", summary="What a glossary is")
async def find(request: Request, glossary_id: str) -> Any:
    return _described_single(await _find(request, glossary_id))


@router.get("/v2/glossaries/{glossary_id}/entries", summary="The entries of a glossary, as TSV")
async def entries(request: Request, glossary_id: str) -> Response:
    terms = _single(await _find(request, glossary_id))
    return Response(terms.tsv, media_type="text/tab-separated-values; charset=utf-8")


@router.post(
    "/v3/glossaries",
    summary="Make one of several pairs of languages",
    status_code=201,
    openapi_extra=schema({"name": STRING, "dictionaries": _DICTIONARIES}, ["name", "dictionaries"], kinds=_JSON),
)
async def create_several(request: Request) -> Response:
    made = await _create(request, lambda given: given.objects("dictionaries"))
    return JSONResponse(_described(made), 201)


@router.get("/v3/glossaries", summary="The glossaries of the key")
async def find_all_several(request: Request) -> Any:
    service, _, caller = await authorize(request)
    return {"glossaries": [_described(each) for each in service.glossaries.all(caller.owner)]}


@router.get("/v3/glossaries/{glossary_id}", summary="What a glossary is")
async def find_several(request: Request, glossary_id: str) -> Any:
    return _described(await _find(request, glossary_id))


@router.get("/v3/glossaries/{glossary_id}/entries", summary="The entries of a pair of languages, as TSV")
async def entries_of_pair(request: Request, glossary_id: str) -> Any:
    service, given, caller = await authorize(request)
    terms = _dictionary(service.glossaries.find(caller.owner, glossary_id), service, given)
    return {"dictionaries": [_languages(terms) | {"entries": terms.tsv, "entries_format": "tsv"}]}


@router.patch(
    "/v3/glossaries/{glossary_id}",
    summary="Give a glossary another name, and add entries or replace some",
    openapi_extra=schema({"name": STRING, "dictionaries": _DICTIONARIES}, [], kinds=_JSON),
)
async def change(request: Request, glossary_id: str) -> Any:
    service, given, caller = await authorize(request)
    more = await _read(service, given.objects("dictionaries"))
    found = service.glossaries.find(caller.owner, glossary_id)  # and nobody else comes in between from here on
    terms = dict(found.terms)
    for pair, each in more.items():
        terms[pair] = Terms(pair, {**(terms[pair].entries if pair in terms else {}), **each.entries})
    changed = replace(found, name=_name(given) if given.has("name") else found.name, terms=terms)
    service.glossaries.put(caller.owner, changed)
    return _described(changed)


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Replace the entries of a pair of languages",
    openapi_extra=schema(_DICTIONARY, ["source_lang", "target_lang", "entries"]),
)
async def replace_dictionary(request: Request, glossary_id: str) -> Any:
    service, given, caller = await authorize(request)
    service.glossaries.find(caller.owner, glossary_id)
    more = await _read(service, [given])
    found = service.glossaries.find(caller.owner, glossary_id)
    service.glossaries.put(caller.owner, replace(found, terms={**found.terms, **more}))
    (terms,) = more.values()
    return _described_terms(terms)


@router.delete("/v3/glossaries/{glossary_id}/dictionaries", summary="Drop a pair of languages", status_code=204)
async def remove_dictionary(request: Request, glossary_id: str) -> Response:
    service, given, caller = await authorize(request)
    found = service.glossaries.find(caller.owner, glossary_id)
    dropped = _dictionary(found, service, given)
    left = {pair: each for pair, each in found.terms.items() if each is not dropped}
    service.glossaries.put(caller.owner, replace(found, terms=left))
    return Response(status_code=204)


@router.delete("/v2/glossaries/{glossary_id}", summary="Drop a glossary", status_code=204)
@router.delete("/v3/glossaries/{glossary_id}", summary="Drop a glossary", status_code=204)
async def remove(request: Request, glossary_id: str) -> Response:
    service, _, caller = await authorize(request)
    service.glossaries.remove(caller.owner, glossary_id)
    return Response(status_code=204)


async def _create(request: Request, dictionaries_of: Callable[[Parameters], list[Parameters]]) -> Glossary:
    """Makes a glossary of what a request has.

    :param dictionaries_of: returns what of it are the terms of a pair of languages each
    :raises RefusedError: as :func:`_read` and :meth:`specmt.serve.glossaries.Glossaries.put`, or there are none.
    """
    service, given, caller = await authorize(request)
    name, dictionaries = _name(given), dictionaries_of(given)
    if not dictionaries:
        raise RefusedError(400, "Parameter 'dictionaries' not specified.")
    service.glossaries.check_room(caller.owner)
    made = Glossary(name, await _read(service, dictionaries))
    service.glossaries.put(caller.owner, made)
    return made


async def _read(service: Service, dictionaries: list[Parameters]) -> dict[Pair, Terms]:
    """Returns the terms of pairs of languages.

    :raises RefusedError: they are not what they should be, or there can be no translation with one of them.
    """
    found: dict[Pair, Terms] = {}
    for given in dictionaries:
        pair, entries = _pair(service, given), given.text("entries")
        if not entries:
            raise RefusedError(400, "Parameter 'entries' not specified.")
        entries_format = given.text("entries_format") or "tsv"
        if entries_format not in FORMATS:
            raise unsupported("entries_format", entries_format)
        if pair in found:
            raise unsupported("dictionaries", f"{' to '.join(pair)} again")
        found[pair] = Terms(pair, await beside(len(entries), read_entries, entries, entries_format))
        await service.cutter(found[pair])
    return found


def _pair(service: Service, given: Parameters) -> Pair:
    """
    :raises RefusedError: no model is for these languages.
    """
    source = given.text("source_lang")
    if not source:
        raise RefusedError(400, "Parameter 'source_lang' not specified.")
    pair = service.languages.find(source) or "", find_target(service, given)
    if pair not in service.languages.pairs:
        raise unsupported("source_lang", source)
    return pair


def _name(given: Parameters) -> str:
    """
    :raises RefusedError: there is none, or it is too long.
    """
    name = given.text("name")
    if not name:
        raise RefusedError(400, "Parameter 'name' not specified.")
    if len(name.encode()) > MOST_BYTES_OF_TERM:
        raise RefusedError(400, f"Value for 'name' not supported: it has more than {MOST_BYTES_OF_TERM} bytes")
    return name


async def _find(request: Request, name: str) -> Glossary:
    service, _, caller = await authorize(request)
    return service.glossaries.find(caller.owner, name)


def _dictionary(glossary: Glossary, service: Service, given: Parameters) -> Terms:
    """
    :raises RefusedError: the glossary has nothing for the languages that are asked for.
    """
    found = glossary.terms.get(_pair(service, given))
    if found is None:
        raise RefusedError(404, "Glossary dictionary not found")
    return found


def _single(glossary: Glossary) -> Terms:
    """
    :raises RefusedError: it is for several pairs of languages.
    """
    if len(glossary.terms) != 1:
        raise RefusedError(404, "Glossary not found among those of one pair of languages: ask /v3/glossaries")
    (terms,) = glossary.terms.values()
    return terms


def _described_single(glossary: Glossary) -> dict[str, object]:
    return _head(glossary) | {"ready": True} | _described_terms(_single(glossary))


def _described(glossary: Glossary) -> dict[str, object]:
    return _head(glossary) | {"dictionaries": [_described_terms(each) for each in glossary.terms.values()]}


def _head(glossary: Glossary) -> dict[str, object]:
    created = glossary.created.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"glossary_id": glossary.id, "name": glossary.name, "creation_time": created}


def _described_terms(terms: Terms) -> dict[str, object]:
    return _languages(terms) | {"entry_count": len(terms.entries)}


def _languages(terms: Terms) -> dict[str, object]:
    return {"source_lang": terms.pair[0], "target_lang": terms.pair[1]}
