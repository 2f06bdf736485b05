"""Documents to translated documents, beside the lines of plain text: their sentences go through a translator."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import count, groupby
from typing import Final, Protocol

from specmt.again import Again, again, damage, without_new
from specmt.formats.document import FAILED, KEPT, Document, Segment, fail, write
from specmt.formats.icu import has_choice
from specmt.formats.nested import texts_in
from specmt.options import DecodingOptions
from specmt.text.likeness import like_pairs
from specmt.text.memory import Pair
from specmt.text.placeholders import find_tokens
from specmt.text.segment import split_sentences
from specmt.text.tags import Alignment, carry, guess, is_emptied
from specmt.text.view import plain
from specmt.types import Line, Stats, Tagged, Translation

_MOST_KNOWN: Final = 200_000
"""How many sentences are remembered, at the least, not to be translated again."""

LEFT: Final = "a sentence is left in its language"
"""What is told of a segment of which a part could not be translated."""

_ATTRIBUTE: Final = re.compile(
    r"""<[a-z][^<>]*\s(?:alt|title|placeholder|aria-label)\s*=\s*\\?(["'])(?!\1)[^<>{}"']*[^\W\d_]{2}""", re.IGNORECASE
)
"""What is read in a tag of a message, which is copied."""

_WORD: Final = re.compile(r"\S+")
_SENTENCE_MARK: Final = re.compile(r"[.!?…:;](?=\S*\s)|\n")
_BLOCK: Final = r"</?(?i:html|head|body|div|p|br|h[1-6]|[uo]l|li|d[ldt]|table|t[rdh])\b[^<>]*>"
_BLOCKS: Final = re.compile(_BLOCK)
_WRAPPED: Final = re.compile(
    rf"({_BLOCK}\s*|<[^<>]*>|\n\s*\n\s*)|(?<![ \t])[ \t]*\n[ \t]*(?![\s*+•#|>-]|\d{{1,9}}[.)]\s|{_BLOCK})"
)
"""Where a line of HTML ends, which is nothing that is seen, but behind and before what ends a line."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which segments are translated."""

    fuzzy: bool = False
    """Whether those whose translation is to be reviewed are, too."""

    translated: bool = False
    """Whether all are, also those that have a translation."""

    known: Mapping[str, str] = field(default_factory=dict)
    """Texts whose translation is taken over instead."""

    nearest: Callable[[str], tuple[str, float] | None] | None = None
    """Returns which of those another text is like, and how like; for a report alone."""

    def takes(self, segment: Segment) -> bool:
        """Whether a segment is to be translated."""
        return (
            segment.state == "new"
            or (segment.state == "fuzzy" and self.fuzzy)
            or (segment.state != "skipped" and self.translated)
        )


@dataclass(frozen=True, slots=True)
class Remark:
    """What the user should know about a segment."""

    line: int
    context: str
    text: str


Remember = Callable[[Iterable[Pair], DecodingOptions], None]
"""Takes pairs of a text and its translation, for lookups to copy from in runs with those options."""


class TranslatesLines(Protocol):
    """What translates the sentences: a translator, or what stands before one."""

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        """Translates lines, in order."""


@dataclass(slots=True)
class Summary:
    """What was done with the segments of a document."""

    segments: int = 0
    translated: int = 0
    """By the model."""
    reused: int = 0
    """Taken over from a translation memory."""
    repeated: int = 0
    """Of the translated ones: those whose sentences all occurred before, and were translated once."""
    kept: int = 0
    """They had a translation, or could not take the new one."""
    skipped: int = 0
    """Not to be translated."""
    warnings: list[Remark] = field(default_factory=list)
    confidences: list[tuple[float, Remark]] = field(default_factory=list)
    """Those of translated segments, as far as they are known, with what they are of."""
    near: list[tuple[float, Remark]] = field(default_factory=list)
    """What is like translated segments, how like, where that was asked."""

    def __iadd__(self, other: Summary) -> Summary:
        for each in fields(self):
            value = getattr(self, each.name)
            value += getattr(other, each.name)  # into lists, which are not copied
            setattr(self, each.name, value)
        return self


@dataclass(frozen=True, slots=True)
class Finished:
    """A document that was translated."""

    name: str
    data: bytes
    summary: Summary
    stats: Stats


@dataclass(slots=True)
class _Said:
    """A sentence and what became of it."""

    text: str = ""
    """Its translation, once that is there."""

    source: str = ""
    """The sentence, where it is translated."""

    aligned: bool = False
    """Whether its words are to be aligned, for the sake of tags."""

    alignment: Alignment | None = None
    warnings: Sequence[str] = ()
    damage: str | None = None
    """What is known to be wrong with its translation."""
    confidence: float | None = None
    """The probability that its translation is acceptable."""
    is_held: bool = False
    """Whether it was translated once more, in parts."""


_Known = dict[tuple[str, bool], _Said]
"""The sentences that were asked for, with alignment and without."""


@dataclass(slots=True)
class _Plan:
    """A segment on its way: its sentences and what separates them."""

    number: int
    parts: list[tuple[_Said, str]]
    origin: str
    inner: _Pending | None = None
    """The texts in it, where it is a message of several."""


@dataclass(slots=True)
class _Pending:
    """A document on its way."""

    name: str
    document: Document
    plans: list[_Plan]
    summary: Summary
    asked: list[_Said] = field(default_factory=list)
    """The sentences that are translated for it, and for others after it."""

    stats: Stats = field(default_factory=Stats)


def translate_documents(
    translator: TranslatesLines,
    documents: Iterable[tuple[str, Document]],
    options: DecodingOptions,
    selection: Selection | None = None,
    remember: Remember | None = None,
    *,
    language: str = "de",
) -> Iterator[Finished]:
    """Translates documents lazily and in order; the next ones are read while the first ones are decoded.

    A text that occurs again is translated once. What documents have translations of is drafts for what is like it.

    :param documents: names and documents
    :param remember: takes pairs that lookups copy from; without it there are no such drafts
    :param language: what sentences are cut as
    """
    selection = selection or Selection()
    options = replace(options, alignments=True)
    # Only exact decoding may be drafted for by what is there; and who names a drafter wants that one.
    looks_up = options.strategy == "speculative" and options.lossless and not options.samples
    if not looks_up or options.drafter != "auto":
        remember = None
    waiting: deque[_Pending] = deque()
    asked: deque[tuple[_Said, _Pending]] = deque()
    """What is not translated yet, and the first document that has it: one is done when the next of it is another's."""
    indices = count()

    def planned() -> Iterator[tuple[_Pending, list[Pair]]]:
        for pending in _plan_all(documents, selection, language if options.split else None):
            near: list[Pair] = []
            if remember is not None:
                near = like_pairs(_pairs(pending.document), (said.source for said in pending.asked), language)
            yield pending, near

    def lines(group: Iterable[tuple[_Pending, list[Pair]]]) -> Iterator[Line]:
        for pending, near in group:
            if remember is not None and near:
                remember(near, drafting)
            asked.extend((said, pending) for said in pending.asked)
            waiting.append(pending)
            for said in pending.asked:
                yield Line(next(indices), said.source, aligned=said.aligned)

    once_more: Again = partial(again, translate=lambda parts: translator.translate(parts, options))
    drafting = replace(options, drafter="auto+lookup") if remember is not None else options
    for is_near, group in groupby(planned(), key=lambda each: bool(each[1])):
        for translation in translator.translate(lines(group), drafting if is_near else options):
            said, pending = asked.popleft()
            said.text, said.alignment = translation.text, translation.alignment or None
            is_left = translation.stats.left > 0
            said.damage = "what the model says is damaged" if is_left else damage(said.source, translation.text)
            said.warnings, said.confidence = translation.warnings, translation.confidence
            pending.stats += translation.stats
            while waiting and not (asked and asked[0][1] is waiting[0]):
                yield _finish(waiting.popleft(), once_more)
        while waiting:
            yield _finish(waiting.popleft(), once_more)


def sentences_of(
    documents: Iterable[tuple[str, Document]], selection: Selection | None = None, *, language: str | None = "de"
) -> Iterator[Line]:
    """Yields, lazily, the lines that :func:`translate_documents` has translated.

    :param language: what sentences are cut as; ``None``: segments stay whole
    """
    every = (said for pending in _plan_all(documents, selection or Selection(), language) for said in pending.asked)
    return (Line(index, said.source, aligned=said.aligned) for index, said in enumerate(every))


def _plan_all(
    documents: Iterable[tuple[str, Document]], selection: Selection, language: str | None
) -> Iterator[_Pending]:
    """Yields, lazily, how each document is translated."""
    known: _Known = {}
    for name, document in documents:
        if len(known) > _MOST_KNOWN:
            known.clear()
        yield _plan(name, document, known, selection, language)


def _pairs(document: Document) -> Iterator[Pair]:
    """Yields what a document has translations of."""
    for segment in document.segments:
        yield from segment.near
        if segment.target:
            yield segment.source.text, segment.target


def _plan(name: str, document: Document, known: _Known, selection: Selection, language: str | None) -> _Pending:
    """Returns how a document is translated."""
    pending = _Pending(name, document, [], Summary(len(document.segments)))
    for number, segment in enumerate(document.segments):
        if selection.takes(segment):
            plan, fresh = _plan_segment(number, segment, known, selection, language)
            pending.plans.append(plan)
            pending.asked += fresh
            text = segment.source.text
            if selection.nearest and plan.origin != "reused" and (near := selection.nearest(text)):
                what = f"{text} ≈ {near[0]} → {selection.known[near[0]]}"
                remark = Remark(segment.line, segment.member or segment.context, what)
                pending.summary.near.append((near[1], remark))
        elif segment.state == "skipped":
            pending.summary.skipped += 1
        else:
            pending.summary.kept += 1
    return pending


def _plan_segment(
    number: int, segment: Segment, known: _Known, selection: Selection, language: str | None
) -> tuple[_Plan, list[_Said]]:
    """Returns how a segment is translated, and the sentences that no one asked for yet."""
    text = segment.source.text
    if text in selection.known:
        return _Plan(number, [(_Said(selection.known[text]), "")], "reused"), []
    inner = None if segment.source.tags else texts_in(text, segment.forms)
    if inner is not None:
        pending = _plan("", inner, known, selection, language)
        every = [part for plan in pending.plans for part in plan.parts]
        return _Plan(number, every, "translated" if pending.asked else "repeated", pending), pending.asked
    aligned = any(not tag.is_placeholder for tag in segment.source.tags)
    parts: list[tuple[_Said, str]] = []
    fresh: list[_Said] = []
    reused = 0
    said: _Said | None
    for sentence, separator in [(text, "")] if language is None else _sentences(text, language):
        if sentence in selection.known:
            said = _Said(selection.known[sentence])
            reused += 1
        elif not sentence.strip():
            said = _Said(sentence, alignment=[])
        else:
            said = known.get((sentence, True)) or (None if aligned else known.get((sentence, False)))
            if said is None:
                said = known[sentence, aligned] = _Said(source=sentence, aligned=aligned)
                fresh.append(said)
        parts.append((said, separator))
    origin = "reused" if reused == len(parts) else "translated" if fresh else "repeated"
    return _Plan(number, parts, origin), fresh


def _sentences(text: str, language: str) -> list[tuple[str, str]]:
    """Returns a text in sentences, none of which ends in what is copied, as in ``${n > 1 ? 'some' : 'one'}``."""
    if "\n" in text and "<pre" not in text and _BLOCKS.search(text):
        text = _WRAPPED.sub(lambda match: match[1] or " ", text)
    cut = split_sentences(text, language)
    copied = [each for each in find_tokens(plain(text)) if re.search(r"\s", each.text)] if len(cut) > 1 else []
    if not copied:
        return cut
    pieces: list[str] = []
    place = 0
    for each in copied:
        pieces += [text[place : each.start], _SENTENCE_MARK.sub("x", text[each.start : each.end])]
        place = each.end
    hidden = "".join([*pieces, text[place:]])
    place, found = 0, list[tuple[str, str]]()
    for sentence, space in split_sentences(hidden, language):
        end = place + len(sentence)
        found.append((text[place:end], space))
        place = end + len(space)
    return found


def _hold(pending: _Pending, once_more: Again) -> None:
    """Takes tags that are new from damaged sentences; translates those that still are damaged once more, held fast."""
    every = {id(said): said for plan in pending.plans for said, _ in plan.parts if said.damage and not said.is_held}
    damaged: list[_Said] = []
    for said in every.values():
        text = without_new(said.source, said.text)
        if text != said.text and not damage(said.source, text):
            said.text, said.alignment, said.damage = text, guess(said.source.split(), text.split()), None
        else:
            damaged.append(said)
    for said, held in zip(damaged, once_more([Tagged(said.source) for said in damaged]), strict=True):
        said.is_held = True
        if held is not None:
            said.text, said.confidence, said.damage = held.text, None, damage(said.source, held.text)
            said.alignment = guess(said.source.split(), said.text.split())
            said.warnings = said.warnings if said.damage else ()  # these are of the text that was damaged


def _finish(pending: _Pending, once_more: Again) -> Finished:
    """Puts the translations into a document; segments that it cannot hold are translated once more, held fast."""
    segments, summary = pending.document.segments, pending.summary
    translations: dict[int, Tagged] = {}
    notes: dict[int, list[str]] = {}

    def tell(number: int, what: str) -> None:
        pending.stats.failed += what.startswith(FAILED)
        notes.setdefault(number, []).append(what)

    _hold(pending, once_more)
    for number, segment in enumerate(segments):
        if segment.state == "skipped" and segment.reason:
            tell(number, segment.reason)
    for plan in pending.plans:
        source = segments[plan.number].source
        if plan.inner is not None:
            done = _finish(plan.inner, once_more)
            pending.stats.failed += done.stats.failed
            for remark in done.summary.warnings:
                tell(plan.number, f"{LEFT}{remark.text.removeprefix(KEPT)}" if KEPT in remark.text else remark.text)
            if done.summary.kept == len(plan.inner.plans):
                tell(plan.number, f"{KEPT}: none of its texts could be translated")
                continue
            sure = [0.0] * done.summary.kept + [each for each, _ in done.summary.confidences]
            translations[plan.number] = Tagged(done.data.decode(), confidence=min(sure, default=None))
            continue
        damages = [said.damage for said, _ in plan.parts if said.damage]
        if damages and all(said.damage for said, _ in plan.parts if said.source):
            tell(plan.number, f"{KEPT}: {damages[0]}")
            continue
        for said, _ in plan.parts:
            if said.damage:
                tell(plan.number, f"{LEFT}: {said.damage}")
            for warning in said.warnings:
                tell(plan.number, warning)
        if has_choice(source.text):
            tell(plan.number, f"{LEFT}: it is in a plural or select, which is not taken apart here")
        if _ATTRIBUTE.search(source.text):
            tell(plan.number, f"{LEFT}: it is in an attribute")
        try:
            parts = [(_unsaid(said) if said.damage else said, separator) for said, separator in plan.parts]
            translation, is_sure = carry(source, *_join(parts))
            confidence = 0.0 if damages else _confidence(said for said, _ in plan.parts)
            translations[plan.number] = Tagged(translation.text, translation.tags, confidence)
            if not is_sure:
                tell(plan.number, "the places of inline tags are uncertain")
        except Exception as error:
            fail(error, [plan.number], tell)
    told: list[tuple[int, str]] = []
    data = write(pending.document, translations, lambda *each: told.append(each))
    whole = {plan.number for plan in pending.plans if plan.inner is None}
    bad = [number for number, what in told if number in whole and what.startswith(KEPT) and not what.startswith(FAILED)]
    bad += [
        number
        for number in whole & {*translations} - {*bad}
        if is_emptied(segments[number].source, translations[number])
    ]
    held = dict(zip(bad, once_more([segments[number].source for number in bad]), strict=True)) if bad else {}
    if better := {number: translation for number, translation in held.items() if translation is not None}:
        told.clear()
        translations |= better
        data = write(pending.document, translations, lambda *each: told.append(each))
    for number, what in told:
        tell(number, what)
    refused = {number for number, said in notes.items() if any(what.startswith(KEPT) for what in said)}
    for plan in pending.plans:
        if plan.number in refused:
            summary.kept += 1
        else:
            segment, written = segments[plan.number], translations[plan.number]
            if written.confidence is not None and plan.origin != "reused":
                what = f"{segment.source.text} → {written.text}"
                remark = Remark(segment.line, segment.member or segment.context, what)
                summary.confidences.append((written.confidence, remark))
            summary.reused += plan.origin == "reused"
            summary.translated += plan.origin != "reused"
            summary.repeated += plan.origin == "repeated"
    summary.warnings = [
        Remark(segments[number].line, f"{segments[number].member} {segments[number].context}".strip(), what)
        for number in sorted(notes)
        for what in notes[number]
    ]
    return Finished(pending.name, data, summary, pending.stats)


def _confidence(parts: Iterable[_Said]) -> float | None:
    """Returns the probability that a segment's translation is acceptable: that of its least sure sentence.

    What is from a translation memory, and what no model translates, is sure.
    """
    known = [each.confidence if each.source else 1.0 for each in parts]
    return None if None in known else min((each for each in known if each is not None), default=None)


def _unsaid(said: _Said) -> _Said:
    """Returns a sentence as its own translation."""
    words = range(len(_WORD.findall(said.source)))
    return replace(said, text=said.source, alignment=[(number, number) for number in words])


def _join(parts: Sequence[tuple[_Said, str]]) -> tuple[str, Alignment | None]:
    """Returns the translation of a text of several sentences, and the alignment of its words where that is known."""
    if len(parts) == 1:
        return parts[0][0].text + parts[0][1], parts[0][0].alignment
    # Where sentences follow each other without a space, as in Japanese, their translations have one.
    gaps = [separator or " " for _, separator in parts[:-1]] + [parts[-1][1]]
    text = "".join(said.text + gap for (said, _), gap in zip(parts, gaps, strict=True))
    if any(said.alignment is None for said, _ in parts):
        return text, None
    pairs: list[tuple[int, int]] = []
    one = other = 0
    for said, _ in parts:
        pairs += [(one + left, other + right) for left, right in said.alignment or ()]
        one += len(_WORD.findall(said.source))
        other += len(_WORD.findall(said.text))
    return text, pairs
