"""Markdown's blocks, and what sites add to them.

Lines that are markup alone (``:::note``, ``{% tab %}``, ``[!NOTE]``, ``{: .class}``) are blocks of their own, so that
the texts between them are, too.
"""

from __future__ import annotations

import re
from functools import cache, partial
from itertools import takewhile
from types import SimpleNamespace
from typing import Final, cast

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, blockquote, html_block, lheading
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from specmt.errors import DataError
from specmt.formats.commonmark_inline import (
    ATTRIBUTES,
    BRACES,
    INCLUDE,
    MACRO,
    InlineParser,
    brackets,
    destination,
    escapes,
    kept_inline,
    label_end,
    macro_link,
    vue_tag,
)
from specmt.formats.jsx import jsx_block, jsx_inline

_LINE: Final = re.compile(
    rf""":{{3,}}(?!:)[ \t]*(?![ \t])(?:{BRACES}|[\w.:-]+(?![\w.:-]))?(?:\[(?P<label>[^\[\]\n]*)\])?
            [ \t]*(?:{BRACES}[ \t]*)?(?![ \t])
            (?:(?:[\w:-]+="[^"\n]*"[ \t]*)+(?![ \t])|(?P<title>(?:[^\n{{]*[^\s{{:])?))(?:[ \t]*{BRACES})?[ \t]*:*
        | ==[ \t]+(?P<tab>\S.*)
        | ::(?:[a-z][\w-]*(?:\[(?P<leaf>[^\[\]\n]*)\])?(?:{BRACES})?)?
        | \[![\w|-]+(?:[ \t][^\[\]\n]*)?\][+-]?(?:[ \t]+(?P<alert>.*))? | {INCLUDE}
        | (?:(?:{MACRO})[ \t]*)+ | {ATTRIBUTES} | \{{::?/?[\w:/ -][^{{}}\n]*\}}
        | /{{3,}}[ \t]*(?:html[ \t]*\|.*|[\w-]+(?:[ \t]*\|[ \t]*(?P<block>.*))?)? | \\[a-z]+(?:\{{[^{{}}\n]*\}})*
        | \^{{3,}} | (?i:\[toc\]) | --8<--.* | <<<[ ]?@?[./{{].* | @\[code[^\]]*\]\(.*\) | \([^\n]+\)=
        | \+{{3}}(?:[ \t]*\{{.*\}})? | \*\[[^\]\n]+\]:[ \t]*(?P<abbreviation>.*)""",
    re.VERBOSE,
)
"""A line that is markup, and the text in it."""

_SLOT: Final = re.compile(rf"\#[a-z][\w-]*(?:{BRACES})?")
"""What names a part of a component of MDC, which ``::name`` begins."""

_LINE_STARTS: Final = frozenset(":[{(-<@*$\\/=+^")
HEADER: Final = re.compile(
    r"""(?:(?:!!!|\?\?\?\+?)(?:[ \t]*[\w-]+(?:[ \t]+[\w-]+)*)?(?:[ \t]+"(?P<title>[^\n]*)")?
        | ===[!+]*[ \t]+"(?P<tab>[^\n]*)")(?:[ \t]*\{[^{}\n]*\})?[ \t]*""",
    re.VERBOSE,
)
"""The first line of what has its body indented by four spaces."""

_DEFINITION: Final = re.compile(r":[ \t]+(?=\S)")
_UNDER: Final = re.compile(r"(?:=+|-+)\s*")
_OF_PANDOC: Final = re.compile(
    r"(?::|[Tt]able:|\|(?=[ \t])|(?:\#|[a-z]|[ivx]{2,5})[.)]|[A-Z](?:\)|\.(?=[ ]{2}))|\((?:@[\w-]*|\w{1,4})\))[ \t]+"
    r"(?=\S)(?![A-Za-z]\.)"
)
"""How definitions, captions, lines of verse, and items of lists begin that only Pandoc knows."""

