"""Message catalogues of gettext: PO and POT."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from specmt.errors import DataError, UsageError
from specmt.formats.accelerators import hide
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    RefusedError,
    Segment,
    State,
    Tell,
    TextDocument,
    edited,
)
from specmt.formats.encoding import Encoding, decode
from specmt.formats.inline import Inline, in_place, meant
from specmt.formats.manual import find_marks
from specmt.formats.plurals import plural_forms
from specmt.languages import primary
from specmt.types import Span, Tagged

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_STRING: Final = re.compile(
    r"(?P<former>\#\|)?(?:\s*(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,9}\])?))?\s*"
    r'"(?P<body>[^"\\]*(?:\\.[^"\\]*)*)"\s*'
)
_BEGINS: Final = re.compile(r"#|msgctxt|msgid(?!_plural)")
"""How a line begins that is behind a message."""

_ESCAPE: Final = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES: Final = str.maketrans({char: f"\\{letter}" for letter, char in _ESCAPED.items()} | {'"': '\\"', "\\": "\\\\"})
_WIDTH: Final = 79
_PRINTF: Final = re.compile(
    r"%(?:\(\w+\))?(?:\d+\$)?[-+ #0']*(?:[1-9]\d*|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[qLjzt])?[%diouxXeEfFgGaAcsSpnr@]"
)
_BRACES: Final = re.compile(r"\{\{|\}\}|\{[^{}]*\}")
_FEW: Final = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20)"
_PLURALS: Final = (
    ("ja ko zh th vi id ms", "nplurals=1; plural=0;"),
    ("fr", "nplurals=2; plural=(n > 1);"),
    ("cs sk", "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);"),
    ("pl", f"nplurals=3; plural=(n==1 ? 0 : {_FEW} ? 1 : 2);"),
    ("ru uk be sr hr bs", f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {_FEW} ? 1 : 2);"),
    ("lt", "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);"),
    ("lv", "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);"),
    ("ro", "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);"),
    ("sl", "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);"),
    ("ar", "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);"),
)
_ONE_AND_MANY: Final = "nplurals=2; plural=(n != 1);"
"""Plural forms of most other languages."""


@dataclass(slots=True)
class _Value:
    """A string of an entry, which may be written in several lines."""

    span: Span
    """From its first quote to its last."""

    text: str


@dataclass(slots=True, eq=False)
class _Entry:
    start: int = -1
    """Where its first line is that is no comment by a translator or a programmer; before there is one, -1."""

    values: dict[str, _Value] = field(default_factory=dict)
    former: dict[str, str] = field(default_factory=dict)
    """What its source was before a change, of which its translations are."""

    former_span: Span | None = None
    flags: tuple[str, ...] = ()
    flags_span: Span | None = None

    @property
    def slots(self) -> list[str]:
        """The keys of its translations."""
        return [key for key in self.values if key.startswith("msgstr")]


_CREDITS: Final = re.compile(r"translator[-_]credits?|(?:NAME|EMAIL) OF TRANSLATORSYour \w+")
"""Messages of GNOME and KDE in which translators name themselves."""

_OPEN: Final = re.compile(r"CHARSET|(?:US-)?ASCII", re.IGNORECASE)
"""What a template has for its encoding, or a catalogue that has only English: both are UTF-8."""

_OPEN_CHARSET: Final = re.compile(rf"(?<=charset=)(?:{_OPEN.pattern})(?=\\n)", re.IGNORECASE)
_OPEN_FORMS: Final = re.compile("nplurals=INTEGER; plural=EXPRESSION;")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a catalogue, in the encoding that its header names.

    :raises DataError: it is damaged.
    """
    found = re.search(rb"charset=([\w.:-]+)", data[: data.find(b"\n\n") if b"\n\n" in data else len(data)])
    charset = "CHARSET" if found is None else found[1].decode("ascii")
    text, encoding = decode(data, "utf-8" if _OPEN.fullmatch(charset) else charset)
    entries = list(_entries(text))
    header = next((entry for entry in entries if entry.values["msgid"].text == "" and not _context(entry)), None)
    style = _Style(text, encoding, entries, header, options)
    segments: list[Segment] = []
    seen: dict[str | tuple[str, str], int] = {}
    lines = LineNumbers(text)
    for entry in entries:
        line = lines(entry.start)
        said, context = entry.values["msgid"].text, _context(entry)
        key = said if context is None else (context, said)  # tuples take memory
        if key in seen:
            raise DataError(f"line {line} has the message of line {seen[key]} again")
        seen[key] = line
        if entry is not header:
            segments += style.segments(entry, line)

    def finish(written: Mapping[int, Tagged]) -> Iterator[Edit]:
        messages = dict.fromkeys(style.messages[number] for number in written)
        doubtful = {
            style.messages[number].entry
            for number, said in written.items()
            if not said.is_whole or options.is_fuzzy([said])
        }
        doubtful |= {message.entry for message in messages if len(message.said or ()) < message.count}
        for message in messages:
            if message.count > 1:
                yield from style.message(message)
        for entry in dict.fromkeys(message.entry for message in messages):
            yield from style.flag(entry, is_sure=entry not in doubtful)
        yield from style.head(header) if header is not None else style.first()

    return TextDocument(text, encoding, hide(segments), finish=finish)


