"""How a translation is written as Markdown, escaped no more than it needs to be read as what it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from specmt.formats.commonmark_inline import TEXT_END
from specmt.formats.content import LINE_END, PREFIX
from specmt.formats.document import Edit, Pieces, RefusedError
from specmt.formats.encoding import unescape
from specmt.formats.inline import render, singles, wrap_alike, written
from specmt.types import Span, Tagged

_BLOCK: Final = re.compile(
    r"(?:\d{1,9}[.)]|[-+*:]|#{1,6}|=+|-+)(?:\s|$)|>|~~~|```|\||\t|\[[ xX]\] |:::|!!!|\?\?\?|===|\$\$|\[\^?[^\]]*\]:"
    r"|([-_*])[ \t]*(?:\1[ \t]*){2,}"
)
_FIRST: Final = re.compile(rf"{PREFIX.pattern}(?:\[[ x]\]{PREFIX.pattern})*")
_MAY_START: Final = re.compile(rf"(?!{_BLOCK.pattern}|<|import\b|export\b|\{{)")
_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>~|${]|&(?=#?\w+;)")
_IN_TABLE: Final = re.compile(r"[^\S\n]*\|")
_BAR: Final = re.compile(r"[|>]")

CODE: Final = re.compile("`[^`]*`")
_NEEDED: Final = re.compile(r"`|\\(?=[!-/:-@\[-`{-~])|&(?=#?\w+;)")
"""Even where one backtick does nothing in its text: the paragraph may have another text with one."""

_NEEDED_IN_MDX: Final = re.compile(rf"[<{{]|{_NEEDED.pattern}")
_NEXT_LINE: Final = re.compile(rf"(?:{LINE_END.pattern})[ \t>]*")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_ENTITY: Final = re.compile(r"&(?:#[xX]?[0-9A-Fa-f]+|\w+);")


@final
class Writer:
    """Writes the texts of a page."""

    def __init__(
        self,
        text: str,
        markdown: MarkdownIt,
        env: dict[str, Any],
        find_spelt: Callable[[], Mapping[int, str]],
        *,
        mdx: bool,
    ) -> None:
        """
        :param env: what the parser knows of the page
        :param find_spelt: returns how the page writes characters that it does not write as such
        """
        self._find_spelt = find_spelt
        self._text, self._markdown, self._env = text, markdown, env
        self._patterns = (_NEEDED_IN_MDX if mdx else _NEEDED), _SPECIAL
        self._written: dict[Span, tuple[Tagged, Edit]] = {}
        self._shapes: dict[str, Counter[tuple[object, ...]]] = {}

    @cached_property
    def _spelt(self) -> Mapping[int, str]:
        return self._find_spelt()

    @cached_property
    def _spelt_chars(self) -> re.Pattern[str]:
        return re.compile(f"[{re.escape(''.join(map(chr, self._spelt)))}]")

    def _spell(self, text: str) -> str:
        return text.translate(self._spelt) if self._spelt_chars.search(text) else text  # which takes far less time

    def edit(self, span: Span, translation: Tagged) -> Edit:
        """Returns how a text is written; a page of which one text is refused is written several times.

        :raises RefusedError: the translation would be read as other markup.
        """
        known = self._written.get(span)
        if known is None or known[0] is not translation:
            known = self._written[span] = translation, self._edit(span, translation)
        return known[1]

    def _edit(self, span: Span, translation: Tagged) -> Edit:
        if self._is_plain(pieces := render(translation) or [""]):
            return self._wrapped(span, [self._spell(piece) if isinstance(piece, str) else piece for piece in pieces])
        line_start = self._text.rfind("\n", 0, span[0]) + 1
        is_first = _FIRST.fullmatch(self._text, line_start, span[0]) is not None
        in_table = self._text.find("|", line_start, span[0]) >= 0 or _IN_TABLE.match(self._text, span[1]) is not None
        shape = self._shape_of(self._raw([span])) if translation.tags else Counter()
        kept = {tag.open for tag in singles(translation.tags) if not CODE.fullmatch(self._text, *tag.open)}
        said = "".join(
            piece if isinstance(piece, str) else _said(self._parse(self._raw([piece]))) if piece in kept else ""
            for piece in pieces
        )
        said = re.sub(r"\s", "", said)
        for pattern in self._patterns:
            pieces = render(translation, partial(_escape, pattern, self._spelt, in_table=in_table))
            first = pieces[0]
            begins = _BLOCK.match(first) if is_first and isinstance(first, str) else None
            # Where that is no markup in the source, it is none here.
            if begins and not self._text.startswith(begins[0], span[0]):
                number = re.match(r"\d+", begins[0])
                cut = number.end() if number else 0
                pieces[0] = f"{begins.string[:cut]}\\{begins.string[cut:]}"
            children = self._parse(self._raw(pieces))
            if _shape(children) == shape and _said(children) == said:
                return self._wrapped(span, pieces)
        raise RefusedError("its inline markup would be read as something else")

    def _is_plain(self, pieces: Pieces) -> bool:
        """Whether what is written is text and code alone, between marks that nothing else has."""
        before: str | Span = ""
        for number, piece in enumerate(pieces):
            if isinstance(piece, str):
                if TEXT_END.search(piece) or _BAR.search(piece) or (not number and _BLOCK.match(piece)):
                    return False
            elif not isinstance(before, str) or not CODE.fullmatch(self._text, *piece):
                return False
            before = piece
        return True

    def _wrapped(self, span: Span, pieces: Pieces) -> Edit:
        return Edit(*span, wrap_alike(pieces, self._text, span, " \t>", _MAY_START))

    def learn(self, token: Token) -> None:
        """Takes inline content of the page, which need not be read again if all of it is one text."""
        if token.children and len(token.children) > 1:
            self._shapes[token.content] = _shape(token.children)

    def _shape_of(self, raw: str) -> Counter[tuple[object, ...]]:
        return self._shapes[raw] if raw in self._shapes else _shape(self._parse(raw))

    def _raw(self, pieces: Pieces) -> str:
        return _NEXT_LINE.sub("\n", written(self._text, pieces))

    def _parse(self, raw: str) -> Sequence[Token]:
        # `parseInline` would take a third longer, for rules of blocks.
        return self._markdown.inline.parse(raw, self._markdown, self._env, [])


def _shape(children: Sequence[Token]) -> Counter[tuple[object, ...]]:
    """Returns what inline markup there is, its places aside."""
    return Counter(
        (
            child.type,
            child.markup,
            str(child.attrs),
            child.content if child.type in ("code_inline", "html_inline", "kept") else "",
        )
        for child in children
        if child.type not in ("text", "text_special", "softbreak")
    )


def _said(children: Sequence[Token]) -> str:
    """Returns what a reader sees of a text, but for code and space."""
    return "".join(re.sub(r"\s", "", child.content) for child in children if child.type in ("text", "text_special"))


def decoded(raw: str) -> str:
    """Returns what raw text of Markdown means."""
    raw = _ESCAPED.sub(lambda match: match[1], raw) if "\\" in raw else raw
    return _ENTITY.sub(lambda match: unescape(match[0]), raw) if "&" in raw else raw


def _escape(pattern: re.Pattern[str], spelt: Mapping[int, str], text: str, *, in_table: bool = False) -> str:
    parts = re.split(f"([{re.escape(''.join(map(chr, spelt)))}])", text)
    escaped = "".join(
        part.translate(spelt) if number % 2 else pattern.sub(lambda match: "\\" + match[0], part)
        for number, part in enumerate(parts)
    )
    return re.sub(r"(?<!\\)\|", r"\\|", escaped) if in_table else escaped
