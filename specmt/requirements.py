"""Asks the session for the terms that translations must contain and lack."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, final

import numpy as np

from specmt.decoding.request import Constraint, Missing, Term
from specmt.text.alignment import words_of

if TYPE_CHECKING:
    from specmt.options import AlignmentHeads
    from specmt.text.parts import Part
    from specmt.text.pieces import PieceModel

_WORD: Final = re.compile(r"\S+")


@final
class Requirements:
    """Asks for the terms that translations lack."""

    def __init__(self, pieces: PieceModel, heads: AlignmentHeads) -> None:
        """
        :param heads: those that alignments are read from
        """
        self._pieces = pieces
        self._heads = heads
        self._encoded = lru_cache(1024)(lambda forms: tuple(map(tuple, pieces.encode_targets(forms))))
        # What may follow a whole word: the start of another one, or a mark.
        names = pieces.pieces(range(len(pieces)))
        self._begins = pieces.target.starts | np.array([not (name[0].isalnum() or name[0] == "<") for name in names])

    def missing_in(self, part: Part) -> Missing:
        """Returns what says what a translation of a part lacks."""
        part.free = ""
        return partial(self._missing, part)

    def _missing(self, part: Part, tokens: list[int], given: int) -> Constraint | None:
        """Returns what a translation of a part lacks."""
        translation = self._pieces.decode(tokens)
        if given == 0:  # said freely, maybe once more after memory ran out
            part.free, part.asked = translation, 0
        unmet = [each for each in part.required if each.found(translation) is None]
        # What was put in stays in: there is nothing to be asked for more often than there are terms.
        if not unmet or part.asked == len(part.required):
            return None
        part.asked += 1
        words = [word.span() for word in _WORD.finditer(part.text)]
        places = words_of(self._pieces.source.starts[part.ids], len(words))
        terms = []
        for each in unmet:
            inside = [
                number for number, (start, end) in enumerate(words) if start < each.span[1] and end > each.span[0]
            ]
            pieces = tuple(np.flatnonzero(np.isin(places, inside)).tolist())
            terms.append(Term(pieces, self._encoded(each.forms)))
        return Constraint(tuple(terms), self._heads, self._begins)
