"""What may be wrong with a text and its translation, as far as it can be told without a model."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from specmt.formats.rst_inline import OF_TEXT
from specmt.languages import primary
from specmt.text.glossary import Entry, Glossary
from specmt.text.judge import judge
from specmt.text.lines import open_input
from specmt.text.memory import read_tsv
from specmt.text.placeholders import find_tokens
from specmt.text.view import plain

_KINDS: Final = {
    "braces": "placeholder",
    "printf": "placeholder",
    "stand_in": "placeholder",
    "tag": "tag",
    "code": "code",
    "link": "link",
    "url": "link",
    "email": "link",
}
"""What tokens that a translation must have are, by kind; it need not have the others."""

_TAG: Final = re.compile(r"<(/?)\s*([A-Za-z][\w:.-]*)")
_AGAIN: Final = re.compile(r"</(\w+)>\s*<\1>")
"""Where an element ends and begins again."""

_ID: Final = re.compile(r"""\b(?:id|ctype)\s*=\s*["']([^"']*)""")
_HREF: Final = re.compile(r"""\b(?:href|src)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_SAME: Final = {"strong": "b", "em": "i"}
_FREE: Final = frozenset(("br", "p", "wbr", "span"))
"""Elements of which a translation may have others."""

_BLOCKS: Final = frozenset(("details", "div", "dl", "figure", "ol", "section", "table", "tbody", "thead", "tr", "ul"))
_XLIFF: Final = frozenset(("x", "g", "bx", "ex", "bpt", "ept", "ph", "it", "mrk", "pc", "sc", "ec", "sm", "em"))
_POSITION: Final = re.compile(r"(?<=%)\d+\$")
_WIDTH: Final = re.compile(r"(?<=%\d)[a-zA-Z]\Z")
"""A unit behind a number of Qt, as in %1d."""

_QUOTED: Final = re.compile(r"""([\"'`]).*?\1|/\*.*?\*/""", re.DOTALL)
"""Arguments of shortcodes, which are paths and texts of a language."""

_CHOICE: Final = re.compile(r"(?<=,choice),.*(?=\}\Z)", re.DOTALL)
"""The cases of a choice by number, which are text."""

_REFERENCE: Final = re.compile(r"\{\{[%<]\s*(?:rel)?ref\b")
_MARKUP: Final = re.compile(
    r"\[\^[^\]\s]{1,300}\]|\*\*|(?<!\w)[*_]+(?=\w)|(?<=\w)[*_]+(?!\w)|!?\[(?=[^\]]{0,1000}\]\()|``?"
)
_TITLE: Final = re.compile(r"""\]\(\s*<?([^\s<>()"']*(?:\([^\s()]*\)[^\s()]*)*)""")
_ADDRESS: Final = re.compile(r"[/@]|^www\.")
"""What a name such as specmt.org lacks, which the words around it may stand for."""

_HOST: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:)?//(?:[^/@\s]*@)?(?:[\w-]+\.)*?([\w-]+\.(?:co\.)?\w+)(?=[/:?#]|\Z)", re.IGNORECASE
)
_LABEL: Final = re.compile(
    r"[^\W\d_a-z][^\W\d_]+(?:(?:-|[,:.!?»«”“\"]* (?:[-–+/&>→] )?[»«„“\"-]?)[^\W\d_]+)*[:.!?»«”“\"]*"
)
"""The name of a button, keys or a sentence, which are no code."""

_QUOTES: Final = re.compile(r"\A(['\"])([^'\"]*)\1\Z")
_TITLED: Final = re.compile(r"\A[^<>]+(?=<[^<>]+>\Z)")
"""The text in front of what a role of reStructuredText names."""

_ROLE: Final = re.compile(r":([\w:-]+):\Z")

_CODE_TAG: Final = re.compile(r"\A<\w+[^>]*>|</\w+>\Z")
_IN_QUOTES: Final = re.compile(
    r"(?<=>)[^<>{}=]*(?=<)|(?<=[>}])[^<>{}=;\n]*(?=[<{])|(?<=\")[^\"\n]*(?=\")|(?<=')[^'\n]*(?=')"
)
_TOKEN: Final = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")
_SENTENCE: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}(?:[ ,;:.!?’-]+[^\W\d_]+){2,}[.!?:]?")
_WORD: Final = re.compile(r"(?<![^\s(„“\"'»])[^\W\d_]{2,}(?![^\s.,:;!?)“”\"'«])")
_OF_TEXT: Final = re.compile(r"(?!in\Z)[^\W\d_A-Z]{2,3}|\w*[äöüß]\w*")
"""A word that sentences have and lists of names have not."""

LEAST_WORDS: Final = 4
"""Of texts that are the same in both languages and yet none that was left."""

_MOST: Final = 100
"""Of so many faults of a kind in one text it is told, and for each of them all of the text is looked through."""

