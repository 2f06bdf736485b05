"""A part of DeepL's contract: what its own libraries, LibreOffice and CAT tools need to translate texts."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from specmt.serve.context import caller_of, not_modified, schema, service_of
from specmt.serve.errors import RefusedError
from specmt.serve.languages import name_of
from specmt.serve.parameters import Parameters
from specmt.serve.service import Caller

router: Final = APIRouter(prefix="/v2", tags=["DeepL"])

_SCHEME: Final = "deepl-auth-key "
_STRING: Final = {"type": "string"}
_CHOICES: Final = {
    "split_sentences": ("0", "1", "nonewlines"),
    "tag_handling": ("html", "xml"),
    "tag_handling_version": ("v1", "v2"),
    "formality": ("default", "prefer_more", "prefer_less"),
}
"""What is understood; the sentences of a line are the model's concern, and formality is a mere wish."""

UNLIMITED: Final = 1_000_000_000_000
"""What is said of a limit where there is none."""


@router.post(
    "/translate",
    summary="Translate texts",
    openapi_extra=schema(
        {
            "text": {"type": "array", "items": _STRING},
            "target_lang": _STRING,
            "source_lang": _STRING,
            "tag_handling": {"enum": ["html", "xml"]},
            "ignore_tags": {"type": "array", "items": _STRING},
            "split_sentences": {"enum": ["0", "1", "nonewlines"]},
            "preserve_formatting": {"type": "boolean"},
            "show_billed_characters": {"type": "boolean"},
            "auth_key": _STRING,
        },
        ["text", "target_lang"],
    ),
)
async def translate(request: Request, response: Response) -> Any:
    service, given = service_of(request), await Parameters.read(request)
    caller = _caller(request, given)
    texts, wanted, source = given.texts("text"), given.text("target_lang"), given.text("source_lang")
    for name, value in (("text", texts), ("target_lang", wanted)):
        if not value:
            raise RefusedError(400, f"Parameter '{name}' not specified.")
    assert texts is not None and wanted is not None
    target = service.languages.find(wanted)
    if target not in service.languages.targets:
        raise RefusedError(400, f"Value for 'target_lang' not supported: {wanted[:40]}")
    known = service.languages.find(source) if source else None
    if source and known is None:
        raise RefusedError(400, f"Value for 'source_lang' not supported: {source[:40]}")
    kind = _check_choices(given)
    size = service.check(texts)
    etag = service.etag(["v2", texts, known, target, kind, given.flag("show_billed_characters")])
    if not_modified(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    service.charge(caller, size)
    answers = await service.translate(texts, known, target, caller, kind=kind)
    response.headers["ETag"] = etag
    translations = []
    for text, answer in zip(texts, answers, strict=True):
        language = answer.detected.language if answer.detected is not None else known or ""
        translation: dict[str, object] = {"detected_source_language": language.upper(), "text": answer.text}
        if given.flag("show_billed_characters"):
            translation["billed_characters"] = len(text)
        translations.append(translation)
    return {"translations": translations}


@router.get("/languages", summary="The languages that can be translated from or to")
@router.post("/languages", include_in_schema=False)
async def languages(request: Request, response: Response) -> Any:
    service, given = service_of(request), await Parameters.read(request)
    _caller(request, given)
    side = given.text("type") or "source"
    if side not in ("source", "target"):
        raise RefusedError(400, f"Value for 'type' not supported: {side[:40]}")
    codes = service.languages.sources if side == "source" else service.languages.targets
    more = {} if side == "source" else {"supports_formality": False}
    return [{"language": code.upper(), "name": name_of(code)} | more for code in codes]


@router.get("/usage", summary="How many characters were sent, and how many may be")
@router.post("/usage", include_in_schema=False)
async def usage(request: Request) -> Any:
    service = service_of(request)
    account = _caller(request, await Parameters.read(request)).account
    used, limit = (service.used, None) if account is None else (account.used, account.limit)
    return {"character_count": used, "character_limit": UNLIMITED if limit is None else limit}


@router.get("/glossary-language-pairs", include_in_schema=False)
async def glossary_language_pairs(request: Request) -> Any:
    _caller(request, await Parameters.read(request))
    return {"supported_languages": []}


def _caller(request: Request, given: Parameters) -> Caller:
    header = request.headers.get("authorization", "")
    key = header[len(_SCHEME) :].strip() if header.lower().startswith(_SCHEME) else given.text("auth_key")
    return caller_of(request, key)


def _check_choices(given: Parameters) -> str:
    """Returns the kind of text.

    :raises RefusedError: something is asked for that there is not.
    """
    for name, choices in _CHOICES.items():
        value = given.text(name)
        if value and value not in choices:
            raise RefusedError(400, f"Value for '{name}' not supported: {value[:40]}")
    if given.texts("ignore_tags"):
        raise RefusedError(400, "Value for 'ignore_tags' not supported: mark what is to stay with translate=\"no\"")
    if given.text("glossary_id"):
        raise RefusedError(400, "Value for 'glossary_id' not supported: there are no glossaries")
    given.flag("preserve_formatting")
    return given.text("tag_handling") or "text"
