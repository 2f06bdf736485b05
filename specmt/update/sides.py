"""A source or a target that is being updated: its blocks, and what tells them from others."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Final, final

from specmt.errors import DataError
from specmt.formats import read_document
from specmt.formats.anchors import given_ids
from specmt.formats.blocks import Block, Content, blocks_in, content, text_of
from specmt.formats.document import Document, FormatOptions, LineNumbers
from specmt.formats.known import BILINGUAL
from specmt.formats.shape import Checked
from specmt.types import Tagged
from specmt.update.pairing import Paired, Shape, pair, shape
from specmt.update.record import Item, blob_id, source_item, target_item

_MARK: Final = re.compile(rb"^(<{7} |={7}\r?$|>{7} )", re.MULTILINE)


@final
class Side:
    """One of two files, as it is."""

    def __init__(self, data: bytes, name: str, file_format: str, options: FormatOptions, *, is_source: bool) -> None:
        """
        :param options: how the source is read
        :raises DataError: it is damaged, or in a conflict of git.
        """
        _check_merged(data, name)
        language = options.source if is_source else options.target
        if not is_source and file_format not in BILINGUAL:
            options = replace(options, source=options.target, target=options.source, insists=True)
        self.data: Final = data
        self.document: Final[Document] = read_document(data, name, file_format, options)
        inner = text_of(self.document)
        self.is_package: Final = inner is None
        """Whether nothing can be inserted, so that its segments are its blocks."""
        self._text = "" if inner is None else inner.text
        self._language = language
        self._is_source = is_source
        self._format = file_format

    @property
    def blob(self) -> str:
        """The name that git gives to it."""
        return blob_id(self.data)

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """Its blocks."""
        if not self.is_package:
            return blocks_in(self.document, self._format)
        return [
            Block(0, 0, "segment", segments=range(number, number + 1)) for number in range(len(self.document.segments))
        ]

    @cached_property
    def contents(self) -> list[Content]:
        """What each block says."""
        if self.is_package:
            return [Content((segment.source.text,), ()) for segment in self.document.segments]
        return [content(self.document, block, is_source=self._is_source) for block in self.blocks]

    @cached_property
    def items(self) -> list[Item]:
        """What tells each block from others."""
        make = source_item if self._is_source else target_item
        return [
            make(block.kind, block.key, said, self._language)
            for block, said in zip(self.blocks, self.contents, strict=True)
        ]

    @cached_property
    def ids(self) -> dict[int, list[str]]:
        """The ids of the headings in each block of a page that has such."""
        slugs = self.document.slugs if isinstance(self.document, Checked) else {}
        found: dict[int, list[str]] = {}
        for place, slug in slugs.items():
            number = bisect_right(self.blocks, place, key=lambda block: block.start) - 1
            found.setdefault(number, []).append(slug)
        return found

    def moved(self, before: Mapping[int, Sequence[str]]) -> Iterator[tuple[str, str]]:
        """Yields ids that nothing in this page has any more, and what headings have instead.

        :param before: the ids that there were, by block of this page
        """
        present = {*chain.from_iterable(self.ids.values()), *given_ids(self._text)}
        for number, ids in self.ids.items():
            pairs = zip(before.get(number, ()), ids, strict=False)
            yield from ((old, new) for old, new in pairs if old not in present)

    def texts(self, number: int) -> list[Tagged]:
        """Returns the texts of a block, of its translation where it has one."""
        segments = [self.document.segments[each] for each in self.blocks[number].segments]
        return [Tagged(each.target) if each.target and not self._is_source else each.source for each in segments]

    def shape(self, number: int) -> Shape:
        """Returns what of a block is the same in every language."""
        return shape(self.blocks[number].kind, self.contents[number])

    def paired(self, target: Side, ours: Sequence[int], theirs: Sequence[int]) -> list[Paired]:
        """Returns which of some blocks are translations of each other, by the shapes of both."""
        return [
            each._replace(source=ours[each.source], target=None if each.target is None else theirs[each.target])
            for each in pair([*map(self.shape, ours)], [*map(target.shape, theirs)])
        ]

    def text(self, number: int) -> str:
        """Returns a block as it is written."""
        return self._text[self.blocks[number].start : self.blocks[number].end]

    def places(self, made: Sequence[tuple[int | None, str]], source: Sequence[Block]) -> dict[int, int]:
        """Returns, by the number of the block of the source, which block of this translation is of it.

        :param made: what this was made of: of which block of the source each text is, and the text
        :param source: the blocks of the source
        """
        if len(made) == len(self.blocks) or self.is_package:
            made = made[: len(self.blocks)]
            return {number: place for place, (number, _) in enumerate(made) if number is not None}
        # A translation may be read as more blocks than one, or as a part of its neighbour.
        keyed = {(block.kind, block.key): number for number, block in enumerate(self.blocks) if block.key}
        found: dict[int, int] = {}
        place, used = 0, -1
        for number, text in made:
            known = None if number is None else keyed.get((source[number].kind, source[number].key))
            start = self._text.find(text.strip(), place) if text else -1
            if start >= 0:
                place = start + len(text.strip())
                block = bisect_right(self.blocks, start, key=lambda block: block.start) - 1
                if number is not None and known is None and block != used:
                    found[number] = used = block
            if number is not None and known is not None:
                found[number] = known
        return found

    @cached_property
    def _lines(self) -> LineNumbers:
        return LineNumbers(self._text)

    def line(self, number: int) -> int:
        """Returns the line on which a block starts."""
        block = self.blocks[number]
        if block.segments:
            return self.document.segments[block.segments[0]].line
        text = self._text[block.start : block.end]
        return self._lines(block.start + len(text) - len(text.lstrip()))


def _check_merged(data: bytes, name: str) -> None:
    """
    :raises DataError: it has a conflict of git in it.
    """
    seen = b""
    for match in _MARK.finditer(data):
        seen = seen + match[1][:1] if match[1][:1] != b"<" else b"<"
        if seen == b"<=>":
            line = data.count(b"\n", 0, match.start()) + 1
            raise DataError(f"{name}: has a conflict that is not resolved, up to line {line}.")