_LEAST_LENGTH: Final = 20
_RATIO: Final = 3.0
_MORE: Final = 30
_NUMBER: Final = re.compile(
    r"the number (?P<number>(?![^\W\d_])(?!\S*[^\W\d_]{3}).*?)(?: \(.*\))? is (?:(?P<missing>not )|in).*"
)
"""What is told of a number that is not in a word, as in HTML5."""

_ALL: Final = re.compile(r"(?<![\d.,])100\s?%")
"""All of something, which may be said in words."""

_SEPARATORS: Final = str.maketrans(",.", ".,")
_PHONE: Final = re.compile(r"\+\d[\d ()/-]{6,}")
"""The number of a telephone, which is an example."""

_EXAMPLE: Final = re.compile(r"\W*(?:e\.?g|z\. ?B|for example|for instance|zum Beispiel)\b", re.IGNORECASE)

_SMALL: Final = ("zero", "one", "two")

_DU: Final = re.compile(r"\b(?:[Dd]u|[Dd]ich|[Dd]ir|[Dd]ein(?:e[mnrs]?)?)\b")
_SIE: Final = re.compile(r"(?<=[\w,;)] )(?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b")
"""How German addresses one: where a sentence begins „Sie“ may be others."""


class Problem(NamedTuple):
    """What is wrong with a text."""

    kind: str
    text: str


@dataclass
class Said:
    """What a text has beside words."""

    words: str = ""
    found: dict[str, Counter[str]] = field(default_factory=dict)
    """Placeholders, tags, code and links, as they must be the same."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a project asks of translations into a language."""

    languages: tuple[str, str]
    glossary: Glossary | None = None
    forbidden: Sequence[str] = ()
    keep: Sequence[str] = ()
    ignore: frozenset[str] = frozenset()
    mapped: Callable[[str], str] = str
    """Returns what the target of a link becomes."""


def read_terms(path: Path) -> Glossary:
    """Reads the terms of a glossary, TSV, of which the forms need not be a model's.

    :raises InputNotFoundError: the file cannot be opened or read.
    :raises DataError: it is not what it should be.
    """
    rows = read_tsv(open_input(path), str(path))
    return Glossary((Entry(term.strip(), tuple(forms.split("|")), line) for line, term, forms in rows), str(path))


def read(raw: str) -> Said:
    """Takes a text apart."""
    said, place, words = Said(found={kind: Counter() for kind in _KINDS.values()}), 0, []
    raw = plain(raw)
    for token in find_tokens(raw):
        kind = _KINDS.get(token.kind)
        if kind is None:
            continue
        words.append(raw[place : token.start])
        place = token.end
        if kind == "tag":
            _take_tag(token.text, said.found)
        elif kind == "link":
            target = _TITLE.match(token.text) if token.kind == "link" else None
            link = target[1] if target else token.text.strip("<>") if token.kind != "link" else ""
            if any(map(str.isalnum, link)) and (target or _ADDRESS.search(link)):
                said.found["link"][link] += 1
            words.append("" if token.kind == "link" else " ")
            continue
        elif kind == "placeholder":
            if _REFERENCE.match(token.text):
                said.found["link"][f"./{token.text}"] += 1
            else:
                name = _CHOICE.sub("", "".join(_WIDTH.sub("", _POSITION.sub("", token.text)).split()))
                name = _QUOTED.sub("''", name)
                said.found[kind][name] += name not in ("%%", "{''}")  # Fluent's text in braces
        else:
            code = " ".join(html.unescape(_CODE_TAG.sub("", token.text)).strip("`").split())
            code = _QUOTES.sub(r"\2", code)
            role = _ROLE.search(raw, max(0, token.start - 30), token.start)
            if role is not None:
                code = _TITLED.sub("", code)
            if not _LABEL.fullmatch(code) and not (role is not None and role[1] in OF_TEXT):
                said.found[kind][code] += 1
        words.append(" ")
    said.words = html.unescape(_MARKUP.sub("", "".join(words) + raw[place:]))
    return said


def _take_tag(tag: str, found: Mapping[str, Counter[str]]) -> None:
    links = (match[1] or match[2] or "" for match in _HREF.finditer(tag))
    found["link"].update(link for link in links if any(map(str.isalnum, link)))
    named = _TAG.match(tag)
    if named is None:
        return
    name = named[2] if named[2][0].isupper() else named[2].lower()
    if name in _XLIFF and (number := _ID.search(tag)) and not named[1]:
        found["placeholder" if tag.endswith("/>") else "tag"][f"<{name} id={number[1]!r}>"] += 1
    elif name not in _FREE:
        found["tag"][f"<{named[1]}{_SAME.get(name, name)}>"] += 1


