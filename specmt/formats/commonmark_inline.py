"""Markdown's inline markup with its places, which markdown-it does not keep, and what sites add to it.

Math, wiki links and macros are one token each that is left as it is; so are attribute lists, part of what is in front.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference, unescapeAll
from markdown_it.helpers import parseLinkDestination
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

MACRO: Final = "|".join(
    rf"{opening}(?=.{{0,1000}}{closing}){inside}{closing}"  # whether it ends is found from behind, which is faster
    for opening, inside, closing in (
        (r"\{\{", r"(?:(?!\}\}).){0,1000}", r"\}\}+"),
        (r"\{%", r"(?:(?!%\}).){0,1000}", r"%\}"),
        (r"\{\#(?!\w)", r".{0,1000}?", r"\#\}"),
        ("<%", r"(?:(?!%>).){0,1000}", "%>"),
    )
)
BRACES: Final = r"""\{(?:[^{}"'\n]|"[^"\n]*"|'[^'\n]*')*\}"""
INCLUDE: Final = r"\[!\w[\w-]{0,40}[ ]?\[[^\[\]\n]{0,300}\]\([^()\n]{0,500}\)\]"
"""A part of another page, as Microsoft writes it."""

ATTRIBUTES: Final = rf"""(?=\{{:|\{{[ ]*(?:[.\#][\w-]|[\w:-]+=)){BRACES}"""
_TEX_TEXT: Final = r"\\[A-Za-z]{1,30}(?:\{[^{}\n]{0,300}\}){1,9}"
_TEX_SIGN: Final = r"(?=(?:(?!\\\])[^\n]){0,300}?(?:\\[A-Za-z]|\^|_\{))"
_TEX: Final = "|".join(
    rf"\\\{first}(?=[^\n]{{1,300}}\\\{last})"
    rf"(?:{_TEX_TEXT}|(?!\\\{last}|{_TEX_TEXT}|(?<![\\A-Za-z])[A-Za-z]{{4}}){other}){{1,300}}\\\{last}"
    for first, last, other in (("(", ")", r"[^\n]"), (f"[{_TEX_SIGN}", "]", r"[^\n\[\]]"))
)
"""Math of TeX; with words beside its macros, or no sign of it, what is in square brackets is text, and they escaped."""

_INLINE: Final = re.compile(
    rf"""(?P<code>\{{%-?\s*(?P<raw>raw|comment|highlight)\b(?:(?!%\}}).){{0,200}}%\}}.{{0,1000}}?\{{%-?\s*end(?P=raw)\s*-?%\}})
        | (?P<macro>{MACRO}) | (?P<attributes>{ATTRIBUTES})
        | (?P<math>\$\$(?!\$)[^$]{{1,2000}}?\$\$
            | (?<![^\W_])(?<!\$)\$(?![\s$])(?:[^$\\\n]|\\.|\n(?!\s)){{0,300}}?(?<!\s)\$(?![^\W_]|\$)
            | {_TEX})
        | (?P<wiki>!?\[\[[^\[\]\n]+\]\])
        | (?P<mark>\[\^[^\]\s]{{1,300}}\]) | (?P<note>\^\[[^\[\]]{{1,1000}}\](?![(\[]))
        | (?P<script>(?<=[^\W_])(?:\^[\w+−-]{{1,20}}\^|~[\w+−-]{{1,20}}~(?!~)))
        | (?P<role>\{{[A-Za-z][\w:+.-]*\}}(?P<ticks>`+)(?!`).{{1,500}}?(?<!`)(?P=ticks)(?!`))
        | (?P<include>{INCLUDE})
        | (?P<hashes>(?<=[ \t])\#+(?=[ \t]+\{{[^{{}}]*\}}\s*\Z))
        | (?P<id>(?<!\S)\^[A-Za-z0-9-]{{1,80}}(?=\s*\Z))
        | (?P<icon>(?<![^\W_])(?<!:):[a-z][\w+]*(?:[_-][\w+]+)*:(?![^\W_]|:))
        | (?P<text>(?<![\w:]):[a-z][\w-]*\[(?P<said>[^\[\]\n]{{1,300}})\](?![(\[:])(?:{BRACES})?)
        | (?P<span>\[(?P<marked>[^\[\]\n]{{1,300}})\](?={ATTRIBUTES}){BRACES})
        | (?P<critic>\{{(?:(?P<change>\+\+|==)|--|~~|>>)(?P<edit>[^{{}}]{{1,1000}}?)(?:\+\+|==|--|~~|<<)\}})
        | (?P<keys>\+\+(?:[\w"-]+\+)*[\w"-]+\+\+)""",
    re.VERBOSE | re.DOTALL,
)
ROLE: Final = r"\{(?:any|doc|download|index|numref|ref|term|std:\w+|\w+:ref)\}"
"""A role of MyST in which there may be a text in front of what it names."""

_NAMED: Final = re.compile(rf"{ROLE}`([^`<>*_\\]+?)\s*<[^<>`]+>`")
_VUE_TAG: Final = re.compile(
    r"""<[A-Za-z][\w.-]*(?:\s+[@#:A-Za-z_][^\s"'<>/=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'))?)+\s*/?>"""
)
"""A tag as Vue has it, with names such as ``@click`` and ``#title``, which HTML has not."""

_MACRO_START: Final = re.compile(r"\{[{%#]|<%")
_MACRO_TARGET: Final = re.compile(
    rf"""\([^\s(){{}}]*(?:(?:{MACRO})[^\s(){{}}]*)+(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\)""", re.VERBOSE | re.DOTALL
)


class _Places(StateInline):
    """An inline state that writes down, in ``meta``, where tokens start."""

    last: int | None = None
    """Where the last bracket is that closes."""

    run = 0, 0, 0
    """Where many brackets that open start and end, and up to where they are text."""

    @cached_property
    def closings(self) -> list[int]:
        """Where brackets close."""
        return [match.start() for match in re.finditer("]", self.src)]

    _text_at = -1
    """Where the text starts that no token has yet, if there is any; to ask for that puts it together each time."""
    _pushed_at = -1

    def append_pending(self, text: str) -> None:
        if self._text_at < 0:
            self._text_at = self.pos
        super().append_pending(text)

    def pushPending(self) -> Token:  # noqa: N802  (theirs)
        token = super().pushPending()
        token.meta["at"] = self._text_at
        self._text_at = -1
        return token

    def push(self, ttype: str, tag: str, nesting: Any) -> Token:
        before = self.tokens[-1] if self.tokens and not self.pending else None
        token = super().push(ttype, tag, nesting)
        self._text_at = -1
        is_run = before is not None and before.type == ttype == "text" and self._pushed_at == self.pos
        token.meta["at"] = before.meta["at"] + len(before.content) if before is not None and is_run else self.pos
        self._pushed_at = self.pos
        return token


def label_end(state: _Places, start: int, no_links: bool = False) -> int:
    """Returns where the label of a link ends, as theirs does, which takes long: a step from token to token is no call
    where it was made before, and behind the last bracket none is looked for.

    :param no_links: whether there is none where a link is in it
    """
    if state.last is None:
        state.last = state.src.rfind("]")
    place, depth, end = start + 1, 1, min(state.last + 1, state.posMax)
    while place < end:
        if (char := state.src[place]) == "]":
            depth -= 1
            if not depth:
                return place
        behind = state.cache.get(place)
        if behind is None:
            before, state.pos = state.pos, place
            state.md.inline.skipToken(state)
            behind, state.pos = state.pos, before
        if char == "[" and behind == place + 1:
            depth += 1
        elif char == "[" and no_links:
            return -1
        place = behind
    return -1


@dataclass(slots=True)
class _Destination:
    """The target of a link."""

    ok: bool = False
    pos: int = 0
    str: str = ""


_NOT_PLAIN: Final = re.compile(r"[\x00-\x20\x7f()]|\\(?= )|\\.", re.DOTALL)
_MOST_BRACKETS: Final = 32
_BRACKETS: Final = re.compile(r"\[{16,}")
TEXT_END: Final = re.compile(
    r"[\n$&*<\[\\\]^_`{~!+=:#]"
    r"(?:(?<=[^!+=:#])|(?<=!)(?=\[)|(?<=\+)(?=\+)|(?<==)(?==\})|(?<=:)(?=[a-z])|(?<=#)(?<!##)(?=#*[ \t]+\{))"
)
"""Where something may begin that is no text; theirs stops at each mark, and all rules are tried there.

As one set of characters begins it, it is found in a seventh of the time that alternatives would take.
"""

_ESCAPES: Final = re.compile(r"(?:\\[!-'*-/:-@\[-`{-~]){16,}")  # math begins with \(
_MOST_LABELS: Final = 10
"""How many labels of links may be in each other, each of which is looked through for those in it."""

_PLAIN: Final = r"[^\x00-\x20\x7f()\\]*"
_TOO_MANY: Final = re.compile(rf"(?:{_PLAIN}(?:\\[^ ]{_PLAIN})*\(){{{_MOST_BRACKETS + 1}}}")


def destination(text: str, start: int, end: int) -> _Destination:
    """Returns the target of a link as theirs does, which looks at every character behind each bracket that opens."""
    if text.startswith("<", start):
        return cast(_Destination, parseLinkDestination(text, start, end))
    level, place = 0, end
    if _TOO_MANY.match(text, start, end):
        return _Destination()
    for match in _NOT_PLAIN.finditer(text, start, end):
        if match[0] == "(":
            level += 1
            if level > _MOST_BRACKETS:
                return _Destination()
        elif match[0] == ")" and level:
            level -= 1
        elif len(match[0]) == 1:
            place = match.start()
            break
    return _Destination() if level or place == start else _Destination(True, place, unescapeAll(text[start:place]))


class InlineParser(ParserInline):
    def __init__(self) -> None:
        super().__init__()
        self.terminator_re = TEXT_END

    def parse(self, src: str, md: MarkdownIt, env: Any, tokens: list[Token]) -> list[Token]:
        if src and self.terminator_re.search(src) is None:  # as every other block is
            tokens.append(Token("text", "", 0, content=src, meta={"at": 0}))
            return tokens
        state = _Places(src, md, env, tokens)
        state.level = md.options["maxNesting"] - _MOST_LABELS
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def places(children: Sequence[Token], size: int) -> Iterator[tuple[Token, int, int]]:
    """Yields inline tokens with where each starts and ends; an attribute list is part of what it is behind.

    :param size: of the text that they are of
    """
    found: list[tuple[Token, int]] = []
    for child in children:
        if child.type in ("text", "text_special") and not child.content:
            continue  # half of a mark for strong text
        back = child.type == "strong_open" or (child.type == "link_open" and child.info != "auto")
        is_part = child.info == "attributes" and found and found[-1][0].type in _WITH_ATTRIBUTES
        if not is_part:
            found.append((child, child.meta["at"] - back))
    before = 0
    for number, (child, start) in enumerate(found):
        end = found[number + 1][1] if number + 1 < len(found) else size
        if child.type == "hardbreak":
            start = before  # theirs are without the spaces that make them
        before = min(end, start + len(child.content)) if child.type == "text" else end
        yield child, start, before


_WITH_ATTRIBUTES: Final = frozenset(
    ("link_close", "code_inline", "image", "kept", "strong_close", "em_close", "html_inline")
)


def brackets(state: StateInline, silent: bool) -> bool:
    """Takes, of many brackets that open, those that are text, as fewer close behind them."""
    assert isinstance(state, _Places)
    if state.src[state.pos] != "[":
        return False
    if not state.run[0] <= state.pos < state.run[1]:
        match = _BRACKETS.match(state.src, state.pos, state.posMax)
        if match is None:
            return False
        closing = len(state.closings) - bisect_left(state.closings, match.end())
        state.run = *match.span(), match.end() - closing
    end = state.run[2]
    if end <= state.pos:
        return False
    if not silent:
        state.append_pending(state.src[state.pos : end])
    state.pos = end
    return True


def escapes(state: StateInline, silent: bool) -> bool:
    """Takes many escapes in a row as one."""
    match = _ESCAPES.match(state.src, state.pos, state.posMax) if state.src[state.pos] == "\\" else None
    if match is None:
        return False
    if not silent:
        token = state.push("text_special", "", 0)
        token.content, token.markup, token.info = match[0][1::2], match[0], "escape"
    state.pos = match.end()
    return True


def kept_inline(state: StateInline, silent: bool) -> bool:
    match = _INLINE.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "{$\\[!:+<^~#" else None
    if match is None:
        return False
    kind, end = next(name for name, said in match.groupdict().items() if said is not None), match.end()
    if kind == "wiki" and state.src[end : end + 1] in ("(", "["):
        return False
    if kind == "span" and normalizeReference(match["marked"]) in state.env.get("references", ()):
        return False
    bar = match[0].find("|")
    is_titled = kind == "wiki" and match[0][0] == "[" and match[0].count("|") == 1 and match[0][bar + 1 : -2].strip()
    if not silent and is_titled:
        _pair(state, "wiki", state.pos + bar + 1, end - 2)
    elif not silent and kind == "role" and (said := _NAMED.fullmatch(match[0])):
        start = state.pos
        _pair(state, "role", start + said.start(1), start + said.end(1))
    elif not silent and (kind in ("script", "span", "text") or match["change"]):
        inside = {"span": "marked", "text": "said", "critic": "edit"}.get(kind)
        _pair(state, kind, *(match.span(inside) if inside else (state.pos + 1, end - 1)))
    elif not silent and kind == "note":
        token = state.push("note", "", 0)
        token.content, token.children = match[0][2:-1], []
        state.md.inline.parse(token.content, state.md, state.env, token.children)
    elif not silent:
        token = state.push("kept", "", 0)
        token.info, token.content = kind, match[0]
    state.pos = end
    return True


def vue_tag(state: StateInline, silent: bool) -> bool:
    """Reads tags that are none of HTML."""
    match = _VUE_TAG.match(state.src, state.pos, state.posMax) if state.src[state.pos] == "<" else None
    if match is None:
        return False
    if not silent:
        state.push("html_inline", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _pair(state: StateInline, name: str, start: int, end: int) -> None:
    """Pushes what is between two places, and what opens and closes it."""
    most = state.posMax
    state.push(f"{name}_open", "", 1)
    state.pos, state.posMax = start, end
    state.md.inline.tokenize(state)
    state.push(f"{name}_close", "", -1).meta["at"] = end  # a text may go on with the space behind it
    state.posMax = most


def macro_link(state: StateInline, silent: bool) -> bool:
    """Reads links and images whose target has a macro with spaces in it."""
    start = state.pos + state.src.startswith("!", state.pos)
    if not state.src.startswith("[", start) or not _has_macro(state, start):
        return False
    end = state.md.helpers.parseLinkLabel(state, start)
    target = _MACRO_TARGET.match(state.src, end + 1, state.posMax) if end > 0 else None
    if target is None:
        return False
    if not silent and start > state.pos:
        token = state.push("image", "img", 0)
        token.content, token.children = state.src[start + 1 : end], []
        state.md.inline.parse(token.content, state.md, state.env, token.children)
    elif not silent:
        most = state.posMax
        state.pos, state.posMax = start + 1, end
        state.push("link_open", "a", 1).attrs = {"href": target[0]}
        state.md.inline.tokenize(state)
        state.push("link_close", "a", -1)
        state.posMax = most
    state.pos = target.end()
    return True


def _has_macro(state: StateInline, start: int) -> bool:
    """Returns whether a macro begins behind a bracket; where the last one does is looked for once in a text."""
    text, place = state.env.get("macro", ("", -1))
    if text is not state.src:
        place = max((match.start() for match in _MACRO_START.finditer(state.src)), default=-1)
        state.env["macro"] = state.src, place
    return bool(place > start)
