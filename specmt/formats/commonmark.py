"""Markdown's blocks and inline markup with their places, which markdown-it does not keep, and what sites add to it.

Lines that are markup alone (``:::note``, ``{% tab %}``, ``[!NOTE]``, ``{: .class}``) are blocks of their own, so that
the texts between them are, too; inline markup of sites (math, wiki links, macros) is one token that is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final, cast

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.helpers import parseLinkDestination
from markdown_it.parser_inline import ParserInline
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, html_block
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from specmt.formats.jsx import jsx_block, jsx_inline

_MACRO: Final = "|".join(
    rf"{opening}(?=.{{0,1000}}{closing}){inside}{closing}"  # whether it ends is found from behind, which is faster
    for opening, inside, closing in (
        (r"\{\{", r"(?:(?!\}\}).){0,1000}", r"\}\}+"),
        (r"\{%", r"(?:(?!%\}).){0,1000}", r"%\}"),
        (r"\{\#(?!\w)", r".{0,1000}?", r"\#\}"),
        ("<%", r"(?:(?!%>).){0,1000}", "%>"),
    )
)
_BRACES: Final = r"""\{(?:[^{}"'\n]|"[^"\n]*"|'[^'\n]*')*\}"""
_ATTRIBUTES: Final = rf"""(?=\{{:|\{{[ ]*(?:[.\#][\w-]|[\w:-]+=)){_BRACES}"""
_LINE: Final = re.compile(
    rf""":{{3,}}[ \t]*(?:{_BRACES}|[\w.:-]+)?(?:\[(?P<label>[^\[\]\n]*)\])?[ \t]*(?:{_BRACES}[ \t]*)?
            (?P<title>[^\n{{]*?)[ \t]*(?:{_BRACES})?[ \t]*:*
        | ==[ \t]+(?P<tab>\S.*)
        | ::[a-z][\w-]*(?:\[(?P<leaf>[^\[\]\n]*)\])?(?:{_BRACES})?
        | \[![\w|-]+\][+-]?(?:[ \t]+(?P<alert>.*))?
        | (?:(?:{_MACRO})[ \t]*)+ | {_ATTRIBUTES} | \{{::?/?[\w:/ -][^{{}}\n]*\}}
        | /{{3,}}[ \t]*(?:[\w-]+(?:[ \t]*\|[ \t]*(?P<block>.*))?)? | \\[a-z]+(?:\{{[^{{}}\n]*\}})*
        | (?i:\[toc\]) | --8<--.* | <<<[ ]?@?[./{{].* | @\[code.*\]\(.*\) | \([\w-]+\)=
        | \*\[[^\]\n]+\]:[ \t]*(?P<abbreviation>.*)""",
    re.VERBOSE,
)
"""A line that is markup, and the text in it."""

_LINE_STARTS: Final = frozenset(":[{(-<@*$\\/=")
HEADER: Final = re.compile(
    r"""(?:!!!|\?\?\?\+?)[ \t]*[\w-]*(?:[ \t]+[\w-]+)*(?:[ \t]+"(?P<title>[^\n]*)")?[ \t]*
        | ===[!+]*[ \t]+"(?P<tab>[^\n]*)"[ \t]*""",
    re.VERBOSE,
)
"""The first line of what has its body indented by four spaces."""

_DEFINITION: Final = re.compile(r":[ \t]+(?=\S)")
_OF_PANDOC: Final = re.compile(
    r"(?::|\|(?=[ \t])|(?:\#|[a-z]|[ivx]{2,5})[.)]|[A-Z](?:\)|\.(?=[ ]{2}))|\((?:@[\w-]*|\w{1,4})\))[ \t]+"
    r"(?=\S)(?![A-Za-z]\.)"
)
"""How definitions, lines of verse, and items of lists begin that only Pandoc knows."""

_MOST_TERMS: Final = 4
_OPTION: Final = re.compile(r":(?:alt|caption|header|label|title):[ \t]+(?P<title>.*)|:[\w-]+:.*|---")
_MYST: Final = re.compile(r":{3,}\{[\w:-]+\}")
_KEPT_BLOCK: Final = (
    (re.compile(r"\$\$"), re.compile(r"\$\$[ \t]*(?:\([\w:-]+\)|\{[^}]*\})?[ \t]*\Z"), "math"),
    (re.compile(r"\\\["), re.compile(r"\\\][ \t]*\Z"), "math"),
    (re.compile(r"\\begin\{"), re.compile(r"\\end\{"), "math"),
    (
        re.compile(r"\{%-?[ ]*(?:raw|comment|highlight|code|codeblock|mermaid|math)\b"),
        re.compile(r"\{%-?[ ]*end(?:raw|comment|highlight|code|codeblock|mermaid|math)\b"),
        "code",
    ),
    (
        re.compile(r"\{\{[<%][ ]*(?:highlight|mermaid|math|code|raw\w*)\b(?!.{0,1000}/[ ]*[>%]\}\})"),
        re.compile(r"\{\{[<%][ ]*/[ ]*(?:highlight|mermaid|math|code|raw\w*)"),
        "code",
    ),
    (re.compile(r"\{\{[<%](?!.{0,1000}[>%]\}\})|\{%(?!.{0,1000}%\})"), re.compile(r"[>%]\}"), "macro"),
)
"""How blocks begin and end that are left as they are, and what they are."""

_INLINE: Final = re.compile(
    rf"""(?P<macro>{_MACRO}) | (?P<attributes>{_ATTRIBUTES})
        | (?P<math>\$\$(?!\$)[^$]{{1,2000}}?\$\$
            | (?<![^\W_])(?<!\$)\$(?![\s$])(?:[^$\\\n]|\\.|\n(?!\s)){{0,300}}?(?<!\s)\$(?![^\W_]|\$)
            | \\\((?=[^\n]{{1,300}}\\\))(?:(?!\\\)|(?<![\\A-Za-z])[A-Za-z]{{4}})[^\n]){{1,300}}\\\))
        | (?P<wiki>!?\[\[[^\[\]\n]+\]\])
        | (?P<mark>\[\^[^\]\s]{{1,300}}\]) | (?P<note>\^\[[^\[\]]{{1,1000}}\](?![(\[]))
        | (?P<script>(?<=[^\W_])(?:\^[\w+−-]{{1,20}}\^|~[\w+−-]{{1,20}}~(?!~)))
        | (?P<role>\{{[A-Za-z][\w:+.-]*\}}(?P<ticks>`+)(?!`).{{1,500}}?(?<!`)(?P=ticks)(?!`))
        | (?P<icon>(?<![^\W_])(?<!:):[a-z][\w+]*(?:[_-][\w+]+)*:(?![^\W_]|:))
        | (?P<text>(?<![\w:]):[a-z][\w-]*\[(?P<said>[^\[\]\n]{{1,300}})\](?![(\[:])(?:{_BRACES})?)
        | (?P<keys>\+\+(?:[\w"-]+\+)*[\w"-]+\+\+)""",
    re.VERBOSE | re.DOTALL,
)
ROLE: Final = r"\{(?:any|doc|download|index|numref|ref|term|std:\w+|\w+:ref)\}"
"""A role of MyST in which there may be a text in front of what it names."""

_NAMED: Final = re.compile(rf"{ROLE}`([^`<>*_\\]+?)\s*<[^<>`]+>`")
_MACRO_START: Final = re.compile(r"\{[{%#]|<%")
_MACRO_TARGET: Final = re.compile(
    rf"""\((?:[^\s(){{}}]*(?:{_MACRO})[^\s(){{}}]*)+(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\)""", re.VERBOSE | re.DOTALL
)


class _Places(StateInline):
    """An inline state that writes down, in ``meta``, where tokens start."""

    last: int | None = None
    """Where the last bracket is that closes."""

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


def _label_end(state: _Places, start: int, no_links: bool = False) -> int:
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


class _InlineParser(ParserInline):
    def parse(self, src: str, md: MarkdownIt, env: Any, tokens: list[Token]) -> list[Token]:
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


@cache
def parser(dialect: str, *, mdx: bool = False) -> MarkdownIt:
    """Returns a parser for a dialect, as :data:`specmt.formats.dialects.DIALECTS` has them, or for any of them."""
    markdown = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"]).disable("text_join")
    inline = _InlineParser()
    inline.ruler, inline.ruler2 = markdown.inline.ruler, markdown.inline.ruler2
    markdown.inline = inline
    inline.ruler2.disable("fragments_join")
    own = {"parseLinkLabel": _label_end, "parseLinkDestination": destination}
    markdown.helpers = SimpleNamespace(**{**vars(markdown.helpers), **own})  # type: ignore[assignment]
    markdown.normalizeLink = str  # type: ignore[assignment]  # targets are copied
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block = markdown.block.ruler
    block.at("html_block", _html, {"alt": ["paragraph", "reference", "blockquote"]})
    if mdx:
        markdown.disable(["code", "html_block", "html_inline", "autolink"])
        inline.ruler.before("escape", "jsx", jsx_inline)
        block.before("fence", "jsx", jsx_block, interrupts)
    footnote_plugin(markdown, inline=False, move_to_end=False)
    inline.ruler.disable("footnote_ref")
    inline.ruler.before("escape", "kept", _kept_inline)
    inline.ruler.before("kept", "brackets", _brackets)
    inline.ruler.before("link", "macro_link", _macro_link)
    block.before("fence", "line", _line, interrupts)
    if dialect != "gfm":
        deflist_plugin(markdown)
        block.before("fence", "indented", _indented, interrupts)
        block.before("paragraph", "terms", _terms)
        block.before("paragraph", "definition", partial(_marked, _DEFINITION))
    if dialect == "pandoc":
        block.before("paragraph", "marked", partial(_marked, _OF_PANDOC), interrupts)
    if dialect == "myst":
        block.before("fence", "remark", _remark, interrupts)
    if dialect in ("", "myst"):
        block.before("fence", "directive", _directive, interrupts)
    return markdown


def _brackets(state: StateInline, silent: bool) -> bool:
    """Takes, of many brackets that open, those that are text, as fewer close behind them."""
    match = _BRACKETS.match(state.src, state.pos, state.posMax) if state.src[state.pos] == "[" else None
    end = match.end() - state.src.count("]", match.end()) if match else state.pos
    if end <= state.pos:
        return False
    if not silent:
        state.append_pending(state.src[state.pos : end])
    state.pos = end
    return True


def _kept_inline(state: StateInline, silent: bool) -> bool:
    match = _INLINE.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "{$\\[!:+<^~" else None
    if match is None:
        return False
    kind, end = next(name for name, said in match.groupdict().items() if said is not None), match.end()
    if kind == "wiki" and state.src[end : end + 1] in ("(", "["):
        return False
    bar = match[0].find("|")
    if not silent and kind == "wiki" and bar > 0 and not match[0].startswith("!"):
        _pair(state, "wiki", state.pos + bar + 1, end - 2)
    elif not silent and kind == "role" and (said := _NAMED.fullmatch(match[0])):
        start = state.pos
        _pair(state, "role", start + said.start(1), start + said.end(1))
    elif not silent and kind in ("script", "text"):
        _pair(state, kind, *(match.span("said") if kind == "text" else (state.pos + 1, end - 1)))
    elif not silent and kind == "note":
        token = state.push("note", "", 0)
        token.content, token.children = match[0][2:-1], []
        state.md.inline.parse(token.content, state.md, state.env, token.children)
    elif not silent:
        token = state.push("kept", "", 0)
        token.info, token.content = kind, match[0]
    state.pos = end
    return True


def _pair(state: StateInline, name: str, start: int, end: int) -> None:
    """Pushes what is between two places, and what opens and closes it."""
    most = state.posMax
    state.push(f"{name}_open", "", 1)
    state.pos, state.posMax = start, end
    state.md.inline.tokenize(state)
    state.push(f"{name}_close", "", -1).meta["at"] = end  # a text may go on with the space behind it
    state.posMax = most


def _macro_link(state: StateInline, silent: bool) -> bool:
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


_OF_HTML: Final = re.compile(
    r"<(?:(?P<inline>a|abbr|b|em|font|i|mark|small|span|strong|sub|sup|u)\b[^<>]*|\w[^<>]*\smarkdown(?:=[^<>]*)?)>"
)
"""A tag alone on a line behind which there may be Markdown."""


def _html(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads HTML, but for what is Markdown to kramdown and Python-Markdown."""
    match = None if state.is_code_block(line) else _OF_HTML.fullmatch(_source(state, line).rstrip())
    if match is None:
        return html_block(state, line, last, silent)
    if match["inline"]:
        end = next((number for number in range(line, last) if state.isEmpty(number)), last)
        behind = state.getLines(line, end, state.blkIndent, keepLastLF=False)
        return "](" not in behind and html_block(state, line, last, silent)
    if not silent:
        token = state.push("html_block", "", 0)
        token.map, token.content = [line, line + 1], _source(state, line)
        state.line = line + 1
    return True


def _source(state: StateBlock, line: int) -> str:
    """Returns a line without what it is indented by."""
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _push_line(state: StateBlock, line: int, match: re.Match[str]) -> None:
    """Pushes a line of markup, and the text in it as inline content."""
    state.push("line", "", 0).map = [line, line + 1]
    title = next((name for name, said in match.groupdict().items() if said and said.strip()), None)
    quoted = () if title else re.finditer(r'\b(?:title|caption|alt)="([^"\n]*)"', match[0])
    for span in [match.span(title)] if title else [each.span(1) for each in quoted]:
        token = state.push("inline", "", 0)
        said = match.string[slice(*span)]
        token.content, token.map, token.children = said.strip(), [line, line + 1], []
        # From the end of the line, as what is in front of it is not known here.
        token.meta = {"behind": len(match.string) - span[0] - (len(said) - len(said.lstrip()))}


def _line(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    if state.is_code_block(line):
        return False
    said = _source(state, line)
    if said[:1] not in _LINE_STARTS:
        return False
    unclosed = state.env.setdefault("unclosed", set())
    for first, closing, kind in _KEPT_BLOCK:
        if first.match(said) is None or first in unclosed:
            continue
        end = line if closing.search(said, 2) and said[2:].strip() != "$$" else line + 1
        while line < end < last and closing.search(_source(state, end)) is None:
            end += 1
        if end < last:
            if not silent:
                token = state.push("kept", "", 0)
                token.map, token.info = [line, end + 1], kind
                state.line = end + 1
            return True
        unclosed.add(first)
    match = _LINE.fullmatch(said.rstrip())
    if match is None:
        return False
    if not silent:
        _push_line(state, line, match)
        state.line = _options(state, line + 1, last) if _MYST.match(said) else line + 1
    return True


def _options(state: StateBlock, line: int, last: int) -> int:
    """Reads the options of a directive of MyST; returns where they end."""
    while line < last and (option := _OPTION.fullmatch(_source(state, line).rstrip())):
        _push_line(state, line, option)
        line += 1
    return line


def _indented(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads admonitions and tabs of MkDocs."""
    match = None if state.is_code_block(line) else HEADER.fullmatch(_source(state, line).rstrip())
    if match is None:
        return False
    if silent:
        return True
    _push_line(state, line, match)
    end = line + 1
    while end < last and (state.isEmpty(end) or state.sCount[end] >= state.sCount[line] + 4):
        end += 1
    _nested(state, line + 1, end, state.sCount[line] + 4)
    return True


def _terms(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads a term that is not the only one of a definition."""
    end = line
    while end < min(last, line + _MOST_TERMS) and not state.isEmpty(end) and not state.is_code_block(end):
        if end > line and _DEFINITION.match(_source(state, end)):
            break
        end += 1
    else:
        return False
    if silent or end < line + 2 or state.sCount[end] < state.blkIndent:
        return False
    state.push("paragraph_open", "p", 1).map = [line, line + 1]
    token = state.push("inline", "", 0)
    token.content, token.map, token.children = _source(state, line).rstrip(), [line, line + 1], []
    state.push("paragraph_close", "p", -1)
    state.line = line + 1
    return True


def _remark(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads remarks of MyST."""
    if state.is_code_block(line) or not _source(state, line).startswith("%"):
        return False
    if not silent:
        token = state.push("kept", "", 0)
        token.map, token.info = [line, line + 1], "comment"
        state.line = line + 1
    return True


def _marked(mark: re.Pattern[str], state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads blocks behind a mark: definitions whose term is no paragraph but a comment or a macro, and Pandoc's."""
    match = None if state.is_code_block(line) else mark.match(_source(state, line))
    if match is None or silent:
        return match is not None and mark is _OF_PANDOC and state.blkIndent > 0
    state.push("line", "", 0).map = [line, line + 1]
    indent, shift, count = state.sCount[line], state.tShift[line], state.sCount[line]
    end = line + 1
    while end < last and (state.isEmpty(end) or state.sCount[end] >= indent + 2):
        end += 1
    state.tShift[line], state.sCount[line] = shift + match.end(), count + match.end()
    _nested(state, line, end, indent + 2)
    state.tShift[line], state.sCount[line] = shift, count
    return True


def _nested(state: StateBlock, line: int, end: int, indent: int) -> None:
    """Reads the blocks in some lines."""
    before = state.blkIndent, state.lineMax, state.parentType
    state.blkIndent, state.lineMax, state.parentType = indent, end, "root"
    state.level += 1
    state.md.block.tokenize(state, line, end)
    state.level -= 1
    state.blkIndent, state.lineMax, state.parentType = before
    state.line = end


DIRECTIVE: Final = re.compile(r"(?P<fence>`{3,}|~{3,})\{(?P<name>[\w:-]+)\}[ \t]*(?P<title>[^`\n]*)")
_NAMES: Final = (
    "admonition attention caution danger error hint important note seealso tip warning dropdown card grid grid-item "
    "grid-item-card tab-set tab-item versionadded versionchanged deprecated epigraph figure margin sidebar topic"
)
OF_TEXT: Final = frozenset(_NAMES.split())
"""Directives of MyST whose body is Markdown."""


def _directive(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads directives of MyST: ```` ```{note} Title ````."""
    match = None if state.is_code_block(line) else DIRECTIVE.fullmatch(_source(state, line).rstrip())
    if match is None or match["name"] not in OF_TEXT:
        return False
    unclosed = state.env.setdefault("unclosed", set())
    closing = re.compile(f"{match['fence'][0]}{{{len(match['fence'])},}}[ \t]*")
    end = last if closing in unclosed else line + 1
    while end < last and closing.fullmatch(_source(state, end)) is None:
        end += 1
    if end == last:
        unclosed.add(closing)
        return False
    if silent:
        return True
    titled = _TITLE.fullmatch(match.string) if match["name"] not in ("figure", "margin") else None
    _push_line(state, line, titled or _NO_TITLE.fullmatch(match.string) or match)
    _nested(state, _options(state, line + 1, end), end, state.blkIndent)
    state.push("line", "", 0).map = [end, end + 1]
    state.line = end + 1
    return True


_TITLE: Final = re.compile(r"[`~:]+\{[\w:-]+\}[ \t]*(?P<title>.*)")
_NO_TITLE: Final = re.compile(".*")