def compare(source: str, target: str, rules: Rules, form: str = "") -> Iterator[Problem]:
    """Yields what is wrong with a translation that is there.

    :param form: the plural form that it is, if it is one
    """
    one, other, raw = read(source), read(target), (source, target)
    if one.found["tag"] != other.found["tag"]:
        raw = _AGAIN.sub(" ", source), _AGAIN.sub(" ", target)
        one, other = map(read, raw)
    for mine, found, text in ((one, other, raw[0]), (other, one, raw[1])):
        joined = "".join(unicodedata.normalize("NFKC", text).split())  # full-width colons are colons
        for kind in ("placeholder", "tag"):
            there = mine.found[kind]
            for each in [each for each in found.found[kind] if not there[each]][:_MOST]:
                # as %ld in %ldy, in code, or <x> where </x> is in another line
                name = f"(?i:{re.escape(each[1:-1])})" if each.startswith("{:") else re.escape(each)
                there[each] += len(re.findall(rf"(?<![{{}}]){name}(?![{{}}])", joined))
    words = _WORD.findall(other.words)
    said = [word for word in words if len({*word}) > 1]  # yyyy, mm and hh are a date
    is_same = words == _WORD.findall(one.words)
    if is_same and len(said) >= LEAST_WORDS and any(map(_OF_TEXT.fullmatch, said)):
        yield Problem("untranslated", "the text is that of the source")
        return
    for kind in ("placeholder", "tag"):
        yield from _differing(kind, one.found[kind], other.found[kind], form)
    yield from islice(_code(one.found["code"], other.found["code"], target), _MOST)
    yield from _links(one.found["link"], other.found["link"], rules)
    if form not in _SMALL:
        yield from _numbers(one.words, other.words, rules, (source, target))
    if "\ufffd" in target and "\ufffd" not in source:
        yield Problem("character", "'\\ufffd' is in the translation only")
    lengths = [len(each.words.strip()) for each in (one, other)]
    if min(lengths) >= _LEAST_LENGTH and max(lengths) > _RATIO * min(lengths) + _MORE:
        yield Problem("length", f"the source has {lengths[0]} characters, the translation {lengths[1]}")
    yield from _terms(one, other, source, target, rules)


def _numbers(one: str, other: str, rules: Rules, raw: tuple[str, str]) -> Iterator[Problem]:
    """Yields the numbers that are lost or changed; those of names are none, and one more explains what is said."""
    if not (_ALL.search(one) and _ALL.search(other)):
        one, other = _ALL.sub("", one), _ALL.sub("", other)
    one, other = _PHONE.sub("", one), _PHONE.sub("", other)
    if _EXAMPLE.match(one) and _EXAMPLE.match(other):
        return
    said = filter(None, map(_NUMBER.match, judge(one, other, rules.languages)))
    found = [*islice(said, _MOST)]
    is_changed = any(not match["missing"] for match in found)
    targets = raw[1], raw[1].translate(_SEPARATORS)  # where it may be in code
    lost = []
    for match in (each for each in found if each["missing"]):
        whole = _whole(match["number"])
        there = max(len(whole.findall(each)) for each in targets)
        if there < (len(whole.findall(raw[0])) if is_changed else 1):
            lost.append(match)
    for match in [*lost, *(match for match in found if lost and not match["missing"])]:
        yield Problem("number", match[0])


def _differing(kind: str, one: Counter[str], other: Counter[str], form: str) -> Iterator[Problem]:
    """Yields what is lost or new; what has a name may be there more often, and a form for few may leave it out."""
    if kind == "tag":
        one, other = _in_block(one), _in_block(other)
    lost, new = one - other, other - one
    if lost["<a>"] == lost["</a>"]:  # of which it is said that the link is lost
        del lost["<a>"], lost["</a>"]
    for name in {tag.strip("</>") for tag in new if kind == "tag"}:  # a translator may explain a word
        if new[f"<{name}>"] == new[f"</{name}>"]:
            del new[f"<{name}>"], new[f"</{name}>"]
    if kind == "placeholder":
        for side, there in ((lost, other), (new, one)):
            for each in [each for each in side if there[each] and (each[:1] != "%" or each[1:2] in "({<")]:
                del side[each]
        if form in _SMALL:
            lost.clear()
    yield from (Problem(kind, f"{each!r} is not in the translation") for each in lost)
    yield from (Problem(kind, f"{each!r} is in the translation only") for each in new)


def _in_block(tags: Counter[str]) -> Counter[str]:
    """Returns tags without those of components and blocks that begin in one text and end in another."""
    names = {tag: tag.strip("</>") for tag in tags}
    return Counter(
        {
            tag: count
            for tag, count in tags.items()
            if not (names[tag][:1].isupper() or names[tag] in _BLOCKS)
            or tags[f"<{names[tag]}>"] == tags[f"</{names[tag]}>"]
        }
    )


