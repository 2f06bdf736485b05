"""What a comparison with peers says, from its JSON record: pure functions, which need neither models nor peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from specmt.evaluation.tables import Table

BASE = "specmt greedy"
"""The way that all others are compared with."""

Record = Mapping[str, Any]


def ratios(row: Record, base: Record) -> list[float]:
    """Returns how many times as fast as the base a way was in each round."""
    return [theirs / ours for ours, theirs in zip(row["seconds"], base["seconds"], strict=True)]


def interval(values: Sequence[float], digits: int) -> str:
    """Returns the median, with the lowest and the highest value if there are several."""
    middle = f"{median(values):.{digits}f}"
    return f"{middle} [{min(values):.{digits}f}, {max(values):.{digits}f}]" if len(values) > 1 else middle


def find(record: Record, batch_size: int, way: str) -> Record | None:
    """Returns what was measured of a way at a batch size, if it was."""
    return next((row for row in record["results"] if (row["batch_size"], row["way"]) == (batch_size, way)), None)


def batch_sizes(record: Record) -> list[int]:
    return list(dict.fromkeys(row["batch_size"] for row in record["results"]))


def speed_tables(record: Record) -> list[Table]:
    """Returns a table of all ways for each batch size."""
    return [_speed_table(record, batch_size) for batch_size in batch_sizes(record)]


def _speed_table(record: Record, batch_size: int) -> Table:
    rows = [row for row in record["results"] if row["batch_size"] == batch_size]
    base = find(record, batch_size, BASE) or rows[0]
    columns = ("way", "setting", "sentences/s", "times specmt greedy", "BLEU", "as float32 greedy")
    cells = [
        (
            row["way"],
            row["setting"],
            interval([record["lines"] / seconds for seconds in row["seconds"]], 1),
            "1" if row is base else interval(ratios(row, base), 2),
            f"{row['bleu']:.1f}",
            f"{row['identical']:.1%}",
        )
        for row in rows
    ]
    return Table(f"Batch size {batch_size}", columns, cells)


def summary(record: Record) -> Table:
    """Returns one table with the median speed of all ways at all batch sizes, and their BLEU."""
    sizes = batch_sizes(record)
    rows = []
    for way in dict.fromkeys(row["way"] for row in record["results"]):
        found = [find(record, batch_size, way) for batch_size in sizes]
        speeds = [f"{median(record['lines'] / s for s in row['seconds']):.1f}" if row else "" for row in found]
        rows.append((way, *speeds, f"{next(row['bleu'] for row in found if row):.1f}"))
    return Table("", ("sentences/s", *(f"batch {size}" for size in sizes), "BLEU"), rows)


def against_greedy(record: Record) -> Table:
    """Returns how many times as fast as greedy decoding the other ways were, at the first of the batch sizes."""
    batch_size = batch_sizes(record)[0]
    base = find(record, batch_size, BASE)
    rows = [
        (row["way"], interval(ratios(row, base), 2))
        for row in record["results"]
        if base is not None and row["batch_size"] == batch_size and row is not base
    ]
    return Table("", ("", f"times {BASE}, batch {batch_size}"), rows)


def times(record: Record, batch_size: int, way: str, peer: str) -> float:
    """Returns how many times as fast as a peer a way was, as the median of the rounds.

    :param peer: the name of a way, or how the names of several begin, of which the fastest counts.
    :raises ValueError: one of them was not measured.
    """
    row = find(record, batch_size, way)
    others = [r for r in record["results"] if r["batch_size"] == batch_size and r["way"].startswith(peer)]
    if row is None or not others:
        raise ValueError(f"`results` must have {way} and {peer} at batch size {batch_size}.")
    return min(median(ratios(row, other)) for other in others)


def notes(record: Record) -> list[str]:
    """Returns what must be known of the figures, a paragraph each."""
    found = [
        f"{record['lines']} lines of {' and '.join(record['sets'])}, the same weights everywhere, text to text: each "
        "way gets all lines at once, to sort by length as it likes, and encodes and decodes them in the time that "
        f"counts. All ways take turns, {record['rounds']} times. Speeds are medians of the rounds, ratios are taken "
        "within each round, and brackets hold the lowest and the highest round: they contain the true median with a "
        f"probability of {1 - 2 ** (1 - record['rounds']):.0%}. specmt's autoregressive drafter drafts "
        f"{record['block_size']} tokens. The last column is the share of lines that come out as in specmt's greedy "
        "decoding in float32; beam searches are meant to differ."
    ]
    if record["checks"]:
        checks = "; ".join(f"{each['peer']} {each['identical']} of {each['lines']}" for each in record["checks"])
        found += [
            "CTranslate2 and Hugging Face run in processes of their own, fairseq2 in that of specmt; each in the "
            "setting (use of the threads; float32 or bfloat16 for Hugging Face and fairseq2; 5 or 20 drafted tokens at "
            "most for the assistant) that was fastest on some of the lines.",
            "Hugging Face is `generate` of M2M100ForConditionalGeneration, an architecture equal to the verifier's, "
            "with the verifier's weights. The assistant is M2M100 with the decoder of specmt's autoregressive drafter, "
            "and reads the verifier's encoder output; Hugging Face assists one sentence at a time only.",
            f"Lines whose greedy tokens in float32 are specmt's: {checks}.",
        ]
    if record["environment"]:
        found.append(", ".join(f"`{name}={value}`" for name, value in record["environment"].items()))
    return found


def numbers(record: Record) -> dict[str, str]:
    """Returns the figures that prose quotes, by name."""
    first, last = min(batch_sizes(record)), max(batch_sizes(record))
    pairs = {
        "ctranslate2": (BASE, "CTranslate2 int8 greedy"),
        "int8-ctranslate2": ("specmt greedy, int8", "CTranslate2 int8 greedy"),
        "hugging-face": (BASE, "Hugging Face greedy"),
        "fairseq2": (BASE, "fairseq2 beam 5"),
        "speculative": ("specmt speculative", BASE),
    }
    found = {}
    for name, (way, peer) in pairs.items():
        for place, batch_size in (("one", first), ("many", last)):
            if find(record, batch_size, way) and find(record, batch_size, peer):
                found[f"{name}-{place}"] = f"{times(record, batch_size, way, peer):.1f}"
    return found
