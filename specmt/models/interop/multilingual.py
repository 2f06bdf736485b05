"""What importers of multilingual models, M2M100 and its kin, have in common: one table for all languages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.interop.checkpoint import Checkpoint
from specmt.text.pieces import load_processor

TOKENIZER: Final = "sentencepiece.bpe.model"
CONTROL: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""What ids 0 to 3 are in fairseq and in what comes from it."""

_SPARE: Final = 64
"""How many rows of a table may stand for nothing: tables are filled up to round numbers."""

_LANGUAGE: Final = re.compile(r"(?:__)?([a-z]{2,3}(?:_[A-Z][a-z]{3})?)(?:__)?")
_NAMES: Final = (
    ("encoder_decoder_attn", "encoder_attn"),
    ("attn.output_proj", "attn.out_proj"),
    ("ffn.inner_proj", "fc1"),
    ("ffn.output_proj", "fc2"),
    ("ffn_layer_norm", "final_layer_norm"),
)


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokens of another program's model, in the order of its ids."""

    tokens: Sequence[str]
    pad: int
    unk: int
    eos: int
    start: int
    """What the decoder starts with."""

    processor: Path
    """The SentencePiece model that cuts text into tokens."""

    added: Sequence[int]
    """The ids that no text has: languages and the like."""

    @property
    def languages(self) -> dict[str, int]:
        """The ids of the tokens that name languages, by their codes."""
        matches = ((_LANGUAGE.fullmatch(self.tokens[i]), i) for i in self.added)
        return {match[1]: i for match, i in matches if match}

    @property
    def copies_start(self) -> bool:
        """Whether the decoder starts with a token that means something else, too."""
        return self.start in (self.pad, self.unk, self.eos)

    def order(self) -> list[int]:
        """Returns their ids in the order of ours: PAD, UNK, BOS, EOS, and the rest as it was; what those four have
        displaced comes last.
        """
        first = [self.pad, self.unk, self.start, self.eos]
        rest = [i for i in range(len(self.tokens)) if i not in first]
        return first + sorted(rest, key=lambda i: i < len(first))


@dataclass(frozen=True, kw_only=True)
class Found:
    """A model of another program, its weights still unread."""

    origin: str
    kind: str
    """What it is there, for the model card."""

    checkpoint: Checkpoint
    prefix: str | None
    """What stands before fairseq's names of weights, ``None`` if they have fairseq2's."""

    table: tuple[str, ...]
    """The names that the embedding table may have."""

    output: str | None
    """The name of the projection to the vocabulary, where that is not the table."""

    architecture: Mapping[str, Any]
    """Fields of our configuration."""

    vocabulary: Vocabulary
    licence: str | None = None

    def name_of(self, name: str) -> str:
        """Returns their name of a weight of a layer, or of a norm behind a stack."""
        if self.prefix is None:
            return name
        for ours, theirs in _NAMES:
            name = name.replace(ours, theirs)
        return self.prefix + name


def pieces_of(path: Path) -> list[str]:
    """Returns the pieces of a SentencePiece model that was made for fairseq, without its three control pieces.

    :raises ModelError: the file is missing, or is no such model.
    """
    if not path.is_file():
        raise ModelError(f"{path}: is missing; without the SentencePiece model, text cannot be turned into tokens.")
    processor = load_processor(path)
    pieces = [str(processor.id_to_piece(i)) for i in range(processor.get_piece_size())]
    if pieces[:3] != ["<unk>", "<s>", "</s>"]:
        actual = " ".join(pieces[:3])
        raise ModelError(
            f"{path}: must begin with <unk> <s> </s>, but begins with {actual} instead; is it the model's?"
        )
    return pieces[3:]


def filled(tokens: Iterable[str], rows: int, where: Path) -> list[str]:
    """Returns as many tokens as the table has rows, the last ones without meaning.

    :param where: what to name in an error
    :raises ModelError: the table has fewer rows, or many more.
    """
    tokens = list(tokens)
    if not len(tokens) <= rows <= len(tokens) + _SPARE:
        raise ModelError(
            f"{where}: the tokenizer has {len(tokens)} tokens, but the model has embeddings for {rows}; do they belong "
            "together?"
        )
    return tokens + [f"<unused {i}>" for i in range(rows - len(tokens))]
