"""What is shown of a trace, whatever it is shown on: tokens made readable, drafts with the verdict on them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from specmt.cli.trace.verdicts import Origin, Verdict, mask_slots, origins, reached, ruled_out, verdicts
from specmt.options import DecodingOptions
from specmt.types import EOS

if TYPE_CHECKING:
    from specmt.decoding.trace import Candidate, Iteration, Trace

MARKS: Final = {"accepted": "✓", "rejected": "✗", "unseen": "–", "corrected": "→", "added": "+"}
"""How verdicts and origins are shown without colours."""

_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE: Final = "▁"
_SPACE_SHOWN: Final = "␣"


class PieceNames(Protocol):
    """What is needed of `specmt.text.pieces.PieceModel`."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of piece ids."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces themselves, word boundaries shown as ▁."""

    def decode_source(self, ids: Sequence[int]) -> str:
        """Returns the text of source ids."""

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of source ids."""


@dataclass(frozen=True)
class Token:
    """A token as it is shown."""

    id: int

    text: str
    """The piece without the space before it; a byte as its number, a space of its own as ␣."""

    joined: bool
    """Whether it goes on where the token before it ended, without a space between them."""

    @property
    def alone(self) -> str:
        """The text where no other token stands before it: a dot says that it goes on."""
        return f"·{self.text}" if self.joined else self.text


@dataclass(frozen=True)
class Draft:
    """A drafted token and those drafted after it."""

    token: Token

    probability: float
    """What the drafter gave it; NaN where it has no probabilities."""

    verdict: Verdict
    children: tuple[Draft, ...] = ()

    @property
    def run(self) -> list[Draft]:
        """It and its descendants, as far as there is one child only."""
        run = [self]
        while len(run[-1].children) == 1:
            run += run[-1].children
        return run


@dataclass(frozen=True)
class Choice:
    """A token that the verifier considers."""

    token: Token
    probability: float

    blank: bool = False
    """Whether τ rules it out."""


@dataclass(frozen=True)
class Trial:
    """A drafted token put to the test of rejection sampling."""

    token: Token

    draft: float
    """p"""

    verifier: float
    """q"""

    accepted: bool
    residual: tuple[Choice, ...]


@dataclass(frozen=True)
class Check:
    """What was made of one position of the translation."""

    position: int
    """Its number in the translation, from 1."""

    drafts: tuple[Draft, ...]
    choices: tuple[Choice, ...]
    trials: tuple[Trial, ...]
    token: Token
    """What was committed."""

    origin: Origin


@dataclass(frozen=True)
class Input:
    """What the decoder reads."""

    prefix: tuple[Token, ...]
    slots: int
    """The number of [MASK] slots after it."""


@dataclass(frozen=True)
class Step:
    """One iteration of the loop."""

    number: int
    """From 1."""

    input: Input
    drafts: tuple[Draft, ...]
    """The first tokens of the draft tree."""

    is_tree: bool
    """Whether any drafted token has a sibling."""

    checks: tuple[Check, ...]
    unseen: int
    """How many drafted tokens were dropped unseen."""

    next: Input | None
    """``None`` at the end."""


@dataclass(frozen=True)
class View:
    """All that is shown of a trace."""

    source: str
    source_tokens: tuple[Token, ...]
    translation: str
    steps: tuple[Step, ...]
    tokens: int
    """Tokens committed, end of sentence included: the steps that greedy decoding would have taken."""

    drafted: int
    accepted: int
    method: str
    """How it was decoded."""

    guarantee: str
    """What the output is, compared with greedy decoding."""

    @property
    def has_blanks(self) -> bool:
        """Whether τ ruled anything out."""
        return any(choice.blank for step in self.steps for check in step.checks for choice in check.choices)

    @property
    def has_trials(self) -> bool:
        """Whether drafts were tested by rejection sampling."""
        return any(check.trials for step in self.steps for check in step.checks)

    @property
    def figures(self) -> list[tuple[str, str]]:
        """What came of it all: names and values."""
        calls = len(self.steps)
        figures = [("Verifier calls", f"{calls} for {self.tokens} tokens: {self.tokens / calls:.2f} a call")]
        if self.drafted:
            share = percent(self.accepted / self.drafted)
            figures.append(("Drafts", f"{self.drafted} drafted, {self.accepted} accepted ({share})"))
        return [*figures, ("Method", self.method), ("Output", self.guarantee)]

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """Signs, what they mean, and the verdict or origin that they stand for, if any."""
        legend = [("+", "the model's own token", "added")]
        if self.drafted:
            legend = [
                ("✓", "accepted draft", "accepted"),
                ("✗", "rejected draft", "rejected"),
                ("→", "the model's own token instead", "corrected"),
                ("+", "its own after all drafts", "added"),
                ("–", "draft not looked at", "unseen"),
            ]
        legend.append(("1 2 …", "the model's best tokens", ""))
        if self.has_blanks:
            legend.append(("[BLANK]", "ruled out by τ", ""))
        if self.has_trials:
            legend += [("p", "drafter", ""), ("q", "model", ""), ("r", "residual q − p", "")]
        return [*legend, ("·", "goes on without a space", "")]


