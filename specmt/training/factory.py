"""Makes what trains a verifier or a drafter: module, weights to start from, data, loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from fairseq2.models.transformer import TransformerModel
from torch import Tensor
from torch.nn import Dropout, Module
from typing_extensions import override

from specmt.models.config import DecoderConfig, DrafterConfig, VerifierConfig
from specmt.models.folder import VERIFIER, ModelFolder
from specmt.models.hub import fitting_weights
from specmt.models.parameters import verifier_shapes
from specmt.models.reference.modules import (
    DrafterModule,
    create_autoregressive,
    create_drafter,
    create_verifier,
    load_verifier_weights,
)
from specmt.models.reference.weights import to_tensors
from specmt.training.data import ParallelData
from specmt.training.drafter import BlockOptions, autoregressive_loss, drafter_loss, initialise_from, lay_blocks
from specmt.training.loop import Trainer, Validate
from specmt.training.options import TrainOptions
from specmt.training.verifier import verifier_loss


def verifier_trainer(
    folder: Path,
    data: ParallelData,
    config: VerifierConfig,
    options: TrainOptions,
    *,
    initial: Mapping[str, Tensor] | None = None,
    device: torch.device,
    validate: Validate | None = None,
) -> Trainer:
    """Returns what trains a verifier in a folder.

    :param initial: the weights to start from; by default random ones
    """
    torch.manual_seed(options.seed)
    model = create_verifier(config, device)
    if initial is not None:
        load_verifier_weights(model, initial)

    def loss(source: Tensor, source_lengths: Tensor, target: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        return verifier_loss(model, source, source_lengths, target, label_smoothing=options.label_smoothing)

    use_fast_dropout(model)
    return Trainer(folder, data, model, loss, config, options, device=device, validate=validate)


def drafter_trainer(
    folder: Path,
    data: ParallelData,
    verifier: TransformerModel,
    verifier_config: VerifierConfig,
    config: DecoderConfig,
    options: TrainOptions,
    *,
    block_options: BlockOptions | None = None,
    initial: Mapping[str, Tensor] | None = None,
    device: torch.device,
    validate: Validate | None = None,
    identity: Mapping[str, object] | None = None,
) -> Trainer:
    """Returns what trains a drafter for a verifier, which stays as it is, in a folder.

    :param data: sentences and what the verifier says of them
    :param initial: the weights to start from; by default some of the verifier's layers
    :param identity: what must be the same when the run is resumed
    """
    torch.manual_seed(options.seed)
    drafter: DrafterModule
    if isinstance(config, DrafterConfig):
        drafter = masked = create_drafter(config, device)
        given = len(verifier_config.target_prefix)

        def loss(source: Tensor, lengths: Tensor, target: Tensor, target_lengths: Tensor) -> tuple[Tensor, Tensor]:
            # Block places come from torch's own generator, whose state every checkpoint keeps.
            blocks = lay_blocks(
                target,
                target_lengths,
                block_size=config.block_size,
                options=block_options or BlockOptions(),
                generator=torch.default_generator,
                given=given,
            )
            return drafter_loss(masked, verifier, blocks, source, lengths)
    else:
        drafter = autoregressive = create_autoregressive(config, device)

        def loss(source: Tensor, lengths: Tensor, target: Tensor, target_lengths: Tensor) -> tuple[Tensor, Tensor]:
            return autoregressive_loss(autoregressive, verifier, target, source, lengths)

    initialise_from(drafter, verifier, verifier_config.decoder_layers)
    with torch.no_grad():
        for name, weight in (initial or {}).items():
            drafter.get_parameter(name).copy_(weight)
    verifier.eval().requires_grad_(False)
    use_fast_dropout(drafter)
    return Trainer(
        folder, data, drafter, loss, verifier_config, options, device=device, validate=validate, identity=identity or {}
    )


def load_teacher(folder: ModelFolder, device: torch.device) -> TransformerModel:
    """Returns the verifier of a model folder as fairseq2 modules, for a drafter to learn from.

    That asks its encoder alone, and starts from layers of its decoder: where those have no attention to target tokens,
    from fresh ones.

    :raises ModelError: its weights are damaged, or do not fit its configuration.
    """
    teacher = create_verifier(replace(folder.verifier, decoder="attention"), device)
    weights = to_tensors(fitting_weights(folder, VERIFIER, verifier_shapes(folder.verifier)))
    shared = {name: weight for name, weight in weights.items() if ".ssru." not in name}
    load_verifier_weights(teacher, {**teacher.decoder.state_dict(prefix="decoder."), **shared})
    return teacher


class FastDropout(Module):
    """Dropout with 8-bit masks cut from 64-bit random integers, eight for the price of one.

    The probability is rounded to a multiple of 1/256; ``torch.nn.Dropout`` spends 30% of a training step here.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.threshold = round(p * 256)

    @override
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.threshold == 0:
            return x
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return x * keep.to(x.dtype).mul_(256 / (256 - self.threshold))


def use_fast_dropout(model: Module) -> None:
    """Replaces every ``Dropout`` inside a module."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, Dropout):
                setattr(module, name, FastDropout(child.p))
