"""Sentences to piece ids and back; a file that is missing, or not what it should be, raises `ModelError`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt
import sentencepiece
from typing_extensions import override

from specmt.errors import ModelError
from specmt.types import EOS, UNK

PIECES: Final = "pieces.model"
SOURCE_PIECES: Final = "source.spm"
TARGET_PIECES: Final = "target.spm"
VOCABULARY: Final = "vocabulary.json"


Flags: TypeAlias = npt.NDArray[np.bool_]

P = TypeVar("P", int, str)


class PieceModel(ABC):
    """What turns sentences into ids, of which 0 to 3 are PAD, UNK, BOS and EOS, and ids into text."""

    @property
    @abstractmethod
    def shared(self) -> bool:
        """Whether ids mean the same in source and target."""

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of target pieces."""

    @property
    def source_size(self) -> int:
        """The number of source pieces."""
        return len(self)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a source sentence, without BOS and EOS."""
        return self.encode_batch([text])[0]

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many source sentences, without BOS and EOS."""

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the target ids of many sentences, without BOS and EOS."""
        return self.encode_batch(texts)

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of target ids."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of target ids, word boundaries shown as ▁."""

    def decode_source(self, ids: Sequence[int]) -> str:
        """Returns the text of source ids."""
        return self.decode(ids)

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of source ids, word boundaries shown as ▁."""
        return self.pieces(ids)

    def to_target(self, ids: Sequence[int]) -> list[int]:
        """Returns the target ids of the pieces that source ids stand for, UNK where the target has none."""
        return list(ids)

    @cached_property
    def source_starts(self) -> Flags:
        """(V_s) whether a source piece begins a word."""
        return _starts(self.source_pieces(range(self.source_size)))

    @cached_property
    def target_starts(self) -> Flags:
        """(V) whether a target piece begins a word."""
        return _starts(self.pieces(range(len(self))))


@final
class Pieces(PieceModel):
    """A SentencePiece model whose ids 0 to 3 are PAD, UNK, BOS and EOS.

    Byte fallback lets every character through; what SentencePiece would normalise away (runs of spaces, spaces at
    either end) is the caller's to keep.
    """

    shared: Final = True

    def __init__(self, path: Path) -> None:
        """
        :raises ModelError: the file is no SentencePiece model.
        """
        self._processor = load_processor(path)
        self._piece = cache(self._processor.id_to_piece)

    @override
    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @override
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return _cut(self._processor, texts, int)

    @override
    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode(list(ids)))

    @override
    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._piece(i) for i in ids]


@final
class ImportedPieces(PieceModel):
    """The pieces of an imported model: SentencePiece cuts text into pieces, a list of its own numbers them.

    What the list lacks is UNK. UNK and the other special ids have no text.
    """

    def __init__(self, source: Path, target: Path, vocabulary: Path) -> None:
        """
        :param source: the SentencePiece model that cuts sources
        :param target: the one that joins translations, often the same file
        :param vocabulary: JSON, ``source`` and ``target`` with the pieces in the order of ids; no source: it is shared;
            perhaps ``silent``, those of them that have no text, such as names of languages
        """
        self._source = load_processor(source)
        self._target = self._source if target == source else load_processor(target)
        try:
            record = json.loads(vocabulary.read_text(encoding="utf-8"))
            self._target_list = _checked(record["target"])
            self._source_list = self._target_list if record["source"] is None else _checked(record["source"])
            self._silent = frozenset(record.get("silent", ()))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(f"{vocabulary}: cannot be read as lists of pieces ({error}).") from error
        self._target_ids = _ids(self._target_list)
        self._source_ids = self._target_ids if self.shared else _ids(self._source_list)

    @property
    @override
    def shared(self) -> bool:
        return self._source_list is self._target_list

    @override
    def __len__(self) -> int:
        return len(self._target_list)

    @property
    @override
    def source_size(self) -> int:
        return len(self._source_list)

    @override
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return _encode(self._source, self._source_ids, texts)

    @override
    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        return _encode(self._target, self._target_ids, texts)

    @override
    def decode(self, ids: Sequence[int]) -> str:
        return self._decode(self._target, self._target_list, ids)

    @override
    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._target_list[i] for i in ids]

    @override
    def decode_source(self, ids: Sequence[int]) -> str:
        return self._decode(self._source, self._source_list, ids)

    @override
    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._source_list[i] for i in ids]

    @override
    def to_target(self, ids: Sequence[int]) -> list[int]:
        if self.shared:
            return list(ids)
        return [i if i <= EOS else self._target_ids.get(self._source_list[i], UNK) for i in ids]

    def _decode(
        self, processor: sentencepiece.SentencePieceProcessor, pieces: Sequence[str], ids: Sequence[int]
    ) -> str:
        text = processor.decode_pieces([pieces[i] for i in ids if i > EOS and pieces[i] not in self._silent])
        # A piece that the SentencePiece model does not know keeps its mark.
        return str(text).replace("▁", " ").strip()


def load_pieces(names: Container[str], locate: Callable[[str], Path]) -> PieceModel:
    """Returns the pieces of a model.

    :param names: the names of the model's files
    :param locate: returns the path of a file of the model
    """
    if VOCABULARY not in names:
        return Pieces(locate(PIECES))
    source = locate(SOURCE_PIECES)
    target = locate(TARGET_PIECES) if TARGET_PIECES in names else source
    return ImportedPieces(source, target, locate(VOCABULARY))


def load_processor(path: Path) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model."""
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{path}: cannot be read as a SentencePiece model ({error}).") from error


def _checked(pieces: object) -> list[str]:
    if not (isinstance(pieces, list) and len(pieces) > EOS and all(isinstance(piece, str) for piece in pieces)):
        raise ValueError("a list of pieces must have strings, more than four")
    return pieces


def _starts(pieces: Sequence[str]) -> Flags:
    return np.array([piece.startswith("▁") for piece in pieces])


def _ids(pieces: Sequence[str]) -> dict[str, int]:
    # Text never stands for a special id, whatever it looks like.
    return {piece: i for i, piece in enumerate(pieces) if i > EOS}


def _encode(
    processor: sentencepiece.SentencePieceProcessor, ids: dict[str, int], texts: Sequence[str]
) -> list[list[int]]:
    return [[ids.get(piece, UNK) for piece in pieces] for pieces in _cut(processor, texts, str)]


def _cut(processor: sentencepiece.SentencePieceProcessor, texts: Sequence[str], kind: type[P]) -> list[list[P]]:
    """Returns the pieces of texts, or their ids."""
    if len(texts) == 1:  # for a list a thread is started, which takes longer than a sentence
        return [list(processor.encode(texts[0], out_type=kind))]
    return list(processor.encode(list(texts), out_type=kind, num_threads=1))
