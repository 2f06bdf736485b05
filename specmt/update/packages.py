"""Packages, as DOCX and EPUB, of which nothing but the texts of segments can be exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from specmt.text.tags import carry
from specmt.types import Tag, Tagged


def with_tags(said: Tagged, own: Tagged) -> Tagged:
    """Returns a text of one document as another one can write it.

    :param said: the text, with the tags of its document
    :param own: the text of the same segment in the other document
    """
    theirs, ours = [*_flat(said.tags)], [*_flat(own.tags)]
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


def all_with_tags(said: Mapping[int, Tagged], own: Sequence[Tagged]) -> dict[int, Tagged]:
    """Returns texts, by the numbers of segments, as the document that has these can write them."""
    return {number: with_tags(each, own[number]) for number, each in said.items()}


def _flat(tags: Sequence[Tag]) -> Iterator[Tag]:
    for each in tags:
        yield each
        yield from _flat(each.children)
