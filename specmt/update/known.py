"""Texts and their translations in two files that belong together: what people approved, what keys or structure pair."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Final, NamedTuple, final

from specmt.errors import DataError
from specmt.formats.document import FormatOptions, Segment
from specmt.project import Project, options_of
from specmt.types import Span, Tagged
from specmt.update.pairing import SURE
from specmt.update.plan import partners
from specmt.update.record import NONE, Item
from specmt.update.sides import Side
from specmt.update.store import Files, read_whole, recall, record_in

_BY_SOURCE: Final = ("po", "qt", "tmx")
"""The formats whose keys are no keys without the texts; a file of those has both languages, too."""


class Known(NamedTuple):
    """A text and its translation, and where they are."""

    source: str
    target: str
    file: str
    line: int


def known_texts(files: Files, options: FormatOptions, *, approved: bool = False) -> Iterator[Known]:
    """Yields the texts of two files that are translations of each other.

    :param approved: whether only those count that people wrote or accepted, by the record, and that are still so; else
        blocks are paired by their keys, or by structure where they have none, and surely
    :raises DataError: a file is damaged, or too few blocks surely belong together.
    :raises InputNotFoundError: there is no such file.
    """
    if approved and not _has_approved(files):
        return
    data, name = read_whole(files.target), str(files.source)
    source = Side(read_whole(files.source), name, files.file_format, options, is_source=True)
    target = Side(data, files.name, files.file_format, options, is_source=False)
    if not approved and files.file_format not in _BY_SOURCE and all(each.context for each in target.document.segments):
        yield from _by_key(source.document.segments, target.document.segments, name)
        return
    pairs = _approved(files, data, source, target) if approved else _paired(files, source, target)
    for one, other in pairs:
        yield from _texts(source.texts(one), target.texts(other), name, source.line(one))


def _texts(source: Sequence[Tagged], target: Sequence[Tagged], name: str, line: int) -> Iterator[Known]:
    """Yields what blocks say where both have as many texts."""
    if len(source) == len(target):
        for one, other in zip(source, target, strict=True):
            if one.text.strip() and other.text.strip():
                yield Known(one.text, other.text, name, line)


def _by_key(source: Sequence[Segment], target: Sequence[Segment], name: str) -> Iterator[Known]:
    said: defaultdict[str, list[Tagged]] = defaultdict(list)
    for each in target:
        said[each.context].append(each.source)
    ours: defaultdict[str, list[Segment]] = defaultdict(list)
    for each in source:
        ours[each.context].append(each)
    for key, segments in ours.items():
        if key:
            yield from _texts([each.source for each in segments], said[key], name, segments[0].line)


def _has_approved(files: Files) -> bool:
    """Whether a record has a line of what people wrote; most have none, and their files need not be read."""
    return files.target.exists() and files.record.exists() and b" h " in files.record.read_bytes()


@final
class Approved(Mapping[str, str]):
    """What people approved and memories have, by source; read when it is first looked at, and the first one counts."""

    def __init__(self, read: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._read = read

    @cached_property
    def _known(self) -> dict[str, str]:
        known: dict[str, str] = {}
        for source, target in self._read():
            known.setdefault(source, target)
        return known

    def __getitem__(self, source: str) -> str:
        return self._known[source]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def translations_in(project: Project, to: str) -> Iterator[tuple[Files, FormatOptions]]:
    """Yields the translations into a language that a project has, and how they are read."""
    for pair in project.pairs():
        if pair.to == to and pair.target.exists():
            record = record_in(project.folder, to, pair.source.relative_to(project.folder))
            options = options_of(pair.source, (project.source_language, to), pair.settings)
            yield Files(pair.source, pair.target, record, pair.file_format), options


def approved_in(pairs: Iterable[tuple[Files, FormatOptions]]) -> Iterator[tuple[str, str]]:
    """Yields what people approved in translations and their sources; of those that are damaged others tell."""
    for files, options in pairs:
        with suppress(DataError):
            yield from ((each.source, each.target) for each in known_texts(files, options, approved=True))


def _approved(files: Files, data: bytes, source: Side, target: Side) -> Iterator[Span]:
    record = recall(files, data, frozenset(each.text for each in target.items), recovers=False)
    if record is None:
        return
    sources, targets = _places(source.items), _places(target.items)
    for entry in record.entries:
        ours = sources[entry.kind, entry.key, entry.source]
        theirs = targets[entry.kind, entry.key, entry.target]
        if ours and theirs:
            places = ours.popleft(), theirs.popleft()
            if entry.origin == "h":
                yield places


def _places(items: list[Item]) -> defaultdict[tuple[str, str, str], deque[int]]:
    places: defaultdict[tuple[str, str, str], deque[int]] = defaultdict(deque)
    for number, item in enumerate(items):
        places[item.kind, item.key, item.text].append(number)
    return places


def _paired(files: Files, source: Side, target: Side) -> Iterator[Span]:
    found = partners(source.items, target.items, partial(source.paired, target))
    found = [each for each in found if each.is_sure and source.items[each.source].text != NONE]
    asked = {number for number, each in enumerate(source.items) if each.text != NONE and not each.key}
    sure = len(asked & {each.source for each in found})
    if sure < SURE * len(asked):
        raise DataError(
            f"{files.name}: is not surely a translation of {files.source}: {sure} of {len(asked)} blocks are."
        )
    yield from ((each.source, each.target) for each in found if each.target is not None)
