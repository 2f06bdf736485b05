"""Configurations of the verifier and of the drafters, checked field by field; needs neither torch nor fairseq2.

What checks or reads a value raises `UsageError` where it is none, or `TypeError` where a record has other fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import pairwise
from reprlib import repr as shortened
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from specmt.engine.architecture import POSITIONS, Architecture
from specmt.engine.protocols import Kind
from specmt.errors import UsageError
from specmt.options import AlignmentHeads, Calibration
from specmt.text.confidence import FEATURES, Confidence

LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "model_dim": (1, 1 << 16),
    "num_heads": (1, 1 << 10),
    "ffn_dim": (1, 1 << 20),
    "encoder_layers": (1, 1000),
    "decoder_layers": (1, 1000),
    "layers": (1, 1000),
    "vocab_size": (1, 1 << 24),
    "source_vocab_size": (1, 1 << 24),
    "max_length": (1, 1 << 16),
    "first_position": (0, 1 << 16),
    "block_size": (1, 1000),
    "correction_rank": (16, 1 << 16),
}
"""The least and the most that a size may be, far above any real model: a configuration may be a stranger's. Prefixes
are shorter than the positions."""

MOST_NAME: Final = 255
"""The most bytes of the name of a file, and characters of that of a language."""

Config = TypeVar("Config", bound="NetworkConfig")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Architecture):
    """Holds what the configurations of verifier and drafters have in common."""

    model_dim: int = 256
    """The width D of the residual stream."""

    num_heads: int = 4
    """The number of attention heads H."""

    ffn_dim: int = 1024
    """The inner width of the feed-forward networks."""

    vocab_size: int = 8000
    """The number of target pieces V."""

    max_length: int = 512
    """The number of positions, in source and in target."""

    dropout: float = 0.0
    """The dropout probability on the outputs of sublayers, in training."""

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, kw_only=True)
class VerifierConfig(NetworkConfig):
    """Holds the configuration of a verifier, an encoder-decoder Transformer."""

    encoder_layers: int = 6
    """The number of encoder layers."""

    decoder_layers: int = 6
    """The number of decoder layers."""

    source_vocab_size: int | None = None
    """The number of source pieces; ``None`` where pieces and their embeddings are shared by both languages."""

    output_bias: bool = False
    """Whether the projection to the vocabulary has a bias."""

    tied_output: bool = True
    """Whether the projection to the vocabulary is the target's embedding table."""

    source_prefix: tuple[int, ...] = ()
    """Ids that stand before every source."""

    target_prefix: tuple[int, ...] = ()
    """Ids that stand after BOS before anything is decoded; they are no part of a translation."""

    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("source_prefix", "target_prefix"):
            value = getattr(self, name)
            if isinstance(value, list):  # as JSON has it
                object.__setattr__(self, name, tuple(value))
        super().__post_init__()
        _check_prefix("source_prefix", self.source_prefix, self.source_pieces, self.max_length // 2 - 1)
        _check_prefix("target_prefix", self.target_prefix, self.vocab_size, self.max_length - 1)

    @property
    def source_pieces(self) -> int:
        """The number of source pieces."""
        return self.vocab_size if self.source_vocab_size is None else self.source_vocab_size


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(NetworkConfig):
    """Holds the configuration of an autoregressive drafter, a shallow decoder over the encoder output."""

    layers: int = 1
    """The number of decoder layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoder != "attention":
            raise UsageError(f"`decoder` of a drafter must be attention, but is {self.decoder} instead.")


@dataclass(frozen=True, kw_only=True)
class DrafterConfig(DecoderConfig):
    """Holds the configuration of a masked drafter, which has more than its decoder."""

    layers: int = 2
    """The number of decoder layers."""

    block_size: int = 12
    """The number of [MASK] slots K: those that it is trained with, and in a finished model those that pay best."""

    correction_rank: int = 128
    """The width R of the correction's state, a multiple of 16."""

    own_table: bool = True
    """Whether it has an embedding table of its own, and not the verifier's target table as it is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.correction_rank % 16 != 0:
            raise UsageError(f"`correction_rank` must be a multiple of 16, but is {self.correction_rank} instead.")


@dataclass(frozen=True, kw_only=True)
class ShortlistConfig:
    """Holds how a shortlist was learnt, and what it was worth on sentences that it was not learnt from."""

    frequent: int
    """The number of the most frequent target pieces, which a sentence may always use."""

    associated: int
    """The most target pieces that a source piece allows besides."""

    sentences: int
    """The number of sentences that it was learnt from; 0 where it was imported, and nothing was measured."""

    recall: float | None
    """The share of the verifier's own greedy tokens that are allowed."""

    whole: float | None
    """The share of sentences all of whose tokens are, so that their translation stays the same."""

    allowed: float | None
    """The mean number of target pieces that are allowed for a sentence."""

    def __post_init__(self) -> None:
        for name in ("frequent", "associated", "sentences"):
            check_whole(name, getattr(self, name), 0, 1 << 40)
        for name, most in (("recall", 1.0), ("whole", 1.0), ("allowed", float(LIMITS["vocab_size"][1]))):
            if self.sentences or getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0.0, most)


