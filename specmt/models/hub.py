"""Model folders to models that decode."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specmt import signals
from specmt.engine import backends
from specmt.engine.architecture import Prefixes, Sizes
from specmt.engine.kernels import library
from specmt.engine.kernels.backend import BITS
from specmt.engine.protocols import Backend, DraftNetwork, Scorer, Verifier
from specmt.engine.threads import choose_threads, use_threads
from specmt.engine.weights import DRAFTER_TABLES, Outline, StoredWeights, Weight, Weights, verifier_tables
from specmt.errors import ModelError
from specmt.models.config import DecoderConfig, VerifierConfig
from specmt.models.folder import AUTOREGRESSIVE, CONFIG, DRAFTER, SHORTLIST, VERIFIER, ModelFolder, find
from specmt.models.parameters import Shapes, autoregressive_shapes, drafter_shapes, find_misfit, verifier_shapes
from specmt.models.tensors import read_arrays, read_outline
from specmt.options import AlignmentHeads, Calibration, check_threads
from specmt.text.lexicon import Lexicon, load_lexicon
from specmt.text.pieces import PieceModel, load_pieces
from specmt.text.shortlist import DRAFTED_ALWAYS, DRAFTED_EACH, Shortlist

if TYPE_CHECKING:
    from fairseq2.models.transformer import TransformerModel

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
    weights: Weights
    """Of the verifier."""
    """The masked one."""

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
    def calibration(self) -> Calibration | None:
        """Of the masked drafter, if it was measured."""
        return self.folder.calibration

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
    def row_cost(self) -> float:
        """About what a further token in a step costs, in steps of one token."""
        return self.backend.row_cost(self.folder.verifier.model_dim)

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
        parts = {"masked": self.folder.drafter, "autoregressive": self.folder.autoregressive}
        names = tuple(name for name, part in parts.items() if part is not None)
        return (*names, "self") if self.replica_cost is not None and self.replica_cost < CHEAP else names

    @property
    def block_size(self) -> int | None:
        """The block size that its masked drafter was trained for."""
        return None if self.folder.drafter is None else self.folder.drafter.block_size

    @cached_property
    def replica_cost(self) -> float | None:
        """About what a step of the verifier's replica costs, in steps of the verifier; ``None`` where there is none.

        That is its share of the bytes of weights that are read.
        """
        config = self.folder.verifier
        width, bits = config.model_dim, self.backend.replica_bits(config.model_dim)
        if bits is None:
            return None
        own = 4 if config.decoder == "attention" else 2  # matrices, besides two of attention to the source
        layers = config.decoder_layers * ((own + 2) * width + 2 * config.ffn_dim) * width
        said = config.vocab_size if self.folder.shortlist is None else min(config.vocab_size, LISTED)
        # Whatever the format, most of the verifier's outputs are looked through in int8.
        verifier = layers * BITS[self.backend.format] / 8 + config.vocab_size * width
        return bits / 8 * (layers + said * width) / verifier

    @cached_property
    def replica(self) -> Scorer:
        """The verifier's decoder over the verifier's own caches, in a cheaper format where that has a cost.

        :raises ModelError: its weights are damaged.
        """
        if self.replica_cost is None:
            return self.verifier
        return self.backend.replica(self.weights, verifier_sizes(self.folder.verifier))

    @cached_property
    def drafter(self) -> DraftNetwork | None:
        """The masked drafter, if the folder has one.

        :raises ModelError: it is damaged.
        """
        config = self.folder.drafter
        if config is None:
            return None
        own = open_weights(self.folder, DRAFTER, drafter_shapes(config))
        whole = own if config.own_table else with_table(own, self.weights)
        return self.backend.drafter("masked", whole, decoder_sizes(config))

    @cached_property
    def autoregressive(self) -> DraftNetwork | None:
        """The autoregressive drafter, if the folder has one.

        :raises ModelError: it is damaged.
        """
        config = self.folder.autoregressive
        if config is None:
            return None
        weights = open_weights(self.folder, AUTOREGRESSIVE, autoregressive_shapes(config))
        return self.backend.drafter("autoregressive", weights, decoder_sizes(config))

    @cached_property
    def shortlist(self) -> Shortlist:
        """What may be said of a sentence, memory-mapped.

        :raises ModelError: the folder has no shortlist, or it is damaged.
        """
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
        """What drafts are chosen from; without a shortlist, all that may be said.

        :raises ModelError: it is damaged.
        """
        return None if self.folder.shortlist is None else self.shortlist.narrow(DRAFTED_ALWAYS, DRAFTED_EACH)

    @cached_property
    def reference(self) -> TransformerModel:
        """The verifier as fairseq2 modules with the same weights, on PyTorch.

        :raises ModelError: its weights are damaged.
        """
        from specmt.models.reference.modules import reference_of

        return reference_of(self)


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
    verifier = make_verifier(weights, config, backend)
    return Model(folder, pieces, backend, verifier, weights)


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
    path = (folder.path / name).absolute()
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

    def joined() -> dict[str, Weight]:
        return {**drafter, DRAFTER_TABLES.target: verifier[verifier_tables(verifier).target]}

    if not isinstance(drafter, StoredWeights) or not isinstance(verifier, StoredWeights):
        return joined()
    outline: dict[str, Outline] = {
        **drafter.outline,
        DRAFTER_TABLES.target: verifier.outline[verifier_tables(verifier).target],
    }
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
