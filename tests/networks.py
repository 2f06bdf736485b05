"""Networks of the engine over given weights, on a backend of one's choice."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from specmt.engine import library
from specmt.engine.backend import Backend, Drafter, Scorer, Sizes, Verifier
from specmt.engine.backends import KernelBackend, TorchBackend
from specmt.engine.shapes import GRANULAR, ShapePolicy
from specmt.models.config import AutoregressiveConfig, DrafterConfig, NetworkConfig, VerifierConfig
from specmt.models.hub import decoder_sizes, make_verifier, verifier_sizes

Weights = Mapping[str, Tensor]


def verifier_network(
    weights: Weights,
    config: VerifierConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    kernels: bool = True,
    shapes: ShapePolicy = GRANULAR,
) -> Verifier:
    """Returns a verifier, on the kernels if they are wanted and can run it."""
    kernels = kernels and shapes is GRANULAR
    backend = _backend(verifier_sizes(config), config, device, dtype, kernels=kernels, shapes=shapes)
    return make_verifier(weights, config, backend)


def drafter_network(
    weights: Weights, config: DrafterConfig, device: torch.device, dtype: torch.dtype, *, kernels: bool = True
) -> Drafter:
    """Returns a masked drafter, on the kernels if they are wanted and can run it."""
    backend = _backend(decoder_sizes(config), config, device, dtype, kernels=kernels)
    return backend.masked_drafter(weights, decoder_sizes(config))


def autoregressive_network(
    weights: Weights, config: AutoregressiveConfig, device: torch.device, dtype: torch.dtype, *, kernels: bool = True
) -> Scorer:
    """Returns an autoregressive drafter, on the kernels if they are wanted and can run it."""
    backend = _backend(decoder_sizes(config), config, device, dtype, kernels=kernels)
    return backend.autoregressive_drafter(weights, decoder_sizes(config))


def _backend(
    sizes: Sizes,
    config: NetworkConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    kernels: bool,
    shapes: ShapePolicy = GRANULAR,
) -> Backend:
    fits = kernels and library.can_run(config.model_dim, sizes, config.ffn_dim, device, dtype)
    return KernelBackend(dtype) if fits else TorchBackend(device, dtype, shapes)
