"""Training the verifier on parallel text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from fairseq2.models.transformer import TransformerModel
from fairseq2.nn import BatchLayout
from torch import Tensor

from specmt.models.config import VerifierConfig
from specmt.models.verifier import create_verifier, load_verifier_weights
from specmt.training.data import Array, ParallelData, make_batches
from specmt.training.dropout import use_fast_dropout
from specmt.training.loop import Trainer, TrainOptions
from specmt.training.loss import cross_entropy
from specmt.types import BOS, EOS, PAD


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
    encoded, _ = model.encoder_frontend(source, source_layout)
    memory = model.encoder(encoded, source_layout)
    states, _ = model.decoder_frontend(target, target_layout)
    return model.decoder(states, target_layout, memory, source_layout)


def verifier_loss(
    model: TransformerModel, data: ParallelData, indices: Array, *, label_smoothing: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Returns the summed label-smoothed cross-entropy of a batch and its number of target tokens."""
    source, source_lengths = data.source.pad(indices, after=EOS)
    target, _ = data.target.pad(indices, before=[BOS], after=EOS)
    source, target = source.to(device, non_blocking=True), target.to(device, non_blocking=True)
    states = target_states(model, source, source_lengths, target[:, :-1])
    wanted = target[:, 1:]
    real = wanted != PAD
    logits = model.final_proj(states[real])
    weights = torch.ones(len(logits), device=device)
    return cross_entropy(logits, wanted[real], weights, smoothing=label_smoothing), real.sum()


def with_layers(weights: Mapping[str, Tensor], old: VerifierConfig, new: VerifierConfig) -> dict[str, Tensor]:
    """Returns a verifier's weights for stacks of other depths: each layer is the one that lies where it does.

    From 6 layers to 12 every layer is there twice, one after the other; from 6 to 1, the fourth is there.
    """
    depths = {
        "encoder": (old.encoder_layers, new.encoder_layers),
        "decoder": (old.decoder_layers, new.decoder_layers),
    }
    changed: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        stack, _, rest = name.partition(".layers.")
        if not rest:
            changed[name] = tensor
            continue
        number, _, inner = rest.partition(".")
        had, wanted = depths[stack]
        for layer in range(wanted):
            if (2 * layer + 1) * had // (2 * wanted) == int(number):
                changed[f"{name.removesuffix(rest)}{layer}.{inner}"] = tensor
    return changed


def train_verifier(
    folder: Path,
    data_folder: Path,
    config: VerifierConfig,
    options: TrainOptions,
    *,
    initial: Mapping[str, Tensor] | None = None,
    device: torch.device,
    validate: Callable[[TransformerModel], dict[str, float]] | None = None,
    report: Callable[[dict[str, float]], None] = lambda _: None,
) -> TransformerModel:
    """Trains a verifier in a folder, resuming what is there; returns the model with its last weights.

    :param initial: the weights to start from; by default random ones
    """
    data = ParallelData.load(data_folder, "train")
    torch.manual_seed(options.seed)
    model = create_verifier(config, device)
    if initial is not None:
        load_verifier_weights(model, initial)
    use_fast_dropout(model)
    lengths = data.source.lengths + data.target.lengths + 2

    def batches(epoch: int, max_length: int | None) -> list[Array]:
        tokens = options.tokens_per_batch
        return make_batches(data, tokens=tokens, seed=options.seed, epoch=epoch, max_length=max_length)

    def loss(indices: Array) -> tuple[Tensor, Tensor]:
        return verifier_loss(model, data, indices, label_smoothing=options.label_smoothing, device=device)

    trainer = Trainer(
        folder,
        model,
        loss,
        batches,
        lambda batch: int(lengths[batch].sum()),
        options,
        validate=None if validate is None else lambda: validate(model),
        device=device,
    )
    trainer.run(report=report)
    return model
