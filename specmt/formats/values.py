"""Values of settings and messages that programs read: identifiers, addresses, hashes, colours, patterns of dates."""

from __future__ import annotations

import re
from typing import Final

from specmt.formats.icu import has_choice
from specmt.names import FIELD

_COPIED: Final = re.compile(r"<[^<>]*>|\$?\{\{[^{}]*\}\}|\$?\{[^{}]*\}|&#?\w+;|%\w+%")
"""Tags and placeholders, which a text may be full of."""

LETTER: Final = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff\uac00-\ud7af]"
"""A letter, or a digit, of a script that has spaces between words."""

NAME: Final = rf"(?<!{LETTER})(?<!:):[A-Za-z_]{LETTER}"
"""How a placeholder of Laravel begins, whose other letters are the same; a text without spaces may be around it."""

_LONGEST: Final = 200
_WORD: Final = r"(?:[A-Za-z][a-z]{5,}|[A-Z]{6,}|[A-Za-z\d]{1,5})"
_COMPOUND: Final = rf"(?=(?:\S*[/-])?[A-Z][a-z]{{3}}){_WORD}(?:[/-]{_WORD})+"
"""Words, figures and abbreviations between hyphens; a hash has longer parts that are neither."""

_CODE: Final = re.compile(
    rf"""(?=\S*[\w@/$])(?:
        :[a-z_]{LETTER}* | \S*[@_$=]\S* | \S*\w\.\w\S* | (?:\w+:/)?/\S* | \#\w+ | [a-z]{{4,}}(?:/[a-z.+-]{{4,}})+
        | [a-z\d]{{5,}}(?:-[a-z\d]{{2,}})+ | [a-z]+(?:-[a-z]+)+-\d+
        | (?!{_COMPOUND}\Z)(?=\S*\d)(?=\S*[A-Za-z])[A-Za-z\d_+/-]{{20,}} | [\da-f-]{{16,}}
        | (?=.*(?:dd|DD|MM|yy|YY|HH|hh|mm|LL))[^a-zA-Z]*
          (?:yyyyMM[dHms]*|{FIELD}(?:(?:'[^']*'|[^a-zA-Z'])+{FIELD})+)[^a-zA-Z]*
        | (?:application|audio|font|image|text|video)/[\w.+-]+ | true | false | ltr | rtl | [a-z]{{2}}-[A-Z]{{2}}
        | [a-z]{{2,}}(?:[A-Z][a-z]+)+ | (?:rgb|hsl)a?\([^()]*\) | (?:-?[\d.]+(?:px|pt|r?em|v[hw]|%)\s*)+
        | (?:%[-_0^\#]?[A-Za-z]|[^%\w])* | (?:-?[a-z]+(?:-[a-z]+)*:\ ?[^:;]+;\s?)+
        | ([a-z]{{2,}})\ \1-[a-z\d-]+(?:\ [a-z\d-]+)*
    )""",
    re.VERBOSE,
)

_CLASSES: Final = re.compile(
    r"(?i:(?:\w*[_-])?(?:class(?:es|_?names?)?|icon(?:_?name)?))|\w+(?:Class(?:es|Names?)?|Icon(?:Name)?)"
)
"""Keys whose values are names of styles or of icons, where they look so."""

_CHOSEN: Final = re.compile(
    r"(?:\w+_)?type=(?:array|boolean|button|checkbox|date|datetime(?:-local)?|email|file|hidden|image|integer|month|null|number"
    r"|object|password|radio|range|reset|search|select|string|submit|tel|text|textarea|time|url|week)"
    r"|method=(?i:delete|get|patch|post|put)|id=[a-z][\w-]*|target=_[a-z]+|rel=[a-z ]+"
    r"|(?:\w+_)?(?:align|position|placement)=(?:bottom|center|end|justify|left|middle|right|start|top)(?:[ _-][a-z]+)?"
    r"|size=(?:large|medium|small)|role=(?:[a-z]{0,4}(?:dialog|button|box|item|tab)|alert|banner|img|link|list|main|navigation|status)"
)
"""Keys with values of which programs know a few."""

_DOCUMENT: Final = re.compile(r"\s*<\?xml\s[^<>]*\?>\s*<[\s\S]*>\s*")
_STYLES: Final = re.compile(r"[a-z][\w:/.\[\]-]*(?:\s+[a-z][\w:/.\[\]-]*)*")


def is_code(said: str, key: str = "") -> bool:
    """Whether there are no words in a value but those that programs read."""
    is_known = (_CLASSES.fullmatch(key) and _STYLES.fullmatch(said)) or _CHOSEN.fullmatch(f"{key}={said}")
    if is_known or _DOCUMENT.fullmatch(said):
        return True
    if has_choice(said):
        return False
    said = _COPIED.sub("", said).strip() if len(said) <= _LONGEST else said
    return not any(map(str.isalpha, said)) or (len(said) <= _LONGEST and _CODE.fullmatch(said) is not None)
