"""Which of a decoder's attention to the source is that of a target's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specmt.engine.backend import Attention, Prefixes
from specmt.options import AlignmentHeads


def read_targets(prefixes: Prefixes, targets: Sequence[Sequence[int]], heads: AlignmentHeads) -> list[list[int]]:
    """Returns what a decoder reads, so that every token of targets has its attention."""
    end = None if heads.reads == "input" else -1
    return [[*prefixes.start, *target][:end] for target in targets]


def pick_weights(
    prefixes: Prefixes, weights: Attention, target: Sequence[int], source_length: int, heads: AlignmentHeads
) -> Attention:
    """Returns the attention (T, S) of a target's tokens to the ids of a source, without prefix and EOS.

    :param weights: (R, S') of all that was read, added up over heads
    :param source_length: prefix and EOS included
    """
    before = len(prefixes.start) - (heads.reads == "output")
    of_target = weights[before : before + len(target)]
    return of_target[:, len(prefixes.source) : source_length - 1] / np.float32(len(heads.heads))
