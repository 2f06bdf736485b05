"""Strategies by name: ways to decode that are compared with each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from specmt.errors import UsageError
from specmt.options import DecodingOptions

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "greedy": (),
    "speculative": ("block_size",),
    "tolerant": ("beta", "tolerance"),
    "beam": ("beam_size", "length_penalty"),
}
"""What the values without a key stand for, one after the other."""

_TOLERANT: Final[dict[str, Any]] = {"strategy": "speculative", "beta": 3, "tolerance": 1.0}

_KINDS: Final = {
    field.name: str(field.type) for field in fields(DecodingOptions) if field.name not in ("strategy", "scores")
}
_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "bool": {"true": True, "false": False}.__getitem__,
    "bool | None": {"true": True, "false": False}.__getitem__,
    "int": int,
    "int | None": lambda text: None if text == "auto" else int(text),
    "float": float,
    "Path | None": Path,
}


@dataclass(frozen=True)
class Strategy:
    """A way to decode, by the name that it was given."""

    label: str
    options: DecodingOptions


def parse_strategies(text: str, **defaults: Any) -> list[Strategy]:
    """Returns the strategies of a list such as ``greedy,speculative:8,tolerant:3:1,beam:5``.

    Each is a name, then values between colons: the block size of ``speculative``, β and τ of ``tolerant``, beam size
    and length penalty of ``beam``, and ``KEY=VALUE`` for any of the decoding options. It is called as it is written, or
    by what stands before, as in ``LABEL=greedy``.

    :param defaults: decoding options where a strategy does not say otherwise.
    :raises UsageError: one is unknown, has an impossible value, or is named twice.
    """
    strategies = [_parse(each.strip(), defaults) for each in text.split(",")]
    labels = [strategy.label for strategy in strategies]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"`strategies` must differ, but {label!r} is named {labels.count(label)} times.")
    return strategies


def baseline_of(strategies: Sequence[Strategy]) -> Strategy:
    """Returns the strategy that others are compared with: greedy decoding, or else the first."""
    greedy = (each for each in strategies if each.options.strategy == "greedy" and not each.options.samples)
    return next(greedy, strategies[0])


def _parse(text: str, defaults: dict[str, Any]) -> Strategy:
    head, *parts = text.split(":")
    label, _, name = head.rpartition("=")
    label = label or text
    if name not in _NAMES:
        raise UsageError(f"`strategies` must name {', '.join(_NAMES)}, but has {name!r} instead.")
    values = {**defaults, **(_TOLERANT if name == "tolerant" else {"strategy": name})}
    places = iter(_NAMES[name])
    for part in parts:
        key, equals, value = part.partition("=")
        option = key.replace("-", "_") if equals else next(places, None)
        if option not in _KINDS:
            known = ", ".join(key.replace("_", "-") for key in _KINDS)
            raise UsageError(f"strategy {label!r}: {part!r} must be KEY=VALUE, with a key of {known}.")
        kind, value = _KINDS[option], value if equals else part
        try:
            values[option] = _READERS.get(kind, str)(value)
        except (KeyError, ValueError):
            wanted = "true or false" if kind.startswith("bool") else "a number"
            raise UsageError(f"strategy {label!r}: `{option}` must be {wanted}, but is {value!r} instead.") from None
    try:
        return Strategy(label, DecodingOptions(**values))
    except UsageError as error:
        raise UsageError(f"strategy {label!r}: {error}") from error
