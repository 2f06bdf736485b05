"""Sentences to piece ids and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Final, Protocol

import sentencepiece

from specmt.errors import ModelError
from specmt.types import EOS, UNK

PIECES: Final = "pieces.model"
SOURCE_PIECES: Final = "source.spm"
TARGET_PIECES: Final = "target.spm"
VOCABULARY: Final = "vocabulary.json"


class PieceModel(Protocol):
    """What turns sentences into ids, of which 0 to 3 are PAD, UNK, BOS and EOS, and ids into text."""

    def __len__(self) -> int:
        """Returns the number of target pieces."""

    @property
    def source_size(self) -> int:
        """The number of source pieces."""

    @property
    def shared(self) -> bool:
        """Whether ids mean the same in source and target."""

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a source sentence, without BOS and EOS."""

    def encode_batch(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Returns the ids of many source sentences, without BOS and EOS."""

    def encode_targets(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Returns the target ids of many sentences, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of target ids."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of target ids, word boundaries shown as ▁."""

    def decode_source(self, ids: Sequence[int]) -> str:
        """Returns the text of source ids."""

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of source ids, word boundaries shown as ▁."""

    def to_target(self, ids: Sequence[int]) -> list[int]:
        """Returns the target ids of the pieces that source ids stand for, UNK where the target has none."""


class Pieces:
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

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @property
    def source_size(self) -> int:
        """The number of source pieces."""
        return len(self)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a sentence, without BOS and EOS."""
        return list(self._processor.encode(text))

    def encode_batch(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Returns the ids of many sentences, without BOS and EOS."""
        return list(self._processor.encode(list(texts), num_threads=threads))

    def encode_targets(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Returns the target ids of many sentences, without BOS and EOS."""
        return self.encode_batch(texts, threads=threads)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of piece ids."""
        return str(self._processor.decode(list(ids)))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces themselves, word boundaries shown as ▁."""
        return [self._processor.id_to_piece(i) for i in ids]

    def decode_source(self, ids: Sequence[int]) -> str:
        """Returns the text of source ids."""
        return self.decode(ids)

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of source ids, word boundaries shown as ▁."""
        return self.pieces(ids)

    def to_target(self, ids: Sequence[int]) -> list[int]:
        """Returns the ids themselves."""
        return list(ids)


class ImportedPieces:
    """The pieces of an imported model: SentencePiece cuts text into pieces, a list of its own numbers them.

    What the list lacks is UNK. UNK and the other special ids have no text.
    """

    def __init__(self, source: Path, target: Path, vocabulary: Path) -> None:
        """
        :param source: the SentencePiece model that cuts sources
        :param target: the one that joins translations, often the same file
        :param vocabulary: JSON, ``source`` and ``target`` with the pieces in the order of ids; no source: it is shared;
            perhaps ``silent``, those of them that have no text, such as names of languages
        :raises ModelError: a file is not what it should be.
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

    def __len__(self) -> int:
        return len(self._target_list)

    @property
    def source_size(self) -> int:
        """The number of source pieces."""
        return len(self._source_list)

    @property
    def shared(self) -> bool:
        """Whether ids mean the same in source and target."""
        return self._source_list is self._target_list

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a source sentence, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Returns the ids of many source sentences, without BOS and EOS."""
        return _encode(self._source, self._source_ids, texts, threads)

    def encode_targets(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Returns the target ids of many sentences, without BOS and EOS."""
        return _encode(self._target, self._target_ids, texts, threads)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of target ids."""
        return self._decode(self._target, self.pieces(_ordinary(ids)))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of target ids, word boundaries shown as ▁."""
        return [self._target_list[i] for i in ids]

    def decode_source(self, ids: Sequence[int]) -> str:
        """Returns the text of source ids."""
        return self._decode(self._source, self.source_pieces(_ordinary(ids)))

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of source ids, word boundaries shown as ▁."""
        return [self._source_list[i] for i in ids]

    def to_target(self, ids: Sequence[int]) -> list[int]:
        """Returns the target ids of the pieces that source ids stand for, UNK where the target has none."""
        if self.shared:
            return list(ids)
        return [i if i <= EOS else self._target_ids.get(self._source_list[i], UNK) for i in ids]

    def _decode(self, processor: sentencepiece.SentencePieceProcessor, pieces: Sequence[str]) -> str:
        text = processor.decode_pieces([piece for piece in pieces if piece not in self._silent])
        # A piece that the SentencePiece model does not know keeps its mark.
        return str(text).replace("▁", " ").strip()


def load_pieces(names: Container[str], locate: Callable[[str], Path]) -> PieceModel:
    """Returns the pieces of a model.

    :param names: the names of the model's files
    :param locate: returns the path of a file of the model
    :raises ModelError: a file is missing or is not what it should be.
    """
    if VOCABULARY not in names:
        return Pieces(locate(PIECES))
    source = locate(SOURCE_PIECES)
    target = locate(TARGET_PIECES) if TARGET_PIECES in names else source
    return ImportedPieces(source, target, locate(VOCABULARY))


def load_processor(path: Path) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model.

    :raises ModelError: the file is none.
    """
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{path}: cannot be read as a SentencePiece model ({error}).") from error


def _checked(pieces: object) -> list[str]:
    if not (isinstance(pieces, list) and len(pieces) > EOS and all(isinstance(piece, str) for piece in pieces)):
        raise ValueError("a list of pieces must have strings, more than four")
    return pieces


def _ids(pieces: Sequence[str]) -> dict[str, int]:
    # Text never stands for a special id, whatever it looks like.
    return {piece: i for i, piece in enumerate(pieces) if i > EOS}


def _encode(
    processor: sentencepiece.SentencePieceProcessor, ids: dict[str, int], texts: Sequence[str], threads: int
) -> list[list[int]]:
    cut = processor.encode(list(texts), out_type=str, num_threads=threads)
    return [[ids.get(piece, UNK) for piece in pieces] for pieces in cut]


def _ordinary(ids: Sequence[int]) -> list[int]:
    return [i for i in ids if i > EOS]
