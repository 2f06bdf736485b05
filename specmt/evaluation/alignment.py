"""Alignment error rate, and which attention heads have the least (Och and Ney 2003, section 6; Garg et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from specmt.options import AlignmentHeads
from specmt.text.alignment import Alignment, link_words, words_of

if TYPE_CHECKING:
    from specmt.models.hub import Model

BATCH: Final = 32
"""Sentences side by side."""

Sentence = tuple[str, str, frozenset[tuple[int, int]]]
"""A source, its translation, and which of their words are sure to belong together."""


def alignment_error_rate(found: Sequence[Alignment], sure: Sequence[frozenset[tuple[int, int]]]) -> float:
    """Returns 1 − 2 |A ∩ S| / (|A| + |S|), from 0 to 1, all links being sure ones."""
    both = sum(len(links & {*pairs}) for pairs, links in zip(found, sure, strict=True))
    total = sum(len(pairs) + len(links) for pairs, links in zip(found, sure, strict=True))
    return 1.0 - 2.0 * both / total if total else 0.0


def align_pairs(model: Model, pairs: Sequence[tuple[str, str]], heads: AlignmentHeads) -> list[Alignment]:
    """Returns the alignments of sentences with given translations, words being what white space separates."""
    found = []
    for begin in range(0, len(pairs), BATCH):
        some = pairs[begin : begin + BATCH]
        sources, targets = (list(side) for side in zip(*some, strict=True))
        ids, said = model.pieces.encode_batch(sources), model.pieces.encode_targets(targets)
        state = model.verifier.new_state(len(some))
        rows = np.arange(len(some))
        model.verifier.start(state, rows, model.verifier.encode(ids))
        weights = model.verifier.attention(state, rows.tolist(), said, heads)
        for number, each in enumerate(weights):
            words = words_of(model.pieces.source.starts[ids[number]], len(sources[number].split()))
            others = words_of(model.pieces.target.starts[said[number]], len(targets[number].split()))
            found.append(link_words(each, words, others))
    return found


def choose_heads(
    model: Model,
    sentences: Sequence[Sentence],
    observe: Callable[[tuple[AlignmentHeads, float]], None] = lambda rate: None,
) -> tuple[AlignmentHeads, float]:
    """Returns the heads with the least alignment error rate: the best one, or it and others of its layer.

    :param observe: is told all heads that were tried, and their rates
    """
    config = model.folder.verifier
    pairs, sure = [each[:2] for each in sentences], [each[2] for each in sentences]

    def rate(heads: AlignmentHeads) -> float:
        found = alignment_error_rate(align_pairs(model, pairs, heads), sure)
        observe((heads, found))
        return found

    every = [
        AlignmentHeads(layer=layer, heads=(head,), reads=reads)
        for layer in range(config.decoder_layers)
        for head in range(config.num_heads)
        for reads in ("input", "output")
    ]
    least, _, best = min((rate(heads), number, heads) for number, heads in enumerate(every))
    for head in range(config.num_heads):
        if head not in best.heads:
            more = AlignmentHeads(layer=best.layer, heads=tuple(sorted((*best.heads, head))), reads=best.reads)
            if (other := rate(more)) < least:
                least, best = other, more
    return best, least
