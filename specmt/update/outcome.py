"""What comes of the steps of an update: the new translation in pieces, the lines of its record, and what is said."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from specmt.documents import Remark
from specmt.formats.upkeep import obsolete, refreshed
from specmt.update.parts import MACHINE
from specmt.update.plan import GONE, OBSOLETE, Plan, Step
from specmt.update.record import NONE, Entry, Item, Origin
from specmt.update.sides import Side


@dataclass(slots=True)
class Counts:
    """What was done with the blocks of a source."""

    blocks: int = 0
    translated: int = 0
    """Those with texts."""
    asked: int = 0
    """Segments that were translated, drafts among them."""
    outdated: int = 0
    deleted: int = 0
    removed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Counts)))


def remarks(source: Side, target: Side | None, plan: Plan, drafts: Mapping[int, str]) -> Iterator[Remark]:
    """Yields what is said of blocks.

    :param drafts: what the machine makes of segments of the source
    """
    for number, step in enumerate(plan.steps):
        if step.note:
            made = [drafts[each] for each in source.blocks[number].segments if each in drafts]
            draft = f"; draft: {' '.join(made)}" if step.action == "draft" and made else ""
            side, place = (source, number) if step.target is None or target is None else (target, step.target)
            yield Remark(side.line(place), source.blocks[number].key, f"{step.note}{draft}")
    for place, note in plan.notes:
        assert target is not None
        yield Remark(target.line(place), target.blocks[place].key, note)


def arranged(
    source: Side, target: Side, plan: Plan, written: Sequence[str], exchanged: Mapping[int, str], file_format: str
) -> tuple[list[tuple[int | None, int | None]], list[int | str]]:
    """Returns the blocks of the new target in their order, and what each is: one of the present target, or a text.

    :param written: the blocks of the source, translated
    :param exchanged: blocks of which a part is written otherwise, by their numbers in the source
    """
    gone = {place for place, note in plan.notes if file_format == "po" and note in (GONE, OBSOLETE)}
    # Entries that are not used any more are at the end.
    places = range(len(target.blocks)) if file_format == "po" else ()
    last = gone | {place for place in places if target.text(place).lstrip().startswith("#~")}
    order = sorted(plan.order, key=lambda each: each[1] in last)
    pieces: list[int | str] = []
    for number, other in order:
        action = "keep" if number is None else plan.steps[number].action
        if number is not None and action == "write":
            pieces.append(written[number])
        elif number is not None and action == "exchange":
            pieces.append(exchanged[number])
        else:
            assert other is not None
            made = text = target.text(other)
            if other in gone:
                made = obsolete(text)
            elif number is not None and (source.blocks[number].segments or source.blocks[number].key):
                made = refreshed(file_format, text, source.text(number), is_outdated=action == "draft")
            pieces.append(other if made == text else made)
    return order, pieces


def entry_of(
    item: Item, step: Step, target: Item | None, fresh: Collection[str] = (), *, is_left: bool = False
) -> Entry:
    """Returns the line of a record for a block of the source.

    :param fresh: the hashes of sentences that were put into what people wrote
    :param is_left: whether its translation could not be written
    """
    if target is None:
        return Entry(item.kind, item.key, item.text, item.markup, NONE, "-", item.sentences, (), item.first)
    origin: Origin = "!" if is_left and step.action == "write" else step.origin
    translated = target.sentences
    if origin == "c":
        translated = ()
    elif origin in ("h", "o"):
        machine = {each for each in (() if step.entry is None else step.entry.translated) if len(each) == MACHINE}
        machine.update(fresh)
        translated = tuple(each if each in machine else f"{each}h" for each in translated)
    said = item.text, item.markup, target.text, origin, item.sentences, translated, item.first
    return Entry(item.kind, item.key, *said)
