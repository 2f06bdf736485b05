"""Entries of catalogues that have a text and its translation, as they follow a source that has changed."""

from __future__ import annotations

import re
from typing import Final

_TOLD: Final = re.compile(r"#[.:,]")
"""How lines of PO begin that programs write."""

_DATE: Final = re.compile(r'^"POT-Creation-Date:[^"\n]*"', re.MULTILINE)
_FLAG: Final = re.compile(r"[^\s,]+")
_PARTS: Final = {
    "xliff": re.compile(
        r"(?P<own><(?P<name>(?:[\w.-]+:)?(?:source|seg-source))(?=[\s>])[^>]*(?<!/)>.*?</(?P=name)\s*>)"
        r"|<(?:[\w.-]+:)?alt-trans(?=[\s>]).*?</(?:[\w.-]+:)?alt-trans\s*>",
        re.DOTALL,
    ),
    "qt": re.compile(r"(?P<own><location\b[^>]*>(?:\s*<location\b[^>]*>)*)"),
}
"""What of an entry is its source's."""

_STATES: Final = {
    "xliff": (re.compile(r"<(?:[\w.-]+:)?target(?=[\s>])[^>]*>"), ' state="needs-translation"'),
    "xliff 2": (re.compile(r"<(?:[\w.-]+:)?segment(?=[\s>])[^>]*>"), ' state="initial"'),
    "qt": (re.compile(r"<translation(?=[\s>])[^>]*>"), ' type="unfinished"'),
}
"""The elements that say whether a translation is to be looked at, and how."""

_STATE: Final = re.compile(r"\s(?:state|type)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_END: Final = re.compile(r"(?<!\s)\s*/?>\Z")


def refreshed(file_format: str, entry: str, source: str, *, is_outdated: bool = False) -> str:
    """Returns an entry with the text, places, notes and flags that its source has now; what translators say stays.

    :param is_outdated: whether its translation is one of an earlier text
    """
    if file_format == "po":
        return _refreshed_po(entry, source)
    pattern = _PARTS.get(file_format)
    if pattern is None:
        return entry
    new = [match[0] for match in pattern.finditer(source) if match["own"]]
    if len(new) == sum(bool(match["own"]) for match in pattern.finditer(entry)):
        parts = iter(new)

        def follow(match: re.Match[str]) -> str:
            other = next(parts) if match["own"] else match[0]
            return match[0] if match[0].split() == other.split() else other

        entry = pattern.sub(follow, entry)
    if is_outdated:
        is_two = file_format == "xliff" and re.match(r"\s*(?:<!--.*?-->\s*)*<(?:[\w.-]+:)?unit\b", entry, re.DOTALL)
        tag, state = _STATES["xliff 2" if is_two else file_format]
        entry = tag.sub(lambda match: _with_state(match[0], state), entry)
    return entry


def _with_state(tag: str, state: str) -> str:
    tag = _STATE.sub("", tag)
    return _END.sub(lambda end: state + end[0].lstrip(), tag)


def _refreshed_po(entry: str, source: str) -> str:
    ours, theirs = (text.splitlines(keepends=True) for text in (entry, source))
    head = next((number for number, line in enumerate(ours) if not line.startswith("#") and line.strip()), len(ours))
    told = [line for line in ours[:head] if not _TOLD.match(line)]
    fuzzy = ["fuzzy"] if any(line.startswith("#,") and "fuzzy" in line for line in ours[:head]) else []
    known = [flag for line in theirs if line.startswith("#,") for flag in _FLAG.findall(line[2:]) if flag != "fuzzy"]
    notes = [line for line in theirs if line.startswith(("#.", "#:"))]
    ending = "\r\n" if "\r\n" in entry else "\n"
    notes += [f"#, {', '.join(fuzzy + known)}{ending}"] if fuzzy + known else []
    former = next((number for number, line in enumerate(told) if line.startswith("#|")), len(told))
    entry = "".join([*told[:former], *notes, *told[former:], *ours[head:]])
    date = _DATE.findall(source)
    return _DATE.sub(lambda _: date[0], entry) if date else entry


def obsolete(entry: str) -> str:
    """Returns an entry of PO as one that is not used any more; nothing of one without a translation."""
    lines = entry.strip("\r\n").splitlines()
    said = [line for line in lines if line.strip() and not _TOLD.match(line)]
    if not re.search(r'^msgstr.*"[^"\n]|^msgstr[^\n]*""\s*\n"', entry, re.MULTILINE):
        return ""
    return "\n" + "".join(f"{line if line.startswith('#') else f'#~ {line}'}\n" for line in said)
