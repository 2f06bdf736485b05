"""Sentences to SentencePiece ids and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from specmt.errors import ModelError


class Pieces:
    """A SentencePiece model whose ids 0 to 3 are PAD, UNK, BOS and EOS.

    Byte fallback lets every character through; what SentencePiece would normalise away (runs of spaces, spaces at
    either end) is the caller's to keep.
    """

    def __init__(self, path: Path) -> None:
        """
        :raises ModelError: the file is no SentencePiece model.
        """
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise ModelError(f"{path}: cannot be read as a SentencePiece model ({error}).") from error

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a sentence, without BOS and EOS."""
        return list(self._processor.encode(text))

    def encode_batch(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Returns the ids of many sentences, without BOS and EOS."""
        return list(self._processor.encode(list(texts), num_threads=threads))

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of piece ids."""
        return str(self._processor.decode(list(ids)))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces themselves, word boundaries shown as ▁."""
        return [self._processor.id_to_piece(i) for i in ids]
