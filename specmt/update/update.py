"""Translations that are brought up to date: one algorithm for all formats, above their blocks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

from specmt.documents import Remark, Remember, Selection, Summary, TranslatesLines, translate_documents
from specmt.errors import DataError
from specmt.formats.blocks import rendered
from specmt.formats.commonmark import HEADER
from specmt.formats.document import KEPT, Document, FormatOptions, Segment
from specmt.formats.known import BILINGUAL, CATALOGUES
from specmt.formats.splicing import splice
from specmt.options import DecodingOptions
from specmt.types import Stats, Tagged
from specmt.update.belongs import check_languages, check_pairs, check_recognized, check_record, check_translated
from specmt.update.outcome import Counts, arranged, entry_of, remarks
from specmt.update.packages import repacked
from specmt.update.parts import MACHINE, exchanged_markup, has_same_cells, indentation, is_new, kept_texts, mended
from specmt.update.plan import OUTDATED, Plan, PlanOptions, Step, anew, plan
from specmt.update.record import NONE, Origin, Record, digest, sentences_in
from specmt.update.sides import Side
from specmt.update.store import Files, read_whole, recall

_FOR_ALL: Final = re.compile(r"<[^<>]*\stranslatable\s*=\s*[\"']false")
"""What of Android's resources no translation is to have."""


@dataclass(frozen=True, slots=True)
class Updated:
    """A translation that is up to date."""

    files: Files
    data: bytes | None
    """What it is now; ``None``: it is as it was."""

    record: Record | None
    """``None``: it is as it was."""

    moved: Mapping[str, str]
    """What the ids of headings of the source, and of the target as it was, are now, of which there are others."""

    counts: Counts
    summary: Summary
    stats: Stats

    @property
    def remarks(self) -> list[Remark]:
        """What is said of blocks and segments."""
        return self.summary.warnings


def open_update(
    files: Files,
    formats: FormatOptions,
    options: PlanOptions,
    was: Callable[[bytes], bytes | None] = lambda _: None,
    *,
    is_dry: bool = False,
    origins: str = "",
) -> Update | None:
    """Returns what is to be done with a translation; ``None``: nothing, as nothing has changed.

    :param was: returns, for a target without a record, the source that it was made of, if that is known
    :param is_dry: whether nothing may be written
    :param origins: of what is looked at even if nothing has changed since an earlier update
    :raises DataError: a file is damaged or in a conflict, or they do not belong together.
    :raises InputNotFoundError: there is no such source.
    """
    source = read_whole(files.source)
    target = read_whole(files.target) if files.target.exists() else None
    if target is not None and files.file_format not in BILINGUAL and files.source.samefile(files.target):
        raise DataError(f"{files.name}: source and target are the same file.")
    if target is not None and target.strip() and not source.strip():
        raise DataError(f"{files.source}: is empty, and {files.target} is not.")
    known = recall(files, target, recovers=not is_dry)
    looks = known is not None and any(each.origin in origins for each in known.entries)
    if target is not None and known is not None and not options.forces and not looks and known.is_of(source, target):
        return None
    earlier = was(target) if target is not None and known is None else None
    return Update(files, source, target, partial(recall, files, target, recovers=False), formats, options, earlier)


