"""Whether the translation of a sentence is damaged, and such texts once more, held fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from specmt.text.held import Held
from specmt.text.judge import judge
from specmt.text.placeholders import find_copied
from specmt.types import Line, Tagged, Translation

_STAND_IN: Final = re.compile(r"'\{tx*\d+\}'")

Again = Callable[[Sequence[Tagged]], "Iterator[Tagged | None]"]
"""Translates texts held fast; nothing where that is damaged, too."""


def damage(source: str, translation: str) -> str | None:
    """Returns what is known to be wrong with the translation of a sentence, if anything: such a one is not written."""
    if not translation.strip():
        return "the model says nothing"
    problems = judge(source, translation, ("", ""), numbers=False, copied=find_copied(source))
    return _STAND_IN.sub("an inline tag", problems[0]) if problems else None


def again(
    sources: Sequence[Tagged], translate: Callable[[Iterable[Line]], Iterator[Translation]]
) -> Iterator[Tagged | None]:
    """Yields the translations of texts that are cut at all that must not be lost; nothing where a part is damaged."""
    held = [Held(source) for source in sources]
    parts = [Line(number, part) for number, part in enumerate(part for each in held for part in each.parts)]
    said = translate(parts) if parts else iter(())
    for each in held:
        found = [next(said) for _ in each.parts]
        is_good = found and not any(one.stats.left or damage(one.line.text, one.text) for one in found)
        yield each.join([one.text for one in found]) if is_good else None
