"""Model folders to models that decode."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from specmt import signals
from specmt.engine import backends
from specmt.engine.architecture import Prefixes, Sizes
from specmt.engine.kernels import library
from specmt.engine.protocols import Backend, DraftNetwork, Kind, Scorer, Verifier
from specmt.engine.threads import choose_threads, processor, thread_count, use_threads
from specmt.engine.weights import DRAFTER_TABLES, StoredWeights, Weight, Weights, verifier_tables
from specmt.errors import ModelError
from specmt.models.config import DecoderConfig, DrafterConfig, VerifierConfig
from specmt.models.folder import CONFIG, DRAFTERS, SHORTLIST, VERIFIER, ModelFolder, find, read_settled
from specmt.models.parameters import Shapes, drafter_shapes, find_misfit, verifier_shapes
from specmt.models.reads import count_weights, share_of
from specmt.models.tensors import read_arrays, read_outline
from specmt.options import AlignmentHeads, Calibration, check_threads
from specmt.text.confidence import Confidence
from specmt.text.lexicon import Lexicon, load_lexicon
from specmt.text.pieces import PieceModel, load_pieces
from specmt.text.shortlist import DRAFTED_ALWAYS, DRAFTED_EACH, Shortlist

if TYPE_CHECKING:
    from fairseq2.models.transformer import TransformerModel


@dataclass
class Model:
    """A loaded model: pieces, verifier and, if it has them, drafters; asking for a damaged part raises `ModelError`."""

    folder: ModelFolder
    pieces: PieceModel
    backend: Backend
    verifier: Verifier
    weights: Weights
    """Of the verifier."""

    packing: float = 0.0
    """Seconds in which a weight of the verifier was read, checked and packed, on this day or another."""

    loading: float = 0.0
    """Seconds in which a byte of it came into memory today."""

    costs: dict[str, dict[float, list[float]]] = field(default_factory=dict)
    """Seconds of calls (specmt.decoding.tables)."""

    networks: dict[str, DraftNetwork] = field(default_factory=dict, init=False)
    """Of drafters, as far as they were asked for."""

    _prices: dict[str, float] = field(default_factory=dict)

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
        pieces = self.pieces
        return load_lexicon(
            self.folder.files, self.folder.verified, lambda: frozenset("".join(pieces.pieces([*range(len(pieces))])))
        )

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The heads that alignments are read from."""
        return self.folder.alignment_heads

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """How far drafters can be trusted, of those that were measured."""
        return self.folder.calibrations

    @property
    def confidence(self) -> Confidence | None:
        """What tells how likely translations are to be acceptable, if that was fitted."""
        return self.folder.confidence

    @property
    def costs_key(self) -> str:
        """What seconds of calls depend on."""
        return f"{self.sha256}, {self.numerics}, {self.kernels}, {thread_count()} threads, {processor()}"

    @property
    def sha256(self) -> str:
        """A hash that stands for all files of the model."""
        return self.folder.sha256

    @property
    def device(self) -> str:
        """The device that it runs on."""
        return self.backend.device

    @property
    def dtype(self) -> str:
        """The number format that it computes in."""
        return self.backend.format

    @property
    def numerics(self) -> str:
        """What bits depend on beside model and sentence: kernel family and number format."""
        return self.backend.numerics

    @property
    def shortlists_pay(self) -> bool:
        """Whether less is computed where a sentence may say less."""
        return self.backend.shortlists_pay

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
        """The names of the network drafters that it has, and `self` where the verifier has a replica."""
        return (*self.folder.drafters, *["self"] * self._has_replica)

    @property
    def _has_replica(self) -> bool:
        return self.backend.bits("self", self.folder.verifier.model_dim) is not None

    @property
    def block_size(self) -> int | None:
        """The block size that its masked drafter was trained for."""
        return None if self.folder.drafter is None else self.folder.drafter.block_size

    def network(self, name: str) -> DraftNetwork | None:
        """Returns the network of a drafter, if the folder has it."""
        for kind, config in self.folder.drafters.items():
            if kind == name and kind not in self.networks:
                self.networks[kind] = self.backend.drafter(kind, self._drafter_weights(kind), decoder_sizes(config))
        return self.networks.get(name)

    def _drafter_weights(self, kind: Kind) -> Weights:
        config = self.folder.drafters[kind]
        weights = open_weights(self.folder, DRAFTERS[kind], drafter_shapes(config))
        is_whole = not isinstance(config, DrafterConfig) or config.own_table
        return weights if is_whole else with_table(weights, self.weights)

    def share(self, name: str) -> float:
        """Returns the share of the bytes of a call of the verifier that one of a drafter, or of the replica, reads."""
        return share_of(self.folder, self.backend, name)

    def price(self, name: str) -> float:
        """Returns the seconds that making the network of a drafter takes, or the replica; 0 once it is there."""
        if name in self.networks or (name == "self" and "replica" in self.__dict__):
            return 0.0
        if name not in self._prices:
            weights, sizes = self.weights, verifier_sizes(self.folder.verifier)
            for kind, config in self.folder.drafters.items():
                if kind == name:
                    weights, sizes = self._drafter_weights(kind), decoder_sizes(config)
            kept = self.backend.kept(name, weights, sizes)
            packing = self.packing * count_weights(self.folder, name)
            self._prices[name] = packing if kept is None else self.loading * kept.size
        return self._prices[name]

    @cached_property
    def replica(self) -> Scorer:
        """The verifier's decoder over the verifier's own caches, in a cheaper format where that has a cost."""
        if not self._has_replica:
            return self.verifier
        return self.backend.replica(self.weights, verifier_sizes(self.folder.verifier))

    @cached_property
    def shortlist(self) -> Shortlist:
        """What may be said of a sentence, memory-mapped."""
        if self.folder.shortlist is None:
            raise ModelError(
                f"{self.path}: the model has no shortlist; learn one with `specmt shortlist {self.path} FILES`, "
                "or decode without it."
            )
        arrays = read_arrays(self.folder.verified(SHORTLIST))
        if arrays.keys() == Shortlist.__dataclass_fields__.keys():
            shortlist = Shortlist(**arrays)
            if shortlist.fits(self.folder.verifier.source_pieces, self.folder.verifier.vocab_size):
                return shortlist
        raise ModelError(f"{self.path}: {SHORTLIST} does not fit {CONFIG}; learn it again with `specmt shortlist`.")

    @cached_property
    def draft_shortlist(self) -> Shortlist | None:
        """What drafts are chosen from; without a shortlist, all that may be said."""
        return None if self.folder.shortlist is None else self.shortlist.narrow(DRAFTED_ALWAYS, DRAFTED_EACH)

    @cached_property
    def reference(self) -> TransformerModel:
        """The verifier as fairseq2 modules with the same weights, in its number format; in float32 for int8."""
        import torch

        from specmt.models.reference.modules import reference_of

        module = reference_of(self.folder, torch.device(self.device))
        return module.to(torch.float32 if self.dtype == "int8" else getattr(torch, self.dtype)).eval()


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

    def load(folder: ModelFolder) -> Model:
        return _load(folder, device, dtype, threads, deterministic=deterministic, kernels=kernels)

    return read_settled(find(name, source=source, target=target), load)