def percent(probability: float) -> str:
    """Returns a probability as it is shown; nothing for NaN, and only what is exactly so is 0% or 100%."""
    if math.isnan(probability):
        return ""
    if 0.0 < probability < 0.01:
        return "<1%"
    if 0.99 < probability < 1.0:
        return ">99%"
    return f"{probability:.0%}"


def view(trace: Trace, pieces: PieceNames, options: DecodingOptions) -> View:
    """Returns what is shown of a trace.

    :param options: those that it was made with.
    """
    iterations = trace.iterations
    show = _Shown(pieces)
    inputs = [Input(show.tokens(iteration.prefix), mask_slots(iteration, options)) for iteration in iterations]
    rounds = zip(iterations, inputs, [*inputs[1:], None], strict=True)
    steps = tuple(_step(number, *each, show, options) for number, each in enumerate(rounds, start=1))
    return View(
        source=pieces.decode_source(trace.source),
        source_tokens=tuple(map(_token, trace.source, pieces.source_pieces(trace.source))),
        translation=pieces.decode(trace.tokens),
        steps=steps,
        tokens=sum(len(iteration.emitted) for iteration in iterations),
        drafted=sum(len(iteration.nodes) for iteration in iterations),
        accepted=sum(check.origin == "accepted" for step in steps for check in step.checks),
        method=_method(options),
        guarantee=_guarantee(trace, options),
    )


class _Shown:
    """Makes ids readable."""

    def __init__(self, pieces: PieceNames) -> None:
        self._pieces = pieces

    def token(self, token: int) -> Token:
        return self.tokens([token])[0]

    def tokens(self, ids: Sequence[int]) -> tuple[Token, ...]:
        return tuple(_token(*pair) for pair in zip(ids, self._pieces.pieces(ids), strict=True))

    def choices(self, candidates: Sequence[Candidate], blank: Sequence[bool] = ()) -> tuple[Choice, ...]:
        blanks = blank or [False] * len(candidates)
        pairs = zip(candidates, blanks, strict=True)
        return tuple(Choice(self.token(each.token), math.exp(each.log_prob), is_out) for each, is_out in pairs)


def _token(token: int, piece: str) -> Token:
    if (byte := _BYTE.fullmatch(piece)) is not None:
        return Token(token, f"⟨{byte[1]}⟩", True)
    if token <= EOS:
        return Token(token, piece, False)
    text = piece.removeprefix(_SPACE)
    return Token(token, text.replace(_SPACE, _SPACE_SHOWN) or _SPACE_SHOWN, text == piece)


def _method(options: DecodingOptions) -> str:
    if options.strategy != "speculative" or options.drafters == ("none",):
        return "token by token"
    drafter, block_size = "+".join(options.drafters), options.block_size or "auto"
    return f"speculative, drafter {drafter}, tree {options.tree}, block size {block_size}"


def _guarantee(trace: Trace, options: DecodingOptions) -> str:
    if options.samples:
        return f"sampled: distributed exactly as the model's own samples at temperature {options.temperature:g}"
    if trace.lossless:
        return "lossless: exactly what greedy decoding says"
    return f"lossy: β {options.beta} with τ {options.tolerance:g} may differ from greedy decoding"


def _step(
    number: int, iteration: Iteration, before: Input, after: Input | None, show: _Shown, options: DecodingOptions
) -> Step:
    children: dict[int, list[int]] = {}
    for place, node in enumerate(iteration.nodes, start=1):
        children.setdefault(node.parent, []).append(place)
    judged = verdicts(iteration, options)
    drafts: dict[int, Draft] = {}
    for place, node in reversed(list(enumerate(iteration.nodes, start=1))):  # children come after their parents
        below = tuple(drafts[child] for child in children.get(place, []))
        drafts[place] = Draft(show.token(node.token), math.exp(node.log_prob), judged[place - 1], below)
    trials = {
        trial.place: Trial(
            drafts[trial.place].token, trial.draft, trial.verifier, trial.accepted, show.choices(trial.residual)
        )
        for trial in iteration.trials
    }
    checks = []
    committed = zip(reached(iteration), iteration.emitted, origins(iteration), strict=True)
    for position, (place, token, origin) in enumerate(committed, start=len(iteration.prefix)):
        below_place = children.get(place, [])
        candidates = iteration.verified[place]
        checks.append(
            Check(
                position=position,
                drafts=tuple(drafts[child] for child in below_place),
                choices=show.choices(candidates, ruled_out(candidates, options)),
                trials=tuple(trial for at, trial in trials.items() if at in below_place),
                token=show.token(token),
                origin=origin,
            )
        )
    return Step(
        number=number,
        input=before,
        drafts=tuple(drafts[place] for place in children.get(0, [])),
        is_tree=any(len(siblings) > 1 for siblings in children.values()),
        checks=tuple(checks),
        unseen=judged.count("unseen"),
        next=after,
    )