ARCHS: Final[Mapping[str, Mapping[str, int]]] = {
    "small": {},
    "base": {"model_dim": 512, "num_heads": 8, "ffn_dim": 2048},
}
"""What differs from the defaults in named configurations, of drafters too."""

LARGE: Final = 100_000
"""From how many pieces on a drafter uses its verifier's table."""

SHARED: Final = ("model_dim", "num_heads", "vocab_size", "max_length")
"""What a drafter has in common with its verifier."""


def verifier_config(arch: str, **changes: int | float) -> VerifierConfig:
    """Returns a named verifier configuration with fields replaced."""
    if arch not in ARCHS:
        raise UsageError(f"`arch` must be one of {', '.join(ARCHS)}, but is {arch!r} instead.")
    return VerifierConfig(**{**ARCHS[arch], **changes})  # type: ignore[arg-type]


def drafter_config_for(verifier: VerifierConfig, **changes: int | float) -> DrafterConfig:
    """Returns the configuration of a masked drafter that fits a verifier, with fields replaced.

    A large table stays the verifier's: it would be most of the drafter, to train and to store.
    """
    own_table = verifier.vocab_size < LARGE or not verifier.tied_output
    return replace(DrafterConfig(**_shared(verifier), own_table=own_table), **changes)  # type: ignore[arg-type]


def autoregressive_config_for(verifier: VerifierConfig, **changes: int | float) -> DecoderConfig:
    """Returns the configuration of an autoregressive drafter that fits a verifier, with fields replaced."""
    return replace(DecoderConfig(**_shared(verifier)), **changes)  # type: ignore[arg-type]


def _shared(verifier: VerifierConfig) -> dict[str, Any]:
    # The architecture too: a drafter starts from layers of its verifier. Slots attend to each other.
    names = (*SHARED, "ffn_dim", *(field.name for field in fields(Architecture)))
    return {name: getattr(verifier, name) for name in names} | {"decoder": "attention"}


def read_network(kind: type[Config], record: Mapping[str, Any]) -> Config:
    """Returns the configuration of a network from that of a folder, which may have `copies`, of which there is one."""
    values = dict(**record)
    copies = values.pop("copies", 1)
    if type(copies) is not int or copies != 1:
        raise UsageError(f"`copies` must be 1, but is {shortened(copies)} instead.")
    return kind(**values)


def check_fit(drafter: DecoderConfig, verifier: VerifierConfig, *, kind: str = "drafter") -> None:
    """Checks that a drafter can draft for a verifier.

    :param kind: what to call it in an error
    """
    for name in SHARED:
        wanted, actual = getattr(verifier, name), getattr(drafter, name)
        if actual != wanted:
            raise UsageError(f"The {kind}'s `{name}` must be the verifier's, {wanted}, but is {actual} instead.")


_types: Final = cache(get_type_hints)


def _check(config: NetworkConfig) -> None:
    own: type = type(config)
    for name, kind in _types(own).items():
        value = getattr(config, name)
        if kind is bool:
            check_bool(name, value)
        if name in LIMITS and (value is not None or kind is int):
            check_whole(name, value, *LIMITS[name])
        if get_origin(kind) is Literal:
            check_choice(name, value, get_args(kind))
    check_choice("positions", config.positions, [*POSITIONS])
    check_number("norm_epsilon", config.norm_epsilon, 1e-12, 1.0)
    unit = 2 * config.num_heads
    if config.model_dim % unit != 0:
        raise UsageError(
            f"`model_dim` must be a multiple of 2 × `num_heads`, {unit}, but is {config.model_dim} instead."
        )
    if not (isinstance(config.dropout, int | float) and 0.0 <= config.dropout < 1.0):
        raise UsageError(f"`dropout` must be at least 0 and less than 1, but is {shortened(config.dropout)} instead.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Returns what a configuration has of several words."""
    if value not in choices:
        raise UsageError(f"`{name}` must be one of {', '.join(choices)}, but is {shortened(value)} instead.")
    return str(value)


def _check_prefix(name: str, ids: tuple[int, ...], pieces: int, room: int) -> None:
    if not (isinstance(ids, tuple) and all(type(token) is int and 0 <= token < pieces for token in ids)):
        shown = shortened(list(ids) if isinstance(ids, tuple) else ids)
        raise UsageError(f"`{name}` must be a list of ids of at least 0 and under {pieces}, but is {shown} instead.")
    if len(ids) >= room:
        raise UsageError(f"`{name}` must have fewer than {room} ids, but has {len(ids)} instead.")


def check_whole(name: str, value: object, least: int, most: int) -> int:
    """Returns a whole number of a configuration."""
    if type(value) is not int or not least <= value <= most:
        raise UsageError(
            f"`{name}` must be a whole number from {least} to {most:,}, but is {shortened(value)} instead."
        )
    return value


def check_bool(name: str, value: object) -> bool:
    """Returns a truth value of a configuration."""
    if not isinstance(value, bool):
        raise UsageError(f"`{name}` must be true or false, but is {shortened(value)} instead.")
    return value


def check_number(name: str, value: object, least: float, most: float) -> float:
    """Returns a number of a configuration."""
    if not (isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most):
        raise UsageError(f"`{name}` must be a number from {least:g} to {most:g}, but is {shortened(value)} instead.")
    return float(value)


def check_language(name: str, value: object) -> str:
    """Returns the name of a language."""
    if not (isinstance(value, str) and value.isprintable() and len(value) <= MOST_NAME):
        raise UsageError(f"`{name}` must name a language, but is {shortened(value)} instead.")
    return value


def check_files(record: object) -> dict[str, str]:
    """Returns the names of a model's files, all in its own folder, and their sha256."""
    if not isinstance(record, dict):
        raise UsageError(f"`files` must be an object, but is {shortened(record)} instead.")
    for name, digest in record.items():
        is_bare = name.isprintable() and name not in ("", ".", "..") and not {*name} & {*"/\\"}
        if not is_bare or len(name.encode()) > MOST_NAME:
            raise UsageError(f"`files` must name files in the folder, without a path, but names {shortened(name)}.")
        if not (isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)):
            raise UsageError(f"The sha256 of {name} must be 64 hexadecimal digits, but is {shortened(digest)} instead.")
    return dict(record)


