#!/usr/bin/env python3
"""Translates data/sample.de with the bundled model, then compares greedy with speculative decoding.

Exits with 1 where a line differs between the two.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console

from specmt.errors import SpecmtError
from specmt.evaluation.tables import Table
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Stats

SAMPLE = Path(__file__).parents[1] / "data" / "sample.de"
WAYS = {
    "greedy": DecodingOptions(strategy="greedy", batch_size=1),
    "speculative": DecodingOptions(batch_size=1),
    "speculative, 5 ahead": DecodingOptions(block_size=5, batch_size=1),
}
"""The second drafts only what pays here, maybe nothing; the third drafts always."""


def run(translator: Translator, lines: Sequence[str], options: DecodingOptions) -> tuple[list[str], Stats, float]:
    """Returns texts, statistics and seconds of a pass over all lines."""
    started = time.perf_counter()
    translations = list(translator.translate(lines, options))
    seconds = time.perf_counter() - started
    return [each.text for each in translations], sum((each.stats for each in translations), Stats()), seconds


def demo(model: Path | None, *, shown: int, repeats: int) -> bool:
    """Prints the tables; returns whether every line is the same in every run."""
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    lines = SAMPLE.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    translator = Translator.from_pretrained(model)
    runs = {way: [run(translator, lines, options)] for way, options in WAYS.items()}  # now all are warm
    for source, text in list(zip(lines, runs["speculative"][0][0], strict=True))[:shown]:
        console.print(f"{source}\n  [bold]{text}[/]")
    console.print(f"… see all {len(lines)} lines: .venv/bin/specmt translate data/sample.de\n")
    for _ in range(repeats):
        for way, options in WAYS.items():
            runs[way].append(run(translator, lines, options))
    seconds = {way: median(elapsed for _, _, elapsed in own[1:]) for way, own in runs.items()}
    rows = []
    for way, ((_, stats, _), *_) in runs.items():
        figures = (f"{stats.mean_accepted_length:.2f}", f"{stats.sentences / seconds[way]:.1f}")
        rows.append((way, str(stats.verifier_calls), *figures, f"{seconds['greedy'] / seconds[way]:.2f}×"))
    signature = translator.signature(WAYS["speculative"])
    settings = ", ".join(f"{name} {signature[name]}" for name in ("model", "dtype", "threads"))
    title = f"One sentence at a time, {settings}; median of {repeats} runs"
    console.print(Table(title, ("", "verifier calls", "tokens a call", "sentences/s", "speed-up"), rows).rich())

    outputs = [texts for own in runs.values() for texts, _, _ in own]
    differing = [number for number, texts in enumerate(zip(*outputs, strict=True), start=1) if len(set(texts)) > 1]
    console.print(f"identical lines {len(lines) - len(differing)}/{len(lines)}")
    for number in differing:
        console.print(f"line {number} differs between runs: {lines[number - 1]}", markup=False)
    return not differing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, metavar="DIR", help="another model than the bundled one")
    parser.add_argument("--lines", type=int, default=8, metavar="N", help="how many translations to print (8)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="how often to measure (3)")
    arguments = parser.parse_args()
    try:
        sys.exit(0 if demo(arguments.model, shown=arguments.lines, repeats=arguments.repeats) else 1)
    except SpecmtError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
