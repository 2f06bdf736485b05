"""Model folders to models that decode."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specmt.engine import library, native
from specmt.engine.backend import Drafter, Prefixes, Scorer, Sizes, Verifier
from specmt.engine.networks import DecoderNetwork, DrafterNetwork, VerifierNetwork
from specmt.engine.shapes import FREE, GRANULAR, ShapePolicy, fixed, invariant_here
from specmt.engine.threads import choose_threads
from specmt.engine.transformer import drafter_tables, verifier_tables
from specmt.errors import ModelError, UsageError
from specmt.models.config import AutoregressiveConfig, DecoderConfig, DrafterConfig, VerifierConfig
from specmt.models.device import choose_device, choose_dtype, has_bfloat16
from specmt.models.folder import AUTOREGRESSIVE, CONFIG, DRAFTER, SHORTLIST, VERIFIER, ModelFolder, find
from specmt.models.shapes import Shapes, autoregressive_shapes, drafter_shapes, find_misfit, verifier_shapes
from specmt.options import AHEAD, DecodingOptions
from specmt.text.pieces import PieceModel, load_pieces

if TYPE_CHECKING:
    from fairseq2.models.transformer import TransformerModel

    from specmt.decoding.plan import Plan
    from specmt.decoding.shortlist import Shortlist

logger = logging.getLogger(__name__)


@dataclass
class Model:
    """A loaded model: pieces, verifier and, if it has them, drafters."""

    folder: ModelFolder
    pieces: PieceModel
    verifier: Verifier
    drafter: Drafter | None

    most_rows: int | None = None
    """The most sentences that memory has room for side by side, once that has turned out."""

    plans: dict[object, Plan] = field(default_factory=dict)
    """What was learnt about drafting, by the shape of drafts: it outlives a batch."""

    @property
    def path(self) -> Path:
        """The folder that it was loaded from."""
        return self.folder.path

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.folder.source, self.folder.target

    @property
    def sha256(self) -> str:
        """A hash that stands for all files of the model."""
        return self.folder.sha256

    @property
    def device(self) -> str:
        """The device that it runs on."""
        return str(self.verifier.device)

    @property
    def dtype(self) -> str:
        """The type that it computes in."""
        return str(self.verifier.dtype).removeprefix("torch.")

    @property
    def max_source_length(self) -> int:
        """The most source pieces of a sentence, EOS included."""
        return self.folder.verifier.max_length // 2 - len(self.folder.verifier.source_prefix)

    @property
    def has_drafter(self) -> bool:
        """Whether it has a masked drafter."""
        return self.drafter is not None

    def block_size(self, options: DecodingOptions) -> int | None:
        """Returns the number of tokens that the drafter proposes; ``None`` is what yields most on this machine.

        A lossy output and a sample depend on what is drafted, and must not on how fast the machine is: their block size
        is fixed.
        """
        options = options.for_model(has_drafter=self.has_drafter)
        if options.drafter == "none":
            return 0
        if options.block_size is not None:
            return options.block_size
        if "masked" in options.drafters:
            adapts = self.folder.calibration is not None
        else:
            adapts = options.drafters in (("autoregressive",), ("lookup",))
        return None if adapts and options.lossless and not options.samples else self.own_block_size(options)

    def own_block_size(self, options: DecodingOptions) -> int:
        """Returns the number of tokens that the drafter is made for; 0 for none."""
        options = options.for_model(has_drafter=self.has_drafter)
        if "masked" in options.drafters and self.folder.drafter is not None:
            return self.folder.drafter.block_size
        return max((options.ahead(name) for name in options.drafters if name in AHEAD), default=0)

    @cached_property
    def fast_verifier(self) -> Verifier:
        """The verifier in the fastest type that the device has, for drafts."""
        device = self.verifier.device
        kernels = isinstance(self.verifier, native.NativeVerifier)
        kind = torch.int8 if kernels else torch.bfloat16 if has_bfloat16(device) else self.verifier.dtype
        if kind == self.verifier.dtype:
            return self.verifier
        weights = self.folder.weights(VERIFIER)
        return verifier_network(weights, self.folder.verifier, device, kind, shapes=FREE, kernels=kernels)

    @cached_property
    def autoregressive(self) -> Scorer | None:
        """The autoregressive drafter, if the folder has one.

        :raises ModelError: it is damaged.
        """
        config = self.folder.autoregressive
        if config is None:
            return None
        weights = fitting_weights(self.folder, AUTOREGRESSIVE, autoregressive_shapes(config))
        device = self.verifier.device
        if isinstance(self.verifier, VerifierNetwork):
            return autoregressive_network(
                weights, config, device, self.verifier.dtype, shapes=self.verifier.shapes, kernels=False
            )
        return autoregressive_network(weights, config, device, torch.int8)

    @cached_property
    def shortlist(self) -> Shortlist:
        """What may be said of a sentence, memory-mapped.

        :raises ModelError: the folder has no shortlist, or it is damaged.
        """
        from specmt.decoding.shortlist import Shortlist

        if self.folder.shortlist is None:
            raise ModelError(
                f"{self.path}: the model has no shortlist; learn one with `specmt shortlist {self.path} FILES`, "
                "or leave --shortlist out."
            )
        tensors = self.folder.weights(SHORTLIST)
        sizes = self.folder.verifier.source_pieces, self.folder.verifier.vocab_size
        if tensors.keys() == Shortlist.__dataclass_fields__.keys():
            shortlist = Shortlist(**{name: tensor.numpy() for name, tensor in tensors.items()})
            if shortlist.fits(*sizes):
                return shortlist
        raise ModelError(f"{self.path}: {SHORTLIST} does not fit {CONFIG}; learn it again with `specmt shortlist`.")

    @cached_property
    def draft_shortlist(self) -> Shortlist | None:
        """What drafts are chosen from; without a shortlist, all that may be said.

        :raises ModelError: it is damaged.
        """
        from specmt.decoding.shortlist import DRAFTED_ALWAYS, DRAFTED_EACH

        return None if self.folder.shortlist is None else self.shortlist.narrow(DRAFTED_ALWAYS, DRAFTED_EACH)

    @cached_property
    def reference(self) -> TransformerModel:
        """The verifier as fairseq2 modules with the same weights."""
        from specmt.models.verifier import create_verifier, load_verifier_weights

        # fairseq2 has no int8.
        kind = torch.float32 if self.verifier.dtype == torch.int8 else self.verifier.dtype
        model = create_verifier(self.folder.verifier, self.verifier.device).to(kind)
        load_verifier_weights(model, self.folder.weights(VERIFIER))
        return model.eval()


def load_model(
    name: str | Path | None = None,
    *,
    source: str = "de",
    target: str = "en",
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    deterministic: bool = True,
    kernels: bool = True,
) -> Model:
    """Loads a model: a folder, a bundled model by name, or the bundled one of a direction.

    :param deterministic: whether bits must not depend on the batch; on the kernels they never do.
    :param kernels: whether to run on the C++ kernels where they are there; PyTorch is the other way.
    :raises ModelError: there is no such model, or a file of it is damaged.
    :raises UsageError: device or type are unknown or not there.
    """
    folder = find(name, source=source, target=target)
    if threads is not None:
        torch.set_num_threads(threads)
    place = choose_device(device)
    kind = choose_dtype(dtype, place)
    pieces = load_pieces(folder.files, folder.verified)
    for side, wanted, actual in (
        ("target", folder.verifier.vocab_size, len(pieces)),
        ("source", folder.verifier.source_pieces, pieces.source_size),
    ):
        if actual != wanted:
            raise ModelError(f"{folder.path}: there must be {wanted} {side} pieces, but there are {actual} instead.")
    weights = fitting_weights(folder, VERIFIER, verifier_shapes(folder.verifier))
    verifier = _choose_verifier(weights, folder.verifier, place, kind, deterministic=deterministic, kernels=kernels)
    if threads is None and isinstance(verifier, native.NativeVerifier):
        torch.set_num_threads(choose_threads(verifier, f"{folder.verifier} {kind}"))
    drafter = None
    if folder.drafter is not None:
        table = verifier_tables(weights).target
        weights = fitting_weights(folder, DRAFTER, drafter_shapes(folder.drafter))
        weights.setdefault("embed.weight", table)  # where it has none of its own
        # A draft need not be exact: it was accepted as often in int8 as in bfloat16, and costs a third less.
        fast = torch.int8 if isinstance(verifier, native.NativeVerifier) else kind
        drafter = drafter_network(weights, folder.drafter, place, fast, kernels=kernels)
    return Model(folder, pieces, verifier, drafter)


def _choose_verifier(
    weights: Mapping[str, Tensor],
    config: VerifierConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    deterministic: bool,
    kernels: bool,
) -> Verifier:
    """Returns the fastest verifier whose bits, where that is asked for, were found not to depend on the batch."""
    shapes = GRANULAR if deterministic else FREE
    verifier = verifier_network(weights, config, device, dtype, shapes=shapes, kernels=kernels)
    if not (deterministic and isinstance(verifier, VerifierNetwork)):
        return verifier
    if invariant_here(verifier, f"{config} {dtype} {device}"):
        return verifier
    return verifier_network(weights, config, device, dtype, shapes=fixed(config.max_length), kernels=kernels)


def fitting_weights(folder: ModelFolder, name: str, wanted: Shapes) -> dict[str, Tensor]:
    """Returns the weights in a file of a model folder.

    :raises ModelError: a weight is missing, of another shape or not called for.
    """
    weights = folder.weights(name)
    misfit = find_misfit(wanted, {key: tuple(tensor.shape) for key, tensor in weights.items()})
    if misfit is not None:
        raise ModelError(f"{folder.path}: {name} does not fit {CONFIG}: {misfit}.")
    return weights


def verifier_network(
    weights: Mapping[str, Tensor],
    config: VerifierConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    shapes: ShapePolicy = GRANULAR,
    kernels: bool = True,
) -> Verifier:
    """Returns the engine's verifier over weights named as in the fairseq2 model.

    :param shapes: those of calls on PyTorch.
    :raises UsageError: the type is int8 and there are no kernels.
    :param kernels: whether to run on the C++ kernels where they are there.
    """
    sizes = Sizes(
        heads=config.num_heads,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        max_length=config.max_length,
        architecture=config,
    )
    prefixes = Prefixes(config.source_prefix, config.target_prefix)
    table = weights["encoder_frontend.embed.weight"]
    if kernels and library.can_run(table, sizes, config.ffn_dim, device, dtype):
        return native.NativeVerifier(weights, sizes, dtype, prefixes)
    if dtype == torch.int8:
        raise UsageError("`dtype` int8 needs the C++ kernels, which this machine or this model cannot use.")
    weights = _placed(weights, device, dtype)
    return VerifierNetwork(weights, sizes, shapes, prefixes)


def drafter_network(
    weights: Mapping[str, Tensor],
    config: DrafterConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    kernels: bool = True,
) -> Drafter:
    """Returns the engine's drafter over weights named as in the fairseq2 model.

    :param kernels: whether to run on the C++ kernels where they are there.
    """
    sizes = _drafter_sizes(config)
    if kernels and library.can_run(weights["embed.weight"], sizes, config.ffn_dim, device, dtype):
        return native.NativeDrafter(weights, sizes, dtype)
    weights = _placed(weights, device, dtype)
    return DrafterNetwork(weights, sizes)


def autoregressive_network(
    weights: Mapping[str, Tensor],
    config: AutoregressiveConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    shapes: ShapePolicy = GRANULAR,
    kernels: bool = True,
) -> Scorer:
    """Returns the engine's autoregressive drafter over weights named as in the fairseq2 model.

    :param shapes: those of calls on PyTorch.
    :param kernels: whether to run on the C++ kernels where they are there.
    """
    sizes = _drafter_sizes(config)
    if kernels and library.can_run(weights["embed.weight"], sizes, config.ffn_dim, device, dtype):
        return native.NativeDecoder(weights, drafter_tables(weights), sizes, dtype)
    weights = _placed(weights, device, dtype)
    return DecoderNetwork(weights, drafter_tables(weights), sizes, shapes)


def _placed(weights: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: tensor.to(device, dtype) for name, tensor in weights.items()}


def _drafter_sizes(config: DecoderConfig) -> Sizes:
    return Sizes(
        heads=config.num_heads,
        encoder_layers=0,
        decoder_layers=config.layers,
        max_length=config.max_length,
        architecture=config,
    )
