"""Findings as lines of text, as annotations of GitHub, as JSON and as JUnit XML."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from specmt.check.findings import Finding

_MOST: Final = 10
"""How many annotations of a level GitHub shows of one step."""

_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def as_text(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields a line a finding."""
    return (f"{each.path}:{each.line}: {each.kind}: {each.text}" for each in findings)


def as_github(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields annotations, those of files that changed first, up to the limit of each level, and then the count."""
    changed = _changed()
    in_order = sorted(findings, key=lambda each: each.path not in changed)
    for level in ("error", "warning"):
        found = [each for each in in_order if each.level == level]
        for each in found[:_MOST]:
            where = f"file={_of_github(each.path, ',:')},line={each.line},title={each.kind}"
            yield f"::{level} {where}::{_of_github(each.text)}"
        if found:
            yield f"{level}s: {len(found)}, shown: {min(len(found), _MOST)}"


def _of_github(text: str, marks: str = "") -> str:
    for mark in f"%\r\n{marks}":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text


def _changed() -> frozenset[str]:
    """Returns the files that a pull request, or else the last commit, changes; none where git does not say."""
    base = os.environ.get("GITHUB_BASE_REF")
    since = f"origin/{base}...HEAD" if base else "HEAD^"
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "diff", "--name-only", "--relative", "-z", since]
        said = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
        return frozenset(os.fsdecode(said).split("\0"))
    return frozenset()


def as_json(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields a JSON array of objects, an object a line."""
    rows = [
        {"path": each.path, "line": each.line, "level": each.level, "kind": each.kind, "text": each.text}
        for each in findings
    ]
    yield "[" + ",\n ".join(json.dumps(row, ensure_ascii=False) for row in rows) + "]"


def as_junit(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields JUnit's XML: a suite a file, a failed case a finding."""
    from xml.sax.saxutils import quoteattr  # which brings half of urllib

    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="specmt check" tests="{len(findings)}" failures="{len(findings)}">'
    for path, group in groupby(sorted(findings, key=lambda each: each.path), key=lambda each: each.path):
        cases = list(group)
        yield f'  <testsuite name={quoteattr(path)} tests="{len(cases)}" failures="{len(cases)}">'
        for each in cases:
            name = quoteattr(f"{each.line}: {each.kind}")
            yield f"    <testcase classname={quoteattr(path)} name={name}>"
            text = quoteattr(_NO_XML.sub("?", each.text))
            yield f"      <failure type={quoteattr(each.level)} message={text}/>"
            yield "    </testcase>"
        yield "  </testsuite>"
    yield "</testsuites>"


REPORTS: Final[Mapping[str, Callable[[Sequence[Finding]], Iterator[str]]]] = {
    "text": as_text,
    "github": as_github,
    "json": as_json,
    "junit": as_junit,
}
