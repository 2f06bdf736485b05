"""Documents: translated as a whole, kept for a while under a name that nobody can guess, in memory alone."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final
from urllib.parse import quote

from specmt.formats.known import HEAD
from specmt.serve.documents import format_of, translate_document
from specmt.serve.errors import RefusedError
from specmt.serve.fair import Slots

if TYPE_CHECKING:
    from specmt.serve.asked import Caller
    from specmt.serve.service import Service

SECONDS: Final = 1800.0
"""How long a translated document can be fetched."""

UNPACKED: Final = 4
"""How many documents are held unpacked at a time."""

CHUNK: Final = 1 << 16
"""Characters of a text, in whole lines, that wait for their model at a time."""

OF_CLIENT: Final = 1
"""How many of these are a client's at most."""

_NAME: Final = 255
"""How many characters of a name are looked at."""

MOST: Final = 256 << 20
"""The most bytes of documents that are kept; the oldest go first."""


def attachment(name: str) -> str:
    """Returns the value of `Content-Disposition` for a document, its ASCII letters for old clients (RFC 6266)."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"


@final
class Uploads:
    """The documents that were translated lately."""

    def __init__(self, *, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._size = 0
        self._unpacking = Slots(UNPACKED, OF_CLIENT)
        self._documents: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # the oldest first

    async def translate(
        self, name: str, content: bytes, source: str | None, target: str, service: Service, caller: Caller
    ) -> str:
        """Translates a document; returns the name under which it can be fetched.

        :raises RefusedError: it is no document of a known kind, or as `Service.translate`.
        """
        stem, dot, suffix = re.split(r"[/\\]", name[-_NAME:])[-1].rpartition(".")
        suffix = dot + suffix.lower()
        file_format = format_of(stem + suffix, content[:HEAD])
        if file_format is None:
            raise RefusedError(400, "Invalid request: file format not supported")
        if not content:
            raise RefusedError(400, "Invalid request: empty file")
        with caller.account.charged(len(content)):
            async with self._unpacking.of(caller.client):
                if file_format == "text":
                    written = await _translate_text(content, source, target, service, caller)
                else:
                    written = await translate_document(service, content, file_format, source, target, caller)
        stem = unicodedata.normalize("NFC", stem)  # which browsers on macOS do not send
        letters = (each if each == "-" or unicodedata.category(each)[0] in "LMN" else "_" for each in stem)
        plain = re.sub("_+", "_", "".join(letters))[:60]
        return self.keep(f"{secrets.token_urlsafe(16)}.{plain}_{target}{suffix}", written)

    def keep(self, name: str, content: bytes) -> str:
        """Keeps a document for a while; returns its name."""
        self.expire()
        self._documents[name] = self._clock(), content
        self._size += len(content)
        while self._size > MOST and len(self._documents) > 1:
            self._remove_oldest()
        return name

    def find(self, name: str) -> bytes | None:
        """Returns a document that is still there."""
        self.expire()
        found = self._documents.get(name)
        return None if found is None else found[1]

    def expire(self) -> None:
        """Drops what is too old."""
        while self._documents and next(iter(self._documents.values()))[0] + self._seconds < self._clock():
            self._remove_oldest()

    async def expire_for_ever(self) -> None:
        """Drops what is too old every minute."""
        while True:
            await asyncio.sleep(60.0)
            self.expire()

    def _remove_oldest(self) -> None:
        _, (_, content) = self._documents.popitem(last=False)
        self._size -= len(content)


async def _translate_text(content: bytes, source: str | None, target: str, service: Service, caller: Caller) -> bytes:
    """Translates plain text little by little.

    :raises RefusedError: it is not UTF-8, or as `Service.translate`.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"Invalid request: not UTF-8 at byte offset {error.start}") from None
    found = await asyncio.to_thread(service.find_pairs, [text], source, target)
    written = bytearray()

    async def translate() -> None:
        place = 0
        while place < len(text):
            end = text.rfind("\n", place, place + CHUNK) + 1 or text.find("\n", place) + 1 or len(text)
            (answer,) = await service.translate([text[place:end]], found[0][0][0], target, caller)
            written.extend(answer.text.encode())
            place = end

    seconds = service.limits.seconds
    try:
        await asyncio.wait_for(translate(), seconds)
    except asyncio.TimeoutError:
        raise RefusedError(503, f"This took longer than {seconds:g} seconds") from None
    return bytes(written)
