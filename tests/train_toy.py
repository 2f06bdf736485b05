"""Trains the tiny model that every test may load, for seconds on a toy language:  python -m tests.train_toy"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.nn import Module, functional

from specmt.decoding.session import decode
from specmt.engine.weights import Weights
from specmt.models.config import DecoderConfig, DrafterConfig, VerifierConfig
from specmt.models.folder import ModelFolder
from specmt.models.hub import Model, load_model
from specmt.models.reference.modules import create_autoregressive, create_drafter, create_verifier
from specmt.models.reference.weights import to_arrays
from specmt.models.writing import add_drafter
from specmt.options import DecodingOptions
from specmt.training.drafter import BlockOptions, autoregressive_loss, drafter_loss, initialise_from, lay_blocks
from specmt.training.prepare import train_pieces
from specmt.training.validate import weights_of
from specmt.training.verifier import target_states
from specmt.types import BOS, EOS, PAD
from tests.conftest import AHEAD, MASKED, SAMPLE, TOY, VERIFIER
from tests.folders import write_model

from fairseq2.models.transformer import TransformerModel  # isort: skip  (specmt.models.reference makes it importable)

VOCAB = VERIFIER.vocab_size
STEPS = 200


def train_verifier(config: VerifierConfig) -> TransformerModel:
    """Returns a verifier that has learnt to copy its source, not too well: its output varies, and mostly ends."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = create_verifier(config, torch.device("cpu"))

    def loss() -> Tensor:
        lengths, source = toy_batch()
        target = functional.pad(source, (1, 0), value=BOS)
        wanted = target[:, 1:]
        logits = model.final_proj(target_states(model, source, lengths, target[:, :-1]))
        return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD)

    optimise(model, loss)
    return model


def train_drafters(
    verifier: TransformerModel, teacher: Model, masked: DrafterConfig, autoregressive: DecoderConfig
) -> tuple[Weights, Weights]:
    """Returns the weights of drafters that have learnt a little from the verifier's own output.

    :param teacher: the verifier, loaded
    """
    torch.set_num_threads(1)
    torch.manual_seed(2)
    sentences = [source[:length] for _ in range(6) for length, source in zip(*toy_lists(), strict=True)]
    outputs = [h.tokens for h in decode(teacher, sentences, DecodingOptions(strategy="greedy", batch_size=64))]
    layers = teacher.folder.verifier.decoder_layers
    drafter = create_drafter(masked, torch.device("cpu"))
    initialise_from(drafter, verifier, layers)
    verifier.eval().requires_grad_(False)

    def distilled_batch() -> tuple[Tensor, Tensor, Tensor]:
        picks = torch.randint(len(sentences), (16,)).tolist()
        source = padded([[*sentences[pick], EOS] for pick in picks])
        return source, (source != PAD).sum(1), padded([[BOS, *outputs[pick], EOS] for pick in picks])

    def loss() -> Tensor:
        source, lengths, target = distilled_batch()
        blocks = lay_blocks(
            target,
            (target != PAD).sum(1),
            block_size=masked.block_size,
            options=BlockOptions(),
            generator=torch.default_generator,
        )
        total, weight = drafter_loss(drafter, verifier, blocks, source, lengths)
        return total / weight

    optimise(drafter, loss)
    ahead = create_autoregressive(autoregressive, torch.device("cpu"))
    initialise_from(ahead, verifier, layers)

    def loss_ahead() -> Tensor:
        source, lengths, target = distilled_batch()
        total, count = autoregressive_loss(ahead, verifier, target, source, lengths)
        return total / count

    optimise(ahead, loss_ahead)
    return trained(drafter), trained(ahead)


def trained(module: Module) -> Weights:
    """Returns a module's weights."""
    return to_arrays(weights_of(module))


def toy_batch() -> tuple[Tensor, Tensor]:
    """Returns lengths (B) and sources (B, S) with EOS."""
    lengths = torch.randint(2, 17, (24,))
    source = torch.randint(4, VOCAB, (24, 16))
    places = torch.arange(16)
    source = source.masked_fill(places == lengths[:, None] - 1, EOS).masked_fill(places >= lengths[:, None], PAD)
    return lengths, source


def toy_lists() -> tuple[list[int], list[list[int]]]:
    """Returns lengths and sources, without EOS."""
    lengths, source = toy_batch()
    return (lengths - 1).tolist(), source.tolist()


def padded(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def optimise(model: Module, loss: Callable[[], Tensor]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    optimizer.zero_grad()
    model.eval()


def main() -> None:
    """Writes the model's folder anew."""
    with TemporaryDirectory() as folder:
        pieces, model = Path(folder, "pieces.model"), Path(folder, "model")
        train_pieces([(SAMPLE.with_suffix(".de"), SAMPLE.with_suffix(".en"))], pieces, vocab_size=VOCAB, sample=1000)
        verifier = train_verifier(VERIFIER)
        write_model(model, pieces, VERIFIER, trained(verifier))
        masked, autoregressive = train_drafters(verifier, load_model(model, device="cpu"), MASKED, AHEAD)
        add_drafter(model, ModelFolder.read(model), MASKED, masked)
        add_drafter(model, ModelFolder.read(model), AHEAD, autoregressive)
        shutil.rmtree(TOY, ignore_errors=True)
        shutil.copytree(model, TOY)


if __name__ == "__main__":
    main()
