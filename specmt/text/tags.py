"""Carries inline tags from a source text to its translation, by the alignment of their words.

A target word takes the tags of the source words that it is aligned with. A pair of tags is around one run of words: the
one that has most of its words and fewest others, within the run of the pair that it is in and beside those that came
before it. A placeholder is where its stand-in is. A point stays behind the word that it touches, or before the next
one. So none is lost, none is invented, and they nest as before.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final, final

from specmt.types import Span, Tag, Tagged

Alignment = Sequence[tuple[int, int]]
"""Pairs of a source and a target word, split at white space."""

_WORD: Final = re.compile(r"\S+")
_OPENING: Final = re.compile(r"[\"'„“”‘’‚»«›‹(\[¿¡]")
_STOPS: Final = "\"'“”’‘»«›‹)].,;:!?…"
_CLOSING: Final = re.compile(rf"[{re.escape(_STOPS)}]\Z")
"""Marks beside a word that need not be in a pair around it."""

_SENTENCE_END: Final = re.compile(r"""[.!?…。！？][\"'“”’‘»«›‹)\]]*\Z""")


def carry(source: Tagged, target: str, alignment: Alignment | None = None) -> tuple[Tagged, bool]:
    """Returns a translation with the tags of its source, and whether each was surely placed.

    :param target: the translation, with the stand-ins of the placeholders; one that it lacks is added, and doubles go
    :param alignment: where it is not known, words that are the same are aligned, and the others by their position
        between those; the places of pairs are then unsure
    """
    if not source.tags:
        return Tagged(target), True
    kept = _keep_stand_ins(source, target)
    is_sure = kept == target
    stand_ins = [source.text[tag.start : tag.end] for tag in _placeholders(source.tags)]
    words = _Words(source.text, kept, alignment if is_sure else None, stand_ins)
    placeholders = {tag: kept.index(source.text[tag.start : tag.end]) for tag in _placeholders(source.tags)}
    tags = words.place(source.tags, (0, len(words.target)))
    whole = Tag(0, len(kept), (0, 0), (0, 0), tags)
    for tag, start in sorted(placeholders.items(), key=lambda each: each[1]):
        whole = _insert(whole, replace(tag, start=start, end=start + tag.end - tag.start))
    return Tagged(kept, whole.children), is_sure and words.is_sure


