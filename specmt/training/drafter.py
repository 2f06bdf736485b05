"""Training the masked drafter on the verifier's own output (sequence-level distillation)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq2.models.transformer import TransformerModel
from torch import Tensor
from torch.nn import functional

from specmt.models.config import DrafterConfig, VerifierConfig
from specmt.models.drafter import MaskedDrafter, create_drafter
from specmt.training.data import ParallelData
from specmt.training.loop import Trainer, TrainOptions
from specmt.training.loss import table_cross_entropy
from specmt.training.student import read_source, student_trainer
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
    memory, layout = read_source(verifier, source, source_lengths)
    states = drafter(blocks.tokens, blocks.positions, blocks.slots, blocks.bias, memory, layout)
    wanted, previous, weights = (part.flatten(0, 1) for part in (blocks.wanted, blocks.previous, blocks.weights))
    states = states[:, -blocks.wanted[0].numel() :].reshape(*wanted.shape, -1)
    states = drafter.corrected(states, previous).flatten(0, 1)
    loss = table_cross_entropy(states, drafter.embed.weight, wanted.flatten(), weights.flatten())
    return loss, weights.sum()


def train_drafter(
    folder: Path,
    data_folder: Path,
    verifier: TransformerModel,
    verifier_config: VerifierConfig,
    config: DrafterConfig,
    options: TrainOptions,
    *,
    block_options: BlockOptions,
    initial: Mapping[str, Tensor] | None = None,
    device: torch.device,
    validate: Callable[[MaskedDrafter], dict[str, float]] | None = None,
    report: Callable[[dict[str, float]], None] = lambda _: None,
) -> MaskedDrafter:
    """Trains a masked drafter for a verifier, which stays as it is, in a folder, resuming what is there.

    :param initial: the weights to start from; by default some of the verifier's layers
    """
    data = ParallelData.load(data_folder, "train")
    drafter, trainer = drafter_trainer(
        folder,
        data,
        verifier,
        verifier_config,
        config,
        options,
        block_options=block_options,
        initial=initial,
        device=device,
        validate=validate,
    )
    trainer.run(report=report)
    return drafter


def drafter_trainer(
    folder: Path,
    data: ParallelData,
    verifier: TransformerModel,
    verifier_config: VerifierConfig,
    config: DrafterConfig,
    options: TrainOptions,
    *,
    block_options: BlockOptions,
    initial: Mapping[str, Tensor] | None = None,
    device: torch.device,
    validate: Callable[[MaskedDrafter], dict[str, float]] | None = None,
) -> tuple[MaskedDrafter, Trainer]:
    """Returns a fresh masked drafter and what trains it (`train_drafter`)."""
    torch.manual_seed(options.seed)
    drafter = create_drafter(config, device)

    def loss(source: Tensor, source_lengths: Tensor, target: Tensor, target_lengths: Tensor) -> tuple[Tensor, Tensor]:
        # Block places come from torch's own generator, whose state every checkpoint keeps.
        blocks = lay_blocks(
            target,
            target_lengths,
            block_size=config.block_size,
            options=block_options,
            generator=torch.default_generator,
            given=len(verifier_config.target_prefix),
        )
        return drafter_loss(drafter, verifier, blocks, source, source_lengths)

    trainer = student_trainer(
        folder,
        data,
        drafter,
        verifier,
        verifier_config,
        loss,
        options,
        initial=initial,
        device=device,
        validate=validate,
    )
    return drafter, trainer
