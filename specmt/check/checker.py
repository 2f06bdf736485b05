"""A translation against its source: everything that is found in it."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from specmt.check.branches import compare_messages, take_apart
from specmt.check.findings import ERRORS, Finding
from specmt.check.rules import LEAST_WORDS, Problem, Rules, address, compare, read, same_code
from specmt.check.sides import (
    Match,
    Text,
    arrays_in,
    blocks_of,
    by_key,
    by_order,
    marks_of,
    read_side,
    texts_of,
    within,
)
from specmt.errors import DataError
from specmt.formats import shape
from specmt.formats.anchors import follow, rebase, targets_in
from specmt.formats.blocks import text_of
from specmt.formats.document import KEPT, Document
from specmt.formats.encoding import decode
from specmt.formats.known import BILINGUAL, CATALOGUES
from specmt.languages import primary
from specmt.project import Settings, options_of
from specmt.text.printable import shown
from specmt.update.plan import PlanOptions
from specmt.update.store import Files
from specmt.update.update import Update, open_update

_NO_CODE: Final = re.compile(
    r"^\s*:caption:.*|(?:(?<=\s)|^)(?:#|//|--|;|%|/?\*|<!--|\{#).*|\"[^\"]*\"|'[^']*'|(?<=>)[^<>{}=]*(?=<)"
)
"""Comments and texts in code."""

_NO_CODES: Final = {
    "rst": re.compile(
        r"(\\[^`]|:[\w:.+-]{1,80}:`(?:[^`\\]|\\[^`])+`|``.+?``)|\\`()"
        r"|(?<![\w:`])`((?:[^`\\]|\\.)+?)(?:<[^`<>]*_>)?`_{0,2}(?![\w`])",
        re.DOTALL,
    ),
    "asciidoc": re.compile(r"(?<=[\"'])(?<!\w[\"'])`(?![\s).,;:])([^`]+)`(?=[\"'])|\{(?:empty|plus)\}()"),
}
"""What has backticks in a format and is text (a title, a reference, a quotation, an escaped one), or before that what
is code; and what is written so that a text stays one."""

_REFERENCES: Final = re.compile(r"&(?:#60|lt);(/?\w+)&(?:#62|gt);|&#(?:34|39|43|59);")
"""A tag that a text of AsciiDoc names, which is none, or a sign; some are written so."""

_FENCE: Final = re.compile(
    r"\A(?:[ \t>-]|\d+\.)*[`~]{3,}(?![`~])[ \t{.]*(?P<language>\w*)[^\n]*\n|\n[ \t>]*[`~]{3,}\s*\Z"
)
_KEYED: Final = CATALOGUES - BILINGUAL
"""Formats of which each text has a key."""

_PAGES: Final = ("markdown", "md", "mdx", "rst", "asciidoc", "adoc")
_TEXTS: Final = ("", "text", "txt", "mermaid")
"""Languages of code that is translated, and of what has words that are."""

_MARK: Final = re.compile("[&_]")
"""Of accelerators, which a file without translations shows otherwise."""

_LETTERS: Final = re.compile(r"[^\W\d_]{2,}")
_DIGITS: Final = re.compile(r"\d+")
"""A word, as a text has that is to be translated."""

_OF_PAIRS: Final = frozenset(("code", "link"))
"""What is told of blocks, too, that are no translations of each other."""

_LEAST_MARKS: Final = 3
"""Of code and links in two blocks: fewer may be one that was changed."""

_NAME: Final = re.compile(r"\w*[a-z][A-Z]\w*")
"""A word that is the same in every language, as OpenStreetMap is."""

_OF_MARKUP: Final = ("block", "code", "link", "placeholder", "tag")
"""What another parser compares where markup is to be the same."""


@dataclass(frozen=True)
class Pair:
    """A source and its translation."""

    source: Path
    target: Path
    file_format: str
    settings: Settings
    rules: Rules
    tone: str | None = None
    """How German is to address its reader, if that is said."""

    record: Path | None = None
    """What `specmt update` knows of it."""

    is_strict: bool = False
    """Whether markup is to be the same, block by block."""

    @property
    def shown(self) -> str:
        """How findings name the translation."""
        return shown(self.target)


def check_pair(pair: Pair) -> Iterator[Finding]:
    """Yields what is wrong with a translation.

    :raises DataError: the source is damaged.
    """
    if not pair.target.is_file():
        yield Finding(pair.shown, 1, "missing", f"there is no translation of {pair.source.name}")
        return
    languages = pair.rules.languages
    data = pair.source.read_bytes(), pair.target.read_bytes()
    mdx = pair.source.suffix == ".mdx"
    source = read_side(data[0], pair.source, pair.file_format, languages, pair.settings)
    both = pair.file_format in BILINGUAL
    is_page = not both and pair.file_format not in _KEYED
    try:
        order = languages if both else languages[::-1]
        target = read_side(data[1], pair.target, pair.file_format, order, pair.settings, mdx=mdx)
    except DataError as error:
        yield Finding(pair.shown, _line(str(error)), "parse", str(error).removeprefix(f"{pair.target}: "))
        return
    skips = options_of(pair.source, languages, pair.settings).skips
    update, fault = _update(pair)
    deleted = set() if update is None else _deleted(update)
    ours = _blocks(source, pair) if is_page else texts_of(source, skips)
    ours = [each for each in ours if (each.line, each.key) not in deleted]
    if both:
        matches = list(within(target, skips))
        known = {(match.source.key, _MARK.sub("", match.source.raw)) for match in matches}
        left = [each for each in source.segments if each.state == "skipped" and not each.reason.startswith(KEPT)]
        known |= {(each.context, _MARK.sub("", each.source.text)) for each in left}
        matches += [Match(each, None) for each in ours if (each.key, _MARK.sub("", each.raw)) not in known]
    elif pair.file_format in _KEYED:
        matches = list(by_key(ours, texts_of(target, skips), arrays_in(source)))
    else:
        inner = text_of(target)
        numbers = {*_DIGITS.findall(inner.text)} if inner is not None else set()
        matches = list(by_order(ours, _blocks(target, pair)))
        matches = [each for each in matches if each.target is not None or not _is_number(each.source.raw, numbers)]
    seen = set()
    is_strict = pair.is_strict and pair.file_format == "markdown"
    if is_strict:
        texts = [decode(each)[0] for each in data]
        one, other = (shape.blocks_of(each, mdx=mdx) for each in texts)
        faults = shape.compare(one, other, _moved(pair, (source, target), texts))
        yield from (Finding(pair.source.as_posix(), fault.lines[0], "block", fault.text) for fault in faults)
    for match in matches:
        problems = [] if match.target is None else [*_problems(match, pair.rules)]
        if match.target is not None and is_page and not (_OF_PAIRS.isdisjoint(dict(problems)) or _belongs(match)):
            match = match._replace(target=None, after=match.target.line)
        for problem in _lost(match, pair.file_format) if match.target is None else problems:
            if is_strict and problem.kind in _OF_MARKUP:
                continue
            place = match.target or match.source
            line = place.line if match.target else match.after
            finding = Finding(pair.shown, line, *problem, match.source.raw, place.raw)
            if problem.kind not in pair.rules.ignore and finding not in seen:
                seen.add(finding)
                yield finding
    yield from _tone(pair, matches)
    if "outdated" not in pair.rules.ignore:
        if fault is not None:
            raise fault
        yield from () if update is None else _outdated(pair, update)


def _blocks(document: Document, pair: Pair) -> list[Text]:
    """Returns the blocks of a page, without backticks that are not those of code."""
    found, no_code = blocks_of(document), _NO_CODES.get(pair.file_format)
    if no_code is None:
        return found
    if pair.file_format == "asciidoc":
        found = [each._replace(raw=_REFERENCES.sub(lambda match: html.unescape(match[0]), each.raw)) for each in found]
    for _ in range(2):  # quotations in each other
        found = [each._replace(raw=no_code.sub(lambda match: match[match.lastindex or 0], each.raw)) for each in found]
    return found


def _belongs(match: Match) -> bool:
    """Whether a block may be the translation of another: their code and links, more than two, share a word."""
    sides = [read(each.raw).found for each in (match.source, match.target) if each is not None and not each.kind]
    marks = [[*each["code"], *each["link"]] for each in sides]
    words = [{*_LETTERS.findall(" ".join(each).lower())} for each in marks]
    return len(words) < 2 or not all(words) or sum(map(len, marks)) < _LEAST_MARKS or not words[0].isdisjoint(words[1])


def _moved(pair: Pair, documents: Sequence[Document], texts: Sequence[str]) -> dict[str, str]:
    """Returns what the targets of links of a page become where headings are translated and files lie elsewhere."""
    ours, theirs = (set(targets_in(text)) for text in texts)
    source, target = (str(path.resolve().parent) for path in (pair.source, pair.target))
    slugs = (each.slugs.values() for each in documents if isinstance(each, shape.Checked))
    page, own = str(pair.target.resolve()), dict(zip(*slugs, strict=False))
    others = cache(partial(_moved_in, pair, source, target))
    moved = {each: rebase(each, source, target, lambda named: named) for each in ours}
    moved |= {
        old: follow(old, page, lambda name: own if name == page else others(name))
        for old in ours
        if "#" in old and theirs.isdisjoint((old, moved[old]))
    }
    return {old: new for old, new in moved.items() if old not in theirs and new in theirs}


def _moved_in(pair: Pair, source: str, target: str, name: str) -> dict[str, str]:
    """Returns what the ids of the headings of another page become, given the folders of this one."""
    paths = Path(source, os.path.relpath(name, target)), Path(name)
    if not all(path.is_file() and path.suffix in (".md", ".mdx") for path in paths):
        return {}
    slugs = []
    with suppress(DataError):
        for path in paths:
            page = read_side(path.read_bytes(), path, pair.file_format, pair.rules.languages, pair.settings)
            slugs.append([*page.slugs.values()] if isinstance(page, shape.Checked) else [])
    return dict(zip(*slugs, strict=False)) if len(slugs) > 1 else {}


def _update(pair: Pair) -> tuple[Update | None, DataError | None]:
    """Returns what `specmt update` has to do, or has left to people, or what is wrong with its record."""
    if pair.record is None or not pair.record.exists():
        return None, None
    files = Files(pair.source, pair.target, pair.record, pair.file_format)
    options = options_of(pair.source, pair.rules.languages, pair.settings)
    try:
        return open_update(files, options, PlanOptions(), is_dry=True, origins="o-"), None
    except DataError as error:
        return None, error


def _deleted(update: Update) -> set[tuple[int, str]]:
    """Returns the lines and keys of the source whose translations are not there on purpose, as the record says."""
    steps, source = enumerate(update.plan.steps), update.source
    left = [number for number, step in steps if step.action == "leave" and step.entry is not None and not step.note]
    segments = (source.document.segments[each] for number in left for each in source.blocks[number].segments)
    return {(each.line, each.context) for each in segments} | {(source.line(number), "") for number in left}


def _outdated(pair: Pair, update: Update) -> Iterator[Finding]:
    """Yields what `specmt update` would translate anew, or leaves to a person, as the source has changed."""
    outdated = update.outdated
    for number, step in enumerate(update.plan.steps):
        is_kept = step.action == "keep" and number in outdated
        if (
            update.target is not None
            and step.target is not None
            and (is_kept or step.action in ("write", "draft", "transplant"))
        ):
            has = "has, or may have, changed" if is_kept else "has changed"
            text = f"line {update.source.line(number)} of the source {has} since this was translated"
            line, said = update.target.line(step.target), update.target.text(step.target)
            yield Finding(pair.shown, line, "outdated", text, update.source.text(number), said)


def _line(message: str) -> int:
    numbers = [word for word in message.split() if word.isdecimal()]
    return int(numbers[0]) if " line " in f" {message}" and numbers else 1


def _is_number(raw: str, numbers: Collection[str]) -> bool:
    """Whether a text may be a number alone in the translation, and so none of its texts, as 17:00 is for 17 Uhr.

    :param numbers: those that the translation has
    """
    found = _DIGITS.findall(raw)
    return found != [] and len(_LETTERS.findall(raw)) == 1 and all(each in numbers for each in found)


def _lost(match: Match, file_format: str) -> Iterator[Problem]:
    source = match.source
    if file_format == "resx" and len(_LETTERS.findall(source.raw)) < LEAST_WORDS:
        return  # what is the same in a language is not in its file
    if file_format in _KEYED:
        if not all(map(_NAME.fullmatch, _LETTERS.findall(read(source.raw).words))):
            yield Problem("missing", f"{source.key!r} is not translated")
    elif file_format in BILINGUAL:
        yield Problem("missing", f"{source.raw[:60]!r} is not translated")
    else:
        lost = f"{source.kind or 'text'} {' '.join(source.raw.split())[:60]!r}"
        yield Problem("block", f"the {lost} of line {source.line} is not in the translation")


def _problems(match: Match, rules: Rules) -> Iterator[Problem]:
    assert match.target is not None
    if not match.target.raw.strip():
        if match.source.raw.strip():
            yield Problem("untranslated", f"{match.source.key!r} is empty")
        return
    said = match.source.raw, match.target.raw
    if match.source.kind == "image":
        return
    if match.source.kind in ("code", "math"):
        if not _is_same_code(*said):
            yield Problem("code", f"the {match.source.kind} is not that of the source")
        return
    if match.source.kind not in ("", "heading"):  # HTML that no one reads
        yield from (problem for problem in compare(*said, rules) if problem.kind in ERRORS)
        return
    with suppress(ValueError):
        if (message := take_apart(said[0])) is not None:
            yield from compare_messages(message, said[1], rules)
            return
    of_others = [*compare(match.other.raw, said[1], rules, match.form)] if match.other else None
    for problem in compare(*said, rules, match.form):
        if of_others is None or problem in of_others:  # a plural form may say what another one of the source says
            yield problem
    if match.source.has_accelerator and not match.target.has_accelerator:
        yield Problem("accelerator", "the label has no accelerator")


def _is_same_code(one: str, other: str) -> bool:
    languages = [match["language"] if (match := _FENCE.match(each)) else None for each in (one, other)]
    one, other = (_FENCE.sub("", each) for each in (one, other))
    if languages[0] in _PAGES and marks_of(one) == marks_of(other):
        return True
    return same_code(_plain(one), _plain(other), is_text=languages[0] in _TEXTS)


def _plain(code: str) -> str:
    """Returns code without comments and texts, which may be translated."""
    return "\n".join(_NO_CODE.sub("", line) for line in code.split("\n"))


def _tone(pair: Pair, matches: list[Match]) -> Iterator[Finding]:
    """Yields where German addresses its reader otherwise than the project asks, or than it does more often."""
    if primary(pair.rules.languages[1]) != "de" or "tone" in pair.rules.ignore:
        return
    places = [
        (match.source, match.target, address(read(match.target.raw).words))
        for match in matches
        if match.target is not None and match.target.raw != match.source.raw
    ]
    counts = {name: sum(name in found for _, _, found in places) for name in ("du", "Sie")}
    wanted = pair.tone or max(counts, key=lambda name: counts[name])
    wrong = "du" if wanted == "Sie" else "Sie"
    if pair.tone is None and not all(counts.values()):
        return
    for source, target, found in places:
        if wrong in found:
            more = "" if pair.tone else f", and {wanted!r} in {counts[wanted]} texts"
            text = f"the reader is {wrong!r} here{more}"
            yield Finding(pair.shown, target.line, "tone", text, source.raw, target.raw)
