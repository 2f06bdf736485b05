"""Template tags in web pages: Jinja, Django, Liquid, Go, Handlebars, Vue, Angular, Blade, ERB, PHP, Smarty, Svelte, ….

What shows a value stands in a sentence as a word does. At all others, which say what is shown at all, a sentence ends:
so they keep their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple, final

from specmt.errors import DataError
from specmt.names import BLOCKS

_MOST: Final = 4000
"""The most characters of a tag."""

_CLOSING: Final = {
    "{%": "%}", "{#": "#}", "{{{": "}}}", "{{": "}}", "{!!": "!!}", "<%": "%>", "<?": "?>", "${": "}", "#{": "}",
    "<#--": "-->", "<!--": "-->", "<": ">", "[[": "]]", "[(": ")]", "[%": "%]", "{*": "*}",
}  # fmt: skip
_CONTROL: Final = r"\s*(?:IF|ELSE|ELSEIF|ENDIF|BEGIN|BEGINELSE|END|INCLUDE\w*|DEFINE|EVENT|/?(?:ko\b|wp:))"
_IN_BRACKETS: Final = r"(?:\s[^\[\]\n]{1,200}\s|[\w.$()!]{1,200})\]\]"
"""What is a value in pages whose braces are another program's."""

_MAKO: Final = r"inherit|def|page|namespace|block|include|call|\w+:\w+"
_OPENING: Final = re.compile(
    rf"""(?P<mako></?%(?:{_MAKO})\b[^<>]{{0,1000}}>|^[ \t]*%[ \t]*(?:if|elif|else|endif|for|endfor|while|endwhile)\b)
        |(?P<velocity>\#(?:(?:if|elseif|foreach|set|parse|include|macro|define)[ \t]*(?P<called>\()|(?:else|end|stop)\b
            |[\#*]) | \$(?:!?[A-Za-z]\w*(?:\.\w+(?:\([^()\n]{{0,200}}\))?)*|!\{{[^{{}}\n]{{1,200}}\}}))
        |(?P<mark>\{{%|\{{\#|\{{\{{\{{|\{{\{{|\{{!!|<%|<\?(?!xml)|[$\#]\{{|<\#--|<!--(?={_CONTROL})|<(?=/?[\#@][A-Za-z])
        |\[\[(?={_IN_BRACKETS})|\[\[(?=[$\#*@~]\{{)|\[\((?=[$\#*]\{{)|\[%(?=[-+=~]?[\s\w\#])|\{{\*
        |(?P<message>\{{(?=\s*[\w.()]{{1,60}}\s*,\s*(?:plural|select))))
        |(?P<directive>(?:\}}\s*)?(?<![\w@])@(?:else\ if|[A-Za-z]{{2,20}})\b[ \t]*(?P<open>\()?)|\}}
        |(?P<brace>\{{(?=[/\#:@$]?[A-Za-z]|\.\.\.)|(?<==)\{{)""",
    re.VERBOSE | re.MULTILINE,
)
_IS_MAKO: Final = re.compile(
    r"^[ \t]*%[ \t]*end(?:if|for|while)\b|<%(?:inherit|def|namespace|page)\s[^%<>]{0,1000}>", re.MULTILINE
)
_IS_VELOCITY: Final = re.compile(r"\#(?:if|foreach|set|parse)[ \t]*\([ \t]*[\"'$!(]")
_ANGULAR: Final = re.compile(r"(?<![\w@])@(?:if|for|switch|defer)\s*(?:\([^\n]{1,500}?\)\s*)?\{")
_BLADE: Final = re.compile(
    r"(?<![\w@])@(?:end(?:if|for|foreach|forelse|section|auth|guest|can|push|isset|unless|component|slot|switch|while|php)\b"
    r"|(?:extends|include|section|yield|csrf)\b)"
)
_BRACED: Final = re.compile(r"\{/(?:if|foreach|for|section|block|each|await|key|snippet|while)\}")
"""What tells pages of which tags have one brace."""

_BRACKET: Final = re.compile(r"[(){}]")
_STEP: Final = re.compile(r"[(>]|</?[#@]")
_BLOCK: Final = re.compile(r"[^{}<>@]{0,200}\{")
_KEPT: Final = re.compile(
    r"""\{%[-+~]?\s*(blocktrans(?:late)?|comment|highlight|javascript|schema|style|stylesheet|trans(?=[^"']*\Z))\b"""
)
"""Tags of which what is up to their ends is no text of the page: a catalogue has it, or it is code."""

