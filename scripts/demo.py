#!/usr/bin/env python3
"""Translates data/sample.de with the bundled model, then compares greedy with speculative decoding.

Exits with 1 where a line differs between the two.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specmt.errors import SpecmtError
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Stats

SAMPLE = Path(__file__).parents[1] / "data" / "sample.de"
GREEDY = DecodingOptions(strategy="greedy", batch_size=1)
SPECULATIVE = DecodingOptions(strategy="speculative", batch_size=1)
DRAFTING = {
    "speculative": SPECULATIVE,
    "speculative, autoregressive drafter, 5 ahead": DecodingOptions(
        drafter="autoregressive", block_size=5, batch_size=1
    ),
}
"""The first drafts only what pays here, maybe nothing; the second drafts always."""


@dataclass(frozen=True)
class Run:
    """One pass over all lines."""

    texts: list[str]
    stats: Stats
    seconds: float


def run(translator: Translator, lines: Sequence[str], options: DecodingOptions) -> Run:
    started = time.perf_counter()
    translations = list(translator.translate(lines, options))
    seconds = time.perf_counter() - started
    return Run([each.text for each in translations], sum((each.stats for each in translations), Stats()), seconds)


def translation_table(sources: Sequence[str], texts: Sequence[str]) -> Table:
    table = Table("", "German", "English", box=SIMPLE_HEAD)
    for number, (source, text) in enumerate(zip(sources, texts, strict=True), start=1):
        table.add_row(str(number), Text(source), Text(text))
    return table


def comparison_table(runs: dict[str, list[Run]]) -> Table:
    table = Table("strategy", box=SIMPLE_HEAD)
    for heading in ("verifier calls", "mean accepted length", "seconds", "sentences/s", "speed-up"):
        table.add_column(heading, justify="right")
    seconds = {strategy: median(each.seconds for each in repeats) for strategy, repeats in runs.items()}
    for strategy, repeats in runs.items():
        stats = repeats[0].stats
        table.add_row(
            strategy,
            str(stats.verifier_calls),
            f"{stats.mean_accepted_length:.2f}",
            f"{seconds[strategy]:.2f}",
            f"{stats.sentences / seconds[strategy]:.1f}",
            f"{seconds['greedy'] / seconds[strategy]:.2f}×",
        )
    return table


def demo(model: Path | None, *, shown: int, repeats: int) -> bool:
    """Prints the tables; returns whether every line is the same in every run."""
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    lines = SAMPLE.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    translator = Translator.from_pretrained(model)

    first = run(translator, lines, SPECULATIVE)
    console.print(translation_table(lines[:shown], first.texts[:shown]))
    if len(lines) > shown:
        console.print(f"… and {len(lines) - shown} more lines; see all: .venv/bin/specmt translate data/sample.de\n")

    ways = {"greedy": GREEDY, **DRAFTING}
    if model is not None:  # which may have no autoregressive drafter
        ways = {"greedy": GREEDY, "speculative": SPECULATIVE}
    for options in ways.values():
        run(translator, lines, options)  # now all are warm
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, options in ways.items():
            runs[way].append(run(translator, lines, options))
    signature = translator.signature(SPECULATIVE)
    settings = ", ".join(f"{name} {signature[name]}" for name in ("model", "block_size", "device", "dtype", "threads"))
    console.print(f"batch size 1, {settings}; median of {repeats} runs each")
    console.print(comparison_table(runs))

    reference = runs["greedy"][0].texts
    others = [first, *(each for way in runs.values() for each in way)]
    identical = [all(each.texts[i] == reference[i] for each in others) for i in range(len(lines))]
    console.print(f"identical lines {sum(identical)}/{len(lines)}")
    for i in (i for i, same in enumerate(identical) if not same):
        console.print(f"line {i + 1} differs between runs: {sorted({each.texts[i] for each in others})}", markup=False)
    return all(identical)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, metavar="DIR", help="another model than the bundled one")
    parser.add_argument("--lines", type=int, default=12, metavar="N", help="how many translations to print (12)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="how often to measure (3)")
    arguments = parser.parse_args()
    try:
        identical = demo(arguments.model, shown=arguments.lines, repeats=arguments.repeats)
    except SpecmtError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(0 if identical else 1)


if __name__ == "__main__":
    main()
