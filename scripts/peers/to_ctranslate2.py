"""The verifier of a model folder as a CTranslate2 model."""

from __future__ import annotations

from pathlib import Path

import torch
from ctranslate2.converters.transformers import M2M100Loader

from peers.to_m2m100 import to_m2m100
from specmt.engine.architecture import sinusoids
from specmt.models.folder import PIECES, VERIFIER, ModelFolder
from specmt.text.pieces import Pieces
from specmt.types import BOS, EOS, UNK


@torch.no_grad()
def write_ctranslate2(folder: ModelFolder, out: Path) -> None:
    """Writes the verifier of a model folder as a CTranslate2 model."""
    config = folder.verifier
    spec = M2M100Loader().get_model_spec(to_m2m100(config, folder.weights(VERIFIER)))
    for stack in (spec.encoder, spec.decoder):  # without what comes before the first position there
        stack.position_encodings.encodings = sinusoids(config.max_length, config.model_dim, config)

    pieces = Pieces(folder.verified(PIECES))
    vocabulary = pieces.pieces(range(len(pieces)))
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = pieces.pieces([UNK, BOS, EOS])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5
    out.mkdir(parents=True, exist_ok=True)
    spec.validate()
    spec.optimize()
    spec.save(str(out))
