"""A look inside: a translation as it is drafted and verified, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final, final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from typing_extensions import override

from specmt.decoding.drafters import one_drafter
from specmt.decoding.record import Step, step_of
from specmt.decoding.request import Recorder
from specmt.decoding.request import Request as Sentence
from specmt.decoding.trace import Iteration
from specmt.feeder import place_of
from specmt.options import DecodingOptions
from specmt.serve.context import caller_of, schema, service_of
from specmt.serve.errors import RefusedError, refusal_of
from specmt.serve.parameters import Parameters
from specmt.text.pieces import PieceModel

router: Final = APIRouter(tags=["A look inside"])

MOST_CHARACTERS: Final = 2000
"""Of a text that is watched."""


@router.post(
    "/look",
    summary="Translate a text and watch: events `step`, then `done` or `error`",
    openapi_extra=schema(
        {name: {"type": "string"} for name in ("q", "source", "target", "api_key")}, ["q", "source", "target"]
    ),
)
async def look(request: Request) -> StreamingResponse:
    service, given = service_of(request), await Parameters.read(request)
    caller = caller_of(request, given.text("api_key"))
    text, source, target = given.text("q"), given.text("source"), given.text("target")
    if not text or source is None or target is None:
        raise RefusedError(400, "Invalid request: q, source and target must be given")
    if len(text) > MOST_CHARACTERS:
        raise RefusedError(413, f"Invalid request: request ({len(text)}) exceeds text limit ({MOST_CHARACTERS})")
    known = service.languages.find(source)
    if source == "auto":
        known = (await asyncio.to_thread(service.languages.detect, text))[0].language
    pair = known or "", service.languages.find(target) or ""
    if pair not in service.languages.pairs:
        raise RefusedError(400, f"{pair[0] or source[:40]} to {target[:40]} is not supported")
    model = service.translator(pair).model
    options = replace(one_drafter(service.options, model), batch_size=1)
    events: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(kind: str, event: dict[str, Any]) -> None:
        loop.call_soon_threadsafe(events.put_nowait, (kind, event))

    async def work() -> None:
        try:
            recorder = _Teller(options, model.pieces, lambda event: tell("step", event))
            # Whoever goes away is noticed by the stream.
            patient = caller._replace(gone=asyncio.Event().wait)
            with caller.account.charged(len(text)):
                tell("done", {"text": await service.watch(text, pair, options, recorder, patient)})
        except Exception as error:
            tell("error", {"error": refusal_of(error).message})

    async def stream() -> AsyncIterator[str]:
        task = asyncio.create_task(work())
        try:
            kind = ""
            while kind not in ("done", "error"):
                kind, event = await events.get()
                yield f"event: {kind}\ndata: {json.dumps(event)}\n\n"
        finally:
            task.cancel()

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


@final
class _Teller(Recorder):
    """Tells of each pass instead of writing it down."""

    def __init__(self, options: DecodingOptions, pieces: PieceModel, tell: Callable[[dict[str, Any]], object]) -> None:
        super().__init__(options.beta)
        self._options = options
        self._pieces = pieces
        self._tell = tell

    @override
    def record(self, request: Sentence, iteration: Iteration) -> None:
        place = zip(("sentence", "attempt", "fragment"), place_of(request.part), strict=True)
        step = step_of(iteration, self._pieces, self._options)
        self._tell({"line": request.line, **dict(place), **_event(step)})


def _event(step: Step) -> dict[str, Any]:
    """Returns what is shown of a pass; tokens as pieces, with ▁ where a word begins."""
    return {
        "prefix": [token.piece for token in step.prefix[1:]],
        "slots": step.mask_slots,
        "drafts": [
            {
                "token": draft.piece,
                "parent": draft.parent,
                "probability": _share(draft.log_prob),
                "verdict": draft.verdict,
            }
            for draft in step.nodes
        ],
        "choices": [
            [{"token": choice.piece, "probability": _share(choice.log_prob)} for choice in best]
            for best in step.verified[: len(step.emitted)]
        ],
        "tokens": [{"token": token.piece, "origin": token.origin} for token in step.emitted],
    }


def _share(log_prob: float) -> float | None:
    return None if math.isnan(log_prob) else round(math.exp(log_prob), 4)
