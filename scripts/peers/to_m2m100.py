"""The verifier of a model folder as a model of Hugging Face's M2M100.

M2M100 is what the verifier is: pre-norm, ReLU, scaled embeddings that are the output projection too, sinusoidal
positions, normalised once more behind each stack. Only its positions count from 1, and 0 is padding.

As a program it writes the verifier as a folder that Hugging Face reads, and that `specmt import nllb` reads back:

  PYTHONPATH=scripts python -m peers.to_m2m100 specmt/assets/en-de runs/m2m100
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration

from specmt.engine.architecture import sinusoids
from specmt.engine.weights import Weights
from specmt.models.config import VerifierConfig
from specmt.models.folder import PIECES, VERIFIER, ModelFolder
from specmt.models.interop.hugging_face import fairseq_name
from specmt.models.reference.weights import to_tensors
from specmt.text.pieces import Pieces
from specmt.types import BOS, EOS, PAD


@torch.no_grad()
def to_m2m100(config: VerifierConfig, weights: Weights) -> M2M100ForConditionalGeneration:
    """Returns the verifier, in float32, for inference.

    :raises ValueError: the weights are not those of such a model.
    """
    special = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    model = M2M100ForConditionalGeneration(
        M2M100Config(
            vocab_size=config.vocab_size,
            max_position_embeddings=config.max_length,
            d_model=config.model_dim,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.ffn_dim,
            decoder_ffn_dim=config.ffn_dim,
            **special,
        )
    ).eval()
    model.generation_config = GenerationConfig(**special)
    table = torch.from_numpy(sinusoids(config.max_length, config.model_dim, config))
    tensors = to_tensors(weights)
    for name, stack in (("encoder.", model.model.encoder), ("decoder.", model.model.decoder)):
        ours = {key.removeprefix(name): tensor for key, tensor in tensors.items() if key.startswith(name)}
        missing, odd = stack.load_state_dict({fairseq_name(key): tensor for key, tensor in ours.items()}, strict=False)
        odd += [key for key in missing if not key.startswith("embed_")]
        if odd:
            raise ValueError(f"The weights of the {name[:-1]} do not fit M2M100: {', '.join(odd)}.")
        positions = torch.zeros_like(stack.embed_positions.weights)
        positions[PAD + 1 : PAD + 1 + len(table)] = table
        stack.embed_positions.weights = positions
    model.model.shared.weight.copy_(tensors["encoder_frontend.embed.weight"])
    model.tie_weights()
    return model


def write_m2m100(folder: ModelFolder, out: Path) -> None:
    """Writes the verifier of a model folder, with its pieces, as a folder of Hugging Face's."""
    model = to_m2m100(folder.verifier, folder.weights(VERIFIER))
    model.config.pad_token_id = -1  # positions count from there
    model.generation_config.pad_token_id = None
    model.save_pretrained(out)
    shutil.copyfile(folder.verified(PIECES), out / "sentencepiece.bpe.model")
    pieces = Pieces(folder.verified(PIECES))
    ids = {piece: number for number, piece in enumerate(pieces.pieces(range(len(pieces))))}
    (out / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")


if __name__ == "__main__":
    write_m2m100(ModelFolder.read(Path(sys.argv[1])), Path(sys.argv[2]))
