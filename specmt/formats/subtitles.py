"""Subtitles: SubRip, WebVTT and Advanced SubStation Alpha.

A sentence that goes on in the next cue is one segment with it: what is between their texts, time codes and all, is a
point in the sentence, which the alignment carries over.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Part,
    Pieces,
    RefusedError,
    Segment,
    Tell,
    TextDocument,
    unread_segments,
)
from specmt.formats.encoding import decode, unescape
from specmt.formats.inline import Inline, directions, render, wrap
from specmt.types import Span, Tag, Tagged

WIDTH: Final = 42
"""The most characters of a line, where those of the file tell no other limit."""

_MOST_WRAPPED: Final = 3
"""From so many cues of several lines on, the longest line is the limit."""

_SPEED: Final = 21.0
"""Characters a second that can just be read."""

_MOST_CUES: Final = 6
_PAUSE: Final = 2.0
"""The most cues of a segment, and seconds between them."""

_CLOCK: Final = r"(?:(\d{1,9}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_TIMES: Final = re.compile(rf"[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}[^\n]*")
_EVENT: Final = re.compile(r"Dialogue:[ \t]*([^\n]*)")
_ENDS: Final = re.compile(r"[.!?…:♪][\"'”“’»›)\]*_]*$")
_RUBY: Final = r"(?P<ruby><ruby\b[^<>\n]*>[\s\S]{0,200}?</ruby>)"
_TAG: Final = re.compile(rf"{_RUBY}|</?(?P<name>[A-Za-z]+)[^<>\n]*>|<[\d:.]+>|\{{[^{{}}\n]*\}}")
_TAGS: Final = r"(?:<[^<>\n]*>|\{[^{}\n]*\})*"
_SPOKEN: Final = re.compile(rf"{_TAGS}(?:[-–—]|(?:>|&gt;){{2,3}})\s?(?=\S)")
_LABEL: Final = re.compile(rf"{_TAGS}(?:[♪♫]|[A-ZÄÖÜ][A-ZÄÖÜ0-9 .'#-]+:\s)")
_SONG: Final = re.compile(rf"{_TAGS}[♪♫]")
_SOUND: Final = re.compile(rf"{_TAGS}(?:\([^()\n]*\)|\[[^\[\]\n]*\]){_TAGS}\s*(?:\n|\\N|\Z)")
"""What begins a line of somebody else, and a line that nobody says."""

_MAY_START: Final = re.compile(r"(?![-–—])")
"""What a line may begin with that nobody else says."""

_MARKS: Final = re.compile(r"[^\w\s]*\s*")
"""What belongs to the word before it, and the space behind it."""

_BLANK: Final = re.compile(r"(?:[ \t\r]*\n)+")
_NEXT: Final = re.compile(rf"(?:[ \t]*\d+[ \t]*\r?\n)?[ \t]*{_CLOCK}[ \t]*-->")
_NUMBER: Final = re.compile(r"[ \t]*\d+[ \t\r]*\n")
"""What is behind a blank line where a cue has a number and no times."""

_PAIRED: Final = frozenset(("b", "c", "font", "i", "lang", "s", "u", "v"))

_KARAOKE: Final = r"\\[kK][fo]?\d[^\n]*\\[kK][fo]?\d"
_CUE_LINES: Final = rf"(?P<identifier>^[^\n]+\n(?=[ \t]*{_CLOCK}[ \t]*-->))?(?P<times>^[^\n]*-->[^\n]*)"
_NO_TEXT: Final = {
    "ass": re.compile(
        rf"(?P<drawing>^Dialogue:[^\n]*\\p[1-9][^\n]*)|(?P<karaoke>^Dialogue:[^\n]*{_KARAOKE}[^\n]*)|(?P<style>^(?!Dialogue:)[^\n]+)",
        re.MULTILINE,
    ),
    "srt": re.compile(_CUE_LINES, re.MULTILINE),
    "vtt": re.compile(
        rf"(?P<header>\A\ufeff?WEBVTT[^\n]*(?:\n[^\n]+)*)|(?P<note>^(?:NOTE|STYLE|REGION)\b[^\n]*(?:\n[^\r\n]+)*)|{_RUBY}|{_CUE_LINES}",
        re.MULTILINE,
    ),
}
"""What is left of a file of each kind, and why."""

_LANGUAGE: Final = re.compile(r"\ufeff?WEBVTT[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*?Language:[ \t]*([\w-]+)")
"""The language that the header says; the line is YouTube's."""

