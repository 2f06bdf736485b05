"""The documents of DeepL's contract: one is sent, asked after, and fetched once."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from specmt.serve.context import schema
from specmt.serve.deepl import STRING, authorize, check_wishes, find_source, find_target, find_terms, unsupported
from specmt.serve.errors import RefusedError
from specmt.serve.orders import Order, Orders
from specmt.serve.uploads import Upload, attachment

router: Final = APIRouter(prefix="/v2/document", tags=["DeepL"])

_KEY: Final = schema({"document_key": STRING}, ["document_key"])


@router.post(
    "",
    summary="Send a document that is to be translated",
    openapi_extra=schema(
        {
            "file": {"type": "string", "format": "binary"},
            "filename": STRING,
            "target_lang": STRING,
            "source_lang": STRING,
            "glossary_id": STRING,
            "output_format": {"type": "string", "description": "None but that of the document."},
        },
        ["file", "target_lang"],
        kinds=["multipart/form-data"],
    ),
)
async def send(request: Request) -> Any:
    service, given, caller = await authorize(request)
    file, source, target = given.file("file"), find_source(service, given), find_target(service, given)
    if file is None:
        raise RefusedError(400, "Parameter 'file' not specified.")
    check_wishes(given)
    terms = find_terms(given, service, caller, (source, target))
    upload = Upload.read(given.text("filename") or file.filename or "", await file.read())
    output = given.text("output_format")
    if output and f".{output.lower()}" != upload.suffix:
        raise unsupported("output_format", output)
    order = _orders(request).add(upload, source, target, service, caller, terms)
    return {"document_id": order.id, "document_key": order.key}


@router.post("/{document_id}", summary="How far a document is", openapi_extra=_KEY)
async def status(request: Request, document_id: str) -> Any:
    order = await _find(request, document_id)
    more: dict[str, object] = {"billed_characters": order.characters} if order.status == "done" else {}
    if order.status == "error":
        more = {"error_message": order.error}
    return {"document_id": order.id, "status": order.status} | more


@router.post("/{document_id}/result", summary="Fetch a document, once", openapi_extra=_KEY)
async def result(request: Request, document_id: str) -> Response:
    order = await _find(request, document_id)
    found = _orders(request).fetch(order)
    headers = {"Content-Disposition": attachment(order.name), "Cache-Control": "no-store"}
    return Response(found, media_type="application/octet-stream", headers=headers)


async def _find(request: Request, name: str) -> Order:
    _, given, caller = await authorize(request)
    return _orders(request).find(caller.owner, name, given.text("document_key") or "")


def _orders(request: Request) -> Orders:
    orders: Orders = request.app.state.orders
    return orders