def _load(
    folder: ModelFolder, device: str, dtype: str, threads: int | None, *, deterministic: bool, kernels: bool
) -> Model:
    config = folder.verifier
    use_threads(choose_threads(config.model_dim) if threads is None else threads)
    format = folder.dtype if dtype == "auto" else dtype
    backend = choose_backend(config, device, format, deterministic=deterministic, kernels=kernels)
    pieces = load_pieces(folder.files, folder.verified)
    for side, wanted, actual in (
        ("target", config.vocab_size, len(pieces)),
        ("source", config.source_pieces, pieces.source_size),
    ):
        if actual != wanted:
            raise ModelError(f"{folder.path}: there must be {wanted} {side} pieces, but there are {actual} instead.")
    weights = open_weights(folder, VERIFIER, verifier_shapes(config))
    kept = backend.kept("verifier", weights, verifier_sizes(config))
    started = time.perf_counter()
    verifier = make_verifier(weights, config, backend)
    seconds = time.perf_counter() - started
    count = count_weights(folder, "verifier")
    packed, size = kept or (seconds, count)
    return Model(folder, pieces, backend, verifier, weights, packed / count, seconds / size)


def choose_backend(
    config: VerifierConfig, device: str, format: str, *, deterministic: bool = True, kernels: bool = True
) -> Backend:
    """Returns the fastest backend for a verifier (`specmt.engine.backends.choose`)."""
    return backends.choose(
        device,
        format,
        sizes=verifier_sizes(config),
        width=config.model_dim,
        ffn=config.ffn_dim,
        deterministic=deterministic,
        kernels=kernels,
    )


def make_verifier(weights: Weights, config: VerifierConfig, backend: Backend) -> Verifier:
    """Returns a verifier on a backend."""
    return backend.verifier(weights, verifier_sizes(config), Prefixes(config.source_prefix, config.target_prefix))


def fitting_weights(folder: ModelFolder, name: str, wanted: Shapes) -> dict[str, Weight]:
    """Returns the weights in a file of a model folder.

    :raises ModelError: a weight is missing, of another shape or not called for.
    """
    weights = folder.weights(name)
    misfit = find_misfit(wanted, {key: weight.shape for key, weight in weights.items()})
    if misfit is not None:
        raise ModelError(f"{folder.path}: {name} does not fit {CONFIG}: {misfit}.")
    return weights


def open_weights(folder: ModelFolder, name: str, wanted: Shapes) -> Weights:
    """Returns the weights in a file of a model folder, which is read, and checked, when one of them is asked for.

    :raises ModelError: what of the file is looked at says that it is damaged or does not fit.
    """
    path = folder.file(name).absolute()
    with suppress(ModelError):
        outline = read_outline(path)
        shapes = {key: known.shape for key, known in outline.items()}
        if name in folder.files and shapes == wanted:
            identity = f"{path}, sha256 {folder.files[name]}"
            count = sum(map(prod, shapes.values()))
            return StoredWeights(outline, partial(fitting_weights, folder, name, wanted), identity, (path,), count)
    return fitting_weights(folder, name, wanted)  # which says what is wrong


def with_table(drafter: Weights, verifier: Weights) -> Weights:
    """Returns the weights of a masked drafter whose embeddings are those of its verifier's decoder."""
    table = verifier_tables(verifier).target

    def joined() -> dict[str, Weight]:
        return {**drafter, DRAFTER_TABLES.target: verifier[table]}

    if not isinstance(drafter, StoredWeights) or not isinstance(verifier, StoredWeights):
        return joined()
    outline = {**drafter.outline, DRAFTER_TABLES.target: verifier.outline[table]}
    return StoredWeights(
        outline,
        joined,
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
