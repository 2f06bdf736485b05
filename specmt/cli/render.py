"""What `specmt translate` writes: translations in each format, and the figures of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

from specmt.options import DecodingOptions
from specmt.text.wrapped import part_lines
from specmt.types import Stats, Tally, Translation

_TSV_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\r": "\\r"})
_LINE_STATS: Final = ("sentences", "source_tokens", "tokens")
_DRAFT_STATS: Final = ("verifier_calls", "drafted", "accepted", "mean_accepted_length")
"""What is known of each line. The same input gives the same output, always: a block size that is chosen by what calls
cost leaves these to ``--stats``."""


def renderer(format_: str, *, counts: bool, n_best: int = 1, language: str = "de") -> Callable[[Translation], str]:
    """Returns the function that writes a translation as text, tsv or jsonl.

    :param counts: whether a line's drafts depend on the line alone.
    :param n_best: how many translations a line of tsv has room for
    :param language: of the source, for text whose sentences are broken over lines
    """
    if format_ == "jsonl":
        return partial(_jsonl, names=_LINE_STATS + (_DRAFT_STATS if counts else ()))
    return partial(_tsv, n_best=n_best) if format_ == "tsv" else partial(part_lines, language=language)


def statistics(total: Stats, options: DecodingOptions, tally: Mapping[str, Tally]) -> dict[str, object]:
    """Returns the counts and the speed of a run, as ``--stats`` writes them.

    :param tally: what came of each way to draft
    """
    seconds = max(total.seconds, 1e-9)
    replay: dict[str, object] = {}
    if options.strategy == "speculative" and options.drafter == "self":
        recomputed = total.drafted - total.accepted
        replay = {"replayed": total.drafted, "matched": total.accepted, "recomputed": recomputed}
    return (
        asdict(total)
        | replay
        | {
            "mean_accepted_length": total.mean_accepted_length,
            "sentences_per_second": total.sentences / seconds,
            "tokens_per_second": total.tokens / seconds,
            "drafting": {name: asdict(each) for name, each in tally.items()},
        }
    )


def summary(total: Stats, options: DecodingOptions) -> str:
    """Returns the counts and the speed of a run in one line."""
    return (
        f"{options.strategy}: {total.lines} lines, {total.sentences} sentences, {total.tokens} tokens "
        f"in {total.seconds:.2f} s, {total.verifier_calls} verifier calls, "
        f"{total.mean_accepted_length:.2f} tokens a call, "
        f"attempts {' / '.join(map(str, total.attempts))}, {total.left} left in their language"
    )


def _tsv(translation: Translation, n_best: int) -> str:
    """Source, translation, score and alignment if asked for, then the same of the other translations but for alignment.

    Where there are fewer of those, their fields are empty.
    """
    has_scores = not math.isnan(translation.score)
    fields = [translation.line.text.translate(_TSV_ESCAPES), translation.text.translate(_TSV_ESCAPES)]
    if has_scores:
        fields.append(f"{translation.score:.6f}")
    if translation.alignment is not None:
        fields.append(_pharaoh(translation.alignment))
    for other in translation.alternatives:
        fields += [other.text.translate(_TSV_ESCAPES), f"{other.score:.6f}"][: 1 + has_scores]
    fields += [""] * ((n_best - 1 - len(translation.alternatives)) * (1 + has_scores))
    return "\t".join(fields) + "\n"


def _pharaoh(alignment: Sequence[tuple[int, int]]) -> str:
    """Returns pairs of words as the field writes them, after the decoder Pharaoh: source-target, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in alignment)


def _jsonl(translation: Translation, names: tuple[str, ...]) -> str:
    record = {
        "index": translation.line.index,
        "source": translation.line.text,
        "translation": translation.text,
        "tokens": translation.tokens,
        "score": None if math.isnan(translation.score) else translation.score,
        "stats": {name: getattr(translation.stats, name) for name in names},
        "lossless": translation.lossless,
    }
    if translation.confidence is not None:
        record["confidence"] = translation.confidence
    if translation.alternatives:
        record["alternatives"] = [
            {"translation": other.text, "score": None if math.isnan(other.score) else other.score}
            for other in translation.alternatives
        ]
    if translation.alignment is not None:
        record["alignment"] = _pharaoh(translation.alignment)
    if translation.terms:
        record["terms"] = [use._asdict() for use in translation.terms]
    return json.dumps(record, ensure_ascii=False) + "\n"
