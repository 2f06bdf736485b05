"""LibreTranslate's contract: what Weblate, Mastodon, Discourse, Nextcloud and many small clients speak."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from specmt.formats import all_suffixes
from specmt.serve.asked import Manner
from specmt.serve.context import caller_of, not_modified, schema, service_of
from specmt.serve.errors import RefusedError
from specmt.serve.fair import within
from specmt.serve.languages import Detected, name_of
from specmt.serve.parameters import Parameters, beside
from specmt.serve.sureness import Sureness
from specmt.serve.uploads import Uploads, attachment

router: Final = APIRouter(tags=["LibreTranslate"])

MOST_ALTERNATIVES: Final = 10

_TEXT: Final = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_STRING: Final = {"type": "string"}
_KEY: Final = {"api_key": _STRING}


@router.get("/translate", include_in_schema=False)
@router.post(
    "/translate",
    summary="Translate a text, or several",
    openapi_extra=schema(
        {
            "q": _TEXT,
            "source": {"type": "string", "description": "A language, or auto."},
            "target": _STRING,
            "format": {"enum": ["text", "html"], "default": "text"},
            "alternatives": {"type": "integer", "default": 0},
            "confidence": {"type": "boolean", "default": False, "description": "Of text; no part of LibreTranslate."},
            **_KEY,
        },
        ["q", "source", "target"],
    ),
)
async def translate(request: Request) -> Response:
    service, given = service_of(request), await Parameters.read(request)
    caller = caller_of(request, given.text("api_key"))
    texts = given.texts("q")
    source, target = given.text("source"), given.text("target")
    for name, value in (("q", texts), ("source", source), ("target", target)):
        if value is None:
            raise RefusedError(400, f"Invalid request: missing {name} parameter")
    assert texts is not None and source is not None and target is not None
    kind = given.text("format") or "text"
    if kind not in ("text", "html"):
        raise RefusedError(400, f"{kind} format is not supported")
    count = given.number("alternatives")
    if count > MOST_ALTERNATIVES:
        raise RefusedError(400, f"Invalid request: alternatives must be at most {MOST_ALTERNATIVES}")
    is_sure = given.flag("confidence")
    if is_sure and kind != "text":
        raise RefusedError(400, "Invalid request: confidence is told of format text")
    size = service.check(texts)
    source, target = None if source == "auto" else _find(request, source), _find(request, target)
    etag = await beside(size, service.etag, [texts, source, target, kind, count, is_sure, given.is_list("q")])
    if not_modified(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    values: dict[str, list[Any]] = {}

    async def translate_all() -> None:
        answers = await service.translate(texts, source, target, caller, Manner(kind, scores=is_sure))
        values["translatedText"] = [each.text for each in answers]
        if source is None:
            values["detectedLanguage"] = [_detected(each.detected) for each in answers if each.detected is not None]
        if is_sure:
            sure = [each.sureness or Sureness(None, [(each.text, None)]) for each in answers]
            values["confidence"], values["parts"] = [each.confidence for each in sure], [each.parts for each in sure]
        if count:
            values["alternatives"] = await service.alternatives(texts, answers, source, target, count, caller, kind)

    with caller.account.charged(size * (1 + count)):
        await within(service.limits.seconds, translate_all())
    found = values if given.is_list("q") else {name: each[0] for name, each in values.items()}
    return await beside(size * (1 + count), JSONResponse, found, 200, {"ETag": etag})


@router.get("/languages", summary="The languages and what they can be translated to")
async def languages(request: Request) -> Any:
    known = service_of(request).languages
    return [{"code": code, "name": name_of(code), "targets": known.targets_of(code)} for code in known.codes]


@router.post(
    "/detect",
    summary="Find out the language of a text, among those that there are",
    openapi_extra=schema({"q": _STRING, **_KEY}, ["q"]),
)
async def detect(request: Request) -> Any:
    service, given = service_of(request), await Parameters.read(request)
    caller_of(request, given.text("api_key"))
    texts = given.texts("q")
    if texts is None:
        raise RefusedError(400, "Invalid request: missing q parameter")
    service.check(texts)
    return [_detected(each) for each in await asyncio.to_thread(service.languages.detect, "\n".join(texts))]


@router.get("/health", summary="Whether the server runs")
async def health() -> Any:
    return {"status": "ok"}


@router.get("/spec", include_in_schema=False)
async def spec(request: Request) -> Any:
    return request.app.openapi()


@router.get("/frontend/settings", summary="What a page needs to know")
async def settings(request: Request) -> Any:
    service = service_of(request)
    source, target = service.languages.pairs[0]
    return {
        "apiKeys": service.keys is not None,
        "charLimit": service.limits.characters if service.limits.characters is not None else -1,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": service.keys is not None,
        "language": {
            side: {"code": code, "name": name_of(code)} for side, code in (("source", source), ("target", target))
        },
        "suggestions": False,
        "supportedFilesFormat": all_suffixes(),
    }


@router.post("/suggest", include_in_schema=False)
async def suggest() -> Any:
    raise RefusedError(403, "Suggestions are disabled on this server.")


@router.post(
    "/translate_file",
    summary="Translate a document",
    openapi_extra=schema(
        {"file": {"type": "string", "format": "binary"}, "source": _STRING, "target": _STRING, **_KEY},
        ["file", "source", "target"],
        kinds=["multipart/form-data"],
    ),
)
async def translate_file(request: Request) -> Any:
    service, given = service_of(request), await Parameters.read(request)
    caller = caller_of(request, given.text("api_key"))
    file, source, target = given.file("file"), given.text("source"), given.text("target")
    for name, value in (("file", file), ("source", source), ("target", target)):
        if value is None:
            raise RefusedError(400, f"Invalid request: missing {name} parameter")
    assert file is not None and source is not None and target is not None
    wanted = None if source == "auto" else _find(request, source), _find(request, target)
    uploads: Uploads = request.app.state.uploads
    name = await uploads.translate(file.filename or "", await file.read(), *wanted, service, caller)
    return {"translatedFileUrl": f"{request.app.state.origins.base(request)}/download_file/{quote(name)}"}


@router.get("/download_file/{name}", summary="Fetch a translated document")
async def download_file(request: Request, name: str) -> Response:
    uploads: Uploads = request.app.state.uploads
    found = uploads.find(name)
    if found is None:
        raise RefusedError(404, "There is no such file, or not any more.")
    headers = {"Content-Disposition": attachment(name), "Cache-Control": "no-store"}
    return Response(found, media_type="application/octet-stream", headers=headers)


def _find(request: Request, code: str) -> str:
    """
    :raises RefusedError: no model has the language.
    """
    found = service_of(request).languages.find(code)
    if found is None:
        raise RefusedError(400, f"{code[:40]} is not supported")
    return found


def _detected(found: Detected) -> dict[str, object]:
    return {"confidence": found.confidence, "language": found.language}
