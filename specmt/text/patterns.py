"""What a translation must copy, as regular expressions by kind."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from specmt.names import BLOCKS, FIELD, ICON, ICONS
from specmt.text.view import ANSI

_VOID: Final = "area embed img input link meta source wbr"
_INLINE: Final = (
    "a abbr audio b bdi bdo big button cite code del dfn em font i iframe ins kbd label mark object picture q s samp "
    "small span strike strong sub summary sup svg tt u var video"
)
BREAKS: Final = frozenset(("br", "hr"))
"""Those of them that no sentence speaks of."""

VOID: Final = frozenset(_VOID.split())
"""HTML elements that hold nothing and stand in a sentence."""

NAME: Final = r"[A-Za-z][\w:.-]{0,40}"
"""The name of an element."""

_NAMES: Final = "|".join(sorted((*BLOCKS, *f"{_VOID} {_INLINE}".split()), key=lambda name: (-len(name), name)))
_ATTRIBUTES: Final = r"""\s(?:[^<>"']|"[^"]{0,2000}"|'[^']{0,2000}')*"""

_SUFFIXES: Final = (
    "7z|avi|bak|bat|bin|bmp|bz2|cfg|conf|cpp|csv?|css|dat|db|dll|dmg|docx?|ejs|epub|exe|flac|gif|gpg|gz|hpp|html?|ico|ini|"
    "ipynb|iso|jar|java|jpe?g|jsx?|json|log|lua|md|mkv|mov|mp3|mp4|od[pst]|ogg|pdf|pem|php|pl|png|pot?|pptx?|ps1|psd|py|rar|"
    "rb|rs|rst|rtf|scss|sh|sql|srt|svg|tar|tex|tgz|tiff?|toml|tsx?|tsv|ttf|txt|vb|vue|wav|webm|webp|wmv|woff|xlsx?|xml|xz|"
    "ya?ml|zip"
)
_FOLDERS: Final = (
    r"Program\ Files(?:\ \(x86\))?|Programme\ \(x86\)|Documents\ and\ Settings|Dokumente\ und\ Einstellungen|"
    r"Common\ Files|Eigene\ Dateien|My\ Documents"
)
"""Folders of Windows with spaces in their names."""

_DOMAIN: Final = r"(?<![\w.@-])(?:[\w-]{1,63}\.){1,4}(?:com|org|net|de|eu|io|gov|edu|info|dev)"
_TARGET: Final = r"""\]\([^\s()]{0,500}(?:\([^\s()]{0,200}\)[^\s()]{0,500})?(?:\s+(?:"[^"]{0,300}"|'[^']{0,300}'))?\)"""
"""The target of a Markdown link, with brackets and perhaps a title."""

_DASH: Final = r"-(?![A-ZÄÖÜ][a-zäöüß]{2,}(?![\w./-]))"
"""A dash, but not that of a German compound, as in /etc/hosts-Datei."""

_WORDS: Final = (
    "and|as|at|but|by|for|from|he|i|if|in|is|it|not|of|on|or|she|that|the|then|they|this|to|was|we|what|when|which|who|"
    "with|you|aber|als|an|auch|auf|aus|da|das|daß|dass|denn|der|die|doch|du|ein|eine|er|es|ich|ihr|im|ist|mit|nicht|nur|"
    "oder|sie|so|und|von|was|wenn|wer|wie|wir|wo|zu"
)
"""What follows two dashes that are no flag."""

_FORMATS: Final = "plural|selectordinal|select|number|date|time|ordinal|spellout|duration|choice"
_BYTE: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_NUMBER: Final = (
    r"(?: \d{1,3}(?:\.\d{3})+ | (?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.\d{4}"
    r" | (?:0[1-9]|[12]\d|3[01])\.(?:0[1-9]|1[0-2])\.\d\d )(?!\w|\.\d)"
)
"""A number with dots between thousands, and dates."""

_ZONE: Final = r"(?:Z|[+-]\d\d:?\d\d)?(?!\w|:\w)"

_PICTURES: Final = (
    "\u231a\u231b\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b"
    "\u2b1c\u2b50\u2b55\U0001f000-\U0001f2ff\U0001f300-\U0001faff"
)
_SYMBOLS: Final = "\u2190-\u21ff\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299\xa9\xae"
"""What is a picture only where a variation selector says so."""

_MODIFIERS: Final = "\ufe0e\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"

_BETWEEN: Final = r"(?:'[^'\n]{0,20}'|[.,:/\ -]){1,3}"
_LETTER: Final = "[DFGHMNOPTUWYadeghijlmnosuvwyzA]S?"
_APART: Final = r"[.,:/@\ -]{1,3}"
"""Parts of a pattern of PHP, as in ``F jS, Y g:i a``, and what is between them."""


_CODE: Final = r"(?:[A-Z]{0,8}[0-9][A-Z0-9]{0,30}|[A-Z]{1,4})"
_BBCODE: Final = "b|i|u|s|url|img|code|quote|list|size|color|font|email|attachment|center|spoiler"
"""Marks of forums, as ``[b]`` where ``[/b]`` follows, ``[/b]`` and ``[url=…]``."""

# Every repetition is bounded, or cannot start at each character of a run: time is linear in the length of a text.
_KINDS: Final = {
    "ansi": ANSI,
    "code": rf"""
          (?<![`\w])(?: `[^`\s](?:[^`]{{0,500}}[^`\s])?`
            | ``(?!\s)(?:[^`']|`(?!`)|'(?!')){{1,500}}(?<!\s)`?`` )(?![`\w])
        | `{{3,}}[^`]{{0,500}}(?:`{{3,}})?
        | <(?P<verbatim>code|samp|tt|var|script|style|{"|".join(ICONS)})(?:{_ATTRIBUTES})?>[^<]{{0,500}}</(?P=verbatim)>
        | <(?P<icon>i|span|em)(?=\s[^<>]{{0,200}}{ICON}){_ATTRIBUTES}>[^<]{{0,50}}</(?P=icon)>""",
    "tag": rf"""
          <!--[\s\S]{{0,2000}}?--> | <%[\s\S]{{0,500}}?%> | <\?[\s\S]{{0,100}}?\?>
        | </?(?i:{_NAMES})(?:{_ATTRIBUTES})?/?> | </{NAME}\s?> | <{NAME}(?:{_ATTRIBUTES})?/>
        | <{NAME}(?=\s+[\w:.-]{{1,40}}\s?=){_ATTRIBUTES}>
        | <(?P<element>{NAME}|\d{{1,3}})>(?=.{{0,500}}</(?P=element)>) | </\d{{1,3}}> | <\d{{1,3}}\s?/>""",
    "bbcode": rf"""
          \[/(?:{_BBCODE})\] | \[(?:{_BBCODE})=[^\[\]\n]{{0,200}}\]
        | \[(?P<bbcode_name>{_BBCODE})\](?=.{{0,500}}\[/(?P=bbcode_name)\])""",
    "link": rf"!?\[(?=[^\[\]]{{0,300}}{_TARGET}) | {_TARGET}",
    "strong": r"\*\*(?=[^\s*](?:[^*]{0,300}[^\s*])?\*\*) | (?<=[^\s*])\*\*",
    "url": rf"""
          <(?:[A-Za-z][A-Za-z0-9+.-]{{1,15}}:[^\s<>]{{1,2000}}|[\w.+-]{{1,64}}@[\w.-]{{1,200}})>
        | (?: (?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{{1,15}}://
            | (?<![\w.@-])(?:www\.|(?:mailto|tel|urn|magnet):(?=[\w+]))
            | {_DOMAIN}(?=[/:?]) )
          (?:[^\s<>"„“”»«()\[\]‘’‚`{{}}]|\([^\s<>"()]{{0,200}}\)|\[[\w:.]{{2,40}}\]|\$?\{{\w{{1,50}}\}}){{1,1000000}}
          (?<=[\w/=&\#~+)\}}-])
        | {_DOMAIN}(?![\w-]|\.\w)""",
    "opaque": r"""
          data:(?=[\w/+.;=-]{0,100},)[^\s<>"'()\[\]]{1,1000000}
        | (?<![\w+/=-])(?: eyJ[\w-]{5,10000}(?:\.[\w-]{1,10000}){1,4} | SHA256:[A-Za-z0-9+/=]{16,100}
            | (?=[A-Za-z+/]{0,40}[0-9])(?=[0-9+/]{0,40}[A-Za-z])[A-Za-z0-9+/]{20,1000000}={0,2}
            | [0-9A-F]{4}(?:\ {1,2}[0-9A-F]{4}){5,19} )(?![\w+/=-])""",
    "email": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}",
    "braces": rf"""
          \{{\s?[\w.-]{{1,80}}(?:\s?,\s?(?:{_FORMATS})|:(?:plural|choose|cond))\b
            [^{{}}]{{0,2000}}(?:\{{[^{{}}]{{0,2000}}(?:\{{[^{{}}]{{0,2000}}(?:\{{[^{{}}]{{0,500}}\}}[^{{}}]{{0,500}}){{0,20}}
            \}}[^{{}}]{{0,2000}}){{0,50}}\}}[^{{}}]{{0,2000}}){{0,50}}\}}
        | \$?\{{\{{\{{?[^{{}}]{{1,500}}\}}?\}}\}} | \{{%[\s\S]{{0,500}}?%\}}
        | \{{\#[\s\S]{{0,500}}?\#\}}
        | [$\#]\{{[^{{}}\n]{{1,300}}\}}
        | [$\#%@]?\{{(?:[^\s{{}}]{{0,500}}|\s?[\w.$:-]{{1,80}}\s?|[\w.]{{0,80}}:[^{{}}]{{0,80}}%[^{{}}]{{0,80}})\}}
        | [$\#%@]?\{{[^\s{{}}]{{0,500}}(?:\{{[^\s{{}}]{{0,200}}\}}[^\s{{}}]{{0,500}}){{1,20}}\}}""",
    "windows": rf"""
          (?: (?<!\w)[A-Z]:(?=[\\/]) | (?<!\\)\\\\[\w.$-]{{1,63}}(?=\\) | (?<!\w)%[A-Za-z_][\w()]{{1,80}}%(?=\\) )
          (?: [\\/](?: {_FOLDERS} | [\w.+$~-]{{1,60}}(?:\ [\w.()-]{{1,60}}){{1,3}}(?=\\\w)
            | (?:[\w.+$~%{{}}]|{_DASH}|\(\w{{1,20}}\)){{1,200}} ) ){{0,50}}(?<=[\w$~%}})\\:])[\\/]?""",
    "printf": r"""
          %\(\w{1,80}\)[-+\#0-9.]{0,10}[a-zA-Z] | %%[a-zA-Z_]{1,60}%% | %%(?![0-9])
        | %(?:\d{1,3}\$)?[-+\#0,']{0,5}(?:\d{1,5}|\*)?(?:\.(?:\d{1,5}|\*))?
            (?:(?:hh?|ll?|[zjtq])?[diux]|[sfFgeEXc@])(?!\w)
        | (?<!\d)(?<!\d\s)%[A-Za-z](?!\w) | (?<!\d)%[A-Za-z_][\w()]{1,80}% | (?<!\d)(?<!\d\s)%[sd] | %\d{1,3}\$[sd@]
        | %\#@\w{1,80}@ | %arg(?!\w) | %L[0-9]{1,2}(?!\w)""",
    "name": r"""
          (?<![\w@./-])@[^\W\d]\w{0,60}(?:[.-]\w{1,60}){0,4}(?:/[a-z][\w-]{0,60})?
        | (?<![\w&\#/])\#(?=\w{0,60}[^\W\d])\w{1,100}(?:/\w{1,60}){0,4}
        | (?<![\w:]):[a-z+-][a-z0-9_+-]{1,40}:(?![\w:])""",
    "variable": r"""
          \$[A-Za-z_]\w{0,80}(?:/[\w.+-]{0,200}\w){0,50} | \$\$(?=\w)
        | (?P<fence>\#{2,3}|@@)[A-Z][A-Z0-9_]{0,60}(?P=fence)
        | (?<![\w-])_?[A-Z][A-Z0-9]{0,80}(?:_[A-Z0-9]{1,80})+(?!\w)
        | (?<![\w-])[a-z][a-z0-9]{1,80}(?:_[a-z0-9]{2,80})+(?!\w)""",  # not „jede_r“, „Nutzer_innen“
    "path": rf"""
          (?<![\w/.])(?: (?:~|\.{{1,2}})(?:/(?:[\w.+@]|{_DASH}){{0,200}}\w){{1,50}}
            | (?:/(?:[\w.+@]|{_DASH}){{0,200}}\w){{2,50}}
            | /(?:bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|srv|sys|tmp|usr|var)\b )/?(?![\w/])
        | (?<![\w./\\@+-])(?:[\w.+@-]{{1,100}}/){{0,20}}[\w.+-]{{0,100}}
            \w\.(?:{_SUFFIXES})(?:\.(?:gz|bz2|xz|zip|bak|old|in|asc|sig))?(?![\w-]|\.\w)
        | (?<![\w./\\@+-])(?:[\w.+@-]{{1,100}}/){{1,20}}[\w.+-]{{0,100}}\w\.[a-z]\w{{0,5}}(?![\w-]|\.\w)
        | (?<![\w*])\*\.(?:\*|\w{{1,8}})(?![\w*])""",
    "flag": rf"""
          (?<![\w-])--(?!(?:{_WORDS})\b(?!-))[A-Za-z](?:\w|{_DASH}(?=\w)){{0,80}}(?:=[^\s,;"'„“”«»)\]<]{{0,200}}\w)?
        | (?<![^\s("'„“«»])-[A-Za-z](?![\w-])""",
    "date": rf"""
          (?<![\w.'])(?: (?=(?:{FIELD}{_BETWEEN}){{0,4}}(?:yyyy|YYYY|MMM|EEE)){FIELD}(?:{_BETWEEN}{FIELD}){{1,8}}
            | (?=[\w.:/-]{{0,8}}(?:dd|DD|MM|yy|YY|HH|hh|mm)){FIELD}(?:[.:/-]{FIELD}){{1,6}}(?:\ [aA])?
            | (?=(?:{_LETTER}{_APART}){{0,6}}(?:Y|[gGhH]:i)(?!\w)){_LETTER}(?:{_APART}{_LETTER}){{2,8}} )(?!\w)""",
    "address": rf"""
          (?<![\w:.])[0-9A-Fa-f]{{2}}(?:(?::[0-9A-Fa-f]{{2}}){{5,63}}|(?:-[0-9A-Fa-f]{{2}}){{5,63}})(?!\w|[:-]\w)
        | (?<![\w:.])(?=[0-9A-Fa-f:]{{0,39}}[0-9A-Fa-f])(?: (?:[0-9A-Fa-f]{{1,4}}:){{7}}[0-9A-Fa-f]{{1,4}}
            | (?=[0-9A-Fa-f:]{{0,39}}::)(?!.{{0,39}}:::)[0-9A-Fa-f:]{{2,39}}(?<!:(?<!::)) )
            (?:%\w{{1,10}}|/\d{{1,3}})?(?!\w|:[\w:])
        | (?<![\w.])(?:{_BYTE}\.){{3}}{_BYTE}(?::\d{{1,5}}|/\d{{1,2}})?(?![\w]|\.\d)""",
    "hash": r"""
          (?<![\w\#&])(?: 0[xX][0-9A-Fa-f]{1,128} | \#(?:[0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8}|\d{1,9})
            | [0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12} | (?:sha\d{1,3}|md5)[-:][A-Za-z0-9+/=]{16,128}
            | (?=[0-9A-Fa-f]{0,127}\d)(?=[0-9A-Fa-f]{0,127}[A-Fa-f])(?:[0-9a-f]{7,128}|[0-9A-F]{7,128}) )(?!\w)""",
    "iban": r"""
          (?<!\w)[A-Z]{2}\d{2}\ ?(?:[A-Z]{4}\ ?)?(?:(?=[A-Z]{0,3}\d)[A-Z0-9]{4}\ ?){2,6}
            (?:(?=[A-Z]{0,3}\d)[A-Z0-9]{1,4}|(?<!\ ))(?!\w)""",
    "time": rf"""
          (?<![\w:.])(?:\d{{4}}-\d\d-\d\d[T\ ])?\d{{1,2}}:\d\d:\d\d(?:[.,]\d{{1,9}})?{_ZONE}
        | (?<![\w:.-])\d{{4}}-\d\d-\d\d(?:T\d\d:\d\d{_ZONE}|(?![\w-]))""",
    "version": rf"""
          (?<![\w.,])(?!{_NUMBER})
          (?: v\d{{1,9}}(?:\.\d{{1,9}}){{0,4}} | \d{{1,9}}(?:\.\d{{1,9}}){{2,4}}
            | (?<=ersion\ )\d{{1,9}}(?:\.\d{{1,9}}){{1,4}} | \d{{1,9}}\.\d{{1,9}}(?=-?(?:alpha|beta|rc)\.?\d) )
          (?:-?(?:alpha|beta|dev|post|pre|rc|a|b)\.?\d{{0,9}})?
          (?:(?:\+|{_DASH})(?:[A-Za-z0-9][\w.]{{0,50}}\w|\d))?(?!\w|\.\d)""",
    "code_word": rf"""
          (?<![\w-])(?=[0-9./-]{{0,40}}[A-Z])(?=[A-Z./-]{{0,40}}[0-9])(?=[A-Z0-9./-]{{4}})
            (?!\d{{1,3}}\.\d{{1,3}}[A-Z](?![\w./-])){_CODE}(?:[./-]{_CODE}){{0,6}}(?!\w|[./:-]\w)""",
    "phone": r"""
          (?<![\w+])\+\d{1,3}[\ /-]?(?:\(0\)\ ?)?\d(?:[\ /-]?\d){5,13}(?!\w)
        | (?<!\w)\(\d{3}\)\ ?\d{3}-\d{4}(?![\w-])
        | (?<![\w.,/-])(?<!\d\ )(?:\(0\d{1,5}\)\ ?|0\d{2,5}\ ?[\ /-]\ ?)\d{2,8}(?:[\ /-]\d{2,8}){0,4}
            (?![\w/-]|[\ .,]\d)""",
    "emoji": rf"(?:(?:[{_PICTURES}]|[{_SYMBOLS}]\ufe0f|[0-9\#*]\ufe0f?\u20e3)[{_MODIFIERS}]{{0,50}}){{1,500}}",
    # Rules, leaders and gaps made of marks; of ????? behind a word the first one is the sentence's.
    "run": r"""
          (?<=(?P<stop>[.!?…]))(?P=stop){3,} | (?<!\S)(?P<leader>[.!?…])(?:\ ?(?P=leader)){3,}
        | (?P<mark>[^\w\s.!?…"'„“”‚‘’«»])(?P=mark){2,} | [=~]{2,} | _{3,}""",
    "arrow": r"(?<!\S)[«»‹›](?!\S)",
    # What reads like a stand-in, and words with characters as URLs write them.
    "stand_in": r"""
          (?<![\w%])[\w%]{1,50}(?<=\w)%[0-9A-Fa-f]{2}(?=[A-Za-z%])[\w%]{1,50}
        | (?<![0-9%])[0-9%]{0,50}%[0-9][0-9%]{0,50}(?:[.,]\d{1,9})? | %[0-9]""",
}


_PLAIN_WORD: Final = rf"(?!{FIELD}(?!\w))[A-ZÄÖÜ]?[a-zäöüß]{{1,40}}[.,;:!?)]{{0,3}}(?:\s|\Z)"
_MAY_START: Final = rf"(?![A-Za-z](?<=[A-Za-z0-9].)(?<!d(?=ata:))|[0-9](?<=[0-9].)(?!\ufe0f?\u20e3)|\s|{_PLAIN_WORD})"
"""Where something may start that is copied: in no word or number, unless it is ``data:`` or the picture of a key.

With a word of letters alone only a date starts; most words are such, and every kind would be looked for at each.
"""


def _compile(*kinds: str) -> re.Pattern[str]:
    every = "|".join(f"(?P<{kind}>{_KINDS[kind]})" for kind in kinds)
    return re.compile(f"{_MAY_START}(?:{every})", re.VERBOSE)


# Compiled when a text first asks for them: that takes longer than most lines.
token_pattern: Final = cache(lambda: _compile(*_KINDS))
"""Returns what finds everything that is copied; of kinds that start at the same character the first counts."""

literal_pattern: Final = cache(lambda: _compile("tag", "url", "email", "braces", "printf"))
"""Returns what finds addresses, tags and placeholders: what both sides of a training pair must have."""

HINT: Final = re.compile(
    r"(?P<first>[^\sA-DF-LN-XZa-xz])"  # one set of characters, as what begins with another one is found far later
    rf"(?:(?<=[%{{<`#@/\\_$\[*{_PICTURES}\ufe0f\u20e3\x1b])|(?<=:)(?=\S)|(?<=\.)(?=\w)|(?<=\d)(?=[A-Za-z+]|-+[\dA-Z])"
    r"|(?<=[A-Za-z]\d)|(?<=[A-Z]-)(?=-*\d)|(?<=[+(])(?=\d)|(?<=0)(?<!\d0)(?=\d\d)|(?<=[=~])(?=[=~])|(?<=\])(?=\()|(?<=www\.)(?=\S)"
    r"|(?<=M)(?=M)|(?<=y)(?=y)|(?<=Y)(?=Y)|(?<=Y)(?<!\wY)(?!\w)|(?<=E)(?=EE)|(?<=[^\w\s])\ ?(?P=first)\ ?(?P=first)"
    r"|(?<=-)(?:(?<![^\s(\"'„“«»]-)(?=[A-Za-z-])|(?<!\w-)(?=-[A-Za-z]))|(?<=[«»‹›])(?<!\S[«»‹›])(?!\S))"
)
"""What every token has: most lines have none of it, and need not be searched for each kind."""