def read_heads(verifier: VerifierConfig, *, layer: object, heads: object, reads: object) -> AlignmentHeads:
    """Returns the attention heads for alignments from a configuration."""
    check_whole("layer", layer, 0, verifier.decoder_layers - 1)
    if not (isinstance(heads, list) and heads):
        raise UsageError(f"`heads` must be a list of heads, but is {shortened(heads)} instead.")
    for head in heads:
        check_whole("heads", head, 0, verifier.num_heads - 1)
    if len({*heads}) < len(heads):
        raise UsageError(f"`heads` must be different heads, but is {shortened(heads)} instead.")
    if reads not in ("input", "output"):
        raise UsageError(f"`reads` must be input or output, but is {shortened(reads)} instead.")
    return AlignmentHeads(layer=layer, heads=tuple(heads), reads=reads)  # type: ignore[arg-type]


def read_confidence(*, threshold: object, weights: object, scores: object, chances: object) -> Confidence:
    """Returns what tells how likely translations are to be acceptable, from a configuration."""
    numbers = {
        name: _check_numbers(name, values, least, most, rises=rises)
        for name, values, least, most, rises in (
            ("weights", weights, -1e6, 1e6, False),
            ("scores", scores, -1e9, 1e9, True),
            ("chances", chances, 0.0, 1.0, True),
        )
    }
    for name, wanted in (("weights", len(FEATURES) + 1), ("chances", len(numbers["scores"]))):
        if len(numbers[name]) != wanted:
            raise UsageError(f"`{name}` must be {wanted} numbers, but is {len(numbers[name])} instead.")
    return Confidence(threshold=check_number("threshold", threshold, 0.0, 100.0), **numbers)


def _check_numbers(name: str, values: object, least: float, most: float, *, rises: bool) -> tuple[float, ...]:
    if not (isinstance(values, list) and 1 <= len(values) <= LIMITS["block_size"][1]):
        raise UsageError(f"`{name}` must be a list of numbers, but is {shortened(values)} instead.")
    numbers = tuple(check_number(name, value, least, most) for value in values)
    if rises and any(one > other for one, other in pairwise(numbers)):
        raise UsageError(f"`{name}` must be in ascending order, but is {shortened(values)} instead.")
    return numbers


def read_calibrations(record: object) -> dict[str, Calibration]:
    """Returns the calibrations of drafters, by name, from a configuration."""
    if not (isinstance(record, dict) and record.keys() <= {*get_args(Kind)}):
        raise UsageError(f"`calibrations` must be of {', '.join(get_args(Kind))}, but is {shortened(record)} instead.")
    return {name: _read_calibration(**each) for name, each in record.items()}


def _read_calibration(*, acceptance: object, scale: object, shift: object) -> Calibration:
    """Returns the calibration of a drafter from a configuration."""
    most = LIMITS["block_size"][1]
    if not (isinstance(acceptance, list) and 1 <= len(acceptance) <= most):
        raise UsageError(f"`acceptance` must be a list of 1 to {most} shares, but is {shortened(acceptance)} instead.")
    return Calibration(
        acceptance=tuple(check_number("acceptance", share, 0.0, 1.0) for share in acceptance),
        scale=check_number("scale", scale, -1e6, 1e6),
        shift=check_number("shift", shift, -1e6, 1e6),
    )
