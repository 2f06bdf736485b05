"""Carries inline tags from a source text to its translation, by the alignment of their words.

A target word takes the tags of the source words that it is aligned with. A pair of tags is around one run of words: the
one that has most of its words and fewest others, within the run of the pair that it is in and beside those that came
before it. A placeholder is where its stand-in is. A point stays behind the word that it touches, or before the next
one. So none is lost, none is invented, and they nest as before.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, TypeVar, final

from specmt.types import Span, Tag, Tagged

Alignment = Sequence[tuple[int, int]]
"""Pairs of a source and a target word, split at white space."""

_WORD: Final = re.compile(r"\S+")
_NAME: Final = re.compile(r"\w+")
_OPENING: Final = re.compile(r"[\"'„“”‘’‚»«›‹(\[¿¡]")
_STOPS: Final = "\"'“”’‘»«›‹)].,;:!?…"
_ENDS: Final = frozenset(".,;:!?…")
_CLOSING: Final = re.compile(rf"[{re.escape(_STOPS)}]\Z")
"""Marks beside a word that need not be in a pair around it."""

_ALL_STOPS: Final = re.compile(rf"[{re.escape(_STOPS)}]+\s*")
_OPENING_MARK: Final = re.compile(rf"(\{{[^{{}}]*\}})-?|{_OPENING.pattern}")
_CLOSING_MARK: Final = re.compile(rf"(?:-?(\{{[^{{}}]*\}})|[{re.escape(_STOPS)}])\Z")
"""The same, or a stand-in with what joins it to the word."""

_IN_WORD: Final = re.compile(r"(?<=[^\W_\u3040-\u9fff])(?=[^\W_])")
"""A place in a word of a script that has spaces."""

_BETWEEN: Final = re.compile(r"(?<=\S)(?=\S)")

_STAND_IN: Final = re.compile(r"\{tx*\d+\}")
_LONGEST: Final = 100
"""The most characters of a stand-in, and of what is looked at of a word before a point."""

_FAR: Final = 500
"""How many words behind a point is looked for one that has a partner."""

_SENTENCE_END: Final = re.compile(r"""[.!?…。！？][\"'“”’‘»«›‹)\]]*\Z""")


def carry(source: Tagged, target: str, alignment: Alignment | None = None) -> tuple[Tagged, bool]:
    """Returns a translation with the tags of its source, and whether each was surely placed.

    :param target: the translation, with the stand-ins of the placeholders; one that it lacks is added, and doubles go
    :param alignment: where it is not known, words that are the same are aligned, and the others by their position
        between those; the places of pairs are then unsure
    """
    if not source.tags or target == source.text:
        return Tagged(target, source.tags), True
    kept = _keep_stand_ins(source, target)
    is_sure = kept == target
    placeholders = _placeholders(source.tags)
    stand_ins = [source.text[tag.start : tag.end] for tag in placeholders]
    places = {match[0]: match.start() for match in reversed([*_STAND_IN.finditer(kept)])}  # where each is first
    inserted = []
    for tag, stand_in in zip(placeholders, stand_ins, strict=True):
        start = places[stand_in] if stand_in in places else kept.index(stand_in)
        inserted.append(Tag(start, start + len(stand_in), tag.open))
    inserted.sort(key=lambda tag: tag.start)
    if all(tag.is_placeholder for tag in source.tags):  # as code is, for which no words need be looked at
        return Tagged(kept, _insert((), inserted)), is_sure
    words = _Words(source.text, kept, alignment if is_sure else None, stand_ins)
    tags = words.place(source.tags, (0, len(words.target)))
    return Tagged(kept, _insert(tags, inserted)), is_sure and words.is_sure


def is_emptied(source: Tagged, translation: Tagged) -> bool:
    """Whether a pair around whole words is around none in a translation, so that a link could not be seen there."""
    empty = {tag.open for tag in every(translation.tags) if tag.close is not None and tag.start == tag.end}
    return any(
        tag.open in empty and not any(_IN_WORD.match(source.text, place) for place in (tag.start, tag.end))
        for tag in every(source.tags if empty else ())
        if any(map(str.isalnum, source.text[tag.start : tag.end]))
    )


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


