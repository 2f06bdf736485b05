"""Configurations of the verifier and of the masked drafter; this module needs neither torch nor fairseq2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from specmt.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class VerifierConfig:
    """Holds the configuration of a verifier, a pre-norm encoder-decoder Transformer with tied embeddings."""

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
    """The number of SentencePiece pieces V, shared by both languages."""

    max_length: int = 512
    """The number of positions, in source and in target."""

    dropout: float = 0.1
    """The dropout probability on the outputs of sublayers, in training."""


@dataclass(frozen=True, kw_only=True)
class DrafterConfig:
    """Holds the configuration of a masked drafter, a shallow decoder over the verifier's encoder memory."""

    model_dim: int = 256
    """The width D of the residual stream, equal to the verifier's."""

    num_heads: int = 4
    """The number of attention heads H."""

    ffn_dim: int = 1024
    """The inner width of the feed-forward networks."""

    layers: int = 2
    """The number of decoder layers."""

    vocab_size: int = 8000
    """The number of pieces V, equal to the verifier's."""

    max_length: int = 512
    """The number of target positions, equal to the verifier's."""

    block_size: int = 12
    """The number of [MASK] slots K that it was trained with."""

    correction_rank: int = 64
    """The rank of the previous-token correction."""

    dropout: float = 0.0
    """The dropout probability on the outputs of sublayers, in training."""


def small_verifier() -> VerifierConfig:
    return VerifierConfig()


def base_verifier() -> VerifierConfig:
    return VerifierConfig(model_dim=512, num_heads=8, ffn_dim=2048)


def small_drafter() -> DrafterConfig:
    return DrafterConfig()


def base_drafter() -> DrafterConfig:
    return DrafterConfig(model_dim=512, num_heads=8, ffn_dim=2048)


VERIFIER_ARCHS: Final[dict[str, Callable[[], VerifierConfig]]] = {"small": small_verifier, "base": base_verifier}
DRAFTER_ARCHS: Final[dict[str, Callable[[], DrafterConfig]]] = {"small": small_drafter, "base": base_drafter}


def verifier_config(arch: str, **changes: int | float) -> VerifierConfig:
    """Returns a named verifier configuration with fields replaced.

    :raises UsageError: ``arch`` is not known.
    """
    if arch not in VERIFIER_ARCHS:
        raise UsageError(f"`arch` must be one of {', '.join(VERIFIER_ARCHS)}, but is {arch!r} instead.")
    return replace(VERIFIER_ARCHS[arch](), **changes)  # type: ignore[arg-type]


def drafter_config_for(verifier: VerifierConfig, **changes: int | float) -> DrafterConfig:
    """Returns the configuration of a drafter that fits a verifier, with fields replaced."""
    config = DrafterConfig(
        model_dim=verifier.model_dim,
        num_heads=verifier.num_heads,
        ffn_dim=verifier.ffn_dim,
        vocab_size=verifier.vocab_size,
        max_length=verifier.max_length,
    )
    return replace(config, **changes)  # type: ignore[arg-type]
