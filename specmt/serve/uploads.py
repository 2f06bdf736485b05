"""Documents: translated as a whole, kept for a while under a name that nobody can guess, in memory alone."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, final
from urllib.parse import quote

from specmt.formats.known import HEAD
from specmt.serve.asked import Caller, Manner
from specmt.serve.documents import Desk, Written, format_of
from specmt.serve.errors import RefusedError
from specmt.serve.fair import Slots, within
from specmt.serve.markup import Work

if TYPE_CHECKING:
    from specmt.serve.glossaries import Terms
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


class Upload(NamedTuple):
    """A document that is to be translated."""

    content: bytes
    file_format: str
    stem: str
    """Of its name, in which letters are left alone."""

    suffix: str

    @classmethod
    def read(cls, name: str, content: bytes) -> Upload:
        """
        :raises RefusedError: it is no document of a known kind.
        """
        stem, dot, suffix = re.split(r"[/\\]", name[-_NAME:])[-1].rpartition(".")
        suffix = dot + suffix.lower()
        file_format = format_of(stem + suffix, content[:HEAD])
        if file_format is None:
            raise RefusedError(400, "Invalid request: file format not supported, by its file extension")
        if not content:
            raise RefusedError(400, "Invalid request: empty file")
        stem = unicodedata.normalize("NFC", stem)  # which browsers on macOS do not send
        letters = (each if each == "-" or unicodedata.category(each)[0] in "LMN" else "_" for each in stem)
        return cls(content, file_format, re.sub("_+", "_", "".join(letters))[:60], suffix)

    def name(self, target: str) -> str:
        """Returns what its translation is called."""
        return f"{self.stem}_{target}{self.suffix}"

    async def translate(
        self, source: str | None, target: str, service: Service, caller: Caller, terms: Terms | None = None
    ) -> Written:
        """
        :raises RefusedError: it is damaged, or too large, or as `Service.translate`.
        """
        if self.file_format == "text":
            return await _translate_text(self.content, source, target, service, caller, terms)
        cutter = await service.cutter(terms)
        work = Work([self.content], self.file_format, source, target, service.options)
        (found,) = await Desk(service, work, caller, cutter).run()
        return found


@final
class Uploads:
    """The documents that were translated lately."""

    def __init__(self, *, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._size = 0
        self.unpacking: Final = Slots(UNPACKED, OF_CLIENT)
        self._documents: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # the oldest first

    async def translate(
        self, name: str, content: bytes, source: str | None, target: str, service: Service, caller: Caller
    ) -> str:
        """Translates a document; returns the name under which it can be fetched.

        :raises RefusedError: it is no document of a known kind, or as `Service.translate`.
        """
        upload = Upload.read(name, content)
        with caller.account.charged(len(content)):
            written = await self.unpacking.run(
                caller.client, service.limits.seconds, lambda: upload.translate(source, target, service, caller)
            )
        return self.keep(f"{secrets.token_urlsafe(16)}.{upload.name(target)}", written.data)

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

    def take(self, name: str) -> bytes | None:
        """Returns a document that is still there, and keeps it no longer."""
        found = self.find(name)
        if found is not None:
            del self._documents[name]
            self._size -= len(found)
        return found

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


async def _translate_text(
    content: bytes, source: str | None, target: str, service: Service, caller: Caller, terms: Terms | None
) -> Written:
    """Translates plain text little by little.

    :raises RefusedError: it is not UTF-8, or as `Service.translate`.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"Invalid request: not UTF-8 at byte offset {error.start}") from None
    ((pair, detected),) = await asyncio.to_thread(service.find_pairs, [text], source, target)
    written = bytearray()

    async def translate() -> None:
        place = 0
        while place < len(text):
            end = text.rfind("\n", place, place + CHUNK) + 1 or text.find("\n", place) + 1 or len(text)
            (answer,) = await service.translate([text[place:end]], pair[0], target, caller, Manner(terms=terms))
            written.extend(answer.text.encode())
            place = end

    await within(service.limits.seconds, translate())
    return Written(bytes(written), detected)
