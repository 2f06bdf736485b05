"""Packages, as DOCX and EPUB, of which nothing but the texts of segments can be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from specmt.text.tags import carry, every
from specmt.types import Tag, Tagged
from specmt.update.plan import Step
from specmt.update.sides import Side


def repacked(
    source: Side,
    target: Side | None,
    steps: Sequence[Step],
    translations: Mapping[int, Tagged],
    tell: Callable[[int, str], None],
    *,
    is_anew: bool,
) -> bytes:
    """Returns a package with new texts: the target, or the source with those of the target that are known.

    :param is_anew: whether it is the source, though there is a target
    """
    if target is None:
        return source.document.write(translations, tell)
    ours, theirs = ([each.source for each in side.document.segments] for side in (source, target))
    if is_anew:
        known = {n: theirs[step.target] for n, step in enumerate(steps) if step.target is not None}
        kept = {number: each for number, each in known.items() if number not in translations}
        return source.document.write(_all_with_tags(kept, ours) | dict(translations), tell)
    places = {
        step.target: translations[n] for n, step in enumerate(steps) if n in translations and step.action == "write"
    }
    said = {other: each for other, each in places.items() if other is not None}
    return target.document.write(_all_with_tags(said, theirs), lambda *_: None) if said else target.data


def with_tags(said: Tagged, own: Tagged) -> Tagged:
    """Returns a text of one document as another one can write it.

    :param said: the text, with the tags of its document
    :param own: the text of the same segment in the other document
    """
    theirs, ours = [*every(said.tags)], [*every(own.tags)]
    if [each.is_placeholder for each in theirs] != [each.is_placeholder for each in ours]:
        return carry(own, said.text)[0]
    tags = iter(ours)

    def exchanged(of: Sequence[Tag]) -> tuple[Tag, ...]:
        made = []
        for each in of:
            mine = next(tags)
            made.append(replace(each, open=mine.open, close=mine.close, children=exchanged(each.children)))
        return tuple(made)

    return replace(said, tags=exchanged(said.tags))


def _all_with_tags(said: Mapping[int, Tagged], own: Sequence[Tagged]) -> dict[int, Tagged]:
    """Returns texts, by the numbers of segments, as the document that has these can write them."""
    return {number: with_tags(each, own[number]) for number, each in said.items()}
