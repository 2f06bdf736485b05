"""Validation while training: loss, BLEU of greedy output, and how many tokens a verifier call commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor
from torch.nn import Module

from specmt.decoding.session import decode
from specmt.engine.protocols import Kind
from specmt.models.config import DecoderConfig, DrafterConfig, VerifierConfig
from specmt.models.folder import DRAFTERS, ModelFolder
from specmt.models.hub import Model, choose_backend, decoder_sizes, make_verifier
from specmt.models.reference.weights import to_arrays
from specmt.options import Calibration, DecodingOptions
from specmt.text.pieces import PieceModel
from specmt.training.calibrate import calibrate
from specmt.training.data import ParallelData, Sequences, make_batches
from specmt.training.loop import padded
from specmt.training.verifier import verifier_loss
from specmt.types import BOS, Stats

from fairseq2.models.transformer import TransformerModel  # isort: skip  (specmt.models.reference makes it importable)


class Validator:
    """Decodes a prefix of each validation set of a prepared folder."""

    def __init__(self, data_folder: Path, pieces: PieceModel, *, lines: int) -> None:
        self.pieces = pieces
        self.sets: dict[str, tuple[list[str], list[str]]] = {}
        for path in sorted(data_folder.glob("valid.*.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            name = path.name.removeprefix("valid.").removesuffix(".json")
            self.sets[name] = (record["source"][:lines], record["target"][:lines])

    def loss(self, model: TransformerModel, device: torch.device) -> dict[str, float]:
        """Returns the verifier's cross-entropy a target piece on each set, without smoothing, as ``loss_NAME``."""
        losses = {}
        for name, sides in self.sets.items():
            sources, targets = self.pieces.encode_batch(sides[0]), self.pieces.encode_targets(sides[1])
            data = ParallelData(Sequences.of(sources), Sequences.of(targets))
            total = count = 0.0
            with torch.no_grad():
                for batch in make_batches(data, tokens=4096, seed=0, epoch=0):
                    source, lengths = padded(data.source, batch)
                    target, _ = padded(data.target, batch, (BOS,))
                    loss, number = verifier_loss(
                        model, source.to(device), lengths, target.to(device), label_smoothing=0.0
                    )
                    total, count = total + float(loss), count + float(number)
            losses[f"loss_{name}"] = round(total / count, 4)
        return losses

    def bleu(self, model: Model, options: DecodingOptions) -> dict[str, float]:
        """Returns the BLEU of each set, as ``bleu_NAME``."""
        scores = {}
        for name, (sources, references) in self.sets.items():
            hypotheses = decode(model, self.pieces.encode_batch(sources), options)
            texts = [self.pieces.decode(hypothesis.tokens) for hypothesis in hypotheses]
            scores[f"bleu_{name}"] = round(float(BLEU().corpus_score(texts, [references]).score), 2)
        return scores

    def acceptance(self, model: Model, options: DecodingOptions) -> dict[str, float]:
        """Returns the mean accepted length of each set, as ``accepted_NAME``."""
        lengths = {}
        for name, (sources, _) in self.sets.items():
            hypotheses = decode(model, self.pieces.encode_batch(sources), options)
            stats = sum((hypothesis.stats for hypothesis in hypotheses), Stats())
            lengths[f"accepted_{name}"] = round(stats.mean_accepted_length, 3)
        return lengths

    def calibration(self, model: Model, name: str, block_size: int) -> Calibration:
        """Returns how far a drafter of a model can be trusted on all sets together.

        :param block_size: that of a masked drafter
        """
        lines = [line for sources, _ in self.sets.values() for line in sources]
        ahead = block_size if name == "masked" else None
        return calibrate(model, name, self.pieces.encode_batch(lines), ahead)


def snapshot(pieces: PieceModel, config: VerifierConfig, weights: Mapping[str, Tensor], device: torch.device) -> Model:
    """Returns a model that decodes in float32 with the weights of a verifier in training."""
    folder = ModelFolder(path=Path("."), source="", target="", verifier=config, drafter=None, files={})
    backend = choose_backend(config, str(device), "float32", deterministic=False)
    arrays = to_arrays(weights)
    return Model(folder, pieces, backend, make_verifier(arrays, config, backend), arrays)


def equip(
    model: Model,
    config: DecoderConfig,
    weights: Mapping[str, Tensor],
    calibration: Calibration | None = None,
) -> None:
    """Puts a drafter into a loaded model, in the place of one of its kind.

    :param weights: its table among them, even where that is the verifier's
    """
    kind: Kind = "masked" if isinstance(config, DrafterConfig) else "autoregressive"
    calibrations = {name: each for name, each in model.folder.calibrations.items() if name != kind}
    if calibration is not None:
        calibrations[kind] = calibration
    changed: dict[str, Any] = {"calibrations": calibrations, Path(DRAFTERS[kind]).stem: config}
    model.folder = replace(model.folder, **changed)
    # Set, so that it is not looked for in the folder.
    model.networks[kind] = model.backend.drafter(kind, to_arrays(weights), decoder_sizes(config))


def weights_of(module: Module) -> dict[str, Tensor]:
    """Returns a module's parameters by name, each once."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}
