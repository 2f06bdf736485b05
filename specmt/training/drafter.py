"""What drafters learn from their verifier's own output (sequence-level distillation)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from fairseq2.models.transformer import TransformerModel
from fairseq2.nn import BatchLayout
from torch import Tensor
from torch.nn import functional

from specmt.models.reference.modules import EMBEDDING, AutoregressiveDrafter, DrafterModule, MaskedDrafter
from specmt.training.loss import cross_entropy
from specmt.types import EOS, PAD


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """How mask blocks are laid over a sentence."""

    spacing: float = 5.0
    """One block for this many target tokens."""

    decay: float = 0.9
    """The weight of a slot's loss falls by this factor from slot to slot: what comes after a rejection is wasted."""


@dataclass(frozen=True)
class Blocks:
    """A batch of sentences with mask blocks behind them, in one sequence of Q = T + G·K places."""

    tokens: Tensor
    """(B, Q) committed tokens, then anything under the slots."""

    positions: Tensor
    """(B, Q)"""

    slots: Tensor
    """(B, Q) whether a place is a slot."""

    bias: Tensor
    """(B, 1, Q, Q) 0 where a query sees a key, −inf elsewhere."""

    wanted: Tensor
    """(B, G, K) the token that each slot should predict; EOS past the end."""

    previous: Tensor
    """(B, G, K) the token before it."""

    weights: Tensor
    """(B, G, K) the weight of each slot's loss."""


def lay_blocks(
    target: Tensor,
    lengths: Tensor,
    *,
    block_size: int,
    options: BlockOptions,
    generator: torch.Generator,
    given: int = 0,
) -> Blocks:
    """Puts G mask blocks of K slots at random places of each sentence.

    A block that starts after position s sees the tokens up to s and its own slots. Slots past the end of the
    sentence are trained too: they say EOS.

    :param target: (B, T + 1) BOS, tokens, EOS, padding
    :param lengths: (B) tokens in each row, BOS and EOS included
    :param given: the tokens after BOS that nobody drafts
    """
    rows, width = target.shape[0], target.shape[1] - 1
    device = target.device
    blocks = max(1, math.ceil((width - given) / options.spacing))
    # Evenly spread over the row's own length, each shifted at random: no start twice where there is room.
    spread = (torch.arange(blocks) + torch.rand(rows, blocks, generator=generator)) / blocks
    starts = given + (spread.to(device) * (lengths[:, None] - 1 - given)).long()
    starts = starts.clamp(max=width - 1)  # (B, G)
    positions = starts[:, :, None] + 1 + torch.arange(block_size, device=device)  # (B, G, K)
    flat = positions.flatten(1)
    padded = functional.pad(target, (0, block_size), value=EOS)
    padded = torch.where(padded == PAD, EOS, padded)
    wanted = padded.gather(1, flat).view_as(positions)
    previous = padded.gather(1, flat - 1).view_as(positions)
    real = positions < lengths[:, None, None]
    weights = options.decay ** torch.arange(block_size, device=device)
    # Past the end one EOS after another is easy and hardly matters.
    weights = torch.where(real, weights, 0.1 * weights)

    prefix = torch.arange(width, device=device)
    places = torch.cat([prefix.expand(rows, -1), flat], dim=1)  # (B, Q)
    slots = torch.zeros_like(places, dtype=torch.bool)
    slots[:, width:] = True
    last_seen = torch.cat([prefix.expand(rows, -1), starts.repeat_interleave(block_size, 1)], dim=1)  # (B, Q)
    block = torch.cat([torch.full((width,), -1), torch.arange(blocks).repeat_interleave(block_size)]).to(device)
    sees_prefix = prefix <= last_seen[:, :, None]  # (B, Q, T)
    same_block = (block[:, None] == block[None, width:]).expand(rows, -1, -1)  # (Q, G·K)
    visible = torch.cat([sees_prefix, same_block], dim=2)[:, None]
    bias = torch.zeros(visible.shape, device=device).masked_fill_(~visible, -math.inf)
    tokens = torch.cat([target[:, :-1], torch.full_like(flat, EOS)], dim=1)
    return Blocks(tokens, places, slots, bias, wanted, previous, weights)


def drafter_loss(
    drafter: MaskedDrafter, verifier: TransformerModel, blocks: Blocks, source: Tensor, source_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the summed, weighted cross-entropy over all slots of a batch and the sum of the weights."""
    encoder_output, layout = encode(verifier, source, source_lengths)
    states = drafter(blocks.tokens, blocks.positions, blocks.slots, blocks.bias, encoder_output, layout)
    wanted, previous, weights = (part.flatten(0, 1) for part in (blocks.wanted, blocks.previous, blocks.weights))
    states = states[:, -blocks.wanted[0].numel() :].reshape(*wanted.shape, -1)
    states = drafter.corrected(states, previous).flatten(0, 1)
    loss = cross_entropy(states, drafter.embed.weight, wanted.flatten(), weights.flatten())
    return loss, weights.sum()


def autoregressive_loss(
    drafter: AutoregressiveDrafter, verifier: TransformerModel, target: Tensor, source: Tensor, source_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the summed cross-entropy of a teacher-forced batch and its number of tokens.

    :param target: (B, T + 1) BOS, tokens, EOS, padding
    :param source: (B, S) tokens, EOS, padding
    :param source_lengths: (B) tokens in each row, EOS included
    """
    encoder_output, layout = encode(verifier, source, source_lengths)
    wanted = target[:, 1:]
    real = wanted != PAD
    states = drafter(target[:, :-1], encoder_output, layout)[real]
    weights = torch.ones(len(states), device=states.device)
    return cross_entropy(states, drafter.embed.weight, wanted[real], weights), real.sum()


def encode(verifier: TransformerModel, source: Tensor, lengths: Tensor) -> tuple[Tensor, BatchLayout]:
    """Returns the verifier's encoder output (B, S, D) for sources (B, S), and its layout."""
    layout = BatchLayout.of(source, lengths.tolist())
    with torch.no_grad():
        return verifier.encoder(verifier.encoder_frontend(source, layout)[0], layout), layout


def initialise_from(drafter: DrafterModule, verifier: TransformerModel, layers: int) -> None:
    """Copies the verifier's embeddings, last norm, and as many decoder layers, evenly spread, into a drafter.

    A single layer is one from the middle: the loss of an autoregressive drafter fell soonest from there.

    :param layers: those of the verifier's decoder
    """
    with torch.no_grad():
        drafter.embed.weight.copy_(verifier.get_parameter(EMBEDDING))
        if drafter.decoder.layer_norm is not None:
            norm = "decoder.layer_norm"
            drafter.get_submodule(norm).load_state_dict(verifier.get_submodule(norm).state_dict())
    count = len(drafter.decoder.layers)
    picks = [layers // 2] if count == 1 else np.linspace(0, layers - 1, count).round().astype(int)
    for layer, pick in enumerate(picks):
        wanted = verifier.get_submodule(f"decoder.layers.{pick}").state_dict()
        drafter.get_submodule(f"decoder.layers.{layer}").load_state_dict(wanted)
