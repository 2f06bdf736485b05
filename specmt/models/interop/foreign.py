"""Describes an encoder-decoder model of another program, and writes it as a model folder of ours."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

import numpy as np

from specmt.engine.arrays import Array, to_floats
from specmt.engine.weights import Rounded, Weight
from specmt.errors import ModelError, OutputError, UsageError
from specmt.models.config import ShortlistConfig, VerifierConfig
from specmt.models.describe import IMPORTED
from specmt.models.folder import CARD, ModelFolder
from specmt.models.parameters import find_misfit, verifier_shapes
from specmt.models.reading import read_bytes
from specmt.models.writing import add_shortlist, write_folder, write_heads
from specmt.options import AlignmentHeads
from specmt.text.pieces import SOURCE_PIECES, TARGET_PIECES, VOCABULARY
from specmt.text.printable import printable
from specmt.text.shortlist import Shortlist
from specmt.types import BOS, EOS, PAD, UNK

SOURCE_TABLE: Final = "encoder_frontend.embed.weight"
TARGET_TABLE: Final = "decoder_frontend.embed.weight"
OUTPUT_TABLE: Final = "final_proj.weight"
OUTPUT_BIAS: Final = "final_proj.bias"

NEVER: Final = -65504.0
"""The output bias of what is never emitted: float16 has it, and it leaves no probability."""

CONTROL: Final = ("<pad>", "<unk>", "<s>", "</s>")
"""Our pieces of ids 0 to 3."""

_ACTIVATIONS: Final = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}
_LANGUAGE: Final = re.compile(r"(?:__)?([a-z]{2,3}(?:_[A-Z][a-z]{3})?)(?:__)?")
_LICENCE: Final = re.compile(r"^license:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)


class Options(dict[str, Any]):
    """The options of a foreign configuration."""

    def __init__(self, where: object, values: Mapping[str, Any]) -> None:
        """
        :param where: what to name in errors
        """
        super().__init__(values)
        self.where = where

    def __missing__(self, name: str) -> Any:
        raise ModelError(f"{self.where}: has no `{name}`.")

    def require(self, needed: Mapping[str, Sequence[object]]) -> None:
        """Checks options against the values that can be run, of which an absent one has the first."""
        for name, values in needed.items():
            if self.get(name, values[0]) not in values:
                wanted = " or ".join("absent" if value is None else repr(value) for value in values)
                raise ModelError(f"{self.where}: `{name}` must be {wanted}, but is {shortened(self[name])} instead.")

    def activation(self, name: str, default: str) -> Any:
        """Returns our name of an activation."""
        value = self.get(name, default)
        if value not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise ModelError(f"{self.where}: `{name}` must be one of {known}, but is {shortened(value)} instead.")
        return _ACTIVATIONS[value]

    def configure(self, **fields: Any) -> VerifierConfig:
        """Returns a configuration of ours with an output bias."""
        try:
            return VerifierConfig(output_bias=True, **fields)
        except UsageError as error:
            raise ModelError(f"{self.where}: cannot be run: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The pieces of one or both languages as a foreign model numbers them.

    Our ids 0 to 3 are PAD, UNK, BOS and EOS; the others follow in their order.
    """

    pieces: Sequence[str]
    """By foreign id."""

    unk: int
    eos: int

    pad: int | None = None
    """``None`` where there is none."""

    start: int | None = None
    """What a decoder starts with; ``None`` where that is nothing, a row of zeros."""

    added: Sequence[int] = ()
    """The ids of pieces that no text has, such as languages."""

    displaced_last: bool = False
    """Whether what our first four ids displace goes to the end, so that all others keep their ids."""

    @property
    def languages(self) -> dict[str, int]:
        """The ids of the pieces that name languages, by their codes."""
        matches = ((_LANGUAGE.fullmatch(self.pieces[i]), i) for i in self.added)
        return {match[1]: i for match, i in matches if match}

    @property
    def shares_start(self) -> bool:
        """Whether the start is also something else, or nothing, so that BOS itself is never emitted."""
        return self.start in (None, self.pad, self.unk, self.eos)

    def rows(self) -> list[int]:
        """Returns the foreign id of each of ours, -1 where there is none."""
        first = (self.pad, self.unk, self.start, self.eos)
        rest = [i for i in range(len(self.pieces)) if i not in first]
        if self.displaced_last:
            rest.sort(key=lambda i: i < len(first))
        return [*(-1 if i is None else i for i in first), *rest]

    def ids(self) -> dict[int, int]:
        """Returns our id of each foreign one."""
        ids = {row: i for i, row in enumerate(self.rows()) if i != BOS or not self.shares_start}
        return ids | {self.unk: UNK, self.eos: EOS}

    def ordered(self) -> list[str]:
        """Returns the pieces by our ids."""
        return [*CONTROL, *(self.pieces[row] for row in self.rows()[len(CONTROL) :])]


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A model of another program, its weights still to be read."""

    origin: Path
    """The file of its weights, for errors."""

    kind: str
    """What it is there, such as ``Marian (Hugging Face)``."""

    config: VerifierConfig

    target: Vocabulary

    source: Vocabulary | None = None
    """``None`` if it is shared."""

    source_spm: bytes
    target_spm: bytes
    """What is in their SentencePiece models."""

    read: Callable[[str], Weight | None]
    """Returns a weight by our name, tables and the output bias in the foreign order; ``None`` for a bias of zeros."""

    never: Collection[int] = ()
    """The foreign ids that are never to be emitted, beside padding and the start."""

    heads: AlignmentHeads | None = None
    """Those that it was trained to align words with, if it was."""

    shortlist: tuple[Shortlist, ShortlistConfig] | None = None
    """What may be said of a source, by our ids, if it has such a list."""


def number_pieces(ids: Mapping[str, Any], path: Path) -> list[str]:
    """Returns pieces in the order of their ids."""
    if sorted(ids.values()) != list(range(len(ids))):
        raise ModelError(f"{path}: the ids of its {len(ids)} pieces must be 0 to {len(ids) - 1}, each once.")
    return sorted(ids, key=ids.__getitem__)


@contextmanager
def importing(source: str, folder: Path) -> Iterator[Path]:
    """Yields a folder to write into, which takes its name when the block ends, and vanishes if it fails.

    What a foreign file breaks, such as an object where a number must be, is a ``ModelError`` too.

    :param source: what to name in that error
    """
    folder = folder.absolute()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder}: must be a new or an empty folder, but there is something already.")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}).") from error
    try:
        yield temporary
        try:
            temporary.replace(folder)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written ({error.strerror}).") from error
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, TypeError | ValueError | LookupError | AttributeError | ArithmeticError | RuntimeError):
            reason = printable(" ".join(str(error).split()))
            raise ModelError(f"{source}: is not such a model ({type(error).__name__}: {reason}).") from error
        raise


def licence_of(folder: Path) -> str | None:
    """Returns the licence that the README of a Hugging Face folder names at its head, if it does."""
    if not (folder / CARD).exists():
        return None
    parts = read_bytes(folder / CARD).decode(errors="replace").split("---", 2)
    found = _LICENCE.search(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    return found[1].strip("\"'") if found else None


def write_model(
    folder: Path,
    foreign: Foreign,
    *,
    name: str,
    languages: tuple[str, str],
    licence: str | None = None,
    notes: Sequence[str] = (),
    imported: Mapping[str, str] | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> None:
    """Writes a foreign model as a model folder of ours, every bit of its weights kept, codes of int8 too.

    It was trained without masks for placeholders, so its configuration has ``protect`` false.

    :param name: what it was imported from
    :param notes: sentences for the model card
    :param imported: the sha256 of the files that it is made from, by name, for the card
    """
    config, shapes = foreign.config, verifier_shapes(foreign.config)
    weights: dict[str, Weight] = {}
    for number, weight in enumerate(shapes, start=1):
        progress(f"reading {number} of {len(shapes)} weights")
        weights[weight] = _reordered(foreign, weight)
    misfit = find_misfit(shapes, {weight: array.shape for weight, array in weights.items()})
    if misfit is not None:
        raise ModelError(f"{foreign.origin}: does not fit its configuration: {misfit}.")
    progress("writing")
    source, target = languages
    write_folder(
        folder,
        source=source,
        target=target,
        pieces=_write_pieces(folder, foreign),
        verifier=config,
        verifier_weights=weights,
        exact=True,
        protect=False,
    )
    if foreign.heads is not None:
        write_heads(folder, foreign.heads)
    if foreign.shortlist is not None:
        shortlist, learnt = foreign.shortlist
        add_shortlist(folder, learnt, asdict(shortlist))
    lines = [
        f"# {Path(name).name}",
        "",
        f"{source}→{target} translation, imported by `specmt import`: encoder-decoder Transformer, "
        f"{config.encoder_layers}+{config.decoder_layers} layers, width {config.model_dim}, "
        f"{config.vocab_size} target pieces.",
        "",
        f"- **From:** {name}, {foreign.kind}",
        f"- **Licence of the weights:** {licence or 'not said by its files; see where it is from'}",
        *[f"- {note}" for note in notes],
        *_digests("Files", ModelFolder.read(folder).files),
        *(_digests(IMPORTED, imported) if imported else ()),
    ]
    (folder / CARD).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _digests(heading: str, files: Mapping[str, str]) -> list[str]:
    rows = (f"| {printable(file)} | {digest} |" for file, digest in files.items())
    return ["", f"## {heading}", "", "| file | sha256 |", "|-|-|", *rows]


def _reordered(foreign: Foreign, name: str) -> Weight:
    """Returns a weight with the rows of tables in our order."""
    array = foreign.read(name)
    vocabulary = foreign.source or foreign.target if name == SOURCE_TABLE else foreign.target
    rows = len(vocabulary.pieces)
    if array is None:
        if name != OUTPUT_BIAS:
            raise ModelError(f"{foreign.origin}: has no {name}.")
        array = np.zeros(rows, dtype=np.float32)
    if name not in (SOURCE_TABLE, TARGET_TABLE, OUTPUT_TABLE, OUTPUT_BIAS):
        return array
    if name == OUTPUT_BIAS and not isinstance(array, Rounded):
        array = to_floats(array.ravel())
    if len(array) != rows:
        raise ModelError(
            f"{foreign.origin}: the vocabulary must have as many pieces as {name} has rows, {len(array)}, "
            f"but has {rows} instead."
        )
    index = np.array(vocabulary.rows())
    if isinstance(array, Rounded):
        return Rounded(_picked(array.values, index), array.scale[index])
    ours = _picked(array, index)
    if name == OUTPUT_BIAS:
        ids = vocabulary.ids()
        ours[[PAD, *[BOS] * vocabulary.shares_start, *(ids[i] for i in foreign.never)]] = NEVER
    return ours


def _picked(array: Array, index: Array) -> Array:
    """Returns rows of an array, zeros for those of a number below 0."""
    rows: Array = array[index]
    rows[index < 0] = 0
    return rows


def _write_pieces(folder: Path, foreign: Foreign) -> list[Path]:
    """Writes the lists of pieces and the SentencePiece models and returns the files."""
    target = foreign.target
    lists: dict[str, Any] = {
        "source": None if foreign.source is None else foreign.source.ordered(),
        "target": target.ordered(),
    }
    if target.added:
        lists["silent"] = [*CONTROL, *(target.pieces[i] for i in target.added)]
    vocabulary = folder / VOCABULARY
    vocabulary.write_text(json.dumps(lists, ensure_ascii=False) + "\n", encoding="utf-8")
    files = [vocabulary]
    models = dict.fromkeys((foreign.source_spm, foreign.target_spm))
    for name, model in zip((SOURCE_PIECES, TARGET_PIECES), models, strict=False):
        (folder / name).write_bytes(model)
        files.append(folder / name)
    return files
