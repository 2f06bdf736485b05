"""Training the autoregressive drafter on the verifier's own output (sequence-level distillation)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from fairseq2.models.transformer import TransformerModel
from torch import Tensor

from specmt.models.autoregressive import AutoregressiveDrafter, create_autoregressive
from specmt.models.config import AutoregressiveConfig, VerifierConfig
from specmt.training.data import ParallelData
from specmt.training.loop import TrainOptions
from specmt.training.loss import table_cross_entropy
from specmt.training.student import read_source, student_trainer
from specmt.types import PAD


def autoregressive_loss(
    drafter: AutoregressiveDrafter, verifier: TransformerModel, target: Tensor, source: Tensor, source_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the summed cross-entropy of a teacher-forced batch and its number of tokens.

    :param target: (B, T + 1) BOS, tokens, EOS, padding
    :param source: (B, S) tokens, EOS, padding
    :param source_lengths: (B) tokens in each row, EOS included
    """
    memory, layout = read_source(verifier, source, source_lengths)
    wanted = target[:, 1:]
    real = wanted != PAD
    states = drafter(target[:, :-1], memory, layout)[real]
    weights = torch.ones(len(states), device=states.device)
    return table_cross_entropy(states, drafter.embed.weight, wanted[real], weights), real.sum()


def train_autoregressive(
    folder: Path,
    data_folder: Path,
    verifier: TransformerModel,
    verifier_config: VerifierConfig,
    config: AutoregressiveConfig,
    options: TrainOptions,
    *,
    initial: Mapping[str, Tensor] | None = None,
    device: torch.device,
    validate: Callable[[AutoregressiveDrafter], dict[str, float]] | None = None,
    report: Callable[[dict[str, float]], None] = lambda _: None,
) -> AutoregressiveDrafter:
    """Trains an autoregressive drafter for a verifier, which stays as it is, in a folder, resuming what is there.

    :param initial: the weights to start from; by default some of the verifier's layers
    """
    data = ParallelData.load(data_folder, "train")
    torch.manual_seed(options.seed)
    drafter = create_autoregressive(config, device)

    def loss(source: Tensor, source_lengths: Tensor, target: Tensor, target_lengths: Tensor) -> tuple[Tensor, Tensor]:
        return autoregressive_loss(drafter, verifier, target, source, source_lengths)

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
    trainer.run(report=report)
    return drafter
