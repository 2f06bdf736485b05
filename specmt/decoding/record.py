"""What is told of a trace: this JSON, drawings of it, and events.

Tokens are objects with ``id`` and ``piece`` (▁ is the space before it). Probabilities are natural logarithms named
``log_prob``, but for ``draft`` and ``verifier`` of trials. ``null`` is what is not known. A place is a token of the
window that one verifier call scores: 0 is the last committed token, i the i-th node.

``source``, ``translation``
    ``text`` and ``tokens``, without BOS and EOS.
``strategy``, ``drafter``, ``beta``, ``tolerance``, ``temperature``
    The options that decide what is accepted.
``lossless``
    Whether the translation is what greedy decoding says.
``stats``
    ``tokens`` (EOS included), ``verifier_calls``, ``drafted``, ``accepted``, ``mean_accepted_length``.
``line``, ``text``
    The sentence as it was given, and its translation as it is written.
``attempt``
    0 where that is what the model said freely, 1 with numbers and what is copied held fast, 2 where the texts between
    those were translated by themselves, since what is shown lost some of it.
``alignment``
    Pairs of a word of ``line`` and a word of ``text`` that comes from it, counted from 0.
``iterations``
    A list of objects, one a verifier call:

    ``prefix``
        The committed tokens before it, BOS first.
    ``mask_slots``
        How many [MASK] slots followed them in the drafter's input.
    ``nodes``
        The draft tree: tokens with ``place``, ``parent`` (a place), ``log_prob`` and ``verdict``: ``accepted``,
        ``rejected``, or ``unseen`` where the verdict did not depend on it.
    ``verified``
        For each place, the verifier's best tokens after it, with ``log_prob`` and ``ruled_out`` (by the tolerance).
    ``accepted``
        The places of the accepted nodes, from the root on.
    ``emitted``
        The tokens committed, with ``origin``: ``accepted`` (a draft), ``corrected`` (the verifier's own in place of
        drafts) or ``added`` (the verifier's own where nothing was drafted).
    ``why``
        Where there was a choice: why that was drafted, or nothing, up to the next choice.
    ``trials``
        When sampling, what was tested, in that order: ``place``, ``draft`` (its probability p), ``verifier`` (q),
        ``accepted`` and, after a rejection, ``residual``: the likeliest tokens left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from specmt.options import DecodingOptions
from specmt.types import EOS

if TYPE_CHECKING:
    from specmt.decoding.trace import Candidate, Iteration, Trace
    from specmt.decoding.tree import Node
    from specmt.text.pieces import PieceModel

_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE: Final = "▁"
_SPACE_SHOWN: Final = "␣"

Verdict = Literal["accepted", "rejected", "unseen"]
Origin = Literal["accepted", "corrected", "added"]

# The fields of what follows are the keys above, in the order in which they are written.


@dataclass(frozen=True)
class Token:
    id: int
    piece: str

    @property
    def text(self) -> str:
        """The piece without the space before it; a byte as its number, a space of its own as ␣."""
        if (byte := _BYTE.fullmatch(self.piece)) is not None:
            return f"⟨{byte[1]}⟩"
        if self.id <= EOS:
            return self.piece
        return self.piece.removeprefix(_SPACE).replace(_SPACE, _SPACE_SHOWN) or _SPACE_SHOWN

    @property
    def joined(self) -> bool:
        """Whether it goes on where the token before it ended, without a space between them."""
        return _BYTE.fullmatch(self.piece) is not None or (self.id > EOS and not self.piece.startswith(_SPACE))

    @property
    def alone(self) -> str:
        """The text where no other token stands before it: a dot says that it goes on."""
        return f"·{self.text}" if self.joined else self.text


@dataclass(frozen=True)
class Draft(Token):
    place: int
    parent: int
    log_prob: float
    verdict: Verdict


@dataclass(frozen=True)
class Likely(Token):
    log_prob: float


@dataclass(frozen=True)
class Choice(Likely):
    ruled_out: bool


@dataclass(frozen=True)
class Committed(Token):
    origin: Origin


@dataclass(frozen=True)
class Tried:
    place: int
    draft: float
    verifier: float
    accepted: bool
    residual: list[Likely]


@dataclass(frozen=True)
class Step:
    """An iteration whose tokens have pieces, verdicts and origins."""

    prefix: list[Token]
    mask_slots: int
    nodes: list[Draft]
    verified: list[list[Choice]]
    accepted: list[int]
    emitted: list[Committed]
    why: str
    trials: list[Tried]

    @property
    def is_tree(self) -> bool:
        """Whether any draft has a sibling."""
        return len({draft.parent for draft in self.nodes}) < len(self.nodes)

    @property
    def unseen(self) -> int:
        """How many drafts were dropped unseen."""
        return sum(draft.verdict == "unseen" for draft in self.nodes)

    def trial(self, place: int) -> Tried | None:
        """Returns the test of a draft, if there was one."""
        return next((trial for trial in self.trials if trial.place == place), None)

    def children(self, place: int) -> list[Draft]:
        """Returns the drafts that follow a place."""
        return [draft for draft in self.nodes if draft.parent == place]

    def run(self, draft: Draft) -> list[Draft]:
        """Returns a draft and its descendants, as far as there is one child only."""
        run = [draft]
        while len(children := self.children(run[-1].place)) == 1:
            run += children
        return run

    @property
    def checks(self) -> list[tuple[int, int, Committed]]:
        """Of each committed token its number in the translation, from 1, the place that it follows, and itself."""
        places = [0, *self.accepted]
        return [(len(self.prefix) + n, places[n], token) for n, token in enumerate(self.emitted)]


@dataclass(frozen=True)
class Text:
    text: str
    tokens: list[Token]


@dataclass(frozen=True)
class Record:
    """All that is told of a trace."""

    source: Text
    translation: Text
    strategy: str
    drafter: str
    beta: int
    tolerance: float
    temperature: float
    lossless: bool
    stats: dict[str, float]
    line: str
    text: str
    attempt: int
    alignment: list[tuple[int, int]]
    iterations: list[Step]

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON has it, where numbers are finite."""

        def known(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {name: None if name == "log_prob" and not math.isfinite(value) else value for name, value in pairs}

        return asdict(self, dict_factory=known)


def record(trace: Trace, pieces: PieceModel, options: DecodingOptions) -> Record:
    """Returns what is told of a trace.

    :param options: those that it was made with.
    """
    source = list(map(Token, trace.source, pieces.source_pieces(trace.source)))
    translation = list(map(Token, trace.tokens, pieces.pieces(trace.tokens)))
    steps = [step_of(iteration, pieces, options) for iteration in trace.iterations]
    verdicts = [draft.verdict for step in steps for draft in step.nodes]
    count, calls = sum(len(step.emitted) for step in steps), len(steps)
    return Record(
        source=Text(pieces.decode_source(trace.source), source),
        translation=Text(pieces.decode(trace.tokens), translation),
        strategy=options.strategy,
        drafter=options.drafter if options.strategy == "speculative" else "none",
        beta=options.beta,
        tolerance=options.tolerance,
        temperature=options.temperature,
        lossless=trace.lossless,
        stats={
            "tokens": count,
            "verifier_calls": calls,
            "drafted": len(verdicts),
            "accepted": verdicts.count("accepted"),
            "mean_accepted_length": count / calls if calls else 0.0,
        },
        line=trace.line,
        text=trace.text,
        attempt=trace.attempt,
        alignment=[*trace.alignment],
        iterations=steps,
    )


def step_of(iteration: Iteration, pieces: PieceModel, options: DecodingOptions) -> Step:
    """Returns what is told of an iteration."""

    def named(token: int) -> tuple[int, str]:
        return token, pieces.pieces([token])[0]

    def is_out(best: Candidate, each: Candidate) -> bool:
        return not (options.lossless or options.samples) and best.log_prob - each.log_prob > options.tolerance

    def verdict(place: int, node: Node) -> Verdict:
        if place in stood:
            return "accepted"
        if options.samples:
            return "rejected" if place in failed else "unseen"
        choices = verified[node.parent][: 1 if options.lossless else None]
        fits = any(choice.id == node.token and not choice.ruled_out for choice in choices)
        return "rejected" if node.parent in reached and not fits else "unseen"

    nodes = iteration.nodes
    # Where EOS or the limit came first, not all accepted drafts were committed.
    count = len(iteration.emitted)
    stood, reached = iteration.accepted[:count], [0, *iteration.accepted][:count]
    failed = {trial.place for trial in iteration.trials if not trial.accepted}
    verified = [
        [Choice(*named(each.token), each.log_prob, is_out(best[0], each)) for each in best]
        for best in iteration.verified
    ]
    origins: list[Origin] = ["accepted"] * len(stood)
    origins.append("corrected" if reached[-1] in {node.parent for node in nodes} else "added")
    return Step(
        prefix=[Token(*named(token)) for token in iteration.prefix],
        mask_slots=_mask_slots(nodes, options),
        nodes=[
            Draft(*named(node.token), place, node.parent, node.log_prob, verdict(place, node))
            for place, node in enumerate(nodes, start=1)
        ],
        verified=verified,
        accepted=iteration.accepted,
        emitted=[Committed(*named(token), origins[number]) for number, token in enumerate(iteration.emitted)],
        why=iteration.why,
        trials=[
            Tried(
                trial.place,
                trial.draft,
                trial.verifier,
                trial.accepted,
                [Likely(*named(each.token), each.log_prob) for each in trial.residual],
            )
            for trial in iteration.trials
        ],
    )


def _mask_slots(nodes: Sequence[Node], options: DecodingOptions) -> int:
    """Returns the number of [MASK] slots, at least as many as the draft tree is deep; 0 without the masked drafter."""
    if "masked" not in options.drafters or not nodes:
        return 0
    depths = [0]
    for node in nodes:
        depths.append(depths[node.parent] + 1)
    return options.block_size or max(depths)
