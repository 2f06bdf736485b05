"""What the routes of both contracts share: who asks, whether the answer is known, how a route is described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request

from specmt.serve.asked import Caller
from specmt.serve.errors import RefusedError
from specmt.serve.service import Service


def service_of(request: Request) -> Service:
    """Returns the service that a request is for."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request, key: str | None) -> Caller:
    """Lets a request in.

    :raises RefusedError: a key is needed and this is none, or the client asks too often.
    """
    service = service_of(request)
    if service.keys is not None and not key:
        raise RefusedError(403, "Please contact the server operator to get an API key")
    account = service.everyone if service.keys is None else service.keys.find(key or "")
    if account is None:
        raise RefusedError(403, "Invalid API key")
    client = account.name or (request.client.host if request.client else "")
    request.scope.setdefault("state", {})["client"] = client  # for the log
    service.rate.take(client)

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return Caller(client, account, gone, request.scope["state"]["claim"])


def not_modified(request: Request, etag: str) -> bool:
    """Whether the client has the answer already."""
    given = request.headers.get("if-none-match")
    return given is not None and (given.strip() == "*" or etag in (each.strip() for each in given.split(",")))


def schema(
    properties: Mapping[str, object],
    required: Sequence[str],
    *,
    kinds: Sequence[str] = ("application/json", "application/x-www-form-urlencoded"),
) -> dict[str, Any]:
    """Returns how a request body is described in OpenAPI."""
    body = {"schema": {"type": "object", "properties": dict(properties), "required": list(required)}}
    return {"requestBody": {"content": {kind: body for kind in kinds}}}
