"""How sure a translated text is: as a whole, and word by word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import exp
from typing import Final, NamedTuple

from specmt.text.patience import patience
from specmt.types import Translation

Part = tuple[str, float | None]
"""A part of a translation; of a word as the model said it, the product of its pieces' probabilities."""

_WORD: Final = re.compile(r"\S+")


class Sureness(NamedTuple):
    """How sure a text is."""

    confidence: float | None
    """The probability that it is acceptable: that of its least sure line."""

    parts: list[Part]
    """What it is made of."""


def sureness(translations: Iterable[Translation]) -> Sureness:
    """Returns how sure a text is, by the translations of its lines, made with scores."""
    parts: list[Part] = []
    lines = []
    for each in translations:
        parts += [*_parts(each.text, each.tokens, each.log_probs), (each.line.ending, None)]
        lines.append(each.confidence)
    known = [each for each in lines if each is not None]
    return Sureness(min(known) if known and len(known) == len(lines) else None, [part for part in parts if part[0]])


def _parts(text: str, tokens: Sequence[str], log_probs: Sequence[float]) -> Iterator[Part]:
    if not log_probs:
        yield text, None
        return
    said: list[str] = []
    sums: list[float] = []
    for token, log_prob in zip(tokens, log_probs, strict=True):
        if token.startswith("▁") or not said:
            said.append("")
            sums.append(0.0)
        said[-1] += token.removeprefix("▁")
        sums[-1] += log_prob
    there = [*_WORD.finditer(text)]
    place = 0
    # What is put in, or written otherwise than the model said it, has no probability.
    for one, other in patience([each[0] for each in there], said):
        start, end = there[one].span()
        yield text[place:start], None
        yield text[start:end], round(exp(sums[other]), 4)
        place = end
    yield text[place:], None
