"""Values of settings and messages that programs read: no text."""

from __future__ import annotations

import re
from typing import Final

_PATTERN: Final = re.compile(r"(?:%[-_0^#]?[A-Za-z]|[^%\w])*")
"""A pattern of numbers, dates or times."""

_NO_TEXT: Final = re.compile(
    r":[a-z_]\w*|(?:\w+:/)?/\S*|[\w.+-]+@[\w.-]+|#\w+|[a-z0-9-]+(?:[._][a-z0-9-]+)+|(?:[\w.-]+/)+[\w-]+\.\w+"
)
"""Symbols, addresses, identifiers, files."""

_PLACEHOLDER: Final = re.compile(r"%?\{\{?[^{}]*\}?\}|%\w+%")


def is_code(said: str) -> bool:
    """Whether there are no words in a value but those that programs read."""
    has_letters = any(map(str.isalpha, _PLACEHOLDER.sub("", said)))
    return not has_letters or bool(_PATTERN.fullmatch(said) or _NO_TEXT.fullmatch(said))
