"""Test sets: lines to translate, and what they should come to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specmt.errors import DataError, InputNotFoundError, UsageError
from specmt.text.lines import read_lines
from specmt.types import Line


@dataclass(frozen=True)
class EvaluationSet:
    """Lines with one or more references each."""

    name: str
    lines: list[Line]
    references: list[list[str]]
    """For each reference file, a reference a line."""


@dataclass(frozen=True)
class SetFiles:
    """A test set that is still to be read."""

    name: str
    source: Path
    references: Sequence[Path]


def parse_set(text: str) -> SetFiles:
    """Returns the files of ``[NAME=]SOURCE:REFERENCE[:REFERENCE…]``.

    :raises UsageError: it is none.
    """
    match = re.fullmatch(r"(?:([^=:/]+)=)?([^:]+)((?::[^:]+)+)", text)
    if match is None:
        raise UsageError(f"`set` must be [NAME=]SRC:REF[:REF…], but is {text!r} instead.")
    source, references = Path(match[2]), match[3][1:].split(":")
    return SetFiles(match[1] or name_of(source), source, [Path(reference) for reference in references])


def named_set(name: str, pair: str) -> SetFiles:
    """Returns the files of a test set that sacreBLEU knows; it downloads those that are not there.

    :param pair: the languages, as in ``de-en``.
    :raises UsageError: sacreBLEU does not know it.
    :raises InputNotFoundError: it cannot be downloaded.
    """
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import get_reference_files, get_source_file

    if name not in DATASETS:
        raise UsageError(f"`test-set` must be one of `sacrebleu --list`, but is {name!r} instead.")
    known = DATASETS[name].langpairs
    if pair not in known:
        raise UsageError(f"`language-pair` must be one of {', '.join(known)} for {name}, but is {pair!r} instead.")
    try:
        source, references = get_source_file(name, pair), get_reference_files(name, pair)
    except (Exception, SystemExit) as error:  # sacreBLEU raises what it meets, and exits where a checksum differs
        raise InputNotFoundError(f"{name}: is not on this machine, and sacreBLEU cannot get it ({error}).") from error
    return SetFiles(f"{name}.{pair}", Path(source), [Path(reference) for reference in references])


def read_set(files: SetFiles, limit: int | None = None) -> EvaluationSet:
    """Reads a test set by the line contract.

    :param limit: how many lines to keep, the first ones.
    :raises InputNotFoundError: a file cannot be read.
    :raises DataError: a file is empty or not UTF-8, or has more or fewer lines than the source.
    """
    lines, *references = (_read(path) for path in (files.source, *files.references))
    for path, texts in zip(files.references, references, strict=True):
        if len(texts) != len(lines):
            raise DataError(f"{path}: must have {len(lines)} lines, as {files.source} has, but has {len(texts)}.")
    return EvaluationSet(files.name, lines[:limit], [[line.text for line in texts[:limit]] for texts in references])


def name_of(source: Path) -> str:
    """Returns the name of a test set whose source is this file: without language and compression."""
    return Path(source.name.removesuffix(".gz")).stem


def _read(path: Path) -> list[Line]:
    lines = list(read_lines(path))
    if not lines:
        raise DataError(f"{path}: is empty.")
    return lines
