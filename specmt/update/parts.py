"""What of a translation stays, and what is exchanged in it, where only a part of its source has changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from specmt.formats.anchors import relinked
from specmt.formats.blocks import content, rendered
from specmt.formats.document import FormatOptions
from specmt.text.patience import patience
from specmt.text.segment import split_sentences
from specmt.types import Span, Tagged
from specmt.update.packages import with_tags
from specmt.update.plan import Step
from specmt.update.record import Entry, digest, sentences_in
from specmt.update.reshaped import Said
from specmt.update.sides import Side

_TABLE: Final = re.compile(r"[ \t>]*(?:\||\+[-=]|=+ +=)")
"""How tables and rows of them begin."""

MACHINE: Final = 8
"""How long the hash of a sentence is that no person wrote."""


class Mended(NamedTuple):
    """A person's translation in which sentences of the machine follow the source."""

    text: str
    is_whole: bool
    """Whether all that has changed does."""
    fresh: set[str]
    """The hashes of these sentences."""


def exchanged_markup(source: Side, number: int, target: Side, other: int, formats: FormatOptions) -> str | None:
    """Returns a translation with the one part of its markup that differs as it is in the source, if it is one."""
    ours, theirs = source.blocks[number], target.texts(other)
    if len(ours.segments) != len(theirs):
        return None
    said = {segment: each for segment, each in zip(ours.segments, theirs, strict=True) if not each.tags}
    old = target.contents[other].markup
    new = content(source.document, ours, is_source=True, said=said).markup
    if formats.rebase is not None:
        new = tuple(relinked(each, formats.rebase) for each in new)
    if len(old) != len(new):
        return None
    changed = [(before, after) for before, after in zip(old, new, strict=True) if before != after]
    text = target.text(other)
    if not changed:
        return text
    if len(changed) != 1 or not changed[0][0] or text.count(changed[0][0]) != 1:
        return None
    return text.replace(*changed[0])


def indentation(text: str) -> str:
    """Returns what a block is indented by."""
    return re.match(r"\s*?([ \t]*)(?=\S|\Z)", text)[1]  # type: ignore[index]


def kept_texts(
    source: Side, target: Side | None, steps: Sequence[Step], formats: FormatOptions, *, reuses: bool, refers: bool
) -> dict[int, Tagged]:
    """Returns translations that stay, by segment of the source: of blocks, and of parts of blocks that change.

    :param reuses: whether parts that the machine translated stay in blocks that are translated again
    :param refers: whether what is written anew may refer to blocks that stay, as links do to headings
    """
    found: dict[int, Tagged] = {}
    for number, step in enumerate(steps):
        if target is None or (step.target is None and not step.said):
            continue
        ours = source.texts(number)
        theirs = [_said(step.said, target, formats)] if step.said else target.texts(step.target or 0)
        pairs: Iterable[tuple[int, Tagged]] = ()
        if ((step.action in ("keep", "exchange") and refers) or step.said) and len(ours) == len(theirs):
            pairs = enumerate(theirs)
        elif step.action == "write" and step.entry is not None and reuses:
            same = _same_parts(source.items[number].sentences, step.entry, ours, theirs, formats)
            pairs = ((place, theirs[other]) for place, other in same)
        for place, said in pairs:
            if step.action == "write" and not step.said:
                found[source.blocks[number].segments[place]] = with_tags(said, ours[place])
            elif not ours[place].tags and not said.tags:
                found[source.blocks[number].segments[place]] = said
    return found


def has_same_cells(source: Side, number: int, target: Side, step: Step, formats: FormatOptions) -> bool:
    """Whether, of a table or a row of one, all cells that a person wrote are translations of what they are now."""
    if step.entry is None or step.target is None or not _TABLE.match(source.text(number)):
        return False
    ours, theirs = source.texts(number), target.texts(step.target)
    same = {place for _, place in _same_parts(source.items[number].sentences, step.entry, ours, theirs, formats)}
    made = step.entry.translated
    spans = enumerate(_spans(theirs, formats.target))
    others = [made[start:end] for place, (start, end) in spans if place not in same]
    return bool(same) and all(len(each) == MACHINE for cell in others for each in cell)


def is_new(text: str, entry: Entry | None, formats: FormatOptions) -> bool:
    """Whether a text has a sentence that its block did not have."""
    said = {digest([each], MACHINE) for each in sentences_in([text], formats.source)}
    return entry is None or not said <= {*entry.sentences}


def _said(parts: Sequence[Said], target: Side, formats: FormatOptions) -> Tagged:
    """Returns a translation that is in blocks of the target, or in parts of them."""
    texts = []
    for part in parts:
        [text] = target.texts(part.target)
        cut = split_sentences(text.text, formats.target)[part.start : part.end]
        texts.append("".join(sentence + gap for sentence, gap in cut).strip())
    return Tagged(" ".join(texts))


def _same_parts(
    now: Sequence[str], entry: Entry, ours: Sequence[Tagged], theirs: Sequence[Tagged], formats: FormatOptions
) -> Iterator[Span]:
    """Yields the segments of a block whose sentences were translated before, and those that are their translations."""
    made = _spans(theirs, formats.target)
    count = len(entry.sentences)
    if entry.origin not in ("m", "h", "o") or count != len(entry.translated) or not made or made[-1][1] != count:
        return
    by_span = {span: place for place, span in enumerate(made)}
    was = {new: old for old, new in patience(entry.sentences, now)}
    for place, (start, end) in enumerate(_spans(ours, formats.source)):
        old = [was.get(each, -1) for each in range(start, end)]
        if old and old[0] >= 0 and old == [*range(old[0], old[0] + len(old))]:
            other = by_span.get((old[0], old[-1] + 1))
            if other is not None:
                yield place, other


def mended(source: Side, number: int, target: Side, step: Step, draft: str, formats: FormatOptions) -> Mended | None:
    """Returns a person's translation whose sentences of the machine follow the source, if it has such.

    :param draft: what the machine makes of the whole block now
    """
    entry, other = step.entry, step.target
    if entry is None or other is None:
        return None
    ours, theirs = source.texts(number), target.texts(other)
    if len(ours) != 1 or len(theirs) != 1 or ours[0].tags or theirs[0].tags:
        return None
    fresh = sentences_in([draft], formats.target)
    parts = split_sentences(theirs[0].text, formats.target)
    now, then = source.items[number].sentences, entry.sentences
    if len({len(fresh), len(parts), len(now), len(then), len(entry.translated)}) > 1:
        return None
    changed = [place for place, (one, before) in enumerate(zip(now, then, strict=True)) if one != before]
    machine = {place for place in changed if len(entry.translated[place]) == MACHINE}
    if not machine:
        return None
    said = "".join((fresh[n] if n in machine else sentence) + gap for n, (sentence, gap) in enumerate(parts))
    block = target.blocks[other]
    text = rendered(target.document, {block.segments[0]: Tagged(said)}, lambda *_: None, [block])[0]
    return Mended(text, len(machine) == len(changed), {digest([fresh[place]], MACHINE) for place in machine})


def _spans(texts: Sequence[Tagged], language: str) -> list[Span]:
    """Returns the sentences that each of some texts has, by their numbers."""
    ends = [0, *accumulate(len(sentences_in([each.text], language)) for each in texts)]
    return [*pairwise(ends)]