class _Run(NamedTuple):
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
        self._stand_ins = frozenset(stand_ins)
        self._is_guess = alignment is None
        if alignment is None:
            alignment = guess([source[slice(*span)] for span in self.source], [target[slice(*s)] for s in self.target])
        self._sources: list[list[int]] = [[] for _ in self.target]
        self._targets: list[list[int]] = [[] for _ in self.source]
        self._names: dict[str, deque[tuple[int, int]]] = {}
        """In which words each is, and where, as far as they are not taken."""

        self._known: dict[int, tuple[int, int] | None] = {}
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
        gaps = _Gaps(room, [word for word in range(*room) if not self._sources[word]])
        pairs = [tag for tag in tags if tag.close is not None and tag.start < tag.end]
        cut: set[int] = set()  # words that pairs are around parts of
        # The longest first, which have most to lose.
        for tag in sorted(pairs, key=lambda tag: tag.start - tag.end):
            inside = self._inside(tag)
            part = self._in_word(tag, inside)
            if part is not None and (part[0] in cut or gaps.between(part[0], part[0] + 1)):
                span = part[0], part[0] + 1
                if part[0] not in cut:
                    gaps.take(span)
                cut.add(part[0])
                placed.append((span, part[1]))
                continue
            partners = [word for number in inside for word in self._targets[number]]
            near = gaps.between(min(partners), max(partners) + 1) if partners else []
            runs = [run for gap in near for run in [self._best(gap, inside)] if run is not None]
            best = max(runs, key=lambda run: run.score, default=None)
            if best is None and (named := self._named(tag, gaps)):
                gaps.take((named[0], named[0] + 1))
                placed.append(((named[0], named[0] + 1), named[1]))
                continue
            if best is None:
                self.is_sure = False
                aim = len(self.target) * (inside.start if inside else 0) // max(1, len(self.source))
                span = gaps.nearest(aim) or (room[1], room[1])
            else:
                self.is_sure &= not self._is_guess or self._is_exact(tag, best)
                span = best.start, best.end
            gaps.take(span)
            placed.append((span, self._trimmed(tag, span, room)))
        around = sorted((pair.start, pair.end) for _, pair in placed if pair.start < pair.end)
        taken = sorted(span for span, _ in placed if span[0] < span[1])
        for tag in tags:
            if self._touches(tag) and room[0] < room[1]:
                place = self._behind(tag, room)
                place = next((end for start, end in _at(around, place) if start < place < end), place)
                placed.append(((room[1], room[1]), replace(tag, start=place, end=place)))
            elif tag.start == tag.end:
                word = self._place_of_point(tag, room)
                # Not in the middle of a pair that is beside it.
                word = next((start for start, end in _at(taken, word) if start < word < end), word)
                place = self._start_of(word, room)
                placed.append(((word, word), _collapsed([tag], place)[0]))
        order = {id(tag): number for number, (_, tag) in enumerate(placed)}
        return tuple(
            sorted((tag for _, tag in placed), key=lambda tag: (tag.start, tag.end, tag.open[0], order[id(tag)]))
        )

    def _inside(self, tag: Tag) -> range:
        """Returns the source words that a pair is around, in whole or in part."""
        first = bisect_right(self._ends, tag.start)
        return range(first, max(first, bisect_left(self.source, (tag.end, 0))))

    def _in_word(self, tag: Tag, inside: range) -> tuple[int, Tag] | None:
        """Returns the word that a pair around a part of a word is in, and the pair there; nothing of another word."""
        is_part = any(_BETWEEN.match(self._source_text, place) for place in (tag.start, tag.end))
        same = self._same(inside.start) if is_part and len(inside) == 1 else None
        return None if same is None else (same[0], _moved(tag, same[1], self.source[inside.start]))

    def _same(self, number: int) -> tuple[int, int] | None:
        """Returns the partner of a source word that says the same, and how much farther behind that is."""
        if number not in self._known:
            start, end = self.source[number]
            said = re.compile(re.escape(self._source_text[start:end]), re.IGNORECASE)
            found = ((word, said.search(self._said(word))) for word in self._targets[number])
            same = ((word, self.target[word][0] + match.start() - start) for word, match in found if match)
            self._known[number] = next(same, None)
        return self._known[number]

    def _named(self, tag: Tag, gaps: _Gaps) -> tuple[int, Tag] | None:
        """Returns the free word in which a name without a partner is, as in PDF-Datei, and the pair around it there."""
        said = self._source_text[tag.start : tag.end]
        if tag.children or said == said.lower():
            return None
        if not self._names:
            self._names[""] = deque()
            for word, span in enumerate(self.target):
                for match in _NAME.finditer(self._target_text, *span):
                    self._names.setdefault(match[0], deque()).append((word, match.start()))
        places = self._names.get(said)
        while places:
            word, start = places.popleft()
            if gaps.between(word, word + 1):
                return word, replace(tag, start=start, end=start + len(said))
        return None

    def _best(self, gap: Span, inside: range) -> _Run | None:
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

    def _trimmed(self, tag: Tag, span: Span, room: Span) -> Tag:
        """Returns a pair around words, without the marks beside them that it was not around in the source either."""
        start = self._start_of(span[0], room)
        if span[0] == span[1]:
            return replace(tag, start=start, end=start, children=_collapsed(tag.children, start))
        end = self.target[span[1] - 1][1]
        text = self._target_text
        said = self._source_text[tag.start : tag.end]
        if not tag.children and _ALL_STOPS.fullmatch(said) and text.endswith(said.strip(), start, end):
            return replace(tag, start=end - len(said.strip()), end=end)  # of the word its marks alone
        children = self.place(tag.children, span)
        first = min((child.start for child in children), default=end)
        last = max((child.end for child in children), default=start)
        opens, closes = _OPENING.match(said) is None, _CLOSING.match(said[-1:]) is None
        ends = closes or _ENDS.isdisjoint(said[len(said.rstrip(_STOPS)) :])

        def is_outside(mark: re.Match[str] | None, *, is_mark: bool) -> bool:
            """Whether something at an end is a mark of a kind that is not in the pair, or a stand-in that is not."""
            if mark is None or mark[1]:
                return mark is not None and mark[1] in self._stand_ins and mark[1] not in said
            if mark[0] in alone:  # a bracket whose other one is inside is, too
                alone[mark[0]] -= 1
                return is_mark and alone[mark[0]] >= 0
            return ends if mark[0] in _ENDS else is_mark

        alone = _alone(text, start, start + len(text[start:end].rstrip(_STOPS)), (("(", ")"), ("[", "]")))
        while is_outside(mark := _OPENING_MARK.match(text, start, end), is_mark=opens):
            assert mark is not None
            if mark.end() > min(first, end - 1):
                break
            start = mark.end()
        alone = _alone(text, start, end, ((")", "("), ("]", "[")))
        while is_outside(mark := _CLOSING_MARK.search(text, max(start, end - _LONGEST), end), is_mark=closes):
            assert mark is not None
            if mark.start() == start or mark.start() < last:
                break
            end = mark.start()
        return replace(tag, start=start, end=end, children=children)

    def _place_of_point(self, tag: Tag, room: Span) -> int:
        """Returns before which target word a point is: the first partner of the word that follows it in the source."""
        first = bisect_right(self._ends, tag.start)
        for number in range(first, min(len(self.source), first + _FAR)):
            partners = [word for word in self._targets[number] if room[0] <= word <= room[1]]
            if partners:
                return min(partners)
        return room[1]

    def _touches(self, tag: Tag) -> bool:
        """Whether a tag is a point right behind a word, and not in it."""
        before = self._source_text[tag.start - 1 : tag.start]
        return tag.close is None and tag.start == tag.end and before.strip() != ""

    def _behind(self, tag: Tag, room: Span) -> int:
        """Returns where the partner of the word ends that a point touches, or of the sentence, if it is behind that."""
        number = bisect_right(self._ends, tag.start - 1)
        head = self._source_text[self.source[number][0] : tag.start]
        first = max(self._targets[number], default=self._last[number])
        if _ends_sentence(head, (0, len(head))):
            first = self._last[number]
            ends = (
                word
                for word in range(first, self._next[number])
                if _ends_sentence(self._target_text, self.target[word])
            )
            first = next(ends, first)
        word = min(max(first, room[0]), room[1] - 1)
        said = self._said(word)
        self.is_sure &= not self._is_guess or head in said
        near = max(0, len(head) - _LONGEST)
        if said[near : len(head)].lower() == head[near:].lower() and not said[len(head) : len(head) + 1].isalnum():
            said = said[: len(head)]
        elif not _CLOSING.match(head[-1:]):
            said = said.rstrip(_STOPS) or said
        return self.target[word][0] + len(said)

    def _said(self, word: int) -> str:
        return self._target_text[slice(*self.target[word])]

    def _start_of(self, word: int, room: Span) -> int:
        """Returns where a word starts, or the room ends."""
        if word < room[1]:
            return self.target[word][0]
        return self.target[room[1] - 1][1] if room[1] else 0