_VALUE: Final = re.compile(
    r"""\{%[-+~]?\s*(?:trans|translate|t|_|url|static|now)\b|\{\{(?![-~{\s]*(?:[\#/^>!]
        |(?:if|else|end|with|range|define|block|template|break|continue|yield|outlet)\b
        |(?:include|partial(?:Cached)?|super|parent|caller|form_\w+)\s*[("']))|\{!!
        |<%=(?![^%]*\bdo\b\s*(?:\||-?%>))|<%-(?!\s*(?:if|unless|else|elsif|end|case|when)\b|[^%]*\bdo\b\s*(?:\||-?%>))
        |<\?(?:=|php\s+(?:echo|print|_e)\b)|\$|\#\{|\[\[|\[\(|\[%[-+=~]?(?!\#|\s*(?!GET)[A-Z]{2,}\b)
        |\{(?![%\#{!/:*]|\s*(?:if|else\w*|foreach\w*|for|while|section|block|include|extends|assign|literal)\b)
        |@(?:lang|yield|json|choice)\b""",
    re.VERBOSE,
)
"""Tags that show a value."""

_NOT_READ: Final = re.compile(
    r"(?P<HEEx></\.[a-z]\w*>|<\.[a-z]\w*\s[^<>]*/>)|\A\s*@(?P<Razor>(?:page|model|using|inject|inherits)\b|\{)"
)
"""What tells pages of tags that would be read as texts and as HTML."""

LEFT_OVER: Final = re.compile(r"\{%|%\}|<%|%>|\{\{|\}\}|\{!!|!!\}")
"""What is in no text, but in parts of tags."""

CONTROL: Final = re.compile(rf"<!(?:--)?(?:[#\[]|{_CONTROL})")
"""Comments that say what is shown."""


_TAG_OF_BLOCK: Final = re.compile(rf"<(?:{'|'.join(BLOCKS)})\b", re.IGNORECASE)


class Template(NamedTuple):
    """A tag, or all up to the end of what it begins."""

    start: int
    end: int
    is_value: bool


def check_templates(text: str) -> None:
    """
    :raises DataError: a page has tags that are not understood.
    """
    if (match := _NOT_READ.search(text)) is not None:
        line = text.count("\n", 0, match.start(match.lastgroup or 0)) + 1
        raise DataError(f"line {line} has a tag of {match.lastgroup}, whose templates are not understood")


