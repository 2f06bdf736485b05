"""Networks of the engine over given weights, on a backend of one's choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from specmt.engine.architecture import Prefixes, Sizes
from specmt.engine.arrays import Array, Floats, Ids, to_floats
from specmt.engine.cache import State
from specmt.engine.kernels import library
from specmt.engine.kernels.backend import KernelBackend
from specmt.engine.kernels.decoder import KernelDecoder
from specmt.engine.kernels.mapping import pack_or_map
from specmt.engine.kernels.masked import KernelMaskedDrafter
from specmt.engine.kernels.packing import Parts, pack_autoregressive, pack_masked
from specmt.engine.protocols import DraftNetwork, EncoderOutput, Scorer, Verifier
from specmt.engine.torch.backend import TorchBackend
from specmt.engine.torch.decoder import TorchDecoder
from specmt.engine.torch.invariance import GRANULAR, ShapePolicy
from specmt.engine.window import Window
from specmt.models.config import DecoderConfig, DrafterConfig, NetworkConfig, VerifierConfig
from specmt.models.hub import decoder_sizes, verifier_sizes
from specmt.types import EOS

Weights = Mapping[str, Any]
"""By name, arrays or tensors."""


def verifier_network(
    weights: Weights, config: VerifierConfig, format: str, *, kernels: bool = True, shapes: ShapePolicy = GRANULAR
) -> Verifier:
    """Returns a verifier, on the kernels if they are wanted and can run it."""
    sizes, prefixes = verifier_sizes(config), Prefixes(tuple(config.source_prefix), tuple(config.target_prefix))
    if shapes is GRANULAR and kernels and can_run(config, sizes, format):
        return KernelBackend(format).verifier(arrays_of(weights), sizes, prefixes)
    return TorchBackend("cpu", format, shapes=shapes).verifier(arrays_of(weights), sizes, prefixes)


def drafter_network(weights: Weights, config: DrafterConfig, format: str, *, kernels: bool = True) -> DraftNetwork:
    """Returns a masked drafter in just that format, on the kernels if they are wanted and can run it."""
    sizes = decoder_sizes(config)
    if kernels and can_run(config, sizes, format):
        return KernelMaskedDrafter(packed(pack_masked, weights, sizes, format), sizes, format)
    return TorchBackend("cpu", format, shapes=GRANULAR).drafter("masked", arrays_of(weights), sizes)


def autoregressive_network(
    weights: Weights, config: DecoderConfig, format: str, *, kernels: bool = True
) -> KernelDecoder | TorchDecoder:
    """Returns an autoregressive drafter in just that format, on the kernels if they are wanted and can run it."""
    sizes = decoder_sizes(config)
    if kernels and can_run(config, sizes, format):
        return KernelDecoder(packed(pack_autoregressive, weights, sizes, format), sizes, format)
    network = TorchBackend("cpu", format, shapes=GRANULAR).drafter("autoregressive", arrays_of(weights), sizes)
    assert isinstance(network, TorchDecoder)
    return network


def can_run(config: NetworkConfig, sizes: Sizes, format: str) -> bool:
    return library.can_run(config.model_dim, sizes, config.ffn_dim, format)


def packed(pack: Callable[..., Parts], weights: Weights, sizes: Sizes, format: str) -> dict[str, Array]:
    """Returns weights as the kernels want them."""
    return pack_or_map(arrays_of(weights), "a test", lambda given: pack(given, sizes, format))


def arrays_of(weights: Weights) -> dict[str, Any]:
    """Returns weights as arrays; those in bfloat16 by their bits."""
    return {name: array_of(each) if isinstance(each, Tensor) else each for name, each in weights.items()}


def array_of(tensor: Tensor) -> Array:
    found: Array = (
        tensor.detach().view(torch.int16).numpy().view(np.uint16)
        if tensor.dtype == torch.bfloat16
        else tensor.detach().numpy()
    )
    return found


def held(data: Any) -> Floats:
    """Returns what a cache or an encoder's output holds in float32: in an array, by its bits, or in a tensor."""
    return to_floats(array_of(data) if isinstance(data, Tensor) else data)


def zeros(rows: int) -> Ids:
    return np.zeros(rows, dtype=np.int64)


def opened(network: Scorer | DraftNetwork, encoded: EncoderOutput) -> State:
    """Returns the caches of rows that have read their sources."""
    rows = len(encoded.lengths)
    state = network.new_state(rows)
    network.start(state, np.arange(rows), encoded)
    return state


def logits_of(verifier: Verifier, sources: Sequence[Sequence[int]], targets: Ids) -> Floats:
    """Returns the logits (B, T, V) after each of the target tokens (B, T), scored at once."""
    return scores(verifier, Window(targets, zeros(len(targets))), opened(verifier, verifier.encode(sources)))


def module_logits(module: Any, sources: Sequence[Sequence[int]], targets: Ids, *, prefix: Sequence[int] = ()) -> Floats:
    """Returns the logits (B, T, V) of fairseq2 modules after each of the target tokens (B, T).

    :param prefix: what stands before every source
    """
    from specmt.training.verifier import target_states

    rows = [torch.tensor([*prefix, *source, EOS]) for source in sources]
    lengths = torch.tensor([len(row) for row in rows])
    with torch.inference_mode():
        states = target_states(module, pad_sequence(rows, batch_first=True), lengths, torch.from_numpy(targets))
        logits: Floats = module.final_proj(states).numpy()
    return logits


def equal(left: Floats, right: Floats) -> bool:
    """Whether two arrays have the same bits; finite numbers that are not all zero."""
    assert np.isfinite(left).all() and left.any()
    return left.dtype == right.dtype and np.array_equal(left, right)


def scores(network: Scorer, window: Window, state: State) -> Floats:
    """Returns the logits (B, W, V) of what follows each token of a window; behind counts, those of the last."""
    logits = network.score(window, state)
    rows, width = window.tokens.shape
    return np.stack([np.stack([logits.row(row, place) for place in range(width)]) for row in range(rows)])
