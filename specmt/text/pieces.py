"""Sentences to piece ids and back; a file that is missing, or not what it should be, raises `ModelError`."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final, TypeVar, final

import numpy as np
import numpy.typing as npt
import sentencepiece

from specmt.errors import ModelError
from specmt.types import EOS, UNK

PIECES: Final = "pieces.model"
SOURCE_PIECES: Final = "source.spm"
TARGET_PIECES: Final = "target.spm"
VOCABULARY: Final = "vocabulary.json"

P = TypeVar("P", int, str)


@final
class Side:
    """The pieces of a language, which SentencePiece cuts text into, and joins.

    It numbers them itself, with PAD, UNK, BOS and EOS as 0 to 3, or a list does. What the list lacks is UNK, and
    special ids have no text. Byte fallback lets every character through; what SentencePiece would normalise away (runs
    of spaces, spaces at either end) is the caller's to keep.
    """

    def __init__(
        self,
        processor: sentencepiece.SentencePieceProcessor,
        names: Sequence[str] | None = None,
        silent: Container[str] = (),
    ) -> None:
        """
        :param names: the list
        :param silent: those of it that have no text, such as names of languages
        """
        self.processor, self.names, self._silent = processor, names, silent
        # Text never stands for a special id, whatever it looks like.
        self.ids = {piece: i for i, piece in enumerate(names or ()) if i > EOS}
        self._piece = cache(processor.id_to_piece) if names is None else names.__getitem__

    def __len__(self) -> int:
        return int(self.processor.get_piece_size()) if self.names is None else len(self.names)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of sentences."""
        if self.names is None:
            return self._cut(texts, int)
        return [[self.ids.get(piece, UNK) for piece in pieces] for pieces in self._cut(texts, str)]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids."""
        if self.names is None:
            return str(self.processor.decode(list(ids)))
        text = self.processor.decode_pieces([p for i in ids if i > EOS and (p := self.names[i]) not in self._silent])
        # A piece that the SentencePiece model does not know keeps its mark.
        return str(text).replace("▁", " ").strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of ids."""
        return [self._piece(i) for i in ids]

    @cached_property
    def starts(self) -> npt.NDArray[np.bool_]:
        """(V) whether each piece begins a word."""
        return np.array([piece.startswith("▁") for piece in self.pieces(range(len(self)))])

    def _cut(self, texts: Sequence[str], kind: type[P]) -> list[list[P]]:
        """Returns the pieces of texts, or their ids."""
        if len(texts) == 1:  # for a list a thread is started, which takes longer than a sentence
            return [list(self.processor.encode(texts[0], out_type=kind))]
        return list(self.processor.encode(list(texts), out_type=kind, num_threads=1))


class PieceModel:
    """What turns sentences into ids, of which 0 to 3 are PAD, UNK, BOS and EOS, and ids into text."""

    def __init__(self, source: Side, target: Side) -> None:
        self.source, self.target = source, target

    @property
    def shared(self) -> bool:
        """Whether ids mean the same in source and target."""
        return self.source.names is self.target.names

    def __len__(self) -> int:
        """Returns the number of target pieces."""
        return len(self.target)

    @property
    def source_size(self) -> int:
        """The number of source pieces."""
        return len(self.source)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a source sentence, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many source sentences, without BOS and EOS."""
        return self.source.encode(texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the target ids of many sentences, without BOS and EOS."""
        return self.target.encode(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of target ids."""
        return self.target.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of target ids, word boundaries shown as ▁."""
        return self.target.pieces(ids)

    def decode_source(self, ids: Sequence[int]) -> str:
        """Returns the text of source ids."""
        return self.source.decode(ids)

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of source ids, word boundaries shown as ▁."""
        return self.source.pieces(ids)

    def to_target(self, ids: Sequence[int]) -> list[int]:
        """Returns the target ids of the pieces that source ids stand for, UNK where the target has none."""
        if self.shared:
            return list(ids)
        names = zip(ids, self.source_pieces(ids), strict=True)
        return [i if i <= EOS else self.target.ids.get(name, UNK) for i, name in names]


@final
class Pieces(PieceModel):
    """A SentencePiece model that numbers the pieces of both languages."""

    def __init__(self, path: Path) -> None:
        super().__init__(*[Side(load_processor(path))] * 2)


def load_pieces(names: Container[str], locate: Callable[[str], Path]) -> PieceModel:
    """Returns the pieces of a model.

    :param names: the names of the model's files
    :param locate: returns the path of a file of the model
    """
    if VOCABULARY not in names:
        return Pieces(locate(PIECES))
    source = locate(SOURCE_PIECES)
    target = locate(TARGET_PIECES) if TARGET_PIECES in names else source
    return imported_pieces(source, target, locate(VOCABULARY))


def imported_pieces(source: Path, target: Path, vocabulary: Path) -> PieceModel:
    """Returns the pieces of an imported model.

    :param source: the SentencePiece model that cuts sources
    :param target: the one that joins translations, often the same file
    :param vocabulary: JSON, ``source`` and ``target`` with the pieces in the order of ids; no source: it is shared;
        perhaps ``silent``, those of them that have no text, such as names of languages
    """
    own = load_processor(source)
    other = own if target == source else load_processor(target)
    try:
        record = json.loads(vocabulary.read_text(encoding="utf-8"))
        names = _checked(record["target"])
        silent = frozenset(record.get("silent", ()))
        listed = names if record["source"] is None else _checked(record["source"])
        return PieceModel(Side(own, listed, silent), Side(other, names, silent))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{vocabulary}: cannot be read as lists of pieces ({error}).") from error


def load_processor(path: Path, data: bytes | None = None) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model."""
    try:
        return sentencepiece.SentencePieceProcessor(model_file=None if data else str(path), model_proto=data)
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{path}: cannot be read as a SentencePiece model ({error}).") from error


def _checked(pieces: object) -> list[str]:
    if not (isinstance(pieces, list) and len(pieces) > EOS and all(isinstance(piece, str) for piece in pieces)):
        raise ValueError("a list of pieces must have strings, more than four")
    return pieces
