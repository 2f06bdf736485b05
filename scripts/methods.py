#!/usr/bin/env python3
"""Every way to draft and to accept, on the bundled model: what is accepted, what it costs, what it changes.

  SPECMT_CORPORA=... python scripts/methods.py --lines 500 --json runs/methods.json

Exact ways must not differ from greedy decoding in a single line; the script exits 1 if one does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
from measure import read_lines
from rich.console import Console
from rich.table import Table
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from specmt.decoding.batch import decode
from specmt.decoding.memory import TranslationMemory
from specmt.evaluation.acceptance import Tally
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import Stats

console = Console(width=160)

POSITIONS = 5

EXACT: dict[str, dict[str, Any]] = {
    "none": {"strategy": "greedy"},
    "masked, chain": {"block_size": 10},
    "masked, best-first 16": {"tree": "best-first", "nodes": 16, "block_size": 10},
    "masked, best-first 24": {"tree": "best-first", "nodes": 24, "block_size": 10},
    "autoregressive, chain": {"drafter": "autoregressive", "block_size": 7},
    "autoregressive, best-first 16": {
        "drafter": "autoregressive",
        "tree": "best-first",
        "nodes": 16,
        "block_size": 7,
    },
    "autoregressive, best-first 24": {
        "drafter": "autoregressive",
        "tree": "best-first",
        "nodes": 24,
        "block_size": 7,
    },
    "lookup": {"drafter": "lookup", "block_size": 32},
    "masked+lookup, chain": {"drafter": "masked+lookup", "block_size": 10},
    "masked+lookup, best-first 24": {
        "drafter": "masked+lookup",
        "tree": "best-first",
        "nodes": 24,
        "block_size": 10,
    },
    "masked+autoregressive, best-first 16": {
        "drafter": "masked+autoregressive",
        "tree": "best-first",
        "nodes": 16,
        "block_size": 7,
    },
    "self": {"drafter": "self"},
}
LOSSY: dict[str, dict[str, Any]] = {
    "masked, chain, beta 3 tau 1": {"beta": 3, "tolerance": 1.0, "block_size": 10},
    "masked, chain, beta 5 tau 3": {"beta": 5, "tolerance": 3.0, "block_size": 10},
    "masked, chain of 25, beta 3 tau 1": {"beta": 3, "tolerance": 1.0, "block_size": 25},
    "masked, chain of 25, beta 5 tau 3": {"beta": 5, "tolerance": 3.0, "block_size": 25},
    "masked, best-first 24, beta 3 tau 1": {
        "beta": 3,
        "tolerance": 1.0,
        "tree": "best-first",
        "nodes": 24,
        "block_size": 10,
    },
}
SAMPLED: dict[str, dict[str, Any]] = {
    "none": {"strategy": "greedy"},
    "masked, chain": {"block_size": 5},
    "masked, sampled 2": {"tree": "sampled", "width": 2, "block_size": 5},
    "masked, sampled 4": {"tree": "sampled", "width": 4, "block_size": 5},
    "autoregressive, chain": {"drafter": "autoregressive", "block_size": 5},
    "autoregressive, sampled 2": {"drafter": "autoregressive", "tree": "sampled", "width": 2, "block_size": 5},
    "autoregressive, sampled 4": {"drafter": "autoregressive", "tree": "sampled", "width": 4, "block_size": 5},
}


def by_position(tally: Tally) -> list[tuple[float, float]]:
    """Returns drafted and accepted nodes a call for the first positions."""
    calls = max(1, tally.calls)
    return [(tally.drafted[d] / calls, tally.accepted[d] / calls) for d in range(1, POSITIONS + 1)]


def measure(model: Model, lines: list[str], references: list[str], options: DecodingOptions) -> dict[str, Any]:
    sources = model.pieces.encode_batch(lines)
    tally = Tally()
    started = time.perf_counter()
    hypotheses = decode(model, sources, options, memory=TranslationMemory(), recorder=tally)
    seconds = time.perf_counter() - started  # with the counting, which takes microseconds a call
    texts = [model.pieces.decode(each.tokens) for each in hypotheses]
    stats = sum((each.stats for each in hypotheses), Stats())
    return {
        "tokens": [each.tokens for each in hypotheses],
        "mean_accepted_length": stats.mean_accepted_length,
        "calls_per_sentence": stats.verifier_calls / len(lines),
        "by_position": by_position(tally),
        "seconds": seconds,
        "bleu": BLEU().corpus_score(texts, [references]).score,
        "chrf": CHRF().corpus_score(texts, [references]).score,
    }


@click.command()
@click.option("--sets", default="docs-test,newstest2014.de-en", show_default=True)
@click.option("--lines", default=500, show_default=True, help="How many lines of each set.")
@click.option("--dtype", default="auto", show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--batch-size", default=8, show_default=True)
@click.option("--only", default="exact,lossy,sampled", show_default=True, help="Which tables; beam is another.")
@click.option("--json", "report", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here too.")
def main(sets: str, lines: int, dtype: str, threads: int, batch_size: int, only: str, report: Path | None) -> None:
    """Accepted length, calls and quality of every drafter, tree and acceptor."""
    model = load_model(device="cpu", dtype=dtype, threads=threads)
    tables: dict[str, tuple[dict[str, dict[str, Any]], dict[str, Any]]] = {
        "exact": (EXACT, {}),
        "lossy": (LOSSY, {}),
        "sampled": (SAMPLED, {"temperature": 1.0}),
        "beam": ({"fairseq2 beam 5": {"strategy": "beam"}}, {}),
    }
    different = 0
    record = []
    for name in sets.split(","):
        texts, references = (read_lines(name, language)[:lines] for language in ("de", "en"))
        wanted = measure(model, texts, references, DecodingOptions(strategy="greedy", batch_size=batch_size))["tokens"]
        for kind in only.split(","):
            ways, more = tables[kind]
            positions = [f"{number}" for number in range(1, POSITIONS + 1)]
            table = Table("way", "length", "calls", *positions, "seconds", "BLEU", "chrF", "changed")
            table.title = f"{name}, {len(texts)} lines, {kind}; by position: drafted / accepted a call"
            for way, chosen in ways.items():
                if "autoregressive" in way and model.autoregressive is None:
                    continue
                found = measure(model, texts, references, DecodingOptions(batch_size=batch_size, **more, **chosen))
                tokens = found.pop("tokens")
                changed = sum(one != other for one, other in zip(tokens, wanted, strict=True))
                different += changed if kind == "exact" else 0
                row = {"set": name, "kind": kind, "way": way, "lines": len(texts), "dtype": model.dtype}
                record.append({**row, "changed": changed / len(texts), **found})
                table.add_row(
                    way,
                    f"{found['mean_accepted_length']:.2f}",
                    f"{found['calls_per_sentence']:.2f}",
                    *(f"{drafted:.1f} / {accepted:.2f}" for drafted, accepted in found["by_position"]),
                    f"{found['seconds']:.1f}",
                    f"{found['bleu']:.1f}",
                    f"{found['chrf']:.1f}",
                    f"{changed / len(texts):.1%}",
                )
            console.print(table)
            if report is not None:
                report.parent.mkdir(parents=True, exist_ok=True)
                report.write_text(json.dumps({"rows": record}, indent=1) + "\n", encoding="utf-8")
    if different:
        sys.exit(f"{different} lines of exact ways differ from greedy decoding")


if __name__ == "__main__":
    main()
