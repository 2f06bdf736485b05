"""The further translations of a line, from the n-best lists of its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from specmt.text.parts import Part
from specmt.text.rules import Rules
from specmt.types import Alternative


class _Choice(NamedTuple):
    """One translation of a sentence."""

    loss: float
    """How far it lies below the best."""

    text: str | None = None
    """What the model said; ``None`` for the best."""

    gain: float = 0.0
    """How much more its score is than that of the best."""


def alternatives(parts: Sequence[Part], rules: Rules, count: int, score: float) -> list[Alternative]:
    """Returns the best translations of a line but for the very best: those with the least loss over all sentences.

    What must be copied is in all of them, and none is there twice.

    :param rules: by which the line was cut
    :param count: how many at most
    :param score: of the best one
    """
    wanted = count + 1
    lines = [_Line(0.0, ())]
    for part in parts:
        choices = _choices(part, rules)
        lines = sorted(
            (_Line(line.loss + choice.loss, (*line.choices, choice)) for line in lines for choice in choices),
            key=lambda line: line.loss,
        )[: 2 * wanted]
    found: dict[str, Alternative] = {}
    for line in lines:
        pairs = list(zip(parts, line.choices, strict=True))
        text = "".join(part.render(choice.text) + part.separator for part, choice in pairs)
        found.setdefault(text, Alternative(text, score + sum(choice.gain for _, choice in pairs)))
    return list(found.values())[1:wanted]


class _Line(NamedTuple):
    """One translation of the sentences so far."""

    loss: float
    choices: tuple[_Choice, ...]


def _choices(part: Part, rules: Rules) -> list[_Choice]:
    if not part.ids or part.fragments:
        return [_Choice(0.0)]
    best = part.hypotheses[0]
    others = [(each.loss, rules.read(each), each.score - best.score) for each in best.alternatives]
    accepted = [other for other in others if rules.accepts(part, other[1])]
    return [_Choice(0.0), *(_Choice(loss, rules.written(part, said), gain) for loss, said, gain in accepted)]
