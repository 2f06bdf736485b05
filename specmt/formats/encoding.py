"""Bytes of a document to text and back, to the same bytes."""

from __future__ import annotations

import codecs
import html
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from specmt.errors import DataError

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
ENTITY: Final = re.compile(r"&(?:[A-Za-z]\w{1,30}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_A_TAG: Final = re.compile(r"<[^<>]*>")
_MANY_DIGITS: Final = re.compile(r"&#\d{9,};?")
_XML: Final = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the characters of a document are written as bytes."""

    codec: str
    mark: bytes = b""
    """The byte order mark that it starts with."""

    def can_encode(self, text: str) -> bool:
        """Whether the encoding has all characters of a text."""
        try:
            text.encode(self.codec)
        except UnicodeEncodeError:
            return False
        return True

    def encode(self, text: str) -> bytes:
        """Returns a text as bytes, with the byte order mark."""
        return self.mark + text.encode(self.codec)


def decode(data: bytes, declared: str = "utf-8", *, fallback: str | None = None) -> tuple[str, Encoding]:
    """Returns the text of a document and its encoding; a byte order mark says more than what is declared.

    :param fallback: the encoding of what cannot be read as declared
    :raises DataError: the bytes are not of that encoding, or it would not give the same bytes again.
    """
    mark, codec = next(((mark, codec) for mark, codec in _MARKS if data.startswith(mark)), (b"", declared))
    body = data[len(mark) :]
    try:
        encoding = Encoding(codecs.lookup(codec).name, mark)
        text = body.decode(encoding.codec)
        # Codecs that are no character encodings, as zlib, give bytes.
        if not isinstance(text, str) or encoding.encode(text) != data:
            raise DataError(f"line 1 is in the encoding {codec}, which does not give the same bytes again")
    except LookupError as error:
        raise DataError(f"line 1 declares the encoding {codec!r}, which is unknown") from error
    except UnicodeDecodeError as error:
        if fallback is not None:
            return decode(data, fallback)
        line = body.count(b"\n", 0, error.start) + 1
        raise DataError(f"line {line} is not valid {codec} at byte offset {len(mark) + error.start}") from error
    except UnicodeError as error:
        raise DataError(f"line 1 is not valid {codec} ({error})") from error
    return text, encoding


def decode_xml(data: bytes) -> tuple[str, Encoding]:
    """Returns the text of an XML document, in the encoding that its declaration says.

    :raises DataError: the bytes are not of that encoding.
    """
    if data[:4] in (b"<\0?\0", b"\0<\0?"):
        return decode(data, "utf-16-le" if data[0] else "utf-16-be")
    found = _XML.match(data)
    return decode(data, "utf-8" if found is None else found[1].decode("ascii"))


def unescape(raw: str) -> str:
    """Returns what raw text of HTML means; Python reads no number of thousands of digits, which is no character."""
    return html.unescape(_MANY_DIGITS.sub("\ufffd", raw))


def spellings(text: str, start: int, end: int, others: str = "<>&") -> dict[int, str]:
    """Returns how characters are written that a text mostly writes as entities, but for some others."""
    found = Counter(ENTITY.findall(text, start, end))
    said = ENTITY.sub("", _A_TAG.sub("", text[start:end])) if found else ""
    chars = {spelling: unescape(spelling) for spelling in found}
    counts = Counter(chars[spelling] for spelling in found.elements())
    return {0xA0: "&nbsp;"} | {
        ord(chars[spelling]): spelling
        for spelling, _ in reversed(found.most_common())
        if len(chars[spelling]) == 1
        and chars[spelling] not in f"{others}\t\r\n "
        and said.count(chars[spelling]) < counts[chars[spelling]]
    }
