"""What a file is, by its name and by how it begins: lines of text, what its suffix says, or what nobody reads."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from specmt.languages import is_code, primary

HEAD: Final = 1 << 14
"""How many bytes at the beginning of a file say what it is."""

CATALOGUES: Final = frozenset((
    "android", "fluent", "json", "php", "po", "properties", "qt", "resx", "strings", "stringsdict", "xcstrings",
    "xliff", "yaml",
))  # fmt: skip
"""The formats that have an entry a message, in any order, and not pages."""

BILINGUAL: Final = frozenset(("po", "qt", "tmx", "xcstrings", "xliff"))
"""The formats that have a source and its translation in one file."""

_MAGIC: Final = (
    (b"%PDF", "PDF"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"PK\3\4", "a ZIP archive"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"SQLite", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"{\\rtf", "RTF"),
)
_MARKS: Final = (b"\xff\xfe", b"\xfe\xff", b"<\0?\0", b"\0<\0?")
"""How UTF-16 and UTF-32 begin, in which there are zero bytes."""

_KINDS: Final = {
    "dita": "DITA", "ini": "INI", "json": "JSON", "php": "PHP",
    "tbx": "TBX", "tex": "LaTeX", "toml": "TOML", "ts": "TypeScript", "xml": "XML", "yaml": "YAML", "yml": "YAML",
}  # fmt: skip
_PROLOG: Final = re.compile(rb"\xef\xbb\xbf|\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>\[]*(?:\[.*?\]\s*)?>", re.DOTALL)
_ROOT: Final = re.compile(rb"<(?:[\w.-]+:)?([\w.-]+)")
_ROOTS: Final = {b"resources": "android", b"xliff": "xliff", b"tmx": "tmx", b"TS": "qt"}
_CODE: Final = rb"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*"
_LANGUAGES: Final = {
    "asciidoc": (rb"(?m)^:lang:[ \t]+(%b)[ \t]*\r?$", rb"(?!)"),
    "html": (rb"""(?i)<html[^>]*\s(?:xml:)?lang\s*=\s*["']?(%b)["'\s>]""", rb"(?!)"),
    "json": (rb"""\"@@locale"\s*:\s*"(%b)\"""", rb"(?!)"),
    "markdown": (
        rb"\A(?:\xef\xbb\xbf)?(?:---|\+\+\+)[ \t]*\r?\n(?:(?!---|\+\+\+|\.\.\.).*\n)*?"
        rb"""(?:lang|language|locale)[ \t]*[:=][ \t]*["']?(%b)["']?[ \t]*\r?\n""",
        rb"(?!)",
    ),
    "po": (rb'(?:"|\\n)X-Source-Language: *(%b) *\\n', rb'(?:"|\\n)Language: *(%b) *\\n'),
    "qt": (rb"""<TS[^>]*\ssourcelanguage\s*=\s*["'](%b)["']""", rb"""<TS[^>]*\slanguage\s*=\s*["'](%b)["']"""),
    "xcstrings": (rb"""\"sourceLanguage"\s*:\s*"(%b)\"""", rb"(?!)"),
    "subtitles": (rb"\A(?:\xef\xbb\xbf)?WEBVTT.*\n(?:[^\r\n]+\r?\n)*?Language:[ \t]*(%b)[ \t]*\r?\n", rb"(?!)"),
    "yaml": (rb"""(?m)^["']?(%b)["']?:[ \t]*(?:#.*)?\r?$""", rb"(?!)"),
    "tmx": (rb"""\ssrclang\s*=\s*["'](%b)["']""", rb"(?!)"),
    "xliff": (
        rb"""\s(?:source-language|srcLang)\s*=\s*["'](%b)["']""",
        rb"""\s(?:target-language|trgLang)\s*=\s*["'](%b)["']""",
    ),
    "xml": (rb"""\A[^<]*(?:<[?!][^<]*)*<[A-Za-z][^<>]*\sxml:lang\s*=\s*["'](%b)["']""", rb"(?!)"),
}
"""Where documents say the languages that they are in, and are to be translated into."""

_YAML_KEY: Final = rb"""(?m)^["']?([\w.-]+)["']?[ \t]*:(?=\s)(?:[ \t]*(?:#.*)?\r?$)?(.?)"""
_PHP_TEXTS: Final = rb"(?m)^\s*\$(?:string|lang|_|_LANG|txt)\s*(?:\[|\+?=)|^(?:<\?php\s+)?return\s*(?:\[|array\b)"
_PHP_CODE: Final = rb"(?m)^\s*(?:(?:abstract|final)\s+)?(?:class|function|trait|interface)\s"
_SETTINGS: Final = frozenset(("_config", "_quarto", "composer", "docker-compose", "mkdocs", "package", "tsconfig"))
"""Names of files of settings, which a folder that is named as a language may have, too."""

