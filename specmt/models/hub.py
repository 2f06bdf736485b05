"""Model folders to models that decode."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from specmt import signals
from specmt.engine import library
from specmt.engine.backend import Backend, Drafter, Prefixes, Scorer, Sizes, Verifier
from specmt.engine.backends import KernelBackend, TorchBackend
from specmt.engine.shapes import COMPILED, FREE, GRANULAR, fixed, invariant_here, one_shape
from specmt.engine.stored import StoredWeights
from specmt.engine.transformer import verifier_tables
from specmt.errors import ModelError, UsageError
from specmt.models.config import DecoderConfig, VerifierConfig
from specmt.models.device import choose_device, choose_dtype, choose_threads
from specmt.models.folder import AUTOREGRESSIVE, CONFIG, DRAFTER, SHORTLIST, VERIFIER, ModelFolder, find
from specmt.models.reading import read_outline
from specmt.models.shapes import Shapes, autoregressive_shapes, drafter_shapes, find_misfit, verifier_shapes
from specmt.options import AlignmentHeads, check_threads
from specmt.text.lexicon import Lexicon, load_lexicon
from specmt.text.pieces import PieceModel, load_pieces

if TYPE_CHECKING:
    from fairseq2.models.transformer import TransformerModel

    from specmt.decoding.shortlist import Shortlist


CHEAP: Final = 0.4
"""What a replica of the verifier may cost at most, in steps of the verifier, to draft unasked."""

LISTED: Final = 2000
"""About how many pieces a shortlist has for a sentence."""


@dataclass
class Model:
    """A loaded model: pieces, verifier and, if it has them, drafters."""

    folder: ModelFolder
    pieces: PieceModel
    backend: Backend
    verifier: Verifier
    drafter: Drafter | None

    @property
    def path(self) -> Path:
        """The folder that it was loaded from."""
        return self.folder.path

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.folder.source, self.folder.target

    @property
    def protects(self) -> bool:
        """Whether it was made for stand-ins for what must be copied."""
        return self.folder.protect

    @cached_property
    def lexicon(self) -> Lexicon:
        """What it has learnt of its languages; without a list: the characters that its pieces have whole."""
        letters = (c for number in range(len(self.pieces)) for c in self.pieces.pieces([number])[0])  # read if need be
        return load_lexicon(self.folder.files, self.folder.verified, letters)

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The heads that alignments are read from."""
        return self.folder.alignment_heads

    @property
    def sha256(self) -> str:
        """A hash that stands for all files of the model."""
        return self.folder.sha256

    @property
    def device(self) -> str:
        """The device that it runs on."""
        return str(self.backend.device)

    @property
    def dtype(self) -> str:
        """The type that it computes in."""
        return str(self.backend.dtype).removeprefix("torch.")

    @property
    def numerics(self) -> str:
        """What bits depend on beside model and sentence: kernel family and number format."""
        return self.backend.numerics

    @property
    def kernels(self) -> str:
        """The variant of the C++ kernels that computes, or `none`."""
        return library.variant() if self.backend.name == "kernels" else "none"

    @property
    def max_source_length(self) -> int:
        """The most source pieces of a sentence, EOS included: positions, or what the model translates well."""
        room = self.folder.verifier.max_length // 2 - len(self.folder.verifier.source_prefix)
        return room if self.folder.longest is None else min(room, self.folder.longest + 1)

    @property
    def drafters(self) -> tuple[str, ...]:
        """The names of the network drafters that it has, and `self` where the verifier's replica costs little."""
        parts = {"masked": self.drafter, "autoregressive": self.folder.autoregressive}
        names = tuple(name for name, part in parts.items() if part is not None)
        return (*names, "self") if self.replica_cost is not None and self.replica_cost < CHEAP else names

    @property
    def block_size(self) -> int | None:
        """The block size that its masked drafter was trained for."""
        return None if self.folder.drafter is None else self.folder.drafter.block_size

    @cached_property
    def fast_verifier(self) -> Verifier:
        """The verifier in the fastest type of its backend, for drafts."""
        backend = self.backend.for_drafts()
        if backend.dtype == self.backend.dtype:
            return self.verifier
        weights = open_weights(self.folder, VERIFIER, verifier_shapes(self.folder.verifier))
        return make_verifier(weights, self.folder.verifier, backend)

    @cached_property
    def replica_cost(self) -> float | None:
        """About what a step of the verifier's replica costs, in steps of the verifier; ``None`` where there is none.

        That is its share of the bytes of weights that are read.
        """
        config = self.folder.verifier
        width, bits = config.model_dim, self.backend.replica_bits(config.model_dim)
        if bits is None:
            return None
        layers = config.decoder_layers * (6 * width + 2 * config.ffn_dim) * width
        said = config.vocab_size if self.folder.shortlist is None else min(config.vocab_size, LISTED)
        # Whatever the type, most of the verifier's outputs are looked through in int8.
        verifier = layers * self.backend.dtype.itemsize + config.vocab_size * width
        return bits / 8 * (layers + said * width) / verifier

    @cached_property
    def replica(self) -> Scorer:
        """The verifier's decoder in a cheaper type, over the verifier's own caches, where it has a cost."""
        weights = open_weights(self.folder, VERIFIER, verifier_shapes(self.folder.verifier))
        return self.backend.replica(weights, verifier_sizes(self.folder.verifier))

    @cached_property
    def autoregressive(self) -> Scorer | None:
        """The autoregressive drafter, if the folder has one.

        :raises ModelError: it is damaged.
        """
        config = self.folder.autoregressive
        if config is None:
            return None
        weights = open_weights(self.folder, AUTOREGRESSIVE, autoregressive_shapes(config))
        return self.backend.for_drafts().autoregressive_drafter(weights, decoder_sizes(config))

    @cached_property
    def shortlist(self) -> Shortlist:
        """What may be said of a sentence, memory-mapped.

        :raises ModelError: the folder has no shortlist, or it is damaged.
        """
        from specmt.decoding.shortlist import Shortlist

        if self.folder.shortlist is None:
            raise ModelError(
                f"{self.path}: the model has no shortlist; learn one with `specmt shortlist {self.path} FILES`, "
                "or decode without it."
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
        from specmt.models.modules import create_verifier, load_verifier_weights

        # fairseq2 has no int8.
        kind = torch.float32 if self.backend.dtype == torch.int8 else self.backend.dtype
        model = create_verifier(self.folder.verifier, self.backend.device).to(kind)
        load_verifier_weights(model, self.folder.weights(VERIFIER))
        return model.eval()


def load_model(
    name: str | Path | None = None,
    *,
    source: str | None = None,
    target: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    deterministic: bool = True,
    kernels: bool = True,
) -> Model:
    """Loads a model: a folder, a bundled model by name, or the bundled one of a direction.

    :param source: a language, in any spelling; what is left out is as the model has it (`specmt.models.folder.find`)
    :param dtype: a number format; ``auto`` is what the model says, else int8 on the kernels, else bfloat16 where the
        device computes in it, else float32
    :param deterministic: whether bits must not depend on the batch; on the kernels they never do.
    :param kernels: whether to run on the C++ kernels where they are there; PyTorch is the other way.
    :raises ModelError: there is no such model, or a file of it is damaged.
    :raises UsageError: device or type are unknown or not there, the model is for other languages, or there cannot be so
        many threads.
    :raises MemoryError: there is not enough memory.
    """
    check_threads(threads)
    if signals.memory_is_full():  # where some libraries would end the process without a word
        raise MemoryError
    folder = find(name, source=source, target=target)
    if threads is not None:
        torch.set_num_threads(threads)
    place = choose_device(device)
    dtype = folder.dtype if dtype == "auto" else dtype
    kind = choose_dtype(dtype, place)
    pieces = load_pieces(folder.files, folder.verified)
    for side, wanted, actual in (
        ("target", folder.verifier.vocab_size, len(pieces)),
        ("source", folder.verifier.source_pieces, pieces.source_size),
    ):
        if actual != wanted:
            raise ModelError(f"{folder.path}: there must be {wanted} {side} pieces, but there are {actual} instead.")
    weights = open_weights(folder, VERIFIER, verifier_shapes(folder.verifier))
    if dtype == "auto" and kernels and can_run(folder.verifier, place, torch.int8):
        kind = torch.int8  # the fastest, as good as the others, and on all processors the same
    backend, verifier = choose_backend(
        weights, folder.verifier, place, kind, deterministic=deterministic, kernels=kernels
    )
    if threads is None:
        torch.set_num_threads(choose_threads(folder.verifier.model_dim))
    drafter = None
    if folder.drafter is not None:
        own = open_weights(folder, DRAFTER, drafter_shapes(folder.drafter))
        whole = own if folder.drafter.own_table else with_table(own, weights)
        drafter = backend.for_drafts().masked_drafter(whole, decoder_sizes(folder.drafter))
    return Model(folder, pieces, backend, verifier, drafter)


def choose_backend(
    weights: Mapping[str, Tensor],
    config: VerifierConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    deterministic: bool = True,
    kernels: bool = True,
) -> tuple[Backend, Verifier]:
    """Returns the fastest backend whose bits, where that is asked for, were found not to depend on the batch."""
    if kernels and can_run(config, device, dtype):
        backend: Backend = KernelBackend(dtype)
        return backend, make_verifier(weights, config, backend)
    if dtype == torch.int8:
        raise UsageError("`dtype` int8 needs the C++ kernels, which this machine or this model cannot use.")
    if device.type == "cuda":
        shapes = one_shape(config.max_length) if deterministic else COMPILED
    else:
        shapes = GRANULAR if deterministic else FREE
    backend = TorchBackend(device, dtype, shapes)
    verifier = make_verifier(weights, config, backend)
    if deterministic and not invariant_here(verifier, f"{config} {dtype} {device}"):
        backend = TorchBackend(device, dtype, fixed(config.max_length))
        verifier = make_verifier(weights, config, backend)
    return backend, verifier


def can_run(config: VerifierConfig, device: torch.device, dtype: torch.dtype) -> bool:
    """Returns whether the C++ kernels are there and made for a verifier."""
    return library.can_run(config.model_dim, verifier_sizes(config), config.ffn_dim, device, dtype)


def make_verifier(weights: Mapping[str, Tensor], config: VerifierConfig, backend: Backend) -> Verifier:
    """Returns a verifier on a backend."""
    return backend.verifier(
        weights, verifier_sizes(config), Prefixes(tuple(config.source_prefix), tuple(config.target_prefix))
    )


def fitting_weights(folder: ModelFolder, name: str, wanted: Shapes) -> dict[str, Tensor]:
    """Returns the weights in a file of a model folder.

    :raises ModelError: a weight is missing, of another shape or not called for.
    """
    weights = folder.weights(name)
    misfit = find_misfit(wanted, {key: tuple(tensor.shape) for key, tensor in weights.items()})
    if misfit is not None:
        raise ModelError(f"{folder.path}: {name} does not fit {CONFIG}: {misfit}.")
    return weights


def open_weights(folder: ModelFolder, name: str, wanted: Shapes) -> Mapping[str, Tensor]:
    """Returns the weights in a file of a model folder, which is read, and checked, when one of them is asked for.

    :raises ModelError: what of the file is looked at says that it is damaged or does not fit.
    """
    path = (folder.path / name).absolute()
    with suppress(ModelError):
        outline = read_outline(path)
        shapes = {key: tuple(tensor.shape) for key, tensor in outline.items()}
        if name in folder.files and shapes == wanted:
            identity = f"{path}, sha256 {folder.files[name]}"
            count = sum(tensor.numel() for tensor in outline.values())
            return StoredWeights(outline, partial(fitting_weights, folder, name, wanted), identity, (path,), count)
    return fitting_weights(folder, name, wanted)  # which says what is wrong


def with_table(drafter: Mapping[str, Tensor], verifier: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Returns the weights of a masked drafter whose embeddings are those of its verifier's decoder."""

    def joined(own: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {**own, "embed.weight": verifier_tables(others).target}

    if not isinstance(drafter, StoredWeights) or not isinstance(verifier, StoredWeights):
        return joined(drafter, verifier)
    return StoredWeights(
        joined(drafter.outline, verifier.outline),
        partial(joined, drafter, verifier),
        f"{drafter.identity}; {verifier.identity}",
        drafter.files + verifier.files,
        drafter.count + verifier.count,
    )


def verifier_sizes(config: VerifierConfig) -> Sizes:
    """Returns what the engine must know of a verifier beside its weights."""
    return Sizes(
        heads=config.num_heads,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        max_length=config.max_length,
        architecture=config,
    )


def decoder_sizes(config: DecoderConfig) -> Sizes:
    """Returns what the engine must know of a drafter beside its weights."""
    return Sizes(
        heads=config.num_heads,
        encoder_layers=0,
        decoder_layers=config.layers,
        max_length=config.max_length,
        architecture=config,
    )
