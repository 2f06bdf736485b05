"""A part of DeepL's contract: what its own libraries, LibreOffice and CAT tools need to translate texts."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from specmt.formats.document import TagRules
from specmt.serve.asked import Caller, Manner
from specmt.serve.context import caller_of, not_modified, schema, service_of
from specmt.serve.errors import RefusedError
from specmt.serve.glossaries import Terms
from specmt.serve.languages import name_of
from specmt.serve.parameters import Parameters, beside
from specmt.serve.service import Service

router: Final = APIRouter(prefix="/v2", tags=["DeepL"])

_SCHEME: Final = "deepl-auth-key "
STRING: Final = {"type": "string"}
_STRINGS: Final = {"type": "array", "items": STRING}
_CHOICES: Final = {
    "split_sentences": ("0", "1", "nonewlines"),
    "tag_handling": ("html", "xml"),
    "tag_handling_version": ("v1", "v2"),
    "formality": ("default", "prefer_more", "prefer_less"),
    "model_type": ("quality_optimized", "latency_optimized", "prefer_quality_optimized"),
}
"""What is understood; formality is a mere wish, and so is the type of model: there is one for each pair."""

_UNKNOWN: Final = ("custom_instructions", "glossary_ids", "style_id", "translation_memory_id")
"""What would have to change translations, and cannot."""

_WRAPPED: Final = re.compile(r"(?<=\S)[ \t]*\r?\n[ \t]*(?=\S)")

UNLIMITED: Final = 1_000_000_000_000
"""What is said of a limit where there is none."""


@router.post(
    "/translate",
    summary="Translate texts",
    openapi_extra=schema(
        {
            "text": _STRINGS,
            "target_lang": STRING,
            "source_lang": STRING,
            "glossary_id": STRING,
            "tag_handling": {"enum": ["html", "xml"]},
            "ignore_tags": _STRINGS,
            "splitting_tags": _STRINGS,
            "non_splitting_tags": _STRINGS,
            "outline_detection": {"type": "boolean"},
            "split_sentences": {"enum": ["0", "1", "nonewlines"]},
            "preserve_formatting": {"type": "boolean"},
            "show_billed_characters": {"type": "boolean"},
            "model_type": {"enum": list(_CHOICES["model_type"])},
            "auth_key": STRING,
        },
        ["text", "target_lang"],
    ),
)
async def translate(request: Request) -> Response:
    service, given, caller = await authorize(request)
    texts = given.texts("text")
    if not texts:
        raise RefusedError(400, "Parameter 'text' not specified.")
    target = find_target(service, given)
    source = find_source(service, given)
    model_type = (given.text("model_type") or "").removeprefix("prefer_")
    manner, shows_billed = _manner(given, service, caller, (source, target)), given.flag("show_billed_characters")
    size = service.check(texts)
    split = given.text("split_sentences") or "1"
    identity = ["v2", texts, source, target, manner.identity, split, shows_billed, model_type]
    etag = await beside(size, service.etag, identity)
    if not_modified(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    joins = split != "1" and manner.kind == "text"
    asked = await beside(size, _joined, texts) if joins else texts
    with caller.account.charged(size):
        answers = await service.translate(asked, source, target, caller, manner)
    translations = []
    for text, answer in zip(texts, answers, strict=True):
        language = answer.detected.language if answer.detected is not None else source or ""
        translation: dict[str, object] = {"detected_source_language": language.upper(), "text": answer.text}
        if shows_billed:
            translation["billed_characters"] = len(text)
        if model_type:
            translation["model_type_used"] = model_type
        translations.append(translation)
    return await beside(size, JSONResponse, {"translations": translations}, 200, {"ETag": etag})


@router.get("/languages", summary="The languages that can be translated from or to")
@router.post("/languages", include_in_schema=False)
async def languages(request: Request) -> Any:
    service, given, _ = await authorize(request)
    side = given.text("type") or "source"
    if side not in ("source", "target"):
        raise unsupported("type", side)
    codes = service.languages.sources if side == "source" else service.languages.targets
    more = {} if side == "source" else {"supports_formality": False}
    return [{"language": code.upper(), "name": name_of(code)} | more for code in codes]


@router.get("/usage", summary="How many characters were sent, and how many may be")
@router.post("/usage", include_in_schema=False)
async def usage(request: Request) -> Any:
    _, _, caller = await authorize(request)
    limit = caller.account.limit
    return {"character_count": caller.account.used, "character_limit": UNLIMITED if limit is None else limit}


def _joined(texts: list[str]) -> list[str]:
    """Returns texts without the ends of their lines."""
    return [_WRAPPED.sub(" ", text) for text in texts]


async def authorize(request: Request) -> tuple[Service, Parameters, Caller]:
    """Reads a request and lets it in, by the key in its header or among its parameters.

    :raises RefusedError: as :meth:`Parameters.read` and :func:`specmt.serve.context.caller_of`
    """
    given = await Parameters.read(request)
    header = request.headers.get("authorization", "")
    key = header[len(_SCHEME) :].strip() if header.lower().startswith(_SCHEME) else given.text("auth_key")
    return service_of(request), given, caller_of(request, key)


def find_source(service: Service, given: Parameters) -> str | None:
    """Returns the language that texts are said to be in; ``None`` if it is to be found out.

    :raises RefusedError: it is none of ours.
    """
    wanted = given.text("source_lang")
    source = service.languages.find(wanted) if wanted else None
    if wanted and source is None:
        raise unsupported("source_lang", wanted)
    return source


def find_target(service: Service, given: Parameters) -> str:
    """Returns the language that is asked for.

    :raises RefusedError: there is none, or none of ours.
    """
    wanted = given.text("target_lang")
    if not wanted:
        raise RefusedError(400, "Parameter 'target_lang' not specified.")
    target = service.languages.find(wanted)
    if target is None or target not in service.languages.targets:
        raise unsupported("target_lang", wanted)
    return target


def check_wishes(given: Parameters) -> None:
    """
    :raises RefusedError: something is asked for that there is not.
    """
    for name, choices in _CHOICES.items():
        value = given.text(name)
        if value and value not in choices:
            raise unsupported(name, value)
    for name in _UNKNOWN:
        if given.has(name):
            raise RefusedError(400, f"Parameter '{name}' not supported.")


def _manner(given: Parameters, service: Service, caller: Caller, pair: tuple[str | None, str]) -> Manner:
    """Returns how texts are to be translated.

    :raises RefusedError: something is asked for that there is not.
    """
    check_wishes(given)
    given.flag("preserve_formatting")  # which everything does
    kind = given.text("tag_handling") or "text"
    ignored, inside, splitting = (
        _names(given, name, kind) for name in ("ignore_tags", "non_splitting_tags", "splitting_tags")
    )
    detects = given.flag("outline_detection", default=True)
    return Manner(
        kind,
        TagRules(ignored=ignored, inside=inside, splitting=splitting, detects=detects),
        find_terms(given, service, caller, pair),
        given.text("split_sentences") != "0",
    )


def _names(given: Parameters, name: str, kind: str) -> frozenset[str]:
    """Returns names of elements, each by itself or with commas between them."""
    found = {each.strip() for text in given.texts(name) or () for each in text.split(",")} - {""}
    if found and kind == "text":
        raise RefusedError(400, f"Value for '{name}' not supported without 'tag_handling'.")
    return frozenset(each.lower() if kind == "html" else each for each in found)


def find_terms(given: Parameters, service: Service, caller: Caller, pair: tuple[str | None, str]) -> Terms | None:
    """Returns the terms that are to hold, if any.

    :raises RefusedError: there is no such glossary, or not for these languages.
    """
    name = given.text("glossary_id")
    if not name:
        return None
    if pair[0] is None:
        raise RefusedError(400, "Parameter 'source_lang' not specified, which a glossary needs.")
    return service.glossaries.find(caller.owner, name).find((pair[0], pair[1]))


def unsupported(name: str, value: str) -> RefusedError:
    """Returns that there is no such value of a parameter."""
    return RefusedError(400, f"Value for '{name}' not supported: {value[:40]}")
