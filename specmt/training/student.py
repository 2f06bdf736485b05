"""What the training of both drafters has in common: a student learns from the verifier's own output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from fairseq2.models.transformer import TransformerModel
from fairseq2.nn import BatchLayout
from torch import Tensor

from specmt.models.autoregressive import AutoregressiveDrafter
from specmt.models.drafter import MaskedDrafter
from specmt.models.verifier import EMBEDDING
from specmt.training.data import Array, ParallelData, make_batches
from specmt.training.dropout import use_fast_dropout
from specmt.training.loop import Trainer, TrainOptions
from specmt.types import BOS, EOS

Student = TypeVar("Student", MaskedDrafter, AutoregressiveDrafter)

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes sources (B, S) up to EOS and their lengths (B), targets (B, T + 1) from BOS to EOS and their lengths (B);
returns the summed loss and the sum of its weights.
"""


def read_source(verifier: TransformerModel, source: Tensor, lengths: Tensor) -> tuple[Tensor, BatchLayout]:
    """Returns the verifier's memory (B, S, D) of sources (B, S), and its layout."""
    layout = BatchLayout.of(source, lengths.tolist())
    with torch.no_grad():
        return verifier.encoder(verifier.encoder_frontend(source, layout)[0], layout), layout


def initialise_from(drafter: Student, verifier: TransformerModel, verifier_layers: int) -> None:
    """Copies the verifier's embeddings, last norm, and as many decoder layers, evenly spread, into a drafter.

    A single layer is one from the middle: the loss of an autoregressive drafter fell soonest from there.
    """
    with torch.no_grad():
        drafter.embed.weight.copy_(verifier.get_parameter(EMBEDDING))
        if drafter.decoder.layer_norm is not None:
            norm = "decoder.layer_norm"
            drafter.get_submodule(norm).load_state_dict(verifier.get_submodule(norm).state_dict())
    count = drafter.config.layers
    picks = [verifier_layers // 2] if count == 1 else np.linspace(0, verifier_layers - 1, count).round().astype(int)
    for layer, pick in enumerate(picks):
        wanted = verifier.get_submodule(f"decoder.layers.{pick}").state_dict()
        drafter.get_submodule(f"decoder.layers.{layer}").load_state_dict(wanted)


def train_student(
    folder: Path,
    data_folder: Path,
    drafter: Student,
    verifier: TransformerModel,
    verifier_layers: int,
    loss: Loss,
    options: TrainOptions,
    *,
    initial: Mapping[str, Tensor] | None,
    device: torch.device,
    validate: Callable[[Student], dict[str, float]] | None,
    report: Callable[[dict[str, float]], None],
) -> None:
    """Trains a fresh drafter for a verifier, which stays as it is, in a folder, resuming what is there.

    :param initial: the weights to start from; by default some of the verifier's layers
    """
    data = ParallelData.load(data_folder, "train")
    if initial is None:
        initialise_from(drafter, verifier, verifier_layers)
    else:
        with torch.no_grad():
            for name, parameter in drafter.named_parameters():
                parameter.copy_(initial[name])
    use_fast_dropout(drafter)
    verifier.eval().requires_grad_(False)
    lengths = data.source.lengths + data.target.lengths + 2

    def batches(epoch: int, max_length: int | None) -> list[Array]:
        tokens = options.tokens_per_batch
        return make_batches(data, tokens=tokens, seed=options.seed, epoch=epoch, max_length=max_length)

    def batch_loss(indices: Array) -> tuple[Tensor, Tensor]:
        source, source_lengths = data.source.pad(indices, after=EOS)
        target, target_lengths = data.target.pad(indices, before=BOS, after=EOS)
        return loss(source.to(device), source_lengths, target.to(device), target_lengths.to(device))

    trainer = Trainer(
        folder,
        drafter,
        batch_loss,
        batches,
        lambda batch: int(lengths[batch].sum()),
        options,
        validate=None if validate is None else lambda: validate(drafter),
        device=device,
    )
    trainer.run(report=report)
