"""Configurations of the verifier and of the drafters; this module needs neither torch nor fairseq2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from specmt.engine.architecture import Architecture
from specmt.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class VerifierConfig(Architecture):
    """Holds the configuration of a verifier, an encoder-decoder Transformer."""

    model_dim: int = 256
    """The width D of the residual stream."""

    num_heads: int = 4
    """The number of attention heads H."""

    ffn_dim: int = 1024
    """The inner width of the feed-forward networks."""

    encoder_layers: int = 6
    """The number of encoder layers."""

    decoder_layers: int = 6
    """The number of decoder layers."""

    vocab_size: int = 8000
    """The number of target pieces V."""

    source_vocab_size: int | None = None
    """The number of source pieces; ``None`` where pieces and their embeddings are shared by both languages."""

    max_length: int = 512
    """The number of positions, in source and in target."""

    output_bias: bool = False
    """Whether the projection to the vocabulary has a bias."""

    tied_output: bool = True
    """Whether the projection to the vocabulary is the target's embedding table."""

    source_prefix: tuple[int, ...] = ()
    """Ids that stand before every source."""

    target_prefix: tuple[int, ...] = ()
    """Ids that stand after BOS before anything is decoded; they are no part of a translation."""

    dropout: float = 0.1
    """The dropout probability on the outputs of sublayers, in training."""

    def __post_init__(self) -> None:
        for name in ("source_prefix", "target_prefix"):
            value = getattr(self, name)
            if isinstance(value, list):  # as JSON has it
                object.__setattr__(self, name, tuple(value))
        _check(self)
        _check_prefix("source_prefix", self.source_prefix, self.source_pieces, self.max_length // 2 - 1)
        _check_prefix("target_prefix", self.target_prefix, self.vocab_size, self.max_length - 1)

    @property
    def source_pieces(self) -> int:
        """The number of source pieces."""
        return self.vocab_size if self.source_vocab_size is None else self.source_vocab_size


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(Architecture):
    """Holds what the configurations of drafters have in common: a shallow decoder over the verifier's memory."""

    model_dim: int = 256
    """The width D of the residual stream, equal to the verifier's."""

    num_heads: int = 4
    """The number of attention heads H, equal to the verifier's."""

    ffn_dim: int = 1024
    """The inner width of the feed-forward networks."""

    layers: int = 1
    """The number of decoder layers."""

    vocab_size: int = 8000
    """The number of pieces V, equal to the verifier's."""

    max_length: int = 512
    """The number of target positions, equal to the verifier's."""

    dropout: float = 0.0
    """The dropout probability on the outputs of sublayers, in training."""

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, kw_only=True)
class AutoregressiveConfig(DecoderConfig):
    """Holds the configuration of an autoregressive drafter, which has nothing but its decoder."""


@dataclass(frozen=True, kw_only=True)
class DrafterConfig(DecoderConfig):
    """Holds the configuration of a masked drafter."""

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
    """The number of the most frequent target pieces, which may always be said."""

    associated: int
    """The most target pieces that a source piece allows besides."""

    sentences: int
    """The number of sentences that it was learnt from."""

    recall: float
    """The share of the verifier's own greedy tokens that are allowed."""

    whole: float
    """The share of sentences all of whose tokens are, so that their translation stays the same."""

    allowed: float
    """The mean number of target pieces that a sentence may say."""


def small_verifier() -> VerifierConfig:
    return VerifierConfig()


def base_verifier() -> VerifierConfig:
    return VerifierConfig(model_dim=512, num_heads=8, ffn_dim=2048)


def small_drafter() -> DrafterConfig:
    return DrafterConfig()


def base_drafter() -> DrafterConfig:
    return DrafterConfig(model_dim=512, num_heads=8, ffn_dim=2048)


def small_autoregressive() -> AutoregressiveConfig:
    return AutoregressiveConfig()


def base_autoregressive() -> AutoregressiveConfig:
    return AutoregressiveConfig(model_dim=512, num_heads=8, ffn_dim=2048)


