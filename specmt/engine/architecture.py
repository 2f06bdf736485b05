"""What sets encoder-decoder Transformers apart, as data; this module needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Holds what networks of the same sizes may differ in; the defaults are how our own models are built."""

    norm: Literal["pre", "post"] = "pre"
    """Where layer norms stand: before sublayers, with one more behind each stack; or behind each residual sum."""

    activation: Literal["relu", "swish", "gelu"] = "relu"
    """What stands between the projections of the feed-forward networks; gelu is the exact one."""

    positions: Literal["sinusoidal", "marian"] = "sinusoidal"
    """The rates of the sinusoids: 10000^(−i / (D/2 − 1)), as in fairseq, or 10000^(−2i / D)."""

    first_position: int = 0
    """The position of the first token."""

    copies: int = 1
    """How many copies of a narrower model stand side by side in its dimensions (scripts/widen.py), each with the
    positions of that one."""

    scaled_embedding: bool = True
    """Whether token embeddings are multiplied by √D."""


OURS: Final = Architecture()
