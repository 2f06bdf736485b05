"""What is done with each block of a source whose translation is there already: the table of all cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal

from specmt.formats.outline import OPENING
from specmt.update.matching import Matches, gaps, in_order, match
from specmt.update.nesting import containers, emptied, without_room
from specmt.update.pairing import Pair, Paired
from specmt.update.record import NONE, Entry, Item, Origin
from specmt.update.reshaped import Said, reshaped

Action = Literal["keep", "write", "transplant", "exchange", "draft", "leave"]
"""``write``: the block is translated or copied anew. ``transplant``: its markup alone changed, which is exchanged if
it is one part of it. ``exchange``: a part of it is written otherwise. ``draft``: what a person wrote is kept though the
source has changed. ``leave``: it is not in the target."""

BOTH: Final = "source and translation were changed together"
GONE: Final = "its source is gone, and a person has written it: kept"
OBSOLETE: Final = "its source is gone: kept"
REPLACED: Final = "its key has become that of a text or of other texts: removed"
DELETED: Final = "a person deleted the translation"
OUTDATED: Final = "outdated: the source has changed since a person translated it"
JOINED: Final = "its translation is in that of the block before it"
REORDERED: Final = "the blocks are in another order than in the source"


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What the user asks for."""

    adopt: bool = False
    """Whether pairs of which there is no record hold for the present source."""

    restore: bool = False
    """Whether what a person deleted is translated again."""

    again: frozenset[str] = frozenset()
    """The origins of what is translated again."""

    obsolete: Literal["keep", "remove"] | None = None
    """What becomes of entries of catalogues whose source is gone; ``None`` for what is no catalogue."""

    rebuild: bool = False
    """Whether a package is made anew of its source and the known texts."""

    @property
    def forces(self) -> bool:
        """Whether more is done than what changes of files ask for."""
        return self.adopt or self.restore or self.rebuild or bool(self.again) or self.obsolete == "remove"


@dataclass(frozen=True, slots=True)
class Step:
    """What is done with a block of the source."""

    action: Action
    origin: Origin
    target: int | None = None
    """The number of its translation in the target."""

    entry: Entry | None = None
    note: str = ""
    is_sure: bool = True
    """Whether its target is its translation."""

    said: tuple[Said, ...] = ()
    """Where in the target its translation is, if not in its own block."""


@dataclass(slots=True)
class Plan:
    """What is done with two files."""

    steps: list[Step]
    order: list[tuple[int | None, int | None]]
    """The blocks of the new target: numbers in the source and in the present target, of which one may be missing."""

    notes: list[tuple[int, str]] = field(default_factory=list)
    """What is said of blocks of the target that have no source any more."""


def decide(source: Item, entry: Entry | None, target: Item | None, options: PlanOptions, *, is_new: bool) -> Step:
    """Returns what is done with a block.

    :param entry: what the record says of it
    :param target: its translation
    :param is_new: whether a translation of which it says nothing is surely one of the present source
    """
    fresh: Origin = "c" if source.text == NONE else "m"
    if target is None:
        if entry is None or options.restore or options.rebuild:
            return Step("write", fresh)
        return Step("leave", "-", note="" if entry.origin == "-" else DELETED)
    if entry is None or entry.origin == "-":
        if fresh == "c" and source.copied == target.text:
            return Step("keep", "c")
        return Step("keep", "h" if is_new else "o")
    is_edited = target.text != entry.target
    is_same = source.text == entry.source
    if is_same and source.markup == entry.markup:
        if is_edited:
            return Step("keep", "h")
        if entry.origin in options.again:
            return Step("write", fresh)
        is_adopted = options.adopt and entry.origin == "o"
        return Step("keep", "h" if is_adopted else entry.origin)
    if is_edited:
        return Step("keep", "h", note=BOTH)
    if is_same and fresh == "m" and entry.origin != "c":
        return Step("transplant", entry.origin)
    return anew(source, entry)


def anew(source: Item, entry: Entry) -> Step:
    """Returns what is done with a block that has changed, and whose translation no one has edited since."""
    if entry.origin in ("h", "o"):
        return Step("draft", "o", note=OUTDATED)
    return Step("write", "c" if source.text == NONE else "m")


