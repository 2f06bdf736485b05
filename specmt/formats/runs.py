"""Runs of text of one style, which PowerPoint and Excel have in a paragraph; the style of most of it is its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from specmt.formats.document import Edit, LineNumbers, Segment, Tell
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import Element, add_text, children, xml_escape, xml_tokens, xml_unescape
from specmt.types import Span, Tag, Tagged

_NO_STYLE: Final = re.compile(r'(?<!\s)\s+(?:lang|altLang|dirty|err|smtClean|noProof|bmk)="[^"]*"')
"""What tells runs apart without being seen."""

_PROPERTIES: Final = frozenset(("a:pPr", "a:endParaRPr"))


class _Run(NamedTuple):
    start: int
    end: int
    head: Span
    """What opens it and says its style; nothing of a field or formula."""
    text: Span
    style: str


def drawn(text: str, lines: LineNumbers) -> Iterator[Segment]:
    """Yields the texts of what is drawn: slides, charts, diagrams, text boxes."""
    for paragraph in children(xml_tokens(text), ("a:p",)) if "<a:p" in text else ():
        yield from segments(text, paragraph, "a:", lines)


def segments(text: str, element: Element, prefix: str, lines: LineNumbers) -> Iterator[Segment]:
    """Yields the texts of a paragraph; one ends where its line is broken.

    :param prefix: of the names of elements
    """
    runs: list[_Run] = []
    for child in element.elements:
        if child.name == f"{prefix}t":
            inline = Inline(text, xml_unescape)
            add_text(inline, text, *child.inside)
            yield from in_place(inline, lines, xml_escape)
        elif child.name in (f"{prefix}r", f"{prefix}fld"):
            runs.append(_run(text, child, prefix))
        elif child.name == f"{prefix}br":
            yield from _joined(text, runs, prefix, lines)
            runs = []
        elif prefix and child.name not in _PROPERTIES:  # a formula
            runs.append(_Run(child.start, child.end, (0, 0), (child.end, child.end), ""))
    yield from _joined(text, runs, prefix, lines)


def _run(text: str, element: Element, prefix: str) -> _Run:
    head, said = (element.start, element.inside[0]), (element.inside[0], element.inside[0])
    for child in element.elements:
        if child.name == f"{prefix}rPr":
            head = element.start, child.end
        elif child.name == f"{prefix}t":
            said = child.inside
    style = _NO_STYLE.sub("", text[head[0] + len(prefix) + 3 : head[1]])
    is_field = element.name == f"{prefix}fld"
    return _Run(element.start, element.end, (0, 0) if is_field else head, said, "" if is_field else style)


def _joined(text: str, runs: Sequence[_Run], prefix: str, lines: LineNumbers) -> Iterator[Segment]:
    """Yields runs as a text with tags."""
    sizes: Counter[str] = Counter()
    for run in runs:
        # A link is never the style of what is around it.
        sizes[run.style] += (run.text[1] - run.text[0]) * (run.head != (0, 0)) * ("<a:hlink" not in run.style)
    if not sizes:
        return
    base = max(sizes, key=lambda style: sizes[style])
    inline = Inline(text, xml_unescape)
    for run in runs:
        if run.head == (0, 0):
            inline.opaque(run.start, run.end)
        elif run.style == base:
            add_text(inline, text, *run.text)
        else:
            inline.open(*run.head, str(run.start))
            add_text(inline, text, *run.text)
            inline.close(run.end, run.end, str(run.start))
    found = inline.take()
    if found is None:
        return
    own = next(run.head for run in runs if run.style == base and run.head != (0, 0))
    fields = [number for number, run in enumerate(runs) if run.head == (0, 0)] or [len(runs)]
    first, last = (
        "".join(xml_unescape(text[slice(*run.text)]) for run in part)
        for part in (runs[: fields[0]], runs[fields[-1] + 1 :] if fields[-1] < len(runs) else runs)
    )
    lead, trail = first[: len(first) - len(first.lstrip())], last[len(last.rstrip()) :]
    heads, starts, ends = {run.head for run in runs}, {run.start for run in runs}, {run.end for run in runs}

    def part(to: str, start: int, end: int, tags: Sequence[Tag], head: Span) -> Iterator[str | Span]:
        place = start
        for tag in tags:
            yield from written(to[place : tag.start], head)
            if tag.close is None:  # a field, a run, or a word of which the ends may be in runs
                yield from (own, f"<{prefix}t>") if tag.open[0] not in starts else ()
                yield tag.open
                yield f"</{prefix}t></{prefix}r>" if tag.open[1] not in ends else ""
            else:
                yield from part(to, tag.start, tag.end, tag.children, tag.open if tag.open in heads else head)
            place = tag.end
        yield from written(to[place:end], head)

    def written(said: str, head: Span) -> Sequence[str | Span]:
        space = "" if prefix else ' xml:space="preserve"'
        return [head, f"<{prefix}t{space}>{xml_escape(said)}</{prefix}t></{prefix}r>"] if said else []

    def edits(translation: Tagged, _: Tell) -> list[Edit]:
        inner = part(translation.text, 0, len(translation.text), translation.tags, own)
        return [Edit(runs[0].start, runs[-1].end, [*written(lead, own), *inner, *written(trail, own)])]

    yield Segment(found[0], lines(runs[0].start), edits, span=found[1])