_TOLD: Final = {"karaoke": "each syllable has its time", "ruby": "it says how its own words are read"}


@dataclass(frozen=True, slots=True)
class _Block:
    """The text of a cue, or what one of its speakers says."""

    span: Span
    start: float
    end: float
    is_first: bool
    """Whether it is the first of its cue."""
    number: int
    """Of the cue, from 1."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads subtitles; the kind is known by what is in the file.

    :raises DataError: a cue is damaged.
    """
    text, encoding = decode(data, fallback="cp1252")
    is_ass = re.match(r"\s*\[Script Info\]", text, re.IGNORECASE) is not None
    is_vtt = text.lstrip("\ufeff").startswith("WEBVTT")
    blocks = list(_events(text) if is_ass else _cues(text, is_vtt=is_vtt))
    coding = (_decode_ass, _encode_ass) if is_ass else (unescape, _encode_vtt) if is_vtt else (str, _encode_srt)
    width = _width(text, blocks, "\\N" if is_ass else "\n")
    lines = LineNumbers(text)
    segments: list[Segment] = []
    for group in _groups(text, blocks):
        inline = Inline(text, coding[0], collapses=True, escaped="[♪♫]")
        for number, block in enumerate(group):
            if number:
                last = group[number - 1].span[1]
                inline.space(last)
                inline.point(last, block.span[0])
            _add(inline, text, block.span)
        inline.apart(directions)
        found = inline.take()
        if found is not None:
            tagged, span = found
            has_crlf = "\r\n" in text[max(0, group[0].span[0] - 200) : group[-1].span[1]]
            line_break = "\\N" if is_ass else "\r\n" if has_crlf else "\n"
            writer = _Writer(group, span, coding[1], width, line_break)
            segments.append(Segment(tagged, lines(span[0]), writer, context=f"cue {group[0].number}"))
    parts = [Part(text.rfind("\n", 0, block.span[0]) + 1, block.span[1], "") for block in blocks]
    kind = "ass" if is_ass else "vtt" if is_vtt else "srt"
    parts += [Part(*match.span(), match.lastgroup or "") for match in _NO_TEXT[kind].finditer(text)]
    for part in parts:
        if part.reason in _TOLD:
            said, reason = Tagged(text[part.start : part.end]), f"left as it is: {_TOLD[part.reason]}"
            segments.append(Segment(said, lines(part.start), lambda *_: (), "skipped", reason=reason))
    segments += unread_segments(text, parts, lines)
    language = _LANGUAGE.match(text)
    return TextDocument(text, encoding, segments, finish=lambda _: options.new_language(language), parts=parts)


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = parts
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0) + float(f"0.{fraction}")


def _width(text: str, blocks: Sequence[_Block], line_break: str) -> int:
    """Returns how long lines may be: as long as those of the file, where they are longer or most are broken."""
    said = [_TAG.sub("", text[slice(*block.span)]).split(line_break) for block in blocks]
    longest = max((len(line.strip()) for lines in said for line in lines), default=WIDTH)
    return longest if longest > WIDTH or sum(len(lines) > 1 for lines in said) >= _MOST_WRAPPED else WIDTH


def _cues(text: str, *, is_vtt: bool) -> Iterator[_Block]:
    """Yields the texts of cues, which in SubRip may have blank lines: what is no new cue belongs to the last one."""
    place, rest = 0, len(text.rstrip())
    count = 0
    while place < rest:
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        line = text[place:end]
        if "-->" in line and not line.startswith("NOTE"):
            times = _TIMES.fullmatch(line.rstrip("\r"))
            if times is None:
                raise DataError(f"line {text.count(chr(10), 0, place) + 1} has no time codes that can be read")
            begin, until = _seconds(times.groups()[:4]), _seconds(times.groups()[4:])
            start, place = end + 1, end + 1
            last = start
            while place < rest:  # up to a blank line, or a cue that follows without one
                end = text.find("\n", place)
                end = len(text) if end < 0 else end
                blank = _BLANK.match(text, place)
                if _TIMES.match(text, place, end) or (blank and (is_vtt or _NEXT.match(text, blank.end()))):
                    break
                after = blank.end() if blank else end + 1  # all blank lines at once
                last, place = max(place, text.rfind("\n", place, after - 1) + 1), after
            span = start, min(place, len(text))
            if text[place:end].strip() and text[last:place].strip().isdecimal():
                span = start, last  # the number of that cue
            count += 1
            for part, is_first in _speakers(text, span, "\n"):
                yield _Block(part, begin, until, is_first, count)
        else:
            place = end + 1