def plan(
    entries: Sequence[Entry] | None,
    source: Sequence[Item],
    target: Sequence[Item],
    options: PlanOptions,
    pair: Pair = lambda *_: (),
) -> Plan:
    """Returns what is done with two files.

    :param entries: the record; ``None``: there is none
    :param pair: finds partners for blocks that the record does not know
    """
    known = list(entries or ())
    before = match([each.source_item for each in known], source)
    there = [number for number, each in enumerate(known) if each.origin != "-"]
    found = match([known[number].target_item for number in there], target)
    partner = {there[old]: new for new, old in found.items()}
    others = {each.number: each for each in reshaped(known, source, target, before, partner)}
    moved = {old for each in others.values() for old in each.old}
    before = {number: old for number, old in before.items() if old not in moved}
    before |= {number: each.old[0] for number, each in others.items() if each.is_first}
    of_source = {number: partner[old] for number, old in before.items() if old in partner}
    rest = partners(source, target, pair, of_source, set(partner.values()))
    sure = {each.source for each in rest if each.is_sure}
    rest = [each for each in rest if (each.is_sure and each.is_marked) or entries is None]
    of_source |= {each.source: each.target for each in rest if each.target is not None}
    joined = {each.source for each in rest if each.target is None}
    named = {(each.kind, each.key) for each in target if each.key}
    steps: list[Step] = []
    for number, item in enumerate(source):
        entry, other = known[before[number]] if number in before else None, of_source.get(number)
        # Without a record nothing says that a pair is of today, but the user.
        is_new = number in sure and (entries is not None or options.adopt)
        decided = decide(item, entry, None if other is None else target[other], options, is_new=is_new)
        if number in joined:
            decided = Step("leave", "-", note=JOINED)
        elif number in others:
            entry = others[number].entry
            decided = Step("write", others[number].origin, said=others[number].said)
        elif other is None and entry is None and (item.kind, item.key) in named:
            decided = Step("leave", "-")  # a key that the source has more often than the target
        is_sure = number in sure or (entry is not None and other is not None)
        steps.append(replace(decided, target=other, entry=entry, is_sure=is_sure))
    for number, around in enumerate(containers(source)):
        if steps[number].action == "write" and any(steps[each].action == "leave" for each in around):
            steps[number] = Step("leave", "-", entry=steps[number].entry, note=DELETED)
    taken, used = set(before.values()), set(of_source.values())
    barred = without_room(source, target, {*range(len(target))} - used)
    removed = {partner[old] for old in moved} - used
    notes = [(number, REPLACED) for number in sorted(barred) if target[number].sentences]
    for old, number in partner.items():
        if old in taken or old in moved or number in used or number in barred:
            continue
        is_edited = known[old].origin in ("h", "o") or target[number].text != known[old].target
        # A value that is no text is not kept for its own sake; a remark may be a part of one that stays.
        is_value = known[old].origin == "c" and not target[number].sentences
        is_kept = is_edited or (options.obsolete == "keep" and not is_value)
        if options.obsolete == "remove" or not is_kept:
            removed.add(number)
        elif target[number].kind not in (*OPENING, "end"):
            notes.append((number, GONE if is_edited else OBSOLETE))
    if len(in_order(found)) < len(found):
        notes.append((0, REORDERED))
    return Plan(
        steps, _arrange(steps, _moved(before, of_source), len(target), barred | emptied(target, removed)), notes
    )


def partners(
    source: Sequence[Item],
    target: Sequence[Item],
    pair: Pair,
    of_source: Mapping[int, int] = MappingProxyType({}),
    taken: Collection[int] = (),
) -> list[Paired]:
    """Returns partners that are not known: by key, else as they are paired between the same neighbours.

    :param of_source: those that are known
    :param taken: what of the target is known
    """
    keyed = {(each.kind, each.key): number for number, each in enumerate(target) if each.key and number not in taken}
    found = [
        Paired(number, keyed.pop((each.kind, each.key)), is_sure=True, is_marked=True)
        for number, each in enumerate(source)
        if number not in of_source and (each.kind, each.key) in keyed
    ]
    matches: Matches = {other: number for number, other in of_source.items()}
    matches |= {each.target: each.source for each in found if each.target is not None}
    for ours, theirs in gaps(matches, len(source), len(target)):
        free = [other for other in theirs if other not in taken and not target[other].key]
        if free:
            found += pair([number for number in ours if not source[number].key], free)
    return found


def _moved(before: Matches, of_source: dict[int, int]) -> set[int]:
    """Returns the blocks of the source that are at another place than they were."""
    known = {number: old for number, old in before.items() if number in of_source}
    return set(known) - {number for number, _ in in_order(known)}


def _arrange(
    steps: Sequence[Step], moved: set[int], count: int, removed: set[int]
) -> list[tuple[int | None, int | None]]:
    """Returns the blocks of the new target in its own order; new and moved ones are behind their predecessor's partner.

    :param count: of blocks of the target
    :param removed: those of them that go
    """
    source_of = {step.target: number for number, step in enumerate(steps) if step.target is not None}
    behind: dict[int, list[int]] = {}
    """What of the target has no source, by the block of the source that it follows; -1: none."""
    stays: list[int] = []
    last = -1
    for number in range(count):
        if number in source_of:
            last = source_of[number]
            stays += [last] if last not in moved else []
        elif number not in removed:
            behind.setdefault(last, []).append(number)
    inserted: dict[int, list[int]] = {}
    owner = -1
    staying = set(stays)
    for number, step in enumerate(steps):
        if number in staying:
            owner = number
        elif step.action != "leave":
            inserted.setdefault(owner, []).append(number)
    order: list[tuple[int | None, int | None]] = []
    for first in [-1, *stays]:
        for number in [first, *inserted.get(first, ())]:
            order += [(number, steps[number].target)] if number >= 0 else []
            order += [(None, other) for other in behind.get(number, ())]
    return order
