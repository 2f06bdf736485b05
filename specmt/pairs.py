"""Pairs of a text and its translation, from translation memories and from translated documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import specmt
from specmt.formats import format_of, read_document
from specmt.formats.document import MAX_BYTES, FormatOptions
from specmt.formats.markup import quoted, xml_escape
from specmt.text.lines import open_input, reading
from specmt.text.memory import Pair, read_memory

_BILINGUAL: Final = ("po", "qt", "xcstrings", "xliff")
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def read_pairs(path: Path, source: str, target: str, *, unsure: bool = False) -> Iterator[Pair]:
    """Yields the pairs of a translation memory, TSV or TMX, or of a translated PO, XLIFF, TS or xcstrings file.

    :param unsure: whether those are among them, too, that are marked to be reviewed, were suggested, or are of what a
        text was before a change
    :raises InputNotFoundError: the file cannot be opened, at once, or read.
    :raises DataError: the file is not what it should be; while iterating.
    """
    file_format = format_of(path.name)
    if file_format not in _BILINGUAL:
        return read_memory(path, source, target)
    options = FormatOptions(source=source, target=target)
    return _read(path, file_format, options, open_input(path), unsure=unsure)


def _read(path: Path, file_format: str, options: FormatOptions, stream: BinaryIO, *, unsure: bool) -> Iterator[Pair]:
    with reading(stream, str(path)):
        data = stream.read(MAX_BYTES + 1)
    for segment in read_document(data, str(path), file_format, options).segments:
        if segment.target and (segment.state == "translated" or unsure):
            yield segment.source.text, segment.target
        if unsure:
            yield from segment.near


def write_tmx(pairs: Iterable[Pair], source: str, target: str) -> Iterator[str]:
    """Yields a translation memory in TMX 1.4; pairs that come again are left out, and those that XML cannot hold."""
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="specmt" creationtoolversion="{specmt.__version__}" segtype="block" o-tmf="specmt" '
        f'adminlang="en" srclang={quoted(source)} datatype="plaintext"/>\n<body>\n'
    )
    seen: set[Pair] = set()
    for pair in pairs:
        if pair in seen or any(_NO_XML.search(text) for text in pair):
            continue
        seen.add(pair)
        sides = "".join(
            f"<tuv xml:lang={quoted(language)}><seg>{xml_escape(text)}</seg></tuv>"
            for language, text in zip((source, target), pair, strict=True)
        )
        yield f"<tu>{sides}</tu>\n"
    yield "</body>\n</tmx>\n"
