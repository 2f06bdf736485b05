"""What a verifier learns from parallel text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

import torch
from fairseq2.models.transformer import TransformerModel
from fairseq2.nn import BatchLayout, TiedProjection
from torch import Tensor

from specmt.models.config import VerifierConfig
from specmt.training.loss import cross_entropy
from specmt.types import PAD

W = TypeVar("W")


def target_states(model: TransformerModel, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
    """Returns the decoder's last hidden states for a teacher-forced batch.

    :param source: source ids (B, S), EOS included
    :param source_lengths: (B)
    :param target: decoder input (B, T), starting with BOS
    :returns: (B, T, D)
    """
    source_layout = BatchLayout.of(source, source_lengths.tolist())
    # Causal attention needs no padding mask: what follows the end is seen by nobody that counts.
    target_layout = BatchLayout.of(target)
    embedded, _ = model.encoder_frontend(source, source_layout)
    encoder_output = model.encoder(embedded, source_layout)
    states, _ = model.decoder_frontend(target, target_layout)
    return model.decoder(states, target_layout, encoder_output, source_layout)


def verifier_loss(
    model: TransformerModel, source: Tensor, source_lengths: Tensor, target: Tensor, *, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Returns the summed label-smoothed cross-entropy of a batch and its number of target tokens.

    :param source: (B, S) tokens, EOS, padding
    :param source_lengths: (B) tokens in each row, EOS included
    :param target: (B, T + 1) BOS, tokens, EOS, padding
    """
    states = target_states(model, source, source_lengths, target[:, :-1])
    wanted = target[:, 1:]
    real = wanted != PAD
    states, output = states[real], cast(TiedProjection, model.final_proj)
    weights = torch.ones(len(states), device=states.device)
    loss = cross_entropy(states, output.weight, wanted[real], weights, bias=output.bias, smoothing=label_smoothing)
    return loss, real.sum()


def with_layers(weights: Mapping[str, W], old: VerifierConfig, new: VerifierConfig) -> dict[str, W]:
    """Returns a verifier's weights for stacks of other depths: each layer is the one that lies where it does.

    From 6 layers to 12 every layer is there twice, one after the other; from 6 to 1, the fourth is there.
    """
    depths = {"encoder": (old.encoder_layers, new.encoder_layers), "decoder": (old.decoder_layers, new.decoder_layers)}
    changed: dict[str, W] = {}
    for name, weight in weights.items():
        stack, _, rest = name.partition(".layers.")
        if not rest:
            changed[name] = weight
            continue
        number, _, inner = rest.partition(".")
        had, wanted = depths[stack]
        for layer in range(wanted):
            if (2 * layer + 1) * had // (2 * wanted) == int(number):
                changed[f"{name.removesuffix(rest)}{layer}.{inner}"] = weight
    return changed