def _events(text: str) -> Iterator[_Block]:
    fields, count = 10, 0
    for match in re.finditer(r"[^\n]+", text):
        line = match[0]
        if line.startswith("Format:") and "Text" in line:
            fields = line.count(",") + 1
        event = _EVENT.match(line)
        if event is None:
            continue
        parts = event[1].split(",", fields - 1)
        times = [re.fullmatch(_CLOCK, each.strip()) for each in parts[1:3]]
        if len(parts) < fields or len(times) < 2 or None in times:
            raise DataError(f"line {text.count(chr(10), 0, match.start()) + 1} is no event with {fields} fields")
        if re.search(rf"\\p[1-9]|{_KARAOKE}", parts[-1]):  # a drawing, or sung syllable by syllable
            continue
        begin, until = (_seconds(each.groups()) for each in times if each is not None)
        end = match.end() - line.endswith("\r")
        count += 1
        for part, is_first in _speakers(text, (match.end() - len(parts[-1]), end), "\\N"):
            yield _Block(part, begin, until, is_first, count)


def _speakers(text: str, span: Span, line_break: str) -> Iterator[tuple[Span, bool]]:
    """Yields the parts of a cue, without the space around them: a new one at a dash, a voice, a sound, a blank line."""
    start, end = span
    cuts, line = [start], start
    for match in re.compile(re.escape(line_break)).finditer(text, start, end):
        before, after = text[line : match.start()], match.end()
        begins = any(each.match(text, after, end) for each in (_SPOKEN, _LABEL, _SONG, _SOUND))
        if begins or text.startswith(("<v ", "<v."), after) or not before.strip() or _SOUND.match(before.lstrip()):
            cuts.append(after)
            if not before.strip() and (alone := _NUMBER.match(text, after, end)):
                cuts.append(alone.end())
        line = after
    for number, (left, right) in enumerate(pairwise([*cuts, end])):
        raw = text[left:right]
        raw = raw.removesuffix(line_break) if right < end else raw
        if raw.strip():
            left += len(raw) - len(raw.lstrip())
            spoken = _SPOKEN.match(text, left, right)
            begin = spoken.end() if spoken else left
            yield (begin, left + len(raw.strip())), number == 0