@final
class Templates:
    """The template tags of a page, or of a part of one."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._span = start, end
        self._message = 0, 0
        """The last message of ICU that was found."""
        self._next: dict[str, tuple[int, int]] = {}
        """From where closing marks were looked for, and where the next one is."""
        self._is_angular = _ANGULAR.search(text, start, end) is not None
        self._is_mako = _IS_MAKO.search(text, start, end) is not None
        self._is_velocity = _IS_VELOCITY.search(text, start, end) is not None
        self._is_braced = _BRACED.search(text, start, end) is not None
        self._is_blade = _BLADE.search(text, start, end) is not None

    def find(self, place: int, end: int) -> Iterator[Template]:
        """Yields those in a part of the text."""
        unended: set[str] = set()
        while (match := _OPENING.search(self._text, place, end)) is not None:
            stop = self._end(match, end)
            if stop is None:
                place = match.start() + 1
                continue
            tag = self._text[match.start() : stop]
            kept = _KEPT.match(tag)
            if kept and kept[1] not in unended:
                ending = re.compile(rf"\{{%[-+~]?\s*end{kept[1]}\b[^%]{{0,50}}%\}}").search(self._text, stop, end)
                unended |= {kept[1]} if ending is None else set()
                stop = stop if ending is None else ending.end()
            yield Template(match.start(), stop, _VALUE.match(tag) is not None)
            place = stop

    def masked(self, place: int, end: int) -> str:
        """Returns a part of the text in which tags are words or spaces, so that they are not read as HTML."""
        pieces: list[str] = []
        for start, stop, is_value in self.find(place, end):
            is_name = is_value or self._text[start - 1 : start] in ("<", "/")
            pieces += [self._text[place:start], ("x" if is_name else " ") * (stop - start)]
            place = stop
        return "".join([*pieces, self._text[place:end]])

    def _end(self, match: re.Match[str], last: int) -> int | None:
        """Returns where a tag ends; nothing where it is none."""
        text, mark = self._text, match["mark"]
        if match["mako"]:
            is_line = match[0][-1] != ">"
            return (self._end_of_line(match.end(), last) if is_line else match.end()) if self._is_mako else None
        if match["velocity"]:
            is_read = self._is_velocity or (self._is_mako and match[0] == "##")
            return self._end_in_velocity(match, last) if is_read else None
        if match["message"]:  # the texts in it are the page's, but where it has blocks
            end = self._balanced(match.start() + 1, last)
            if end is None or _TAG_OF_BLOCK.search(text, match.start(), end):
                return end
            if not self._is_in_message(match.start()):
                self._message = match.start(), end
            return None
        if self._is_braced and (match["brace"] or mark == "{#"):
            return self._balanced(match.start() + 1, last)
        if mark:
            # PHP may go on to the end of a file.
            place = self._find(_CLOSING[mark], match.end()) + len(_CLOSING[mark])
            if mark == "<" and place:
                place = self._end_of_directive(match.end(), min(last, match.end() + _MOST))
            if not match.end() < place <= (last if mark == "<?" else min(last, match.end() + _MOST)):
                return last if text.startswith("<?php", match.start()) else None
            if mark == "{{{" and self._is_in_message(match.start()):  # a brace before another tag
                return None
            depth = text.count("{", match.start(), place) - text.count("}", match.start(), place)
            while mark == "{{" and depth > 0 and place < last and text[place] == "}":
                place, depth = place + 1, depth - 1
            return place
        if match["brace"] or (match[0][0] == "}" and self._is_in_message(match.start())):
            return None
        if self._is_angular and match[0].startswith("@let"):
            return text.find(";", match.end(), min(last, match.end() + _MOST)) + 1 or None
        end = self._balanced(match.end(), last) if match["open"] else match.end()
        if self._is_angular:
            block = _BLOCK.match(text, end, last) if match["directive"] and end is not None else None
            return block.end() if block else match.start() + 1 if match[0][0] == "}" else None
        return end if self._is_blade and match[0][0] == "@" else None

    def _end_of_line(self, place: int, last: int) -> int:
        end = self._text.find("\n", place, last)
        return last if end < 0 else end

    def _end_in_velocity(self, match: re.Match[str], last: int) -> int | None:
        """Returns where a directive, a value or a comment of Velocity ends."""
        if match["called"]:
            return self._balanced(match.end(), last)
        if match[0] == "#*":
            end = self._find("*#", match.end())
            return end + 2 if match.end() <= end <= last - 2 else None
        return self._end_of_line(match.end(), last) if match[0] == "##" else match.end()

    def _end_of_directive(self, place: int, last: int) -> int:
        """Returns where a tag of FreeMarker ends, in which > may be in parentheses; 0 where it does not."""
        while (step := _STEP.search(self._text, place, last)) is not None and step[0] == "(":
            place = self._closing.get(step.end(), step.end())
        return step.end() if step is not None and step[0] == ">" else 0

    def _is_in_message(self, place: int) -> bool:
        return self._message[0] < place < self._message[1]

    def _find(self, closing: str, place: int) -> int:
        """Returns where a closing mark is next, or -1."""
        since, found = self._next.get(closing, (place + 1, 0))
        if since > place or 0 <= found < place:
            found = self._text.find(closing, place, self._span[1])
            self._next[closing] = place, found
        return found

    def _balanced(self, place: int, last: int) -> int | None:
        """Returns where what was opened right before a place ends."""
        end = self._closing.get(place, last + 1)
        return end if end <= min(last, place + _MOST) else None

    @cached_property
    def _closing(self) -> dict[int, int]:
        """Behind what each brace and parenthesis ends, by the place behind it."""
        opened: dict[str, list[int]] = {"(": [], "{": []}
        found: dict[int, int] = {}
        for match in _BRACKET.finditer(self._text, *self._span):
            if match[0] in opened:
                opened[match[0]].append(match.end())
            elif places := opened["(" if match[0] == ")" else "{"]:
                found[places.pop()] = match.end()
        return found
