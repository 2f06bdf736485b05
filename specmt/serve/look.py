"""A look inside: a translation as it is drafted and verified, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from typing_extensions import override

from specmt.decoding.choice import one_drafter
from specmt.decoding.request import Request as Sentence
from specmt.decoding.trace import Candidate, Iteration, Recorder, Trial
from specmt.decoding.tree import Node
from specmt.decoding.verdicts import mask_slots, origins, verdicts
from specmt.feeder import place_of
from specmt.serve.asked import Caller
from specmt.serve.context import caller_of, schema, service_of
from specmt.serve.errors import RefusedError
from specmt.serve.parameters import Parameters

if TYPE_CHECKING:
    from specmt.options import DecodingOptions
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
    known = service.languages.detect(text)[0].language if source == "auto" else service.languages.find(source)
    pair = known or "", service.languages.find(target) or ""
    if pair not in service.languages.pairs:
        raise RefusedError(400, f"{pair[0] or source[:40]} to {target[:40]} is not supported")
    model = service.translator(pair).model
    options = replace(one_drafter(service.options, model), batch_size=1)
    service.charge(caller, len(text))
    events: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(kind: str, event: dict[str, Any]) -> None:
        loop.call_soon_threadsafe(events.put_nowait, (kind, event))

    async def work() -> None:
        try:
            recorder = _Teller(options, model.pieces, lambda event: tell("step", event))
            # Whoever goes away is noticed by the stream.
            patient = Caller(caller.client, caller.account, asyncio.Event().wait)
            tell("done", {"text": await service.watch(text, pair, options, recorder, patient)})
        except RefusedError as error:
            tell("error", {"error": error.message})

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
    def record(
        self,
        request: Sentence,
        prefix: list[int],
        nodes: list[Node],
        verified: list[list[Candidate]],
        accepted: list[int],
        emitted: list[int],
        trials: list[Trial],
    ) -> None:
        super().record(request, prefix, nodes, verified, accepted, emitted, trials)
        (iteration,) = self.iterations.pop(request.key)
        place = zip(("sentence", "attempt", "fragment"), place_of(request.part), strict=True)
        self._tell({"line": request.line, **dict(place), **self._event(iteration)})

    def _event(self, iteration: Iteration) -> dict[str, Any]:
        """Returns what is shown of a pass; tokens as pieces, with ▁ where a word begins."""
        drafts = zip(self._names([node.token for node in iteration.nodes]), iteration.nodes, strict=True)
        found = zip(drafts, verdicts(iteration, self._options), strict=True)
        said = zip(self._names(iteration.emitted), origins(iteration), strict=True)
        return {
            "prefix": self._names(iteration.prefix[1:]),
            "slots": mask_slots(iteration, self._options),
            "drafts": [
                {"token": name, "parent": node.parent, "probability": _share(node.log_prob), "verdict": verdict}
                for (name, node), verdict in found
            ],
            "choices": [
                [
                    {"token": name, "probability": _share(each.log_prob)}
                    for name, each in zip(self._names([each.token for each in best]), best, strict=True)
                ]
                for best in iteration.verified[: len(iteration.emitted)]
            ],
            "tokens": [{"token": name, "origin": origin} for name, origin in said],
        }

    def _names(self, tokens: Sequence[int]) -> list[str]:
        return self._pieces.pieces(tokens)


def _share(log_prob: float) -> float | None:
    return None if math.isnan(log_prob) else round(math.exp(log_prob), 4)
