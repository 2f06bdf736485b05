"""Inline markup of AsciiDoc: where it is, as Asciidoctor reads it, and how a translation is written with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from specmt.formats.document import Pieces, RefusedError
from specmt.formats.inline import Inline, render, written
from specmt.types import Span, Tagged

_ROLE: Final = r"(?:\[[^\[\]\n]*\])?"
# A space that does not break is none to Asciidoctor, which takes it for the beginning of a text, or its end.
_START: Final = re.compile(
    rf"(?P<escape>\\(?:[*_`#^~+<\[|&]|\{{(?![\w-]+(?::[^}}\n]{{0,300}})?\}})|(?=\w+:)))|(?P<note>footnote(?:ref)?:[\w-]*\[)"
    r"|(?P<link>(?<![^\W_])(?:(?:link:|xref:|mailto:|(?:https?|ftp|irc)://)(?=(?P<to>(?:pass:[a-z,]*\[[^\]\n]{0,300}\]|\+\+[^+\n]{1,300}\+\+|[^\s\[\]]){0,300}))(?P=to)"
    r"|\{[\w-]+\}[^\s\[\]{}]*)\[(?!\]))"
    r"|(?P<attribute>\\?\{[\w-]+(?::[^}\n]{0,300})?\})"
    r"|(?P<code>\+\+\+[^+]+\+\+\+|\+\+[^+]+\+\+|(?<![\w+&;:}])\+(?=(?a:\S))[^+\n]*(?<=(?a:\S))\+(?![\w+])"
    r"|(?<!\w)pass:[a-z,]*\[[^\]\n]{0,2000}\]|\(\(\([^()\n]*\)\)\)|\[\[[^\[\]\n]*\]\]|(?:&\#\d+;)+|&(?:\w+|\#\w+);)"
    r"|(?P<index>\(\((?!\()[^()\n]+\)\)(?!\)))"
    r"|(?P<cross><<(?P<id>[^<>,]+)(?:,(?P<named>[^<>]*(?:<[^<>]*>(?!>)[^<>]*)*))?>>)"
    r"|(?P<macro>(?<![^\W_])(?<![:/.])(?:[a-z][a-z\d]*:[^\s\[\]:][^\s\[\]]{0,300}|menu:[^\[\n]{0,100}|(?:kbd|btn|stem|latexmath|asciimath|indexterm2?):)\[[^\]\n]{0,2000}\])"
    r"|(?P<url>(?<=<)(?:https?|ftp|irc)://[^\s\[\]<>]+(?=>|\Z)|(?<![^\W_])(?:https?|ftp|irc)://[^\s\[\]<]*[^\s\[\]<()'\",.;:!?])|(?P<quote>(?<![\w;:}])[\"']`(?=(?a:\S)))"
    rf"|(?P<double>{_ROLE}(?:\*\*|__|\#\#|``))|(?P<single>(?<![\w&;:}}]){_ROLE}[*_#`](?=(?a:\S)))|(?P<script>[\^~](?=(?a:\S)))"
)
_OLD_START: Final = re.compile(rf"(?P<old>(?<![\w;:}}`])(?:``|`|')(?=(?a:[^\s`'])))|{_START.pattern}")
_OLD_ENDS: Final = {"``": "''", "'": "'"}
_SPECIAL: Final = re.compile(r"[*_`#^~+<>\[\]\\&\"']|\{(?=[\w-])")
_ESCAPE: Final = re.compile(r"\\([*_`#^~+<{\[\]|&]|(?=\w+:))")
_HAS_MARKUP: Final = re.compile(r"[*_`#^~+{<\[\\&:]|\(\(")
_ATTRIBUTES: Final = re.compile(r'"(?P<quoted>[^"\n]*)"(?:,.*)?\Z|(?P<plain>[^",=]*)(?:,.*)\Z', re.DOTALL)
_BRACKETS: Final = re.compile(r"\\\]|(\+{2,3})[^+]+\1|\[[^\[\]\n]{0,100}\](?=[*_`#])|(?<=[\w/:>}.+-])\[|\]")
_CODE: Final = re.compile(rf"{_ROLE}`[^`+\"'](?:[^`]*[^`+\"'])?`\Z")
"""Code that is the same in two marks: these would be curved beside quotation marks."""

_MARKED: Final = re.compile(r"(?<!\w)[*_#]|[*_#](?!\w)|[*_#]{2}")
"""What may open or close a pair: no mark within a word does."""

_MOST_DEEP: Final = 5


class Found(NamedTuple):
    """What opens or closes a pair, or stands by itself."""

    kind: Literal["open", "close", "opaque", "note", "loose"]
    """``loose`` is what would begin a pair with what is behind the text."""

    start: int
    end: int
    key: str


def find(text: str, start: int, end: int, depth: int = 0, *, is_old: bool = False) -> Sequence[Found]:
    """Returns the inline markup in a paragraph, in order.

    :param is_old: whether quotation marks are those of the first AsciiDoc
    """
    if not _HAS_MARKUP.search(text, start, end):
        return ()
    found: list[Found] = []
    endless: set[str] = set()
    place = start
    start_of = _OLD_START if is_old else _START
    while (match := start_of.search(text, place, end)) is not None:
        kind, first, place = match.lastgroup or "", match.start(), match.end()
        if kind == "escape":
            place = match.end() + (match[0] == "\\")  # a macro that is none
        elif kind in ("attribute", "code", "macro", "url"):
            found.append(Found("opaque", first, place, match[0]))
        elif kind == "cross":
            if match["named"] is None or not any(map(str.isalpha, match["named"])):
                found.append(Found("opaque", first, place, match[0]))
            else:
                found += _pair(text, first, match.span("named"), place, f"<<{match['id']}", depth, is_old=is_old)
        elif kind == "index":
            found += _pair(text, first, (first + 2, place - 2), place, "((", depth, is_old=is_old)
        elif kind in ("link", "note"):
            last = None if "]" in endless else _bracket(text, place, end)
            if last is None:
                endless.add("]")
            elif kind == "note":
                found.append(Found("note", first, last + 1, match[0]))
                place = last + 1
            else:
                found += _link(text, first, place, last, depth, is_old=is_old)
                place = last + 1
        elif kind == "old":
            found_pair, place = _old(text, match, end, endless, depth)
            found += found_pair
        else:
            found_pair, place = _quoted(text, match, kind, end, endless, depth, is_old=is_old)
            found += found_pair
    return found


def _bracket(text: str, place: int, end: int) -> int | None:
    """Returns where brackets are closed, which may have those of macros and roles in them."""
    depth = 0
    for match in _BRACKETS.finditer(text, place, end):
        depth += {"[": 1, "]": -1}.get(match[0], 0)
        if depth < 0:
            return match.start()
    return None


def _pair(text: str, start: int, inside: Span, end: int, key: str, depth: int, *, is_old: bool) -> list[Found]:
    inner = find(text, *inside, depth + 1, is_old=is_old) if depth < _MOST_DEEP else []
    return [Found("open", start, inside[0], key), *inner, Found("close", inside[1], end, key)]


def _link(text: str, start: int, first: int, last: int, depth: int, *, is_old: bool) -> list[Found]:
    """Returns a link: its text is a pair, what is in front of it and behind is not."""
    content = text[first:last]
    inside = first, last - content.endswith("^")
    if "=" in content:
        match = _ATTRIBUTES.match(content)
        if match is None:
            return [Found("opaque", start, last + 1, text[start : last + 1])]
        low, high = match.span(match.lastgroup or 0)
        inside = first + low, first + high
    if not any(map(str.isalpha, text[slice(*inside)])):
        return [Found("opaque", start, last + 1, text[start : last + 1])]
    key = f"{text[start : inside[0]]}{text[inside[1] : last + 1]}"
    return _pair(text, start, inside, last + 1, key, depth, is_old=is_old)


def _quoted(
    text: str, match: re.Match[str], kind: str, end: int, endless: set[str], depth: int, *, is_old: bool
) -> tuple[list[Found], int]:
    """Returns text in marks, and what is behind the first of them or all."""
    first, place = match.span()
    opening = match[0]
    mark = opening[-2:] if kind in ("double", "quote") else opening[-1]
    closing = mark[::-1] if kind == "quote" else mark
    if kind == "script":
        found = re.compile(rf"(?a:[^\s{re.escape(mark)}])+{re.escape(mark)}").match(text, place, end)
    elif kind + closing in endless:
        found = None
    else:
        before = r"(?<!(?a:\s))" if kind != "double" else ""
        after = "" if kind == "double" else r"(?![\w\"'`])" if mark == "`" else r"(?!\w)"
        found = re.compile(rf"{before}{re.escape(closing)}{after}").search(text, place + 1, end)
    if found is None:
        endless.add(kind + closing)
        return [Found("loose", first, place, mark)] * (kind != "script"), place
    if mark[0] == "`" and kind != "quote":
        return [Found("opaque", first, found.end(), text[first : found.end()])], found.end()
    inside = place, found.end() - len(closing)
    key = opening[: -len(mark)] + mark[0] + kind * (kind == "quote")
    return _pair(text, first, inside, found.end(), key, depth, is_old=is_old), found.end()


def _old(text: str, match: re.Match[str], end: int, endless: set[str], depth: int) -> tuple[list[Found], int]:
    """Returns code or what is in quotation marks of the first AsciiDoc, and what is behind the first of them or all."""
    (first, place), mark = match.span(), match[0]
    for closing in ("`", "'") if mark == "`" else (_OLD_ENDS[mark],):
        if f"old{closing}" in endless:
            continue
        found = re.compile(rf"(?<!(?a:\s)){closing}(?![`\w])").search(text, place + 1, end)
        if found is None:
            endless.add(f"old{closing}")
        elif closing == "`":
            return [Found("opaque", first, found.end(), text[first : found.end()])], found.end()
        else:
            inside = place, found.start()
            return _pair(text, first, inside, found.end(), f"{mark}{closing}", depth, is_old=True), found.end()
    return [Found("loose", first, place, mark)], place


def unescape(raw: str) -> str:
    """Returns what raw text means."""
    return _ESCAPE.sub(r"\1", raw) if "\\" in raw else raw


def fill(inline: Inline, found: Sequence[Found], span: Span) -> None:
    """Gives the text and the markup of a paragraph to a segment."""
    place = span[0]
    for each in found:
        if each.kind == "loose":
            continue
        inline.text(place, each.start)
        if each.kind in ("open", "close"):
            (inline.open if each.kind == "open" else inline.close)(each.start, each.end, each.key)
        elif each.kind == "note":
            inline.mark(each.start, each.end)
        else:
            inline.opaque(each.start, each.end)
        place = each.end
    inline.text(place, span[1])


def said_with(
    text: str, whole: Span, span: Span, found: Sequence[Found], translation: Tagged, *, is_old: bool
) -> Pieces:
    """Returns what is written for a translation: marks are doubled, and characters said by number, where it must be.

    :param whole: where the paragraph is
    :param span: where the text of the segment is, which may be without the markup around it
    :raises RefusedError: it would be read as other markup.
    """
    before, after = text[whole[0] : span[0]], text[span[1] : whole[1]]
    if not found and not _HAS_MARKUP.search(f"{before}{translation.text}{after}"):
        return render(translation)
    marks = {(each.start, each.end) for each in found if each.kind in ("open", "close")}
    marked = marks | {(each.start, each.end) for each in found if _CODE.match(each.key)}
    ends_link = "]" in translation.text and any(each.kind == "open" and "[" in each.key for each in found)
    for is_numbered in (True,) if ends_link else (False, True):
        wanted = _shape(found, named=is_numbered)
        for is_doubled in (False, True):
            pieces = render(translation, _numbered if is_numbered else str)
            pieces = [_doubled(text, piece, marked) for piece in pieces] if is_doubled else pieces
            raw = before + written(text, pieces) + after
            again = find(raw, 0, len(raw), is_old=is_old)
            said = "".join(
                "".join(piece.split())
                if isinstance(piece, str)
                else _said(text[slice(*piece)], find(text, *piece, is_old=is_old), piece[0])
                for piece in render(translation)
                if piece not in marks
            )
            is_same = is_numbered or _said(raw, again) == said
            is_same = is_same and _marked(again, again) == _marked(found, again)
            shape = _shape(again, named=is_numbered)
            if is_same and shape <= wanted and all(kind == "loose" for kind, _ in wanted - shape):
                return pieces
    raise RefusedError("its inline markup would be read as something else")


def _numbered(said: str) -> str:
    """Returns a text with the characters that may be markup said by number."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", said)