_MOST_TERMS: Final = 4
_NAMED: Final = re.compile(r"%[ \t]+(?P<title>.*)")
_DASHES: Final = re.compile(r"-{3,}[ \t]*")
_COLUMNS: Final = re.compile(r"-{2,}(?:[ \t]+-{2,})+[ \t]*")
_GRID: Final = re.compile(r"\+(?:[-=:]+\+)+[ \t]*")
COLUMNS: Final = "its columns are where dashes are"
"""Why a table of Pandoc is left."""

_OPTION: Final = re.compile(r":(?:alt|caption|header|label|title):[ \t]+(?P<title>.*)|:[\w-]+:.*|---")
_MYST: Final = re.compile(r":{3,}\{[\w:-]+\}")
_KEPT_BLOCK: Final = (
    (re.compile(r"\$\$"), re.compile(r"\$\$[ \t]*(?:(?:\([\w:-]+\)|\{[^{}]*\})[ \t]*)?\Z"), "math"),
    (re.compile(r"\\\["), re.compile(r"\\\][ \t]*\Z"), "math"),
    (re.compile(r"\{::(?:comment|nomarkdown)\}"), re.compile(r"\{:/(?:comment|nomarkdown)?\}[ \t]*\Z"), "comment"),
    (re.compile(r"\\begin\{"), re.compile(r"\\end\{"), "math"),
    (
        re.compile(r"\{%-?[ ]*(?:comment|highlight|code|codeblock|mermaid|math)\b"),
        re.compile(r"\{%-?[ ]*end(?:comment|highlight|code|codeblock|mermaid|math)\b"),
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

_MOST_LINES: Final = 20
"""How many lines a macro may have that text is behind; each is looked through."""

_MOST_LOOKS: Final = 50
"""How often a line may be looked at as one of a quotation, on average."""

_BEHIND: Final = re.compile(r"[%>]\}+(?!\})[ \t]*\S")
"""The end of a macro, and what is behind it."""


@cache
def parser(dialect: str, *, mdx: bool = False) -> MarkdownIt:
    """Returns a parser for a dialect, as :data:`specmt.formats.dialects.DIALECTS` has them, or for any of them."""
    markdown = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"]).disable("text_join")
    inline = InlineParser()
    inline.ruler, inline.ruler2 = markdown.inline.ruler, markdown.inline.ruler2
    markdown.inline = inline
    inline.ruler2.disable("fragments_join")
    own = {"parseLinkLabel": label_end, "parseLinkDestination": destination}
    markdown.helpers = SimpleNamespace(**{**vars(markdown.helpers), **own})  # type: ignore[assignment]
    markdown.normalizeLink = str  # type: ignore[assignment]  # targets are copied
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block = markdown.block.ruler
    block.at("blockquote", _quote, interrupts)
    block.at("html_block", _html, {"alt": ["paragraph", "reference", "blockquote"]})
    if mdx:
        markdown.disable(["code", "html_block", "html_inline", "autolink"])
        inline.ruler.before("escape", "jsx", jsx_inline)
        block.before("fence", "jsx", jsx_block, interrupts)
    else:
        inline.ruler.after("html_inline", "vue_tag", vue_tag)
    footnote_plugin(markdown, inline=False, move_to_end=False)
    inline.ruler.disable("footnote_ref")
    inline.ruler.before("escape", "kept", kept_inline)
    inline.ruler.before("kept", "brackets", brackets)
    inline.ruler.before("escape", "escapes", escapes)
    inline.ruler.before("link", "macro_link", macro_link)
    block.before("fence", "looked", _looked, {"alt": ["blockquote"]})
    block.before("fence", "line", _line, interrupts)
    block.before("table", "grid", _grid)
    if dialect != "gfm":
        deflist_plugin(markdown)
        block.at("lheading", _heading)
        block.before("fence", "indented", _indented, interrupts)
        block.before("paragraph", "terms", _terms)
        block.before("paragraph", "definition", partial(_marked, _DEFINITION))
    if dialect == "pandoc":
        block.before("lheading", "marked", partial(_marked, _OF_PANDOC), interrupts)
    if dialect in ("", "pandoc"):
        block.before("fence", "title", _title)
        block.before("table", "columns", _columns)
    if dialect == "myst":
        block.before("fence", "remark", _remark, interrupts)
    if dialect in ("", "myst"):
        block.before("fence", "directive", _directive, interrupts)
    return markdown


_OF_HTML: Final = re.compile(
    r"<(?:(?P<inline>a|abbr|b|em|font|i|mark|small|span|strong|sub|sup|u)\b[^<>]*|(?=[^<>]*\smarkdown[=>])\w[^<>]*)>"
)
"""A tag alone on a line behind which there may be Markdown."""


_NO_TEXT: Final = re.compile(r"(?:[ ]{0,3}>)+[ ]{0,4}(?:#{1,6}(?:[ \t]|\Z)|(?:-{3,}|\*{3,}|_{3,})[ \t]*\Z|`{3}|~{3})")
"""A line of a quotation that ends it where the next one has no mark: what goes on without one is text alone."""


def _quote(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads a quotation as theirs does, which looks at all lines up to a blank one even where it ends before."""
    if silent or _source(state, line)[:1] != ">":
        return blockquote(state, line, last, silent)
    block = state.src, state.level, last
    known, start, end = cast(tuple[object, int, int], state.env.get("quote", (None, 0, 0)))
    if known != block or not start <= line < end:
        end = line + 1
        while end < last and (_source(state, end)[:1] == ">" or not _NO_TEXT.match(_source(state, end - 1))):
            if state.isEmpty(end):
                break
            end += 1
        state.env["quote"] = block, line, end
    return blockquote(state, line, end, silent)


def _looked(state: StateBlock, line: int, _: int, silent: bool) -> bool:
    """Counts the lines at which it is asked whether a quotation ends there, of which each ought to be one of its own.

    :raises DataError: it is asked too often.
    """
    if silent:
        state.env["looked"] = state.env.get("looked", 0) + 1
        if state.env["looked"] > _MOST_LOOKS * len(state.bMarks):
            raise DataError(f"line {line + 1} may be a part of too many quotations: put blank lines behind them")
    return False


def _html(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads HTML, but for what is Markdown to kramdown and Python-Markdown."""
    match = None if state.is_code_block(line) else _OF_HTML.fullmatch(_source(state, line).rstrip())
    if match is None:
        return html_block(state, line, last, silent)
    if match["inline"]:
        if silent or _last_link(state, line, last) >= state.bMarks[line]:
            return False  # it ends no paragraph
        return html_block(state, line, last, silent)
    if not silent:
        token = state.push("html_block", "", 0)
        token.map, token.content = [line, line + 1], _source(state, line)
        state.line = line + 1
    return True


def _last_link(state: StateBlock, line: int, last: int) -> int:
    """Returns where the last link is before the next blank line; that is looked for once for all lines before it."""
    block = state.src, state.level, last
    known, start, end, link = cast(tuple[object, int, int, int], state.env.get("link", (None, 0, 0, -1)))
    if known != block or not start <= line < end:
        end = next((number for number in range(line, last) if state.isEmpty(number)), last)
        link = state.src.rfind("](", state.bMarks[line], state.eMarks[end - 1])
        state.env["link"] = block, line, end, link
    return link


def _source(state: StateBlock, line: int) -> str:
    """Returns a line without what it is indented by."""
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


_QUOTED: Final = re.compile(r'\b(?:title|caption|alt|alt-text|text|content(?=="[^"\n]* ))="([^"\n]*)"')


def _push_line(state: StateBlock, line: int, match: re.Match[str]) -> None:
    """Pushes a line of markup, and the text in it as inline content."""
    state.push("line", "", 0).map = [line, line + 1]
    title = next((name for name, said in match.groupdict().items() if said and said.strip()), None)
    quoted = () if title else _QUOTED.finditer(match[0])
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
    is_slot = said[:1] == "#" and "components" in state.env
    if said[:1] not in _LINE_STARTS and not is_slot:
        return False
    unclosed = state.env.setdefault("unclosed", set())
    for first, closing, kind in _KEPT_BLOCK:
        if first.match(said) is None or first in unclosed:
            continue
        found = closing.search(said, 2) if said[2:].strip() != "$$" else None
        end = line
        if silent and said.startswith("$$") and _is_in_math(state, line):
            continue
        while found is None and end + 1 < last:
            end += 1
            found = closing.search(_source(state, end))
        is_part = end < line + _MOST_LINES and not any(map(state.isEmpty, range(line, end)))
        if found is not None and is_part and _BEHIND.search(found.string, found.start()):
            continue  # of a paragraph
        if found is not None:
            if not silent:
                _keep(state, line, end + 1, kind)
            return True
        unclosed.add(first)
    match = (_SLOT if is_slot else _LINE).fullmatch(said.rstrip())
    if match is None:
        return False
    if not silent:
        if said[:2] == "::" != said[1:3]:
            state.env["components"] = True
        _push_line(state, line, match)
        state.line = _options(state, line + 1, last) if _MYST.match(said) else line + 1
    return True


def _keep(state: StateBlock, line: int, end: int, why: str) -> None:
    """Pushes lines that are left as they are."""
    token = state.push("kept", "", 0)
    token.map, token.info = [line, end], why
    state.line = end


def _is_in_math(state: StateBlock, line: int) -> bool:
    """Whether a paragraph has math that is not closed in the lines before one."""
    first = line
    while first > max(state.line, line - _MOST_LINES) and not state.isEmpty(first - 1):
        first -= 1
    return sum(_source(state, each).count("$$") for each in range(first, line)) % 2 > 0


def _options(state: StateBlock, line: int, last: int, pattern: re.Pattern[str] = _OPTION) -> int:
    """Reads the options of a directive of MyST; returns where they end."""
    while line < last and (option := pattern.fullmatch(_source(state, line).rstrip())):
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


def _heading(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads a heading with a line under it, which theirs looks for to the end of a paragraph, but for definitions."""
    for each in range(line, min(last, line + _MOST_TERMS)):
        said = _source(state, each)
        if not said or _UNDER.fullmatch(said):
            break
        if _DEFINITION.match(said):
            return False
    return lheading(state, line, last, silent)


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
        _keep(state, line, line + 1, "comment")
    return True


def _title(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads the title, the authors and the date that a page of Pandoc begins with."""
    if silent or state.tokens or not (match := _NAMED.fullmatch(_source(state, line).rstrip())):
        return False
    _push_line(state, line, match)
    line += 1
    while line < last and _source(state, line).startswith("%"):
        state.push("line", "", 0).map = [line, line + 1]
        line += 1
    state.line = line
    return True


def _columns(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads tables of Pandoc whose columns are where dashes are; those with lines of dashes around have blank ones."""
    if silent or not any(_source(state, each).startswith("--") for each in range(line, min(last, line + 2))):
        return False
    is_wide = _DASHES.fullmatch(_source(state, line)) is not None
    near = takewhile(bool, (_source(state, each) for each in range(line, min(last, line + (5 if is_wide else 2)))))
    unclosed = state.env.setdefault("unclosed", set())
    if state.is_code_block(line) or (is_wide and _DASHES in unclosed) or not any(map(_COLUMNS.fullmatch, near)):
        return False
    end = line + 1
    while end < last and not (_DASHES.fullmatch(_source(state, end)) if is_wide else state.isEmpty(end)):
        end += 1
    if is_wide and end == last:
        unclosed.add(_DASHES)
        return False
    _keep(state, line, end + is_wide, COLUMNS)
    return True


def _grid(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads tables that are drawn with ``+``, ``-`` and ``|``."""
    if silent or state.is_code_block(line) or not _GRID.fullmatch(_source(state, line)):
        return False
    end = next((each for each in range(line + 1, last) if _source(state, each)[:1] not in ("+", "|")), last)
    _keep(state, line, end, COLUMNS)
    return True


def _marked(mark: re.Pattern[str], state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads blocks behind a mark: definitions whose term is no paragraph but a comment or a macro, and Pandoc's."""
    match = None if state.is_code_block(line) else mark.match(_source(state, line))
    if match is None or silent:
        return match is not None and mark is _OF_PANDOC and state.blkIndent > 0
    state.push("line", "", 0).map = [line, line + 1]
    begin, shift, indent = state.bMarks[line], state.tShift[line], state.sCount[line]
    end = line + 1
    while end < last and (state.isEmpty(end) or state.sCount[end] >= indent + 2):
        end += 1
    # As if the line began behind the mark: what is in it is no code, however long that is.
    state.bMarks[line], state.tShift[line], state.sCount[line] = begin + shift + match.end(), 0, indent + 2
    _nested(state, line, end, indent + 2)
    state.bMarks[line], state.tShift[line], state.sCount[line] = begin, shift, indent
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


DIRECTIVE: Final = re.compile(
    r"(?P<fence>`{3,}|~{3,})(?:\{(?P<name>[\w:-]+)\}|[ ]?(?P<kind>admonish|ad-[\w-]+)(?![^ \t]))"
    r"(?P<title>[^`\n]*)"
)
"""How a directive of MyST begins, or an admonition of mdBook or Obsidian, which are fences, too."""

_OF_FENCE: Final = re.compile(r"title:[ \t]+(?P<title>.*)|(?:collapse|icon|color):.*")
"""What an admonition of Obsidian says of itself."""

_NAMES: Final = (
    "admonition attention caution danger error hint important note seealso tip warning dropdown card grid grid-item "
    "grid-item-card tab-set tab-item versionadded versionchanged deprecated epigraph figure margin sidebar topic aside "
    "container exercise glossary list-table pull-quote solution table"
)
OF_TEXT: Final = frozenset(_NAMES.split())
"""Directives of MyST whose body is Markdown."""

CAPTION: Final = re.compile(r":(?:alt|caption):[ \t]+(?P<title>.*)|:[\w-]+:.*")
"""An option of another directive, and the text in it."""

ENTRY: Final = re.compile(r"(?P<title>\S(?:.*\S)?)?(?P<target>\s*<[^<>]*>)|.*")
"""A line of a table of contents, and what it calls another page."""


def _directive(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads directives of MyST: ```` ```{note} Title ````."""
    match = None if state.is_code_block(line) else DIRECTIVE.fullmatch(_source(state, line).rstrip())
    if match is None:
        return False
    is_code = not (match["kind"] or match["name"] in OF_TEXT)
    if is_code and match["name"] != "toctree" and not _has_caption(state, line + 1, last):
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
    titled = _TITLE.fullmatch(match.string) if not is_code and match["name"] not in ("figure", "margin") else None
    _push_line(state, line, titled or _NO_TITLE.fullmatch(match.string) or match)
    if is_code:
        body = _options(state, line + 1, end, CAPTION)
        if match["name"] == "toctree":
            body = _options(state, body, end, ENTRY)
        _keep(state, body, end, "code")
    elif match["name"] == "glossary":
        _glossary(state, _options(state, line + 1, end), end)
    else:
        _nested(state, _options(state, line + 1, end, _OF_FENCE if match["kind"] else _OPTION), end, state.blkIndent)
    state.push("line", "", 0).map = [end, end + 1]
    state.line = end + 1
    return True


def _has_caption(state: StateBlock, line: int, last: int) -> bool:
    """Whether one of the options that begin in a line has text."""
    while line < last and (option := CAPTION.fullmatch(_source(state, line).rstrip())):
        if option["title"]:
            return True
        line += 1
    return False


_DEFINED: Final = re.compile(r":[ \t]+(?P<title>.*)|.*")


def _glossary(state: StateBlock, line: int, end: int) -> None:
    """Reads a glossary, of which the terms stay, as roles name them; what is indented, or behind a colon, says them."""
    while line < end:
        first = line
        while line < end and (state.isEmpty(line) or state.sCount[line] > state.blkIndent):
            line += 1
        if first < line:
            indents = (state.sCount[number] for number in range(first, line) if not state.isEmpty(number))
            _nested(state, first, line, min(indents, default=0))
        elif (match := _DEFINED.fullmatch(_source(state, line))) is not None:
            _push_line(state, line, match)
            line += 1


_TITLE: Final = re.compile(r"[`~:]+\{[\w:-]+\}[ \t]*(?P<title>.*)")
_NO_TITLE: Final = re.compile(".*")
