"""The verifier of a model folder, and its autoregressive drafter, as models of Hugging Face's M2M100.

M2M100 is what the verifier is: pre-norm, ReLU, scaled embeddings that are the output projection too, sinusoidal
positions, normalised once more behind each stack. Only its positions count from 1, and 0 is padding.

As a program it writes the verifier as a folder that Hugging Face reads, and that `specmt import nllb` reads back:

  PYTHONPATH=scripts python -m peers.to_m2m100 specmt/assets/en-de runs/m2m100
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from specmt.engine.transformer import sinusoids
from specmt.models.config import AutoregressiveConfig, VerifierConfig
from specmt.models.folder import PIECES, VERIFIER, ModelFolder
from specmt.text.pieces import Pieces
from specmt.types import BOS, EOS, PAD

PARTS = {
    "self_attn.output_proj": "self_attn.out_proj",
    "encoder_decoder_attn_layer_norm": "encoder_attn_layer_norm",
    "encoder_decoder_attn.output_proj": "encoder_attn.out_proj",
    "encoder_decoder_attn": "encoder_attn",
    "ffn_layer_norm": "final_layer_norm",
    "ffn.inner_proj": "fc1",
    "ffn.output_proj": "fc2",
}
"""What M2M100 calls the parts of a layer, where it has other names, longer names of ours first."""


def to_m2m100(config: VerifierConfig, weights: Mapping[str, Tensor]) -> M2M100ForConditionalGeneration:
    """Returns the verifier, in float32, for inference."""
    model = _m2m100(config, config.encoder_layers, config.decoder_layers)
    _fill(model.model.encoder, weights, "encoder")
    _fill(model.model.decoder, weights, "decoder")
    _embed(model, weights["encoder_frontend.embed.weight"])
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


def to_assistant(
    verifier: M2M100ForConditionalGeneration, config: AutoregressiveConfig, weights: Mapping[str, Tensor]
) -> M2M100ForConditionalGeneration:
    """Returns the autoregressive drafter as a model that assists the verifier, whose encoder output it reads."""
    model = _m2m100(config, 1, config.layers)
    _fill(model.model.decoder, weights, "decoder")
    _embed(model, weights["embed.weight"])
    model.model.encoder = _Shared(verifier.model.encoder)
    return model


class _Shared(Module):
    """Stands for an encoder that has just run on the same source: ``generate`` runs the assistant's right after."""

    def __init__(self, encoder: Module) -> None:
        super().__init__()
        self._output: BaseModelOutput | None = None
        encoder.register_forward_hook(self._keep)

    def _keep(self, _: Module, __: Any, output: BaseModelOutput) -> None:
        self._output = output

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        if self._output is None or self._output.last_hidden_state.shape[:2] != input_ids.shape:
            raise RuntimeError("The verifier's encoder must have run on the same source before.")
        return self._output


def _m2m100(
    config: VerifierConfig | AutoregressiveConfig, encoder_layers: int, decoder_layers: int
) -> M2M100ForConditionalGeneration:
    """Returns a model whose weights are still to come, but for its positions."""
    model = M2M100ForConditionalGeneration(
        M2M100Config(
            vocab_size=config.vocab_size,
            max_position_embeddings=config.max_length,
            d_model=config.model_dim,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.ffn_dim,
            decoder_ffn_dim=config.ffn_dim,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
        )
    ).eval()
    model.generation_config = GenerationConfig(
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS
    )
    table = sinusoids(config.max_length, config.model_dim)
    for stack in (model.model.encoder, model.model.decoder):
        places = stack.embed_positions
        places.weights = torch.zeros_like(places.weights)
        places.weights[PAD + 1 : PAD + 1 + len(table)] = table
    return model


def _fill(stack: Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Copies the layers of an encoder or a decoder and the norm behind them."""
    ours = {
        key.removeprefix(f"{name}."): tensor.float() for key, tensor in weights.items() if key.startswith(f"{name}.")
    }
    theirs = {_rename(key): tensor for key, tensor in ours.items()}
    missing, unexpected = stack.load_state_dict(theirs, strict=False)
    odd = [key for key in missing if not key.startswith("embed_")] + unexpected
    if odd:
        raise ValueError(f"The weights of the {name} do not fit M2M100: {', '.join(odd)}.")


def _rename(key: str) -> str:
    for ours, theirs in PARTS.items():
        if f".{ours}." in key:
            return key.replace(f".{ours}.", f".{theirs}.")
    return key


@torch.no_grad()
def _embed(model: M2M100ForConditionalGeneration, table: Tensor) -> None:
    """Copies the embedding table, which both stacks and the output projection share."""
    model.model.shared.weight.copy_(table)
    model.tie_weights()


if __name__ == "__main__":
    write_m2m100(ModelFolder.read(Path(sys.argv[1])), Path(sys.argv[2]))