def _context(entry: _Entry) -> str | None:
    return entry.values["msgctxt"].text if "msgctxt" in entry.values else None


def _entries(text: str) -> Iterator[_Entry]:
    entry: _Entry | None = None
    ahead = _Entry()
    """What is said before the next one."""
    key = ""
    for number, match in enumerate(_LINE.finditer(text), 1):
        line, (begin, end) = match[0], match.span()
        stripped = line.strip()
        if entry is not None and entry.slots and (not stripped or _BEGINS.match(stripped)):
            yield entry
            entry, key = None, ""
        if stripped.startswith("#,"):
            ahead.flags = tuple(flag.strip() for flag in stripped[2:].split(",") if flag.strip())
            ahead.flags_span = begin, end
            ahead.start = begin if ahead.start < 0 else ahead.start
        if not stripped or (stripped[0] == "#" and not stripped.startswith("#|")):
            continue
        said = _STRING.fullmatch(stripped)
        if said is None:
            raise DataError(f"line {number} is neither a comment nor a string of a message")
        body = _unescape(said["body"])
        if entry is None and ahead.start < 0:
            ahead.start = begin
        if said["former"] is not None:
            former_key = said["key"] or next(reversed(ahead.former), "")
            ahead.former[former_key] = ahead.former.get(former_key, "") + body
            ahead.former_span = (begin if ahead.former_span is None else ahead.former_span[0], end)
            continue
        if entry is None:
            entry, ahead = ahead, _Entry()
        quote, last = begin + line.index('"'), begin + line.rindex('"') + 1
        if said["key"] is not None:
            key = said["key"]
            if key in entry.values:
                raise DataError(f"line {number} has a second {key} in the message")
            if key.startswith("msgstr") and "msgid" not in entry.values:
                raise DataError(f"line {number} has {key} without a msgid")
            entry.values[key] = _Value((quote, last), body)
        elif not key:
            raise DataError(f"line {number} has a string that belongs to no message")
        else:
            value = entry.values[key]
            value.span, value.text = (value.span[0], last), value.text + body
    if entry is not None:
        if not entry.slots:
            raise DataError(f"line {number} ends the file within a message")
        yield entry


Edits = Callable[[Tagged, Tell], Iterable[Edit]]


@dataclass(slots=True, eq=False)
class Message:
    """A message in one or several parts."""

    entry: _Entry
    key: str
    targets: list[str]
    count: int
    said: dict[int, Iterable[Edit]] | None = None
    """What replaces them, by their numbers."""