def _code(one: Counter[str], other: Counter[str], target: str) -> Iterator[Problem]:
    """Yields the code that is lost or changed; it may be marked otherwise, and have words of that language."""
    new = [each for each in other if not one[each]][:_MOST]
    target = " ".join(html.unescape(target).lower().split())
    for each in one:
        if not other[each] and each.lower().removesuffix("()") not in target:
            near = next((to for to in new if same_code(each, to)), None)
            if near is None:
                yield Problem("code", f"{each!r} is not in the translation")
            else:
                new.remove(near)


def same_code(one: str, other: str, *, is_text: bool = False) -> bool:
    """Whether code differs in words and sentences alone, and in no word by a letter or two.

    :param is_text: whether words are none of a program
    """
    without = _without_words if is_text else _without_text
    if _SENTENCE.search(one) and without(one) == without(other):
        return True
    sides = [_TOKEN.findall(_IN_QUOTES.sub("", each)) for each in (one, other)]
    changed = {(a, b) for a, b in zip(*sides, strict=False) if a != b}
    words = all(a.isalpha() and b.isalpha() and min(len(a), len(b)) > 1 for a, b in changed)
    return len(sides[0]) == len(sides[1]) and words and not (len(changed) == 1 and is_misspelt(*changed.pop()))


def _without_text(code: str) -> list[str]:
    return _TOKEN.findall(_SENTENCE.sub("x", code))


def _without_words(code: str) -> list[str]:
    return [each for each in _TOKEN.findall(code) if not (each.isalpha() or each in "-/.,:;!?()'’")]


def is_misspelt(one: str, other: str) -> bool:
    """Whether two words differ in one place behind their first letter, by a letter or two."""
    steps = [step for step in SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if step[0] != "equal"]
    first, last = steps[0], steps[-1]
    return len(one) > 2 and first[1] > 0 and max(last[2] - first[1], last[4] - first[3]) <= 2


def _links(one: Counter[str], other: Counter[str], rules: Rules) -> Iterator[Problem]:
    """Yields the links that are lost or misspelt; others of the same place are those of that language."""
    mapped = dict.fromkeys(map(rules.mapped, one))
    lost = [each for each in mapped if not other[each]][:_MOST]
    new = [each for each in other if each not in mapped and not one[each]][:_MOST]
    for each in list(lost):
        near = next((to for to in new if _place(to) == _place(each)), None)
        near = near or next((to for to in new if "" in (_place(each), _place(to))), None)
        near = near or next((to for to in new if not is_misspelt(_place(each), _place(to))), None)
        if near is not None:
            lost.remove(each)
            new.remove(near)
            if _place(each) and _differs_by_a_letter(each, near, rules.languages):
                yield Problem("link", f"{near!r} is {each!r} in the source")
    yield from (Problem("link", f"{each!r} is not in the translation") for each in lost)


def _place(link: str) -> str:
    """Returns the site that a link leads to; nothing where it is the same."""
    host = _HOST.match(link)
    return host[1].rpartition(".")[0].lower() if host else link.partition(":")[0] if ":" in link else ""


def _differs_by_a_letter(one: str, other: str, languages: tuple[str, str]) -> bool:
    """Whether a link is misspelt, and not changed for the sake of a language or the id of a heading."""
    code = re.compile(rf"(?<![^\W_])(?:{'|'.join(map(primary, languages))})(?:[-_]\w\w)?(?![^\W_])[./]?", re.IGNORECASE)
    one, other = (code.sub("", each.partition("#")[0]).rstrip("/") for each in (one, other))
    return one != other and is_misspelt(one, other)


def _terms(one: Said, other: Said, source: str, target: str, rules: Rules) -> Iterator[Problem]:
    for required in rules.glossary(one.words) if rules.glossary is not None else ():
        if not any(_has(other.words, form) for form in required.forms):
            forms = " or ".join(map(repr, required.forms))
            yield Problem("term", f"{required.source!r} is to be {forms}")
    for term in rules.keep:
        if _whole(term).search(source) and term.lower() not in target.lower():
            yield Problem("term", f"{term!r} is to stay as it is")
    for term in rules.forbidden:
        if _whole(term).search(other.words):
            yield Problem("forbidden", f"{term!r} is not to be used")


def _has(text: str, form: str) -> bool:
    """Whether a text has a term, perhaps inflected or in a compound."""
    low = text.lower()
    return all(word[: max(4, len(word) - 2)] in low for word in form.lower().split())


def _whole(term: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(term)}(?!\w)", re.IGNORECASE if term == term.lower() else 0)


def address(words: str) -> tuple[str, ...]:
    """Returns how a German text addresses its reader: du, Sie, neither or both."""
    return tuple(name for name, pattern in (("du", _DU), ("Sie", _SIE)) if pattern.search(words))