def guess(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Returns an alignment of words for want of a better one.

    Words that are the same and in both once are aligned, and each of the others with the one at its place between its
    neighbours of those.
    """
    if not source or not target:
        return []
    counts, others = Counter(source), Counter(target)
    once = {word: place for place, word in enumerate(source) if counts[word] == 1 and any(map(str.isalnum, word))}
    anchors = [(-1, -1)]
    same = [(once[word], place) for place, word in enumerate(target) if word in once and others[word] == 1]
    pairs = list(same)
    for one, other in same:
        if one > anchors[-1][0]:
            anchors.append((one, other))
    anchors.append((len(source), len(target)))
    known = {other for _, other in same}
    for (left, start), (right, end) in pairwise(anchors):
        for place in range(start + 1, end):
            if place not in known and right - left > 1:
                pairs.append((left + 1 + (place - start - 1) * (right - left - 1) // (end - start - 1), place))
    return sorted(pairs)


@dataclass(frozen=True, slots=True)
class _Run:
    """Target words from one up to another."""

    start: int
    end: int
    score: int


@final
class _Words:
    """The words of a source and its translation, and which belong together."""

    def __init__(self, source: str, target: str, alignment: Alignment | None, stand_ins: Sequence[str]) -> None:
        self.source = [match.span() for match in _WORD.finditer(source)]
        self.target = [match.span() for match in _WORD.finditer(target)]
        self.is_sure = True
        self._source_text, self._target_text = source, target
        self._stand_ins = stand_ins
        self._is_guess = alignment is None
        if alignment is None:
            alignment = guess([source[slice(*span)] for span in self.source], [target[slice(*s)] for s in self.target])
        self._sources: list[list[int]] = [[] for _ in self.target]
        self._targets: list[list[int]] = [[] for _ in self.source]
        for one, other in alignment:
            if one < len(self.source) and other < len(self.target):
                self._sources[other].append(one)
                self._targets[one].append(other)
        self._ends = [end for _, end in self.source]
        # The last partner of the words up to each one, and the first of those behind it.
        self._last = list(accumulate((max(words, default=0) for words in self._targets), max))
        firsts = (min(words, default=len(self.target)) for words in reversed(self._targets))
        self._next = [*[*accumulate(firsts, min)][-2::-1], len(self.target)]

    def place(self, tags: Sequence[Tag], room: Span) -> tuple[Tag, ...]:
        """Returns tags of the source in the target, those of a pair within it, in order.

        :param room: the words that are free
        """
        placed: list[tuple[Span, Tag]] = []
        gaps = [room]
        pairs = [tag for tag in tags if tag.close is not None and tag.start < tag.end]
        # The longest first, which have most to lose.
        for tag in sorted(pairs, key=lambda tag: tag.start - tag.end):
            inside = self._inside(tag)
            runs = [run for gap in gaps for run in [self._best(gap, inside)] if run is not None]
            best = max(runs, key=lambda run: run.score, default=None)
            if best is None:
                self.is_sure = False
                span = self._nearest(tag, gaps) or (room[1], room[1])
            else:
                self.is_sure &= not self._is_guess or self._is_exact(tag, best)
                span = best.start, best.end
            gaps = [part for gap in gaps for part in _without(gap, span)]
            placed.append((span, self._trimmed(tag, span, room)))
        around = list(placed)
        for tag in tags:
            if self._touches(tag) and room[0] < room[1]:
                place = self._behind(tag, room)
                place = next((pair.end for _, pair in around if pair.start < place < pair.end), place)
                placed.append(((room[1], room[1]), replace(tag, start=place, end=place)))
            elif tag.start == tag.end:
                word = self._place_of_point(tag, room)
                # Not in the middle of a pair that is beside it.
                word = next((span[0] for span, _ in placed if span[0] < word < span[1]), word)
                place = self._start_of(word, room)
                placed.append(((word, word), _collapsed([tag], place)[0]))
        order = {id(tag): number for number, (_, tag) in enumerate(placed)}
        return tuple(
            sorted((tag for _, tag in placed), key=lambda tag: (tag.start, tag.end, tag.open[0], order[id(tag)]))
        )

    def _inside(self, tag: Tag) -> set[int]:
        """Returns the source words that a pair is around, in whole or in part."""
        return {number for number, (start, end) in enumerate(self.source) if start < tag.end and tag.start < end}

    def _best(self, gap: Span, inside: set[int]) -> _Run | None:
        """Returns the run of words with most of a pair's and fewest others; it begins and ends with one of those."""
        best: _Run | None = None
        start, score = gap[0], 0
        for number in range(*gap):
            sources = self._sources[number]
            hits = sum(source in inside for source in sources)
            value = 0 if not sources else 1 if 2 * hits >= len(sources) else -1
            if score <= 0:
                start, score = number, 0
                if value <= 0:
                    continue
            score += value
            if value > 0 and (best is None or score > best.score):
                best = _Run(start, number + 1, score)
        return best

    def _is_exact(self, tag: Tag, run: _Run) -> bool:
        """Whether a run says the same as its source."""
        source = self._source_text[tag.start : tag.end].strip()
        return source in self._target_text[self.target[run.start][0] : self.target[run.end - 1][1]]

    def _nearest(self, tag: Tag, gaps: Sequence[Span]) -> Span | None:
        """Returns a free word near the place of a pair none of whose words has a partner, if there is any."""
        first = min(self._inside(tag), default=0)
        aim = len(self.target) * first // max(1, len(self.source))
        free = [number for gap in gaps for number in range(*gap) if not self._sources[number]]
        free = free or [number for gap in gaps for number in range(*gap)]
        best = min(free, key=lambda number: abs(number - aim), default=None)
        return None if best is None else (best, best + 1)

    def _trimmed(self, tag: Tag, span: Span, room: Span) -> Tag:
        """Returns a pair around words, without the marks beside them that it was not around in the source either."""
        start = self._start_of(span[0], room)
        if span[0] == span[1]:
            return replace(tag, start=start, end=start, children=_collapsed(tag.children, start))
        end = self.target[span[1] - 1][1]
        children = self.place(tag.children, span)
        text = self._target_text
        said = self._source_text[tag.start : tag.end]
        first = min((child.start for child in children), default=end)
        last = max((child.end for child in children), default=start)
        outside = [re.escape(stand_in) for stand_in in self._stand_ins if stand_in not in said]
        opening = re.compile("|".join([_OPENING.pattern] * (_OPENING.match(said) is None) + outside) or "(?!)")
        while (mark := opening.match(text, start, end)) and mark.end() <= min(first, end - 1):
            start = mark.end()
        closing = re.compile(
            f"(?:{'|'.join([_CLOSING.pattern] * (_CLOSING.search(said) is None) + outside) or '(?!)'})\\Z"
        )
        while (mark := closing.search(text[start:end])) and mark.start() and start + mark.start() >= last:
            end = start + mark.start()
        return replace(tag, start=start, end=end, children=children)

    def _place_of_point(self, tag: Tag, room: Span) -> int:
        """Returns before which target word a point is: the first partner of the word that follows it in the source."""
        for number in range(bisect_right(self._ends, tag.start), len(self.source)):
            partners = [word for word in self._targets[number] if room[0] <= word <= room[1]]
            if partners:
                return min(partners)
        return room[1]

    def _touches(self, tag: Tag) -> bool:
        """Whether a tag is a point right behind a word, and not in it."""
        before, after = self._source_text[tag.start - 1 : tag.start], self._source_text[tag.start : tag.start + 1]
        return tag.close is None and tag.start == tag.end and before.strip() != "" and not after.isalnum()

    def _behind(self, tag: Tag, room: Span) -> int:
        """Returns where the partner of the word ends that a point touches, or of the sentence, if it is behind that."""
        number = bisect_right(self._ends, tag.start - 1)
        head = self._source_text[self.source[number][0] : tag.start]
        first = max(self._targets[number], default=self._last[number])
        if _SENTENCE_END.search(head):
            first = self._last[number]
            ends = (word for word in range(first, self._next[number]) if _SENTENCE_END.search(self._said(word)))
            first = next(ends, first)
        word = min(max(first, room[0]), room[1] - 1)
        said = self._said(word)
        self.is_sure &= not self._is_guess or head in said
        if said.lower().startswith(head.lower()) and not said[len(head) : len(head) + 1].isalnum():
            said = said[: len(head)]
        elif not _CLOSING.search(head):
            said = said.rstrip(_STOPS) or said
        return self.target[word][0] + len(said)

    def _said(self, word: int) -> str:
        return self._target_text[slice(*self.target[word])]

    def _start_of(self, word: int, room: Span) -> int:
        """Returns where a word starts, or the room ends."""
        if word < room[1]:
            return self.target[word][0]
        return self.target[room[1] - 1][1] if room[1] else 0


def _without(gap: Span, span: Span) -> Iterator[Span]:
    if span[1] <= gap[0] or gap[1] <= span[0]:
        yield gap
        return
    if gap[0] < span[0]:
        yield gap[0], span[0]
    if span[1] < gap[1]:
        yield span[1], gap[1]


def _collapsed(tags: Sequence[Tag], place: int) -> tuple[Tag, ...]:
    """Returns tags for which there are no words, at one place."""
    return tuple(
        replace(tag, start=place, end=place, children=_collapsed(tag.children, place))
        for tag in tags
        if not tag.is_placeholder
    )


def _placeholders(tags: Sequence[Tag]) -> Iterator[Tag]:
    for tag in tags:
        if tag.is_placeholder:
            yield tag
        yield from _placeholders(tag.children)


def _insert(parent: Tag, tag: Tag) -> Tag:
    """Returns a pair with a placeholder in it, in the innermost pair that is around it."""
    children = list(parent.children)
    for number, child in enumerate(children):
        if child.close is not None and child.start <= tag.start and tag.end <= child.end:
            children[number] = _insert(child, tag)
            return replace(parent, children=tuple(children))
    children = sorted([*children, tag], key=lambda each: (each.start, each.end))
    return replace(parent, children=tuple(children))


def _keep_stand_ins(source: Tagged, target: str) -> str:
    """Returns a translation with each stand-in once."""
    for tag in _placeholders(source.tags):
        stand_in = source.text[tag.start : tag.end]
        count = target.count(stand_in)
        if count == 1:
            continue
        if count > 1:
            head, _, rest = target.partition(stand_in)
            target = head + stand_in + rest.replace(stand_in, "")
            continue
        # As far into the translation as it is in the source, between words.
        words = [match.span() for match in _WORD.finditer(target)]
        before = len(_WORD.findall(source.text[: tag.start]))
        total = max(1, len(_WORD.findall(source.text)) - 1)
        place = len(words) * before // total
        if place < len(words):
            start = words[place][0]
            target = f"{target[:start]}{stand_in} {target[start:]}"
        else:
            target = f"{target} {stand_in}".lstrip()
    return target
