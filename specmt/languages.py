"""Codes of languages, in the spelling of whoever writes them."""

from __future__ import annotations

from collections.abc import Collection

from specmt.errors import UsageError


def find_code(code: str, known: Collection[str]) -> str | None:
    """Returns which of the known codes is meant, as ``en`` by ``EN-GB``; ``None`` if it is none of them."""
    wanted, spelt = _plain(code), {_plain(each): each for each in known}
    return spelt.get(wanted) or spelt.get(primary(code))


def primary(code: str) -> str:
    """Returns the language of a code such as ``de-AT``."""
    return _plain(code).partition("-")[0]


def check_pair(source: str | None, target: str | None) -> None:
    """
    :raises UsageError: both languages are the same.
    """
    if source is not None and target is not None and primary(source) == primary(target):
        raise UsageError(f"`to` must be another language than `from`, {source}, but is {target!r} instead.")


def _plain(code: str) -> str:
    return code.strip().replace("_", "-").lower()
