"""Foreign vocabularies in our order: ids 0 to 3 are PAD, UNK, BOS and EOS, whatever they were."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from specmt.errors import ModelError
from specmt.text.pieces import SOURCE_PIECES, TARGET_PIECES, VOCABULARY
from specmt.types import BOS, EOS, PAD, UNK

NEVER: Final = -65504.0
"""The output bias of what is never to be said; a number in float16 too, and a probability of 0."""

_NAMES: Final = ("<pad>", "<unk>", "<s>", "</s>")


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The pieces of one or both languages as a foreign model numbers them."""

    pieces: list[str]
    """By foreign id."""

    unk: int
    eos: int

    pad: int | None = None
    """``None`` where there is none."""

    start: int | None = None
    """What a decoder starts with; ``None`` where that is nothing, a row of zeros."""

    def rows(self) -> list[int]:
        """Returns the foreign id of each of ours, -1 where there is none.

        The start has two: of ours, BOS starts, and the other is said, if ever it is.
        """
        special = [-1 if each is None else each for each in (self.pad, self.unk, self.start, self.eos)]
        moved = {self.pad, self.unk, self.eos}
        return [*special, *(i for i in range(len(self.pieces)) if i not in moved)]

    def ordered(self) -> list[str]:
        """Returns the pieces by our ids."""
        return [*_NAMES, *(self.pieces[row] for row in self.rows()[len(_NAMES) :])]

    def id_of(self, foreign: int) -> int:
        """Returns our id of a foreign one."""
        if foreign in (self.unk, self.eos):
            return UNK if foreign == self.unk else EOS
        return next(i for i, row in enumerate(self.rows()) if row == foreign and i != BOS)


def permute(table: Tensor, rows: list[int]) -> Tensor:
    """Returns the rows (V, …) of a foreign table in our order, zeros for those that there are not."""
    index = torch.tensor(rows)
    ours = table.index_select(0, index.clamp(min=0))
    ours[index < 0] = 0.0
    return ours


def output_bias(bias: Tensor | None, vocabulary: Vocabulary, never: Collection[int]) -> Tensor:
    """Returns the output bias (V) in our order.

    :param bias: the foreign one, if there is one
    :param never: the foreign ids that are never to be said, beside padding and the start
    """
    rows = vocabulary.rows()
    ours = torch.zeros(len(rows)) if bias is None else permute(bias.flatten().float(), rows)
    ours[[PAD, BOS, *map(vocabulary.id_of, never)]] = NEVER
    return ours


def write_pieces(
    folder: Path, *, source: Vocabulary | None, target: Vocabulary, source_spm: Path, target_spm: Path
) -> list[Path]:
    """Writes the pieces of an imported model and returns the files.

    :param source: ``None`` if it is shared
    :raises ModelError: a SentencePiece model cannot be read.
    """
    lists = {"source": None if source is None else source.ordered(), "target": target.ordered()}
    vocabulary = folder / VOCABULARY
    vocabulary.write_text(json.dumps(lists, ensure_ascii=False) + "\n", encoding="utf-8")
    files = [vocabulary]
    models = [_read(source_spm), _read(target_spm)]
    for name, model in zip((SOURCE_PIECES, TARGET_PIECES), dict.fromkeys(models), strict=False):
        (folder / name).write_bytes(model)
        files.append(folder / name)
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); the model needs it to cut text.") from error