def _doubled(text: str, piece: str | Span, marks: set[Span]) -> str | Span:
    """Returns marks, or code in them, as it may stand in a word."""
    if isinstance(piece, str) or piece not in marks or text[piece[1] - 1] not in "*_#`":
        return piece
    raw = text[slice(*piece)]
    return piece if raw[-2:] in ("**", "__", "##", "``") else raw.replace("`", "``", 1) + raw[-1]


def _shape(found: Sequence[Found], *, named: bool = False) -> Counter[tuple[str, str]]:
    return Counter(
        (each.kind, " ".join(each.key.split()).replace("``", "`"))
        for each in found
        if not (named and re.fullmatch(r"(&#\d+;)+", each.key))
    )


def _marked(found: Sequence[Found], written: Sequence[Found]) -> list[tuple[str, str]]:
    """Returns code with marks in it, which would be read with others of them if it stood in another order.

    So would a mark that opens nothing, as in the text of a link: if any is written, its like count, too.
    """
    loose = {each.key[-1] for each in written if each.kind == "loose"}
    return [
        (each.kind, each.key.replace("``", "`"))
        for each in found
        if (each.key[0] == "`" and _MARKED.search(each.key)) or (each.kind != "opaque" and each.key[-1] in loose)
    ]


def _said(raw: str, found: Sequence[Found], first: int = 0) -> str:
    """Returns what a reader sees of a text, without space and what stands by itself.

    :param first: where the text begins
    """
    said, place = [], 0
    for each in found:
        said.append(unescape(raw[place : (each.end if each.kind == "loose" else each.start) - first]))
        place = each.end - first
    return "".join("".join([*said, unescape(raw[place:])]).split())