class _Style:
    """How a catalogue writes its strings and what it says of itself."""

    def __init__(
        self, text: str, encoding: Encoding, entries: list[_Entry], header: _Entry | None, options: FormatOptions
    ) -> None:
        self.messages: list[Message] = []
        """That of each segment."""
        self._encoding = encoding
        self._names = plural_forms(options.target)
        self._fields = {"PO-Revision-Date": _moment(), "Language": options.target.replace("-", "_")}
        self._end = "\r\n" if "\r\n" in text[:1000] else "\n"
        said = "" if header is None else header.values[header.slots[0]].text
        found = re.search(r"nplurals\s*=\s*(\d{1,2})(?!\d)", said)
        self._lacks_forms = "Plural-Forms:" not in said and any("msgid_plural" in entry.values for entry in entries)
        language = primary(options.target)
        self._forms = next((forms for names, forms in _PLURALS if language in names.split()), _ONE_AND_MANY)
        self._count = int(found[1]) if found else int(re.findall(r"\d", self._forms)[0])
        self._text = text
        long = (line for entry in entries for line in text[slice(*entry.values["msgid"].span)].split("\n"))
        self._width = 0 if any(len(line) > _WIDTH + 9 and " " in line.strip(' "') for line in long) else _WIDTH

    def segments(self, entry: _Entry, line: int) -> Iterator[Segment]:
        """Yields the texts of a message: one, or those for one thing and for several."""
        forms = () if "msgid_plural" in entry.values else self._names
        wanted = [f"msgstr[{number}]" for number in range(self._count)]
        if "msgid_plural" not in entry.values:
            plan = [("msgid", entry.slots[:1])]
        elif self._count > 1:
            plan = [("msgid", wanted[:1]), ("msgid_plural", wanted[1:])]
        else:
            plan = [("msgid_plural", wanted)]
        for key, targets in plan:
            value = entry.values[key]
            inline = Inline(value.text)
            inline.text(0, len(value.text))
            inline.apart(find_marks)
            parts = [*in_place(inline, lambda _: line, forms=forms, entities=True)]
            existing = [entry.values[slot].text for slot in targets if slot in entry.values]
            target = meant(next((text.strip() for text in existing if text), ""))
            former = meant(entry.former.get(key, "").strip())
            state: State = "new" if not any(existing) else "fuzzy" if "fuzzy" in entry.flags else "translated"
            near = ((former, target),) if former and target else ()
            is_message = any(part.written[0] or part.source.tags for part in parts)
            written = (value.text, target) if is_message else ("", "")
            if len(parts) > 1:
                target, near = "", ()
            is_left = state == "new" and _CREDITS.fullmatch(f"{_context(entry) or ''}{value.text}") is not None
            message = Message(entry, key, targets, len(parts))
            self.messages += [message] * len(parts)
            for number, part in enumerate(parts):
                yield replace(
                    part,
                    edits=partial(self._edits, message, number, part.edits),
                    state="skipped" if is_left or part.state == "skipped" else state,
                    reason="left as it is: translators name themselves here" if is_left else part.reason,
                    target=target,
                    context=_context(entry) or "",
                    near=near,
                    written=written,
                )

    def _edits(self, message: Message, number: int, edits: Edits, translation: Tagged, tell: Tell) -> list[Edit]:
        """Returns the edits of a message; those of one in several parts are written with all of them."""
        message.said = message.said or {}
        message.said[number] = edits(translation, tell)
        if message.count == 1:
            return [*self.message(message)]
        if not self._encoding.can_encode(translation.text):
            raise RefusedError(f"{self._encoding.codec} cannot write it")
        return []

    def message(self, message: Message) -> Iterator[Edit]:
        """Yields the edits of a message."""
        entry, key = message.entry, message.key
        source = entry.values[key].text
        said = edited(source, [edit for edits in (message.said or {}).values() for edit in edits])
        _check(entry.flags, source, said)
        last = entry.values[entry.slots[-1]].span[1]
        for slot in message.targets:
            if slot in entry.values:
                yield Edit(*entry.values[slot].span, [self._quoted(said, len(slot) + 1)])
            else:
                yield Edit(last, last, [f"{self._end}{slot} {self._quoted(said, len(slot) + 1)}"])
        if key == "msgid_plural":  # forms that the language has not
            for slot in entry.slots:
                if int(slot[7:-1]) >= self._count:
                    start, end = entry.values[slot].span
                    yield Edit(self._text.rindex("\n", 0, start), end, [])

    def flag(self, entry: _Entry, *, is_sure: bool) -> Iterator[Edit]:
        """Yields what marks a translation to be reviewed, or takes the mark away."""
        fuzzy = not is_sure or ("msgid_plural" in entry.values and self._count != 2)
        if fuzzy and "fuzzy" not in entry.flags:
            if entry.flags_span is None:
                yield Edit(entry.start, entry.start, [f"#, fuzzy{self._end}"])
            else:
                place = self._text.index("#,", entry.flags_span[0]) + 2
                yield Edit(place, place, [" fuzzy,"])
        elif not fuzzy and "fuzzy" in entry.flags and entry.flags_span is not None:
            rest = ", ".join(flag for flag in entry.flags if flag != "fuzzy")
            yield Edit(*entry.flags_span, [f"#, {rest}{self._end}"] if rest else [])
            if entry.former_span is not None:
                yield Edit(*entry.former_span, [])

    def first(self) -> Iterator[Edit]:
        """Yields a header for a catalogue that has plural forms and none, with which gettext cannot do."""
        fields = {
            **self._fields,
            "MIME-Version": "1.0",
            "Content-Type": f"text/plain; charset={self._encoding.codec.upper()}",
            "Content-Transfer-Encoding": "8bit",
            "Plural-Forms": self._forms,
        }
        said = "".join(f'"{name}: {value}\\n"{self._end}' for name, value in fields.items())
        if self._lacks_forms:
            yield Edit(0, 0, [f'msgid ""{self._end}msgstr ""{self._end}{said}{self._end}'])

    def head(self, header: _Entry) -> Iterator[Edit]:
        """Yields the language, the date, and what a template leaves open."""
        start, end = header.values[header.slots[0]].span
        fields = self._fields | ({"Plural-Forms": self._forms} if self._lacks_forms else {})
        for name, value in fields.items():
            found = re.compile(rf'(?:"|\\n){name}:([ ]?)((?:[^"\\]|\\[^n])*)\\n').search(self._text, start, end)
            if found is None:
                yield Edit(end, end, [f'{self._end}"{name}: {value}\\n"'])
            elif found[2] != value and not (name == "Language" and found[2].startswith(value)):
                yield Edit(*found.span(2), [value if found[1] else f" {value}"])
        for was, value in ((_OPEN_FORMS, self._forms), (_OPEN_CHARSET, "UTF-8")):
            if found := was.search(self._text, start, end):
                yield Edit(*found.span(), [value])
        if header.flags_span is not None and header.flags == ("fuzzy",):  # a template's; without a header msgfmt fails
            yield Edit(*header.flags_span, [])

    def _quoted(self, text: str, column: int) -> str:
        """Returns a string as gettext writes it."""
        lines = [part for line in re.findall(r"[^\n]*\n|[^\n]+", text) for part in self._wrapped(line)]
        said = [f'"{line.translate(_ESCAPES)}"' for line in lines] or ['""']
        if len(said) == 1 and (not self._width or column + len(said[0]) <= _WIDTH + 1):
            return said[0]
        return self._end.join(['""', *said])

    def _wrapped(self, line: str) -> Iterator[str]:
        now = ""
        for word in re.findall(r"\S+\s*|\s+", line):
            if now and self._width and len((now + word).translate(_ESCAPES)) + 2 > self._width:
                yield now
                now = ""
            now += word
        yield now


def _moment() -> str:
    """Returns what time it is, or what `SOURCE_DATE_EPOCH` says, so that a build is the same on another day.

    :raises UsageError: it says no time.
    """
    told = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = time.localtime() if told is None else time.gmtime(int(told))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"`SOURCE_DATE_EPOCH` must be a number of seconds, but is {told!r} instead.") from None
    return time.strftime("%Y-%m-%d %H:%M%z", moment)


def _unescape(body: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)

    return _ESCAPE.sub(meaning, body) if "\\" in body else body


def _check(flags: tuple[str, ...], source: str, target: str) -> None:
    """
    :raises RefusedError: the translation has other format directives than its source.
    """
    for flag in flags:
        if flag.startswith("no-") or not flag.endswith("-format"):
            continue
        pattern = _BRACES if "brace" in flag or flag in ("csharp-format", "java-format") else _PRINTF
        if sorted(pattern.findall(source)) != sorted(pattern.findall(target)):
            raise RefusedError(f"its {flag} directives are not those of the message")
