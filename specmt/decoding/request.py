"""What a session is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.decoding.memory import TranslationMemory
    from specmt.decoding.trace import Recorder


@dataclass(frozen=True)
class Request:
    """A sentence to decode."""

    key: int
    """What the caller knows it by."""

    source: list[int]
    """Source ids, without EOS."""

    line: int = 0
    part: int = 0
    """The line of the input that it comes from, and which of its sentences it is: its random numbers depend on them."""

    options: DecodingOptions = field(default_factory=DecodingOptions)
    """How to decode it; requests with equal options are decoded side by side."""

    memory: TranslationMemory | None = None
    """What lookups copy from; what they lead to is added."""

    recorder: Recorder | None = None
    """Notes every verifier call."""
