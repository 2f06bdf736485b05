"""The session: sentences come at any time, are decoded side by side, and leave when they are finished (DESIGN §2.4)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, final
from weakref import finalize

from specmt.decoding.accept import Acceptor, Within
from specmt.decoding.drafters import Choice, Drafter, arms_of, choose, fixed_arm, make_drafter
from specmt.decoding.drafters.base import NO_DRAFT, Arm
from specmt.decoding.loop import Loop
from specmt.decoding.model import HasDrafters, Model
from specmt.decoding.policy import FixedPolicy, LearntPolicy, Policy
from specmt.decoding.request import Recorder, Request
from specmt.decoding.rows import Finished, Rows
from specmt.decoding.sample import Rejection, sampling
from specmt.decoding.tables import VERIFIER, Costs, checked
from specmt.decoding.translation_memory import TranslationMemory
from specmt.engine.fused import EXACT, FusedBeam, FusedLoop, Rule
from specmt.errors import UsageError, is_out_of_memory
from specmt.files import cache_folder, keep, recall
from specmt.options import DecodingOptions
from specmt.types import Hypothesis, Tally

if TYPE_CHECKING:
    from specmt.decoding.beam import BeamSearch

logger = logging.getLogger(__name__)

LEAST_IDLE_LANES = 4
"""How many lanes without work keep their caches."""

GUESSES = 7
"""How many continuations beam search verifies ahead: of the five hypotheses of a sentence and these, a product of
matrices is one pass over the weights with AVX-512."""

GUESSED = (0.3, 0.0)
"""How often all hypotheses of the next step are among them, as long as that was not counted."""

_Lane = Rows[Any]
"""Decodes the requests of equal options."""


class _Kind(NamedTuple):
    """What requests must share to be decoded side by side."""

    options: DecodingOptions
    memory: int
    recorder: int


@final
class Session:
    """Decodes requests with one model: they arrive at any time and finish in any order.

    Requests with equal options are decoded side by side, others take turns; neither changes an output. A session is
    used by one thread at a time; it keeps its caches, and what it has learnt about drafting, for as long as it lives.
    """

    def __init__(self, model: Model, wrap: Callable[[Policy], Policy] = lambda policy: policy) -> None:
        """
        :param wrap: returns what is asked in the place of a policy, to look on or to say something else
        """
        self._model, self._wrap = model, wrap
        self._lanes: dict[_Kind, _Lane] = {}  # in the order in which they take turns
        self._kinds: dict[int, _Kind] = {}  # of the requests that are not finished
        self._capacity: int | None = None  # the most rows that memory has room for, once that has turned out
        self.tally: dict[str, Tally] = {}
        """What came of each way to draft."""

    def __len__(self) -> int:
        """How many requests are not finished."""
        return len(self._kinds)

    @property
    def survival(self) -> dict[str, list[float]]:
        """How often the first 1, 2, … tokens of drafts stand, where that is learnt, by who drafts, and for what."""
        policies = [lane.policy for lane in self._lanes.values() if isinstance(lane, Loop)]
        learnt = [policy.survival() for policy in policies if isinstance(policy, LearntPolicy)]
        return {name: shares for each in learnt for name, shares in each.items()}

    def submit(self, request: Request) -> None:
        """Takes in a request.

        :raises UsageError: a request with its key is not finished.
        :raises ModelError: a drafter or a shortlist is asked for that the model does not have.
        """
        if request.key in self._kinds:
            raise UsageError(f"`key` must be a new one, but is {request.key} instead.")
        kind = _Kind(request.options, id(request.memory), id(request.recorder))
        if kind not in self._lanes:
            self._drop_idle()
            self._lanes[kind] = self._make_lane(request)
        self._lanes[kind].add(request)
        self._kinds[request.key] = kind

    def cancel(self, key: int) -> bool:
        """Drops a request; returns whether it was not finished."""
        kind = self._kinds.pop(key, None)
        return kind is not None and self._lanes[kind].cancel(key)

    def step(self) -> list[Finished]:
        """Lets the next lane that has work do some of it; returns the keys and hypotheses of what finished.

        :raises MemoryError: there is not enough for a single sentence, which is dropped.
        """
        kind = next((kind for kind, lane in self._lanes.items() if lane.is_busy), None)
        if kind is None:
            return []
        lane = self._lanes.pop(kind)
        self._lanes[kind] = lane  # the last to have its next turn
        try:
            finished = lane.step()
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._shrink(kind, error)
            return []
        for key, _ in finished:
            del self._kinds[key]
        return finished

    def _shrink(self, kind: _Kind, error: BaseException) -> None:
        """Begins anew with half as many sentences side by side."""
        lane = self._lanes.pop(kind)
        requests, rows = lane.requests, min(lane.capacity, len(lane.requests))
        if rows == 1:
            del self._kinds[requests[0].key]
            requests = requests[1:]
        else:
            self._capacity = min(self._capacity or rows, rows // 2)
            logger.warning("memory is too small for %d sentences side by side; going on with %d", rows, self._capacity)
            for other in self._lanes.values():
                other.capacity = min(other.capacity, self._capacity)
        if requests:
            lane = self._lanes[kind] = self._make_lane(requests[0])
            for request in requests:
                lane.add(request)
        if rows == 1:
            raise error

    def _drop_idle(self) -> None:
        idle = [kind for kind, lane in self._lanes.items() if not lane.is_busy]
        for kind in idle[: max(0, len(idle) - LEAST_IDLE_LANES + 1)]:
            del self._lanes[kind]

    def _make_search(self, capacity: int, most: int, options: DecodingOptions) -> BeamSearch:
        """Returns a lane for beam search.

        :param most: the most padded source ids side by side
        """
        from specmt.decoding.beam import BeamSearch  # late: most runs need none

        model = self._model
        policy: Policy = FixedPolicy(NO_DRAFT)
        drafters: list[Drafter] = []
        fused = model.verifier if isinstance(model.verifier, FusedBeam) else None
        if fused is not None and looks_ahead(options, model):
            drafters = [make_drafter("autoregressive", model, capacity, options)]
            policy = make_beam_policy(model, drafters[0], options.beam_size)
        return BeamSearch(
            model.verifier,
            drafters,
            policy,
            options,
            capacity=capacity,
            max_source_tokens=most,
            tally=self.tally,
            fused=fused,
            heads=model.alignment_heads,
        )

    def _make_lane(self, like: Request) -> _Lane:
        """Returns a lane for requests like one."""
        model, options = self._model, like.options
        capacity = min(options.batch_size, self._capacity or options.batch_size)
        most = max(1, options.batch_tokens * capacity // options.batch_size)
        if options.strategy == "beam":
            return self._make_search(capacity, most, options)
        choice = choose(options, model)
        memory = like.memory if like.memory is not None or not choice.looks_up else TranslationMemory()
        drafters = [make_drafter(name, model, capacity, options, memory) for name in choice.names]
        verifier = model.verifier
        watched = like.recorder is not None
        return Loop(
            verifier,
            drafters,
            self._wrap(make_policy(model, options, choice, drafters)),
            make_acceptor(options),
            capacity=capacity,
            max_source_tokens=most,
            scores=options.scores,
            tally=self.tally,
            recorder=like.recorder,
            fused=verifier if isinstance(verifier, FusedLoop) and not watched else None,
            shortlist=model.shortlist if options.shortlist else None,
            heads=model.alignment_heads,
        )


def make_policy(model: Model, options: DecodingOptions, choice: Choice, drafters: Sequence[Drafter]) -> Policy:
    """Returns what decides who drafts and how far ahead."""
    if choice.block_size is not None:
        fixed = [fixed_arm(number, name, model, options) for number, name in enumerate(choice.names)] or [NO_DRAFT]
        return FixedPolicy(fixed[0], fixed[-1] if choice.looks_up else None)
    arms = [arm for number, name in enumerate(choice.names) for arm in arms_of(number, name, model, options)]
    base = "logits" if options.scores else "shortlist" if options.shortlist else VERIFIER
    return LearntPolicy(arms, drafters, make_costs(model, base), keep=keeper(model))


def looks_ahead(options: DecodingOptions, model: HasDrafters) -> bool:
    """Returns whether beam search may use the autoregressive drafter."""
    return options.drafter == "autoregressive" or (options.drafter == "auto" and "autoregressive" in model.drafters)


def make_beam_policy(model: Model, drafter: Drafter, width: int) -> Policy:
    """Returns what decides when beam search looks ahead."""
    costs, arm = make_costs(model, "beam"), Arm(0, 1, width, GUESSES)
    return LearntPolicy([arm], [drafter], costs, width=width, prior=GUESSED, keep=keeper(model))


def make_costs(model: Model, base: str) -> Costs:
    """Returns what calls cost, as far as that is known of a model on this machine.

    :param base: the name of verifying
    """
    if not model.costs:
        model.costs.update(checked(recall("costs", model.costs_key)))
    return Costs(model.costs, {name: model.share(name) for name in model.drafters}, base)


def keeper(model: Model) -> Callable[[], None]:
    """Returns what keeps the costs of calls for other days: its first call when the model goes, others at once.

    Where that cannot be done, it is done without.
    """
    calls = count()

    def keep_costs() -> None:
        known = "costs", model.costs_key, model.costs
        if next(calls):
            keep(*known)
        else:  # the file system may take longer than a sentence
            finalize(model, keep, *known, cache_folder())

    return keep_costs


def make_acceptor(options: DecodingOptions) -> Acceptor:
    """Returns the acceptance rule that the options ask for."""
    if options.samples:
        return Rejection(sampling(options))
    return Within(EXACT if options.lossless else Rule(options.beta, options.tolerance))


def decode(
    model: Model,
    sources: Sequence[list[int]],
    options: DecodingOptions,
    places: Sequence[tuple[int, int]] | None = None,
    *,
    memory: TranslationMemory | None = None,
    recorder: Recorder | None = None,
    wrap: Callable[[Policy], Policy] = lambda policy: policy,
) -> list[Hypothesis]:
    """Decodes sentences given as ids without EOS, in a session of their own.

    :param places: the line that each comes from, and its number in the line, which samples depend on
    :param memory: what lookups copy from; what they lead to is added. By default one that starts empty.
    :param recorder: notes every verifier call
    :param wrap: that of the session
    :raises ModelError: a drafter or a shortlist is asked for that the model does not have.
    """
    session = Session(model, wrap)
    places = places or [(number, 0) for number in range(len(sources))]
    requests = [
        Request(number, source, *place, options=options, aligned=options.alignments, memory=memory, recorder=recorder)
        for number, (source, place) in enumerate(zip(sources, places, strict=True))
    ]
    # Longest first: the short ones fill the rows that become free towards the end.
    for request in sorted(requests, key=lambda each: -len(each.source)):
        session.submit(request)
    hypotheses: dict[int, Hypothesis] = {}
    while len(session):
        hypotheses |= session.step()
    return [hypotheses[number] for number in range(len(sources))]