VERIFIER_ARCHS: Final[dict[str, Callable[[], VerifierConfig]]] = {"small": small_verifier, "base": base_verifier}
DRAFTER_ARCHS: Final[dict[str, Callable[[], DrafterConfig]]] = {"small": small_drafter, "base": base_drafter}
AUTOREGRESSIVE_ARCHS: Final[dict[str, Callable[[], AutoregressiveConfig]]] = {
    "small": small_autoregressive,
    "base": base_autoregressive,
}

LARGE: Final = 100_000
"""From how many pieces on a drafter uses its verifier's table."""

SHARED: Final = ("model_dim", "num_heads", "vocab_size", "max_length")
"""What a drafter has in common with its verifier."""


def verifier_config(arch: str, **changes: int | float) -> VerifierConfig:
    """Returns a named verifier configuration with fields replaced.

    :raises UsageError: ``arch`` is not known, or a field has an impossible value.
    """
    if arch not in VERIFIER_ARCHS:
        raise UsageError(f"`arch` must be one of {', '.join(VERIFIER_ARCHS)}, but is {arch!r} instead.")
    return replace(VERIFIER_ARCHS[arch](), **changes)  # type: ignore[arg-type]


def drafter_config_for(verifier: VerifierConfig, **changes: int | float) -> DrafterConfig:
    """Returns the configuration of a masked drafter that fits a verifier, with fields replaced.

    A large table stays the verifier's: it would be most of the drafter, to train and to store.
    """
    own_table = verifier.vocab_size < LARGE or not verifier.tied_output
    return replace(DrafterConfig(**_shared(verifier), own_table=own_table), **changes)  # type: ignore[arg-type]


def autoregressive_config_for(verifier: VerifierConfig, **changes: int | float) -> AutoregressiveConfig:
    """Returns the configuration of an autoregressive drafter that fits a verifier, with fields replaced."""
    return replace(AutoregressiveConfig(**_shared(verifier)), **changes)  # type: ignore[arg-type]


def _shared(verifier: VerifierConfig) -> dict[str, Any]:
    # The architecture too: a drafter starts from layers of its verifier.
    names = (*SHARED, "ffn_dim", *(field.name for field in fields(Architecture)))
    return {name: getattr(verifier, name) for name in names}


def check_fit(drafter: DecoderConfig, verifier: VerifierConfig, *, kind: str = "drafter") -> None:
    """Checks that a drafter can draft for a verifier.

    :param kind: what to call it in an error
    :raises UsageError: it cannot.
    """
    for name in SHARED:
        wanted, actual = getattr(verifier, name), getattr(drafter, name)
        if actual != wanted:
            raise UsageError(f"The {kind}'s `{name}` must be the verifier's, {wanted}, but is {actual} instead.")


def _check(config: VerifierConfig | DecoderConfig) -> None:
    for name, kind in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if kind is bool and not isinstance(value, bool):
            raise UsageError(f"`{name}` must be true or false, but is {value!r} instead.")
        if kind is int or (kind == int | None and value is not None):
            least = 0 if name == "first_position" else 1
            if not (isinstance(value, int) and value >= least):
                raise UsageError(f"`{name}` must be a whole number of at least {least}, but is {value!r} instead.")
        if get_origin(kind) is Literal and value not in get_args(kind):
            raise UsageError(f"`{name}` must be one of {', '.join(get_args(kind))}, but is {value!r} instead.")
    unit = 2 * config.num_heads
    if config.model_dim % unit != 0:
        raise UsageError(
            f"`model_dim` must be a multiple of 2 × `num_heads`, {unit}, but is {config.model_dim} instead."
        )
    if not (isinstance(config.dropout, int | float) and 0.0 <= config.dropout < 1.0):
        raise UsageError(f"`dropout` must be at least 0 and less than 1, but is {config.dropout!r} instead.")


def _check_prefix(name: str, ids: tuple[int, ...], pieces: int, room: int) -> None:
    if not (isinstance(ids, tuple) and all(isinstance(token, int) and 0 <= token < pieces for token in ids)):
        shown = list(ids) if isinstance(ids, tuple) else ids
        raise UsageError(f"`{name}` must be a list of ids of at least 0 and under {pieces}, but is {shown!r} instead.")
    if len(ids) >= room:
        raise UsageError(f"`{name}` must have fewer than {room} ids, but has {len(ids)} instead.")
