"""Documents that are made of blocks, old and new."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Literal

from specmt.formats.blocks import AROUND, ITEM, PROSE, Block, opens, text_of
from specmt.formats.commonmark import HEADER
from specmt.formats.document import Document
from specmt.formats.outline import TAGGED, XML

_OPENS: Final = re.compile(r"[{\[(,;]\s*\Z|^[ \t]*(?:/?\*.*)?\*/\Z|<\?php\s*\Z|\A\s*\Z", re.MULTILINE)
_REMARK: Final = re.compile(r"[ \t]*(?:(?<!:)//|#)(?![^\n]*\*/)[^\n\"']*\Z")
_CLOSES: Final = re.compile(r"\s*[}\])]")
_FRONT_LINE: Final = re.compile(r"---[ \t]*\r?$|[\w-]+:(?:\s|$)", re.MULTILINE)

_HEADED: Final = re.compile(r"\n[ \t>]*\|[ \t]*:?-")
"""What is below the heading of a table."""

_QUOTE: Final = re.compile(r"[ \t>]*>(?![ \t]*(?:>|\[!))[ \t]?")
"""What is in front of a text in a quotation that goes on."""

_IN_QUOTE: Final = re.compile(r"[ \t>]*>[ \t]*(?:\[![^\[\]\n]*\][^\n]*)?")
"""A line of a quotation that is empty, or begins an alert of GitHub or a callout."""

_ENDS: Final = {"elements": (">", ";", "*/"), "php": (",", ";", "[", "(", "*/")}
"""What needs no line break behind it."""

_BEGINS: Final = {"elements": re.compile(r"\s*<"), "php": _CLOSES, "json": re.compile("")}
"""What needs none before it."""


def splice(document: Document, blocks: Sequence[Block], pieces: Sequence[int | str], file_format: str) -> bytes:
    """Returns a document that is made of blocks of its own, kept byte for byte, and of new ones.

    What must stand between two that were not neighbours is put there: blank lines, commas.
    """
    inner = text_of(document)
    assert inner is not None
    ending = "\r\n" if inner.text.count("\r\n") > inner.text.count("\n") / 2 else "\n"
    kind = _kind(inner.text, file_format)
    made: list[str] = []
    before: int | str | None = None
    # What comes after each, of its own: where that is the next one, the piece was put between both.
    behind = [
        *accumulate(reversed(pieces), lambda last, each: each if isinstance(each, int) else last, initial=len(blocks))
    ]
    for piece, later in zip(pieces, behind[-2::-1], strict=True):
        text = inner.text[blocks[piece].start : blocks[piece].end] if isinstance(piece, int) else piece
        if not text:
            continue
        if isinstance(piece, str):
            text = re.sub(r"\r?\n", ending, text)
        if made and not (isinstance(before, int) and piece == before + 1):
            is_between = isinstance(before, int) and later == before + 1
            is_next = file_format == "markdown" and is_between and _is_next(made, text)
            made[-1] = (
                made[-1].rstrip("\r\n") + ending
                if is_next
                else _joined(made[-1], text, ending, kind, is_own=isinstance(before, int))
            )
        made.append(text)
        before = piece
    if made and before != len(blocks) - 1:
        tail = inner.text[len(inner.text.rstrip("\r\n")) :]
        made[-1] = made[-1].rstrip("\r\n") + tail
    return inner.encoding.encode("".join(made))


def _kind(text: str, file_format: str) -> Literal["prose", "json", "php", "elements", "lines"]:
    """Returns what a document is made of, as far as it matters between blocks."""
    if file_format in PROSE:
        return "prose"
    if re.match(r"\s*[{\[]", text):
        return "json"
    if text.startswith("<?php"):
        return "php"
    return "elements" if file_format in XML | TAGGED or file_format == "strings" else "lines"


def _joined(text: str, after: str, ending: str, kind: str, *, is_own: bool) -> str:
    """Returns a block as it stands before another one that was not behind it.

    :param is_own: whether it was in the document, where it may have been the last of a quotation that goes on now
    """
    body = text.rstrip("\r\n")
    is_over = body.rstrip().endswith(_ENDS.get(kind, ())) or (kind in _BEGINS and _BEGINS[kind].match(after))
    gap = text[len(body) :] or ("" if is_over else ending)
    if kind in ("json", "php") and body.strip():
        code = _REMARK.sub("", body)
        if _CLOSES.match(after):
            body = code.removesuffix(",") + body[len(code) :] if kind == "json" else body
        elif not _OPENS.search(code):
            body = f"{code},{body[len(code) :]}"
    quote = _QUOTE.match(after) if is_own and kind == "prose" else None
    if quote is not None and body.rpartition("\n")[2].startswith(quote[0]):
        gap = ending if _are_items(text, after) or _is_inner(text, after) else f"{ending}{quote[0].rstrip()}{ending}"
    elif kind == "prose" and gap.count("\n") < 2 and not _is_inner(text, after):
        gap = ending * 2
    return body + gap


def _is_next(made: Sequence[str], after: str) -> bool:
    """Whether a block of Markdown is another row of the table before it, or item of a list without blank lines."""
    is_loose = len(made) > 1 and ITEM.match(made[-2]) and made[-2].endswith(("\n\n", "\n\r\n"))
    return _are_items(made[-1], after) and not is_loose


def _are_items(text: str, after: str) -> bool:
    """Whether blocks are items of a list, rows of a table, or notes."""
    one, other = ITEM.match(text), ITEM.match(after)
    alike = [("[^" in each[0], each[0][-1] == "|", each[0].count(">")) for each in (one, other) if each is not None]
    return len(alike) == 2 and alike[0] == alike[1] and _HEADED.search(after) is None


def _is_inner(text: str, after: str) -> bool:
    """Whether no blank line is to be put between blocks of prose."""
    last = text.rstrip("\r\n").rpartition("\n")[2]
    return bool(
        not (text.strip() and after.strip())
        or _are_items(text, after)
        or (_FRONT_LINE.match(text) and _FRONT_LINE.match(after))
        or AROUND.match(after)
        or AROUND.match(last)
        or HEADER.fullmatch(last.strip())
        or _IN_QUOTE.fullmatch(last)
        or opens(last)
        or opens(after) is False
    )
