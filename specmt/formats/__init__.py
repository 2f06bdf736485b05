"""Documents to segments and back, one module a format; further ones come through the entry point ``specmt.formats``.

A format is a module with ``read(data, options)``, which returns a :class:`specmt.formats.document.Document` or raises a
:class:`specmt.errors.DataError` whose message begins with the place ("line 3 …"); a further one has ``SUFFIXES``, too,
the ends of the names of its files.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Protocol, cast

from specmt.errors import DataError, UsageError
from specmt.formats.known import has_messages, xml_format

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from specmt.formats.document import Document, FormatOptions

GROUP: Final = "specmt.formats"

_OURS: Final = {
    "android": (".xml",),
    "asciidoc": (".adoc", ".asciidoc"),
    "csv": (".csv", ".tsv"),
    "docx": (".docx",),
    "epub": (".epub",),
    "fluent": (".ftl",),
    "html": (".html", ".htm", ".xhtml"),
    "json": (".json", ".arb"),
    "markdown": (".md", ".markdown", ".mdx", ".qmd"),
    "odt": (".odt",),
    "php": (".php",),
    "po": (".po", ".pot"),
    "pptx": (".pptx",),
    "properties": (".properties",),
    "qt": (".ts",),
    "resx": (".resx",),
    "rst": (".rst", ".rest"),
    "strings": (".strings",),
    "stringsdict": (".stringsdict",),
    "subtitles": (".srt", ".vtt", ".ass", ".ssa"),
    "text": (".txt",),
    "tmx": (".tmx",),
    "xcstrings": (".xcstrings",),
    "xliff": (".xlf", ".xliff"),
    "xlsx": (".xlsx",),
    "xml": (),
    "yaml": (".yml", ".yaml"),
}
"""The formats and their suffixes, so that no module is imported to find out which one is needed."""

_MODULES: Final = {"csv": "table", "json": "messages", "text": "plain", "yaml": "locales"}
"""The modules that are not called as their formats are."""


class Format(Protocol):
    """A module that reads a kind of document."""

    def read(self, data: bytes, options: FormatOptions) -> Document:
        """
        :raises DataError: it is damaged.
        """


def read_document(data: bytes, name: str, file_format: str, options: FormatOptions) -> Document:
    """Reads a document.

    :param name: how messages name it
    :raises DataError: it is damaged, or too large.
    """
    from specmt.formats.document import check_size  # late, as lines need none of it

    try:
        check_size(len(data))
        if file_format == "markdown" and name.lower().removesuffix(".gz").endswith(".mdx"):
            options = replace(options, mdx=True)
        return find_format(file_format).read(data, options)
    except DataError as error:
        raise DataError(f"{name}: {str(error).rstrip('.')}.") from error
    except RecursionError as error:
        raise DataError(f"{name}: is nested too deep.") from error


@cache
def _plug_ins() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # late, for it reads archives and mail headers

    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _OURS}


def names() -> list[str]:
    """Returns the names of all formats."""
    return sorted({*_OURS, *_plug_ins()})


def find_format(name: str) -> Format:
    """Returns the format of a name.

    :raises UsageError: there is none.
    """
    if name in _OURS:
        return cast(Format, import_module(f"{__name__}.{_MODULES.get(name, name)}"))
    if name in _plug_ins():
        return cast(Format, _plug_ins()[name].load())
    raise UsageError(f"`file_format` must be one of {', '.join(names())}, but is {name!r} instead.")


def suffixes(name: str) -> tuple[str, ...]:
    """Returns the ends of the names of the files of a format."""
    return _OURS[name] if name in _OURS else tuple(_plug_ins()[name].load().SUFFIXES)


def format_of(name: str, head: bytes = b"") -> str | None:
    """Returns the name of the format of a file, with or without ``.gz``; ``text`` for ``.txt`` alone.

    :param head: how it begins, which counts more than the suffix of XML, YAML, PHP and .ts; empty: not known
    """
    low = name.lower().removesuffix(".gz")
    if low.endswith((".xml", ".ts")) and head:
        return xml_format(head)
    if low.endswith((".yml", ".yaml", ".php")) and head and not has_messages(PurePath(name[: len(low)]), head, None):
        return None
    ours = next((name for name, ends in _OURS.items() if low.endswith(ends)), None)
    return ours or next((name for name in _plug_ins() if low.endswith(suffixes(name))), None)


_OF_XML: Final = (".xml", ".ts", ".xlf", ".xliff", ".resx", ".tmx", ".stringsdict")


def format_in_folder(path: PurePath, head: bytes, language: str | None) -> str | None:
    """Returns the format of a file that no one named but the folder that it is in.

    Of JSON, YAML and PHP these are files of messages, lest settings of programs be translated; XML without anything in
    it is of no format.

    :param path: with the names of the folders around it
    :param language: that is translated from, if that is known
    """
    known = format_of(str(path), head)
    if not head and path.name.lower().endswith(_OF_XML):
        return None
    if (
        known in ("json", "php", "yaml")
        and not path.name.lower().endswith(".arb")
        and not has_messages(path, head, language)
    ):
        return None
    return known


def all_suffixes() -> list[str]:
    """Returns the ends of the names of the documents that are read."""
    return sorted({suffix for name in names() for suffix in suffixes(name)})