_PLACES: Final = frozenset(("i18n", "intl", "l10n", "lang", "language", "languages", "langs", "locale", "locales"))
"""Names of folders of messages, in which folders that are named as languages have no other files."""

_JSON_KEY: Final = rb"\A(?:\xef\xbb\xbf)?\s*\{\s*\"([^\"\\]{2,20})\"\s*:\s*(\{|\")"


_OF_PROGRAMS: Final = frozenset(["am", "as", "bak", "cs", "el", "la", "mk", "ml", "pl", "ps", "pt", "so", "sv", "ts"])
"""Codes of languages that end the names of other files, too, as ``.cs`` those of C#."""


def is_lines(name: str, language: str | None) -> bool:
    """Whether a name is one of lines of text: without a suffix, or with the code of a language, each with ``.gz``.

    :param language: that is translated from, if that is known
    """
    suffix = PurePath(name.lower().removesuffix(".gz")).suffix[1:]
    if suffix in _OF_PROGRAMS:
        return suffix != "ts" and language is not None and suffix == primary(language)
    return suffix in ("", "txt", "src", "ref", "hyp") or is_code(suffix)


def xml_format(head: bytes) -> str | None:
    """Returns the format of XML whose root element has it alone."""
    head, place = _readable(head), 0
    while ahead := _PROLOG.match(head, place):
        place = ahead.end()
    found = _ROOT.match(head, place)
    return _ROOTS.get(found[1]) if found else None


def _readable(head: bytes) -> bytes:
    """Returns how a file begins in UTF-8, where it is in UTF-16."""
    return head.decode("utf-16", "ignore").encode() if head.startswith(_MARKS[:2]) else head


def kind_of(name: str, head: bytes) -> str:
    """Returns what a file that is not read is called."""
    found = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    if found is None and is_binary(head):
        return "binary data"
    suffix = PurePath(name.lower().removesuffix(".gz")).suffix
    return found or _KINDS.get(suffix[1:], suffix or "no suffix")


def is_binary(head: bytes) -> bool:
    """Whether a file cannot be text."""
    return has_magic(head) or (b"\0" in head and not head.startswith(_MARKS))


def has_magic(head: bytes) -> bool:
    """Whether a file begins as none of text does."""
    return any(head.startswith(magic) for magic, _ in _MAGIC)


def has_messages(path: PurePath, head: bytes, language: str | None) -> bool:
    """Whether JSON, YAML or PHP is messages: its name, its folder or its first key is the code of a language.

    So is a folder around it that is in one of messages, as in ``i18n/de/theme/footer.json``.

    :param language: the only one that counts, if it is known
    """
    stem, folders = path.stem, path.parts[:-1]
    said = [*folders[-1:], *(inner for outer, inner in pairwise(folders) if outer.lower() in _PLACES), stem]
    said += [*re.split(r"[._]", stem)[-1:], *re.findall(r"[._-]([a-z]{2}[-_][A-Z]{2})$", stem)]
    key = re.match(_JSON_KEY, head)
    if key is not None:
        said += [key[1].decode(errors="replace")] if key[2] == b"{" else []
        if key[1] == b"@@locale":
            return True
    elif path.suffix.lower() in (".yml", ".yaml"):
        found = re.findall(_YAML_KEY, head)  # each with what is behind it in its line
        if all(not more and is_code(name.decode()) for name, more in found):
            said += [name.decode() for name, _ in found]
    elif path.suffix.lower() == ".php" and (not re.search(_PHP_TEXTS, head) or re.search(_PHP_CODE, head)):
        return False
    return stem not in _SETTINGS and any(
        is_code(each) and (language is None or primary(each) == primary(language)) for each in said
    )


def said_languages(file_format: str, head: bytes) -> tuple[str | None, str | None]:
    """Returns the languages that a document says it is in, and is to be translated into."""
    head = _readable(head)
    found: list[str | None] = []
    for pattern in _LANGUAGES.get(file_format, ()):
        match = re.search(pattern.replace(b"%b", _CODE), head)
        code = match[1].decode() if match else ""
        found.append(code if is_code(code) else None)
    source, target = found or (None, None)
    # What is in one language alone, as Symfony's catalogue of the source, is yet to be translated into another.
    return source, None if source and target and primary(source) == primary(target) else target
