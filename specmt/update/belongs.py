"""Whether a record, or a translation without one, belongs to a source."""

from __future__ import annotations

from typing import Final

from specmt.errors import DataError
from specmt.formats.document import FormatOptions
from specmt.formats.known import BILINGUAL, HEAD, said_languages
from specmt.languages import primary
from specmt.text.identify import are_swapped
from specmt.update.pairing import SURE
from specmt.update.plan import Plan
from specmt.update.record import NONE, Record
from specmt.update.sides import Side
from specmt.update.store import Files

_FEWEST: Final = 4
"""So many blocks must be there for a file to be none of those that a record or another file belongs to."""

_FEW: Final = 0.25
"""The share of blocks that other files may have, too: a heading, the header of a catalogue, a licence."""

_MOST: Final = 10_000
"""The most characters of a text by which its language is found out."""


def check_record(files: Files, known: Record, formats: FormatOptions, source: Side, target: Side) -> None:
    """
    :raises DataError: a record is of other files, or source and target are swapped.
    """
    languages = known.source_language, known.target_language
    if (known.file_format, *languages) != (files.file_format, formats.source, formats.target):
        raise DataError(
            f"{files.record}: is the record of {known.file_format}, {languages[0]} to {languages[1]}, not of "
            f"{files.file_format}, {formats.source} to {formats.target}."
        )
    texts = [each for each in known.entries if each.source != NONE]
    ours, theirs = ({each.text for each in side.items} for side in (source, target))
    said = {sentence for each in source.items for sentence in each.sentences}
    kept = sum(each.source in ours or each.target in theirs or not said.isdisjoint(each.sentences) for each in texts)
    crossed = sum(not said.isdisjoint(sentence[:8] for sentence in each.translated) for each in texts)
    if crossed > kept and (len(texts) >= _FEWEST or not kept):
        raise DataError(f"{files.name}: source and target are swapped.")
    if len(texts) >= _FEWEST and kept < _FEW * len(texts):
        raise DataError(f"{files.record}: is the record of other files.")


def check_recognized(files: Files, known: Record, made: Plan, target: Side) -> None:
    """
    :raises DataError: next to nothing that a translation had is in it any more, but something else.
    """
    there = {each.target for each in known.entries if each.origin != "-" and each.source != NONE}
    keys = {(each.kind, each.key) for each in known.entries if each.key}
    items = [each for each in target.items if each.text != NONE]
    found = sum(each.text in there or (each.kind, each.key) in keys for each in items)
    matched = sum(step.target is not None and bool(step.entry and step.entry.source != NONE) for step in made.steps)
    if len(there) >= _FEWEST and found <= _FEW * min(len(items), len(there)) and matched < SURE * len(there):
        raise DataError(
            f"{files.name}: has nothing of the translation that was there. If {files.record} is removed, blocks are "
            f"found by their order; if both are, all is made anew."
        )


def check_translated(files: Files, formats: FormatOptions, source: Side, target: Side) -> None:
    """
    :raises DataError: of two catalogues, the source has the translations, as it says itself, and the target has none.
    """
    said = said_languages(files.file_format, source.data[:HEAD])[1]
    if (
        files.file_format in BILINGUAL
        and said is not None
        and primary(said) == primary(formats.target)
        and any(each.target for each in source.document.segments)
        and not any(each.target for each in target.document.segments)
    ):
        raise DataError(f"{files.name}: source and target are swapped: {files.source} has the translations.")


def check_languages(files: Files, formats: FormatOptions, source: Side, target: Side) -> None:
    """
    :raises DataError: files without a record are surely swapped.
    """
    languages = primary(formats.source), primary(formats.target)
    one, other = (" ".join(text for each in side.contents for text in each.texts)[:_MOST] for side in (source, target))
    if files.file_format not in BILINGUAL and are_swapped(one, other, languages):
        raise DataError(
            f"{files.name}: source and target are swapped: {files.source} is in {formats.target!r} already, and this "
            f"in {formats.source!r}."
        )


def check_pairs(files: Files, made: Plan, source: Side) -> None:
    """
    :raises DataError: too few blocks of files without a record are surely translations of each other.
    """
    asked = [number for number, each in enumerate(source.items) if each.text != NONE and not each.key]
    sure = sum(made.steps[number].is_sure for number in asked)
    if len(asked) >= _FEWEST and sure < SURE * len(asked):
        raise DataError(
            f"{files.name}: is not surely a translation of {files.source}: {sure} of {len(asked)} blocks are. `--was` "
            f"names the source that it was made of."
        )
