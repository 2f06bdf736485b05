"""What is shown of a trace, whatever it is shown on: tokens made readable, drafts with the verdict on them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specmt.decoding.verdicts import Origin, Verdict, mask_slots, origins, reached, ruled_out, verdicts
from specmt.options import DecodingOptions
from specmt.text.parts import ATTEMPTS
from specmt.types import EOS

if TYPE_CHECKING:
    from specmt.decoding.trace import Candidate, Iteration, Trace
    from specmt.text.pieces import PieceModel

MARKS: Final = {"accepted": "✓", "rejected": "✗", "unseen": "–", "corrected": "→", "added": "+"}
"""How verdicts and origins are shown without colours."""

_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE: Final = "▁"
_SPACE_SHOWN: Final = "␣"


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
class Choice:
    """A token that the verifier considers."""

    token: Token
    probability: float

    blank: bool = False
    """Whether τ rules it out."""


@dataclass(frozen=True)
class Draft:
    """A drafted token and those drafted after it."""

    token: Token

    probability: float
    """What the drafter gave it (p, if it was tested by rejection sampling); NaN where it has no probabilities."""

    verdict: Verdict

    verifier: float | None
    """q of rejection sampling; ``None`` where there was no such test."""

    residual: tuple[Choice, ...]
    """After a rejection in sampling, the likeliest tokens that are left of the verifier's distribution."""

    children: tuple[Draft, ...]

    @property
    def run(self) -> list[Draft]:
        """It and its descendants, as far as there is one child only."""
        run = [self]
        while len(run[-1].children) == 1:
            run += run[-1].children
        return run


@dataclass(frozen=True)
class Check:
    """What was made of one position of the translation."""

    position: int
    """Its number in the translation, from 1."""

    drafts: tuple[Draft, ...]
    choices: tuple[Choice, ...]
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
    figures: tuple[tuple[str, str], ...]
    """What came of it all: names and values."""

    legend: tuple[tuple[str, str, str], ...]
    """Signs, what they mean, and the verdict or origin that they stand for, if any."""


def percent(probability: float) -> str:
    """Returns a probability as it is shown; nothing for NaN, and only what is exactly so is 0% or 100%."""
    if math.isnan(probability):
        return ""
    if 0.0 < probability < 0.01:
        return "<1%"
    return ">99%" if 0.99 < probability < 1.0 else f"{probability:.0%}"


def view(trace: Trace, pieces: PieceModel, options: DecodingOptions) -> View:
    """Returns what is shown of a trace.

    :param options: those that it was made with.
    """

    def tokens(ids: Sequence[int]) -> tuple[Token, ...]:
        return tuple(map(_token, ids, pieces.pieces(ids)))

    def choices(candidates: Sequence[Candidate], blank: Sequence[bool]) -> tuple[Choice, ...]:
        named = zip(tokens([each.token for each in candidates]), candidates, blank, strict=True)
        return tuple(Choice(token, math.exp(each.log_prob), is_out) for token, each, is_out in named)

    def step(number: int, iteration: Iteration, before: Input, after: Input | None) -> Step:
        children: dict[int, list[int]] = {}
        for place, node in enumerate(iteration.nodes, start=1):
            children.setdefault(node.parent, []).append(place)
        names, judged = tokens([node.token for node in iteration.nodes]), verdicts(iteration, options)
        trials = {trial.place: trial for trial in iteration.trials}
        drafts: dict[int, Draft] = {}
        for place in range(len(iteration.nodes), 0, -1):  # children come after their parents
            trial, below = trials.get(place), tuple(drafts[child] for child in children.get(place, []))
            p, q = math.exp(iteration.nodes[place - 1].log_prob), None
            if trial is not None:
                p, q = trial.draft, trial.verifier
            left = trial.residual if trial is not None else ()
            residual = choices(left, [False] * len(left))
            drafts[place] = Draft(names[place - 1], p, judged[place - 1], q, residual, below)
        committed = zip(reached(iteration), tokens(iteration.emitted), origins(iteration), strict=True)
        checks = [
            Check(
                position,
                tuple(drafts[child] for child in children.get(place, [])),
                choices(iteration.verified[place], ruled_out(iteration.verified[place], options)),
                token,
                origin,
            )
            for position, (place, token, origin) in enumerate(committed, start=len(iteration.prefix))
        ]
        first = tuple(drafts[place] for place in children.get(0, []))
        is_tree = any(len(siblings) > 1 for siblings in children.values())
        return Step(number, before, first, is_tree, tuple(checks), judged.count("unseen"), after)

    inputs = [Input(tokens(each.prefix), mask_slots(each, options)) for each in trace.iterations]
    rounds = zip(trace.iterations, inputs, [*inputs[1:], None], strict=True)
    steps = tuple(step(number, *each) for number, each in enumerate(rounds, start=1))
    return View(
        source=pieces.decode_source(trace.source),
        source_tokens=tuple(map(_token, trace.source, pieces.source_pieces(trace.source))),
        translation=pieces.decode(trace.tokens),
        steps=steps,
        figures=(*_written(trace, pieces), *_figures(trace, steps, options)),
        legend=tuple(_legend(steps)),
    )