def _alone(text: str, start: int, end: int, brackets: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Returns how many brackets there are in a part of a text more than of those that belong to them."""
    return {one: text.count(one, start, end) - text.count(other, start, end) for one, other in brackets}


def _ends_sentence(text: str, word: Span) -> bool:
    return _SENTENCE_END.search(text, max(word[0], word[1] - _LONGEST), word[1]) is not None


class _Gaps:
    """The target words that no pair has taken."""

    def __init__(self, room: Span, free: list[int]) -> None:
        """
        :param free: those that have no partner
        """
        self._gaps = [room] if room[0] < room[1] else []
        self._free = free

    def between(self, start: int, end: int) -> list[Span]:
        """Returns the gaps from one word up to another."""
        first = bisect_right(self._gaps, start, key=lambda gap: gap[1])
        last = bisect_left(self._gaps, end, key=lambda gap: gap[0])
        return [(max(start, left), min(end, right)) for left, right in self._gaps[first:last]]

    def nearest(self, aim: int) -> Span | None:
        """Returns a word near a place, one without a partner if there is any."""
        while self._free:
            place = bisect_left(self._free, aim)
            place -= place > 0 and (place == len(self._free) or aim - self._free[place - 1] <= self._free[place] - aim)
            word = self._free[place]
            if self.between(word, word + 1):
                return word, word + 1
            del self._free[place]  # it was taken
        place = bisect_right(self._gaps, aim, key=lambda gap: gap[0])
        near = [min(max(aim, left), right - 1) for left, right in self._gaps[max(0, place - 1) : place + 1]]
        best = min(near, key=lambda word: abs(word - aim), default=None)
        return None if best is None else (best, best + 1)

    def take(self, span: Span) -> None:
        """Takes words that are in one gap."""
        if span[0] < span[1]:
            place = bisect_right(self._gaps, span[0], key=lambda gap: gap[0]) - 1
            left, right = self._gaps[place]
            self._gaps[place : place + 1] = [gap for gap in ((left, span[0]), (span[1], right)) if gap[0] < gap[1]]


_T = TypeVar("_T", bound=tuple[int, ...])


def _at(spans: Sequence[_T], place: int) -> Sequence[_T]:
    """Returns the last of some spans that starts at a place or before it, if there is one."""
    number = bisect_right(spans, place, key=lambda span: span[0])
    return spans[number - 1 : number] if number else []


def _moved(tag: Tag, by: int, word: Span) -> Tag:
    """Returns what of a pair is around a word, somewhere else, without the placeholders in it."""
    children = tuple(_moved(each, by, word) for each in tag.children if not each.is_placeholder)
    start, end = (min(max(place, word[0]), word[1]) + by for place in (tag.start, tag.end))
    return replace(tag, start=start, end=end, children=children)


def _collapsed(tags: Sequence[Tag], place: int) -> tuple[Tag, ...]:
    """Returns tags for which there are no words, at one place."""
    return tuple(
        replace(tag, start=place, end=place, children=_collapsed(tag.children, place))
        for tag in tags
        if not tag.is_placeholder
    )


def every(tags: Sequence[Tag]) -> Iterator[Tag]:
    """Yields tags and those in them, in order."""
    for tag in tags:
        yield tag
        yield from every(tag.children)


def _placeholders(tags: Sequence[Tag]) -> list[Tag]:
    return [tag for tag in every(tags) if tag.is_placeholder]


def _insert(tags: Sequence[Tag], placeholders: Sequence[Tag]) -> tuple[Tag, ...]:
    """Returns tags with placeholders among them, each in the innermost pair that is around it.

    :param placeholders: in order
    """
    if not placeholders:
        return tuple(tags)
    pairs = sorted((tag.start, tag.end, number) for number, tag in enumerate(tags) if tag.start < tag.end)
    own: list[Tag] = []
    inside: dict[int, list[Tag]] = {}
    for tag in placeholders:
        start, end, number = next(iter(_at(pairs, tag.start)), (tag.end, 0, 0))
        (inside.setdefault(number, []) if start <= tag.start and tag.end <= end else own).append(tag)
    found = [
        replace(tag, children=_insert(tag.children, inside[number])) if number in inside else tag
        for number, tag in enumerate(tags)
    ]
    return tuple(sorted([*found, *own], key=lambda each: (each.start, each.end)))


def _keep_stand_ins(source: Tagged, target: str) -> str:
    """Returns a translation with each stand-in once."""
    counts = Counter(_STAND_IN.findall(target))
    for tag in _placeholders(source.tags):
        stand_in = source.text[tag.start : tag.end]
        count = counts[stand_in] or target.count(stand_in)
        if count == 1:
            continue
        if count > 1:
            head, _, rest = target.partition(stand_in)
            target = head + stand_in + rest.replace(stand_in, "")
            continue
        # As far into the translation as it is in the source, between words.
        starts = [match.start() for match in _WORD.finditer(target)]
        before = len(_WORD.findall(source.text[: tag.start]))
        total = max(1, len(_WORD.findall(source.text)) - 1)
        place = len(starts) * before // total
        if place < len(starts):
            target = f"{target[: starts[place]]}{stand_in} {target[starts[place] :]}"
        else:
            target = f"{target} {stand_in}".lstrip()
    return target
