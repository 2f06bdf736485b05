"""Documents that are translated while nobody waits: who sent one asks how far it is, and fetches it once."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, final

from specmt.serve.errors import RefusedError, refusal_of
from specmt.serve.room import Claim
from specmt.serve.uploads import SECONDS, Upload, Uploads

if TYPE_CHECKING:
    from specmt.serve.asked import Caller
    from specmt.serve.documents import Written
    from specmt.serve.glossaries import Terms
    from specmt.serve.service import Service

MOST: Final = (10_000, 128 << 20)
"""No more are taken in while so many documents were not fetched yet, or so many bytes of them wait."""

OF_CLIENT: Final = (1000, 32 << 20)
"""Of one client's."""


@dataclass
class Order:
    """A document that was sent."""

    owner: str
    client: str
    name: str
    """What its translation is called."""

    characters: int
    """What it costs."""

    id: str = field(default_factory=lambda: secrets.token_hex(16).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    """Whoever has it may ask for the document, if the key of the server is the same too."""

    status: Literal["queued", "translating", "done", "error"] = "queued"
    error: str = ""
    """Why it could not be translated."""

    @property
    def waiting(self) -> int:
        """How many bytes wait for their translation."""
        return self.characters if self.status in ("queued", "translating") else 0

    @property
    def place(self) -> str:
        """Where the translation is kept: under no name that `/download_file` has."""
        return f"{self.id}/{self.key}"


@final
class Orders:
    """The documents of all clients that were not fetched yet."""

    def __init__(self, uploads: Uploads) -> None:
        """
        :param uploads: keeps translations
        """
        self._uploads = uploads
        self._stopping = asyncio.Event()
        self._orders: dict[str, Order] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(
        self, upload: Upload, source: str | None, target: str, service: Service, caller: Caller, terms: Terms | None
    ) -> Order:
        """Takes in a document.

        :param source: ``None`` finds out
        :raises RefusedError: there are too many already, or its key has not so many characters left.
        """
        if source == target:
            raise _same_language()
        orders = list(self._orders.values())
        own = [each for each in orders if each.client == caller.client]
        for found, (most, most_bytes) in ((orders, MOST), (own, OF_CLIENT)):
            if len(found) >= most or sum(each.waiting for each in found) >= most_bytes:
                raise RefusedError(429, "Too many documents are waiting, or were not fetched yet", retry_after=10)
        size = len(upload.content)
        order = Order(caller.owner, caller.client, upload.name(target), size)
        with ExitStack() as held:  # until the document is translated, and not only until the request is answered
            claim = Claim(service.room, is_document=True)
            held.callback(claim.close)
            claim.add(size)
            claim.pass_on()
            held.enter_context(caller.account.charged(size))
            caller = caller._replace(gone=self._stopping.wait, claim=claim)
            translate = partial(upload.translate, source, target, service, caller, terms)
            work = self._translate(order, target, translate, held.pop_all())
        self._orders[order.id] = order
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return order

    def find(self, owner: str, name: str, key: str) -> Order:
        """Returns a document.

        :param owner: who asks
        :raises RefusedError: there is none, or not any more.
        """
        found = self._orders.get(name)
        if (
            found is None
            or found.owner != owner
            or not secrets.compare_digest(found.key.encode(), key.encode())
            or (found.status == "done" and self._uploads.find(found.place) is None)
        ):
            raise RefusedError(404, "Document not found, or not any more")
        return found

    def fetch(self, order: Order) -> bytes:
        """Returns the translation of a document, which is forgotten.

        :raises RefusedError: there is none, or not yet.
        """
        if order.status == "error":
            raise RefusedError(400, order.error)
        found = self._uploads.take(order.place)
        if found is None:
            raise RefusedError(503, "The document is not translated yet", retry_after=1)
        del self._orders[order.id]
        return found

    async def stop(self) -> None:
        """Gives up what is not translated: nobody can fetch it any more."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def _translate(
        self, order: Order, target: str, translate: Callable[[], Awaitable[Written]], held: ExitStack
    ) -> None:
        try:
            with held:
                async with self._uploads.unpacking.of(order.client):
                    if self._stopping.is_set():
                        raise RefusedError(503, "The server is stopping")
                    order.status = "translating"
                    written = await translate()
                if written.detected is not None and written.detected.language == target:
                    raise _same_language()
                self._uploads.keep(order.place, written.data)
            order.status = "done"
        except Exception as error:
            order.status, order.error = "error", refusal_of(error).message
        finally:
            asyncio.get_running_loop().call_later(SECONDS, self._orders.pop, order.id, None)


def _same_language() -> RefusedError:
    return RefusedError(400, "Source and target language are equal.")
