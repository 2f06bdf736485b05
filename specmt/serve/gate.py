"""Around everything: how much a client may send and how slowly, what is logged, what a failure looks like."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, final

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specmt.serve.errors import RefusedError, refusal_of
from specmt.serve.room import Claim, Room

BODY_SECONDS: Final = 30.0
"""How long a client may take to send what it asks, beside its size at `BODY_RATE`."""

BODY_RATE: Final = 16 << 10
"""Bytes a second."""

OVERHEAD: Final = 1 << 20
"""The bytes of a body beside its texts."""

_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]

_STATUS_OF: Final = {413: 400, 456: 403}
"""What LibreTranslate's contract has no status for."""


def body_of(path: str, error: RefusedError) -> tuple[int, dict[str, str], dict[str, str]]:
    """Returns status, body and headers of a refusal, in the words of the contract that a path belongs to."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if path.startswith(("/v2/", "/v3/")):
        return error.status, {"message": error.message}, headers
    return _STATUS_OF.get(error.status, error.status), {"error": error.message}, headers


@final
@dataclass(frozen=True)
class Gate:
    """Wraps the application: limits, the log, and failures that show nothing of the inside."""

    app: ASGIApp
    room: Room
    most_bytes: tuple[int, int]
    """Of a body of text, which is read at once, and of one in parts, which has documents."""

    log: Callable[[str], object] | None
    """Writes a line."""

    count: Callable[[int], object]
    """Is told the status of each response."""

    check: Callable[[Scope], object]
    """Refuses whom it is not for, before anything of a body is read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = sent = 0
        method = scope["method"]
        if method == "HEAD":  # the answer of GET without its body; the server goes by its own scope
            scope = {**scope, "method": "GET"}

        async def send_on(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                # What is left of a body would be taken for the next request.
                last = [] if reader.has_all else [(b"connection", b"close")]
                message["headers"] = [*message.get("headers", ()), *_HEADERS, *last]
            elif method == "HEAD":
                message["body"] = b""
            else:
                sent += len(message.get("body", b""))
            await send(message)

        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        is_document = headers.get(b"content-type", b"").startswith(b"multipart/")
        claim, most = Claim(self.room, is_document=is_document), self.most_bytes[is_document]
        scope.setdefault("state", {})["claim"] = claim
        reader = _Reader(receive, claim, most, has_all=length == b"0" and b"transfer-encoding" not in headers)
        try:
            self.check(scope)
            if not length.isdigit() or int(length[:20]) > most:
                raise RefusedError(413, f"Invalid request: request exceeds limit ({most} bytes)")
            await self.app(scope, reader, send_on)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:
            said = body_of(scope["path"], refusal_of(error))  # and no error kept, which would hold this call
            if status == 0:
                await _answer(*said)(scope, reader, send_on)
        finally:
            claim.close()
            self.count(status)
            if self.log is not None:
                with suppress(OSError):  # a full disk concerns the log alone
                    self.log(_entry(method, scope, status, sent, reader.read, time.perf_counter() - started))


@final
class _Reader:
    """Receives a body within limits."""

    def __init__(self, receive: Receive, claim: Claim, most: int, *, has_all: bool) -> None:
        self._receive = receive
        self._claim = claim
        self._most = most
        self._until = time.monotonic() + BODY_SECONDS  # and later, by what has come
        self.has_all = has_all
        self.read = 0

    async def __call__(self) -> Message:
        """
        :raises RefusedError: too much comes, or too slowly, or while too much is there already.
        """
        if self.has_all:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._until - time.monotonic()))
        except asyncio.TimeoutError:
            raise RefusedError(408, "The request took too long to arrive") from None
        self.read += (size := len(message.get("body", b"")))
        self._until += size / BODY_RATE
        self._claim.add(size)
        self.has_all = not message.get("more_body", False)
        if self.read > self._most:
            raise RefusedError(413, f"Invalid request: request exceeds limit ({self._most} bytes)")
        return message


def _answer(status: int, body: dict[str, str], more: dict[str, str]) -> Response:
    content = json.dumps(body)
    headers = {"Content-Type": "application/json", "Content-Length": str(len(content))} | more
    return Response(content, status, headers)


def _entry(method: str, scope: Scope, status: int, sent: int, read: int, seconds: float) -> str:
    """Returns a line of the log: no text and no key, and so no query."""
    client = scope.get("client")
    entry: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "client": scope.get("state", {}).get("client") or (client[0] if client else ""),
        "method": method,
        "path": getattr(scope.get("route"), "path", ""),
        "status": status,
        "read": read,
        "sent": sent,
        "ms": round(1000.0 * seconds, 1),
    }
    return json.dumps(entry)