@final
class Update:
    """One translation that is brought up to date; for those who translate it is a document of what is to be asked."""

    def __init__(
        self,
        files: Files,
        source: bytes,
        target: bytes | None,
        recalled: Callable[[frozenset[str]], Record | None],
        formats: FormatOptions,
        options: PlanOptions,
        was: bytes | None = None,
    ) -> None:
        """
        :param recalled: returns the record, given the hashes of the blocks of the target
        :param was: the source that the target was made of, where there is no record
        :raises DataError: a file is damaged or in a conflict, or they do not belong together.
        """
        self.files: Final = files
        self.options: Final = options
        self._formats = formats
        self.source: Final = Side(source, str(files.source), files.file_format, formats, is_source=True)
        self.target: Final = None if target is None else self._side(target)
        self._fresh: Final[set[str]] = set()
        """The hashes of sentences that were put into what people wrote."""
        self.known: Final = None if self.target is None else self._recall(recalled) or self._made_of(was)
        self._exchanged: Final[dict[int, str]] = {}
        self.plan: Final = self._plan()
        self._check_package()
        refers, steps = files.file_format not in CATALOGUES, self.plan.steps
        self._known: Final = kept_texts(
            self.source, self.target, steps, formats, reuses=not options.again, refers=refers
        )
        self.segments: Final = self._segments()
        self._pieces: list[str] = []
        self._drafts: dict[int, str] = {}
        self._left: set[int] = set()
        self._whole = b""

    @property
    def asked(self) -> list[int]:
        """The numbers of the segments that are translated."""
        return [number for number, segment in enumerate(self.segments) if segment.state == "new"]

    def _side(self, data: bytes) -> Side:
        return Side(data, str(self.files.target), self.files.file_format, self._formats, is_source=False)

    def _recall(self, recalled: Callable[[frozenset[str]], Record | None]) -> Record | None:
        assert self.target is not None
        known = recalled(frozenset(each.text for each in self.target.items))
        if known is None:
            return None
        check_record(self.files, known, self._formats, self.source, self.target)
        return known

    def _made_of(self, was: bytes | None) -> Record | None:
        """Returns a record of the target as it was made by people of an earlier source."""
        if was is None:
            return None
        assert self.target is not None
        old = Side(was, str(self.files.source), self.files.file_format, self._formats, is_source=True)
        side = self.target
        made = plan(None, old.items, side.items, replace(self.options, adopt=True), partial(old.paired, side))
        entries = [
            entry_of(item, step, None if step.target is None else side.items[step.target])
            for item, step in zip(old.items, made.steps, strict=True)
            if step.target is not None
        ]
        named = self.files.file_format, self._formats.source, self._formats.target
        return Record(*named, old.blob, side.blob, entries)

    def _plan(self) -> Plan:
        if self.target is None:
            steps = [Step("write", "c" if each.text == NONE else "m") for each in self.source.items]
            return Plan(steps, [(number, None) for number in range(len(steps))])
        known = None if self.known is None else self.known.entries
        check_translated(self.files, self._formats, self.source, self.target)
        if known is None:
            check_languages(self.files, self._formats, self.source, self.target)
        made = plan(known, self.source.items, self.target.items, self.options, partial(self.source.paired, self.target))
        if self.known is None:
            check_pairs(self.files, made, self.source)
        else:
            check_recognized(self.files, self.known, made, self.target)
        made = replace(made, steps=[*map(self._checked, range(len(made.steps)), made.steps)])
        left = {number for number, step in enumerate(made.steps) if step.action == "leave"}
        return replace(made, order=[each for each in made.order if each[0] not in left])

    def _check_package(self) -> None:
        """
        :raises DataError: of a package, the source has other segments than the target, and none is to be made anew.
        """
        if self.target is None or not self.source.is_package or self.options.rebuild:
            return
        if [other for _, other in self.plan.order] != [*range(len(self.target.blocks))]:
            raise DataError(
                f"{self.files.source}: has other paragraphs than {self.files.target}. `--rebuild` makes that anew with "
                f"the known texts; what people changed in its layout is lost."
            )

    def _is_untranslated(self, block: int) -> bool:
        """Whether a block of the target is an entry that has no translation yet."""
        assert self.target is not None
        numbers = self.target.blocks[block].segments if self.files.file_format in BILINGUAL else ()
        return bool(numbers) and all(self.target.document.segments[number].state == "new" for number in numbers)

    @property
    def outdated(self) -> set[int]:
        """The blocks of the source of whose translations nobody says that they hold; in catalogues, those with text."""
        is_page = self.files.file_format not in CATALOGUES
        steps = enumerate(self.plan.steps)
        return {n for n, step in steps if step.origin == "o" and (is_page or self.source.items[n].text != NONE)}

    def _by_own_source(self, number: int, step: Step) -> Step:
        """Returns a step for an entry with both languages that the record does not know: its own source tells."""
        assert self.target is not None and step.target is not None
        ours, theirs = (
            [side.document.segments[each] for each in side.blocks[block].segments]
            for side, block in ((self.source, number), (self.target, step.target))
        )
        if not {each.source.text for each in theirs} <= {each.source.text for each in ours}:
            return replace(step, action="draft", note=OUTDATED)
        holds = bool(theirs) and all(each.state == "translated" for each in theirs)
        return replace(step, origin="h") if holds else step

    def _checked(self, number: int, step: Step) -> Step:
        """Returns a step that can be taken: markup is only exchanged where one part of it differs."""
        if step.action == "keep" and step.target is not None and self._is_untranslated(step.target):
            return replace(step, action="write", origin="m", note="")
        if step.action == "keep" and step.origin == "o" and step.entry is None and self.files.file_format in BILINGUAL:
            return self._by_own_source(number, step)
        is_new = step.action == "write" and step.target is None
        if is_new and self.files.file_format == "android" and _FOR_ALL.search(self.source.text(number)):
            return replace(step, action="leave", origin="-")
        is_head = self.files.file_format in BILINGUAL and self.source.items[number].text == NONE
        if is_head and step.action in ("keep", "draft") and step.note:  # editors write there, and dates change
            return replace(step, action="keep", origin="h", note="")
        if step.action not in ("transplant", "draft"):
            return step
        assert self.target is not None and step.target is not None and step.entry is not None
        if step.action == "draft":
            follows = has_same_cells(self.source, number, self.target, step, self._formats) and not self.options.again
            return replace(step, action="write", origin=step.entry.origin, note="") if follows else step
        if (text := exchanged_markup(self.source, number, self.target, step.target, self._formats)) is not None:
            self._exchanged[number] = text
            return replace(step, action="exchange")
        return replace(anew(self.source.items[number], step.entry), target=step.target, entry=step.entry)

    def _segments(self) -> list[Segment]:
        """Returns the segments of the source, of which those are new that are to be translated."""
        segments = [
            segment if segment.state == "skipped" else replace(segment, state="translated")
            for segment in self.source.document.segments
        ]
        for block, step in zip(self.source.blocks, self.plan.steps, strict=True):
            for number in block.segments if step.action in ("write", "draft") else ():
                segment = self.source.document.segments[number]
                is_known = number in self._known or self._formats.skips(segment.context)
                if not is_known and (step.action == "write" or is_new(segment.source.text, step.entry, self._formats)):
                    segments[number] = segment
        return segments

    def write(self, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> bytes:
        """Takes the translations of what was asked; returns the whole document where there is no target yet."""
        self._left = {number for number in self.asked if number not in translations}

        def told(number: int, what: str) -> None:
            if what.startswith(KEPT):
                self._left.add(number)
            if number in translations:
                tell(number, what)

        self._left |= {number for number, each in translations.items() if not each.is_whole}
        self._drafts = {number: each.text for number, each in translations.items()}
        if self.source.is_package:
            self._whole = repacked(
                self.source, self.target, self.plan.steps, translations, told, is_anew=self.options.rebuild
            )
        elif self.target is None:
            self._whole = self.source.document.write(translations, told)
            self._pieces = rendered(self.source.document, translations, lambda *_: None, self.source.blocks)
        else:
            self._mend()
            self._pieces = rendered(self.source.document, self._known | dict(translations), told, self.source.blocks)
        return self._whole

    def _mend(self) -> None:
        """Has sentences of the machine in what people wrote follow the source."""
        assert self.target is not None
        for number, step in enumerate(self.plan.steps):
            if step.action == "write" and step.origin in ("h", "o"):
                new = [self._drafts[each] for each in self.source.blocks[number].segments if each in self._drafts]
                self._fresh.update(digest([each], MACHINE) for each in sentences_in(new, self._formats.target))
            segment = next(iter(self.source.blocks[number].segments), -1)
            if step.action != "draft" or segment in self._left or segment not in self._drafts:
                continue
            made = mended(self.source, number, self.target, step, self._drafts[segment], self._formats)
            if made is not None:
                self._exchanged[number] = made.text
                self._fresh.update(made.fresh)
                origin: Origin = "h" if made.is_whole else "o"
                note = "" if made.is_whole else step.note
                self.plan.steps[number] = replace(step, action="exchange", origin=origin, note=note)

    def finish(self, summary: Summary, stats: Stats) -> Updated:
        """Returns the translation that is up to date.

        :raises DataError: it could not be read again.
        """
        data, side, found = self._written()
        if lost := dict(self._lost(side, found)):
            self._exchanged.update(lost)
            for number in lost:
                self.plan.steps[number] = replace(self.plan.steps[number], action="exchange")
            data, side, found = self._written()
        entries = [
            entry_of(
                self.source.items[number],
                step,
                side.items[found[number]] if number in found else None,
                self._fresh,
                is_left=not self._left.isdisjoint(self.source.blocks[number].segments),
            )
            for number, step in enumerate(self.plan.steps)
        ]
        named = self.files.file_format, self._formats.source, self._formats.target
        record = Record(*named, self.source.blob, side.blob, entries)
        is_same = self.target is not None and data == self.target.data
        return Updated(
            self.files,
            None if is_same else data,
            None if record == self.known else record,
            dict(self._moved(side, found)),
            self.counts,
            replace(summary, warnings=[*summary.warnings, *self.remarks]),
            stats,
        )

    def _moved(self, side: Side, found: Mapping[int, int]) -> Iterator[tuple[str, str]]:
        yield from side.moved({found[number]: ids for number, ids in self.source.ids.items() if number in found})
        steps = ((step.target, found.get(number)) for number, step in enumerate(self.plan.steps))
        if self.target is not None:
            yield from side.moved(
                {new: self.target.ids.get(old, []) for old, new in steps if old is not None and new is not None}
            )

    def _written(self) -> tuple[bytes, Side, dict[int, int]]:
        """Returns the new target, as it is and as it is read, and the numbers of its blocks by those of the source.

        :raises DataError: it could not be read again.
        """
        data, places = self._spliced()
        side = self.target
        if side is None or data != side.data:
            try:
                side = self._side(data)
            except DataError as error:
                raise DataError(
                    f"{self.files.name}: would not be valid any more, and is as it was ({error})"
                ) from error
        return data, side, side.places(places, self.source.blocks)

    def _lost(self, side: Side, found: Mapping[int, int]) -> Iterator[tuple[int, str]]:
        """Yields what was kept, but is no text where it is now, as what is indented too far is code, or not in what is
        around it now; indented as in the source, as is what is indented otherwise in the same way."""
        target = self.target
        kept = {
            number: (step.target, indentation(target.text(step.target)), indentation(self.source.text(number)))
            for number, step in enumerate(self.plan.steps)
            if target is not None and step.target is not None and step.action == "keep"
        }
        lost = {
            (old, new)
            for number, (other, old, new) in kept.items()
            if old != new and target is not None and target.items[other].sentences
            if number not in found or not side.items[found[number]].sentences or self._is_in_new(number)
        }
        for number, (other, old, new) in kept.items():
            if target is not None and (old, new) in lost:
                yield number, re.sub(rf"^{old}(?=.*\S)", new, target.text(other), flags=re.MULTILINE)

    def _is_in_new(self, number: int) -> bool:
        """Whether what has its body behind it, indented, begins before a block, and did not before."""
        is_new = number > 0 and self.plan.steps[number - 1].action == "write"
        return is_new and HEADER.fullmatch(self.source.text(number - 1).strip()) is not None

    def _spliced(self) -> tuple[bytes, list[tuple[int | None, str]]]:
        """Returns the new target, and of each of its blocks its source, and its text."""
        if self.source.is_package:
            same = not self.options.rebuild and self.target is not None
            numbers = [number for number, _ in self.plan.order] if same else range(len(self.plan.steps))
            return self._whole, [(number, "") for number in numbers]
        if self.target is None:
            return self._whole, [*enumerate(self._pieces)]
        named = self.files.file_format
        order, pieces = arranged(self.source, self.target, self.plan, self._pieces, self._exchanged, named)
        texts = [self.target.text(piece) if isinstance(piece, int) else piece for piece in pieces]
        places = [(number, text) for (number, _), text in zip(order, texts, strict=True)]
        if pieces == [*range(len(self.target.blocks))]:
            return self.target.data, places
        return splice(self.target.document, self.target.blocks, pieces, named), places

    @property
    def counts(self) -> Counts:
        """What is done."""
        steps, blocks, items = [*enumerate(self.plan.steps)], self.source.blocks, self.source.items
        stays = sum(other is not None for _, other in self.plan.order)
        return Counts(
            blocks=len(steps),
            translated=sum(step.action == "write" and bool(blocks[n].segments) for n, step in steps),
            asked=len(self.asked),
            outdated=len(self.outdated),
            deleted=sum(step.action == "leave" and items[n].text != NONE for n, step in steps),
            removed=0 if self.target is None else len(self.target.blocks) - stays,
        )

    @property
    def remarks(self) -> Iterator[Remark]:
        """What is said of blocks."""
        return remarks(self.source, self.target, self.plan, self._drafts)


def update_all(
    updates: Iterable[Update],
    translator: TranslatesLines,
    options: DecodingOptions,
    remember: Remember | None = None,
    *,
    language: str,
    fail: Callable[[DataError], None],
    selection: Selection | None = None,
) -> Iterator[Updated]:
    """Brings translations up to date, lazily and in order.

    :param remember: takes what drafts are copied from
    :param language: what sentences are cut as
    :param fail: is told of those that would be damaged
    :param selection: has texts and the translations that are taken for them
    """
    waiting: deque[Update] = deque()

    def named() -> Iterator[tuple[str, Document]]:
        for each in updates:
            waiting.append(each)
            yield each.files.name, each

    for finished in translate_documents(translator, named(), options, selection, remember, language=language):
        update = waiting.popleft()
        try:
            yield update.finish(finished.summary, finished.stats)
        except DataError as error:
            fail(error)