def _groups(text: str, blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Yields blocks whose texts are whole sentences together."""
    group: list[_Block] = []
    for block in blocks:
        if group:
            said, now = (_TAG.sub("", text[slice(*each.span)]).strip() for each in (group[-1], block))
            follows = 0 <= block.start - group[-1].end <= _PAUSE and block.is_first
            spoken = _SPOKEN.match(text[max(0, block.span[0] - 2) : block.span[1]])
            if (
                _ENDS.search(said)
                or not follows
                or not (any(map(str.isalpha, said)) and any(map(str.isalpha, now)))
                or spoken
                or text.startswith(("<v ", "<v."), block.span[0])
                or len(group) == _MOST_CUES
                or _is_capital(now, said)
            ):
                yield group
                group = []
        group.append(block)
    if group:
        yield group


def _is_capital(said: str, before: str) -> bool:
    """Whether a text seems to begin anew, though the one before it does not end: after a heading, in a song."""
    said = said.lstrip("\"'„“»(…")
    return not before.endswith((",", "-", "–", "…")) and said[:1].isupper() and len(before.split()) < 4


def _add(inline: Inline, text: str, span: Span) -> None:
    place = span[0]
    for match in _TAG.finditer(text, *span):
        inline.text(place, match.start())
        place = match.end()
        name = (match["name"] or "").lower()
        if match["ruby"]:
            inline.opaque(*match.span())
        elif name not in _PAIRED:
            inline.point(*match.span())
        elif match[0].startswith("</"):
            inline.close(*match.span(), name)
        else:
            inline.open(*match.span(), name)
    inline.text(place, span[1])


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes a sentence into its cues again."""

    group: Sequence[_Block]
    span: Span
    encode: Callable[[str], str]
    width: int
    line_break: str

    def __call__(self, translation: Tagged, tell: Tell) -> list[Edit]:
        pieces: Pieces = []
        blocks = [block for block in self.group if block.span[0] < self.span[1] and self.span[0] < block.span[1]]
        separators = [(one.span[1], other.span[0]) for one, other in pairwise(blocks)]
        parts = _cut(translation, separators)
        for number, part in enumerate(parts):
            if number:
                pieces.append(separators[number - 1])
            pieces += self._lines(part)
        for block, part in zip(blocks, parts, strict=False):
            seconds, size = block.end - block.start, len(part.text)
            most = max(_SPEED, (block.span[1] - block.span[0]) / seconds if seconds > 0 else 0)
            if seconds > 0 and size / seconds > most:
                tell(f"{size / seconds:.0f} characters a second are more than {most:.0f}")
            if not part.text:
                tell("the translation has fewer words than the sentence has cues; one is empty")
        return [Edit(*self.span, pieces)]

    def _lines(self, part: Tagged) -> Pieces:
        """Returns a text in as few lines as there can be, of about the same length."""
        pieces = render(part, self.encode)
        wrapped = partial(wrap, pieces, 0, line_break=self.line_break, may_start=_MAY_START)

        def fewer(width: int) -> int:
            return -wrapped(width).count(self.line_break)

        size = len(part.text)
        widths = range(max(1, size // max(1, -(-size // self.width))), self.width)
        return wrapped(self.width - len(widths) + bisect_left(widths, fewer(self.width), key=fewer))


def _cut(translation: Tagged, separators: Sequence[Span]) -> list[Tagged]:
    """Returns the texts of the cues.

    :param separators: what is between them
    """
    cuts = sorted(tag.start for tag in translation.tags if tag.open in separators)
    tags = [tag for tag in translation.tags if tag.open not in separators]
    starts = [match.start() for match in re.finditer(r"\S+", translation.text)]
    placed: list[int] = []
    for number, cut in enumerate(cuts):
        # At least a word for each, where there are enough; never within a pair.
        low = next((start for start in starts if start > (placed[-1] if placed else 0)), len(translation.text))
        left = len(cuts) - number
        high = starts[-left] if left <= len(starts) else len(translation.text)
        cut = max(low, min(cut, high))
        around = next((tag for tag in tags if tag.start < cut < tag.end), None)
        if around is not None:
            cut = around.start if around.start >= low else around.end
        if cut and not translation.text[cut - 1].isspace():
            cut = _MARKS.match(translation.text, cut).end()  # type: ignore[union-attr]
        placed.append(cut)
    parts = []
    for start, end in pairwise([0, *placed, len(translation.text)]):
        said = translation.text[start:end]
        is_last = end == len(translation.text)
        own = [tag for tag in tags if start <= tag.start and (tag.end <= end and (tag.start < end or is_last))]
        parts.append(_shifted(Tagged(said.rstrip(), tuple(own)), start))
    return parts


def _shifted(part: Tagged, offset: int) -> Tagged:
    """Returns a part of a text with the places of its tags in the part."""

    def shifted(tag: Tag) -> Tag:
        start, end = (max(0, min(len(part.text), place - offset)) for place in (tag.start, tag.end))
        return replace(tag, start=start, end=end, children=tuple(map(shifted, tag.children)))

    return Tagged(part.text, tuple(map(shifted, part.tags)))


def _decode_ass(raw: str) -> str:
    return raw.replace("\\N", " ").replace("\\n", " ").replace("\\h", "\xa0")


def _encode_ass(text: str) -> str:
    return text.replace("\n", " ").replace("\xa0", "\\h")


def _encode_vtt(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\xa0", "&nbsp;")


def _encode_srt(text: str) -> str:
    """
    :raises RefusedError: it would be read as time codes.
    """
    if "-->" in text:
        raise RefusedError("it has '-->'")
    return text