def _token(token: int, piece: str) -> Token:
    if (byte := _BYTE.fullmatch(piece)) is not None:
        return Token(token, f"⟨{byte[1]}⟩", True)
    if token <= EOS:
        return Token(token, piece, False)
    text = piece.removeprefix(_SPACE)
    return Token(token, text.replace(_SPACE, _SPACE_SHOWN) or _SPACE_SHOWN, text == piece)


def _written(trace: Trace, pieces: PieceModel) -> Iterator[tuple[str, str]]:
    """Yields what becomes of the words that the model said."""
    if trace.text not in ("", pieces.decode(trace.tokens)):
        yield "Written", trace.text
    yield "Attempt", f"{trace.attempt}: {ATTEMPTS[trace.attempt]}"
    words, others = trace.line.split(), trace.text.split()
    if trace.alignment:
        yield "Alignment", "  ".join(f"{words[one]}–{others[other]}" for one, other in trace.alignment)


def _figures(trace: Trace, steps: Sequence[Step], options: DecodingOptions) -> list[tuple[str, str]]:
    calls, tokens = len(steps), sum(len(step.checks) for step in steps)
    figures = [("Verifier calls", f"{calls} for {tokens} tokens: {tokens / calls:.2f} a call")]
    drafted = sum(len(iteration.nodes) for iteration in trace.iterations)
    if drafted:
        accepted = sum(check.origin == "accepted" for step in steps for check in step.checks)
        figures.append(("Drafts", f"{drafted} drafted, {accepted} accepted ({percent(accepted / drafted)})"))
    method = "token by token"
    if options.strategy == "speculative" and options.drafters != ("none",):
        drafter, block_size = "+".join(options.drafters), options.block_size or "auto"
        method = f"speculative, drafter {drafter}, tree {options.tree}, block size {block_size}"
    output = f"lossy: β {options.beta} with τ {options.tolerance:g} may differ from greedy decoding"
    if options.samples:
        output = f"sampled: distributed exactly as the model's own samples at temperature {options.temperature:g}"
    elif trace.lossless:
        output = "lossless: exactly what greedy decoding says"
    return [*figures, ("Method", method), ("Output", output)]


def _legend(steps: Sequence[Step]) -> list[tuple[str, str, str]]:
    legend = [("+", "the model's own token", "added")]
    if any(step.drafts for step in steps):
        legend = [
            ("✓", "accepted draft", "accepted"),
            ("✗", "rejected draft", "rejected"),
            ("→", "the model's own token instead", "corrected"),
            ("+", "its own after all drafts", "added"),
            ("–", "draft not looked at", "unseen"),
        ]
    legend.append(("1 2 …", "the model's best tokens", ""))
    checks = [check for step in steps for check in step.checks]
    if any(choice.blank for check in checks for choice in check.choices):
        legend.append(("[BLANK]", "ruled out by τ", ""))
    if any(draft.verifier is not None for check in checks for draft in check.drafts):
        legend += [("p", "drafter", ""), ("q", "model", ""), ("r", "residual q − p", "")]
    return [*legend, ("·", "goes on without a space", "")]
