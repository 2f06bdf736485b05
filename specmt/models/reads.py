"""How much networks of a model read, and are made from, by its configuration alone."""

from __future__ import annotations

from math import prod
from typing import Final

from specmt.engine.protocols import Backend
from specmt.models.config import DrafterConfig
from specmt.models.folder import ModelFolder
from specmt.models.parameters import drafter_shapes, verifier_shapes

LISTED: Final = 2000
"""About how many pieces a shortlist has for a sentence."""


def share_of(folder: ModelFolder, backend: Backend, name: str) -> float:
    """Returns the share of the bytes of weights of a call of the verifier that one of a drafter reads.

    :param name: of the drafter, or ``self`` for the verifier's replica
    """
    config, drafter = folder.verifier, folder.drafter if name == "masked" else folder.autoregressive
    width, said = config.model_dim, config.vocab_size
    layer = (6 * width + 2 * config.ffn_dim) * width  # of attention: four matrices, two of attention to the source
    of_verifier = layer if config.decoder == "attention" else layer - 2 * width * width
    # Whatever the format, most of the verifier's outputs are looked through in int8.
    verifier = config.decoder_layers * of_verifier * (backend.bits("verifier", width) or 0) / 8 + said * width
    if folder.shortlist is not None and backend.shortlists_pay:
        said = min(said, LISTED)
    layers = config.decoder_layers * of_verifier if name == "self" else 0 if drafter is None else drafter.layers * layer
    # What goes from slot to slot, in float32, is read for each of them.
    gates = 8 * drafter.correction_rank**2 * drafter.block_size if isinstance(drafter, DrafterConfig) else 0
    return ((backend.bits(name, width) or 0) / 8 * (layers + said * width) + gates) / verifier


def count_weights(folder: ModelFolder, name: str) -> int:
    """Returns how many weights a network is made from, named as for a backend's `bits`."""
    if name in ("verifier", "self"):
        shapes = verifier_shapes(folder.verifier)
    else:
        shapes = drafter_shapes(next(config for kind, config in folder.drafters.items() if kind == name))
    return sum(map(prod, shapes.values()))
