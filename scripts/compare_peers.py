#!/usr/bin/env python3
"""Compares specmt with other programs on the same verifier, the same lines and the same machine, text to text.

The verifier of a model folder becomes a CTranslate2 model and a Hugging Face one (M2M100, whose architecture is the
same). Their greedy and beam searches, Hugging Face's assisted generation with our autoregressive drafter and fairseq2's
beam search, each in the setting that is fastest on some of the lines, take turns with specmt. First the greedy tokens
of the peers are compared with specmt's in float32; --check does only that.

It needs the peers (pip install '.[peers]'). Run it on a quiet machine, with SPECMT_CORPORA naming the folder of the
test sets:

  python scripts/compare_peers.py --json runs/peers.json --markdown runs/peers.md

CTranslate2's own variables work as always, such as CT2_USE_MKL=1 for Intel's kernels on processors of others.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from measure import decode_lines, read_lines
from peers.tables import BASE, notes, speed_tables
from peers.ways import Peers, Way, all_ways, fastest
from rich.console import Console
from rich.markup import escape
from sacrebleu.metrics.bleu import BLEU

from specmt.errors import SpecmtError
from specmt.evaluation.machine import describe_machine, format_signature
from specmt.models.folder import ModelFolder, find
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.text.segment import split_layout
from specmt.translator import Translator

try:
    import transformers  # noqa: F401  (its worker needs it)
    from peers.to_ctranslate2 import write_ctranslate2
except ImportError as error:
    sys.exit(f"compare_peers.py needs the peers ({error}): pip install '.[peers]'")

LEAST_IDENTICAL = 0.97
"""Near-ties may go the other way by rounding; fewer identical lines than this mean a wrong conversion."""

PACKAGES = ("specmt", "torch", "fairseq2", "ctranslate2", "transformers", "sentencepiece", "sacrebleu")

console = Console(width=140)


def read_pairs(model: Model, sets: Sequence[str], count: int) -> tuple[list[str], list[str]]:
    """Returns the first lines of each set and their references, without lines that are not translated in one piece."""
    pairs = [
        (source.strip(), reference)
        for name in sets
        for source, reference in list(zip(read_lines(name, "de"), read_lines(name, "en"), strict=True))[:count]
    ]
    kept = [pair for pair in pairs if is_plain(model, pair[0])]
    return [source for source, _ in kept], [reference for _, reference in kept]


def is_plain(model: Model, line: str) -> bool:
    return len(split_layout(line)) == 1 and 0 < len(model.pieces.encode(line)) < model.max_source_length


def check(model: Model, peers: Peers, sources: Sequence[str]) -> list[dict[str, Any]]:
    """Compares greedy tokens in float32 with those of the loop; returns for each peer how many lines are the same.

    :param model: in float32
    """
    tokens, _, _ = decode_lines(model, list(sources), DecodingOptions(strategy="greedy"))
    wanted = [model.pieces.pieces(each) for each in tokens]
    limits = [peers.limit(source) for source in sources]
    ask: dict[str, Any] = {"dtype": "float32", "threads": peers.threads}
    found = {
        "CTranslate2": peers.ctranslate2("float32", 1, peers.threads).run(
            sources, batch_size=32, beam_size=1, limit=max(limits)
        ),
        "Hugging Face": peers.transformers().run(sources, batch_size=32, assisted=0, **ask),
    }
    if model.folder.autoregressive is not None:
        found["Hugging Face, assisted"] = peers.transformers().run(sources, batch_size=1, assisted=5, **ask)
    checks = []
    for peer, result in found.items():
        theirs = [pieces[:limit] for pieces, limit in zip(result.pieces, limits, strict=True)]
        different = [number for number in range(len(sources)) if wanted[number] != theirs[number]]
        checks.append({"peer": peer, "lines": len(sources), "identical": len(sources) - len(different)})
        console.print(f"{peer}: {len(sources) - len(different)} of {len(sources)} lines identical (greedy, float32)")
        for number in different[:1]:
            console.print(f"line {number + 1}: {escape(sources[number])}", style="dim")
            for side, pieces in (("specmt", wanted[number]), (peer, theirs[number])):
                console.print(f"{side}: {escape(' '.join(pieces))}", style="dim")
    return checks


def measure(
    ways: Sequence[Way],
    sources: list[str],
    references: list[str],
    wanted: Sequence[str],
    *,
    rounds: int,
    warm_up: int,
) -> list[dict[str, Any]]:
    """Runs the ways in turn; returns a row of the record for each.

    :param wanted: what specmt's greedy decoding says in float32
    :param warm_up: how many lines are translated before the clock runs, so that what calls cost is known by then
    """
    seconds: dict[str, list[float]] = {way.name: [] for way in ways}
    outputs: dict[str, list[str]] = {}
    for way in ways:
        way.translate(sources[:warm_up])
    for _ in range(rounds):
        for way in ways:
            result = way.translate(sources)
            outputs[way.name] = result.texts
            seconds[way.name].append(result.seconds)
    return [
        {
            "way": way.name,
            "setting": way.setting,
            "seconds": [round(value, 4) for value in seconds[way.name]],
            "bleu": round(BLEU().corpus_score(outputs[way.name], [references]).score, 3),
            "identical": sum(a == b for a, b in zip(outputs[way.name], wanted, strict=True)) / len(sources),
        }
        for way in ways
    ]


def load_models(folder: ModelFolder, dtype: str, threads: int) -> dict[str, Model]:
    """Returns the model in the type asked for, as ``auto``, in float32 for comparison, and in int8 where that is."""
    models = {"auto": load_model(folder.path, device="cpu", dtype=dtype, threads=threads)}
    models["float32"] = load_model(folder.path, device="cpu", dtype="float32", threads=threads)
    try:
        models["int8"] = load_model(folder.path, device="cpu", dtype="int8", threads=threads)
    except SpecmtError as error:
        console.print(f"without int8: {escape(str(error))}", style="dim")
    return models


@click.command()
@click.option("--model", "name", help="Model folder or name; default: the bundled one.")
@click.option("--beside", help="Another model, whose greedy decoding takes part, such as one of 12+1 layers.")
@click.option("--threads", default=2, show_default=True)
@click.option("--dtype", default="auto", show_default=True, help="What specmt computes in, int8 aside.")
@click.option("--sets", default="docs-test,newstest2014.de-en", show_default=True)
@click.option("--lines", default=20, show_default=True, help="How many lines of each set.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--batch-sizes", default="1,8,32", show_default=True)
@click.option("--block-size", default=5, show_default=True, help="How many tokens our autoregressive drafter drafts.")
@click.option("--only", default="", help="Only ways whose names begin so, and specmt's greedy decoding.")
@click.option("--json", "report", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write the tables here.")
@click.option("--check", "only_check", is_flag=True, help="Only compare greedy tokens; exits 1 under 97% alike.")
def main(
    name: str | None,
    beside: str | None,
    threads: int,
    dtype: str,
    sets: str,
    lines: int,
    rounds: int,
    batch_sizes: str,
    block_size: int,
    only: str,
    report: Path | None,
    markdown: Path | None,
    only_check: bool,
) -> None:
    """Quality and speed of specmt beside CTranslate2, Hugging Face and fairseq2, text to text, on the CPU."""
    try:
        folder = find(name, source="de", target="en")
        models = load_models(folder, dtype, threads)
        if beside is not None:
            models["beside"] = load_model(beside, device="cpu", dtype=dtype, threads=threads)
    except SpecmtError as error:
        raise click.ClickException(str(error)) from error
    model = models["auto"]
    sources, references = read_pairs(model, sets.split(","), lines)
    with TemporaryDirectory(prefix="specmt-peers-") as temporary:
        write_ctranslate2(folder, Path(temporary) / "ctranslate2")
        with closing(Peers(model, Path(temporary) / "ctranslate2", threads)) as peers:
            checks = [] if only.startswith("specmt") else check(models["float32"], peers, sources)
            alike = all(each["identical"] >= LEAST_IDENTICAL * each["lines"] for each in checks)
            if only_check or not alike:
                sys.exit(0 if alike else 1)
            _, wanted, _ = decode_lines(models["float32"], sources, DecodingOptions(strategy="greedy"))
            metric = BLEU()
            metric.corpus_score(wanted, [references])
            record: dict[str, Any] = {
                "machine": describe_machine(PACKAGES),
                "signature": Translator(model).signature(DecodingOptions()),
                "metric": str(metric.get_signature()),
                "environment": {key: value for key, value in sorted(os.environ.items()) if key.startswith("CT2_")},
                "sets": sets.split(","),
                "lines": len(sources),
                "rounds": rounds,
                "block_size": block_size,
                "checks": checks,
                "results": [],
            }
            for batch_size in map(int, batch_sizes.split(",")):
                ways = [
                    fastest(settings, sources, batch_size)
                    for settings in all_ways(models, peers, batch_size, block_size)
                    if settings[0].name.startswith((BASE, only))
                ]
                rows = measure(
                    ways,
                    sources,
                    references,
                    wanted,
                    rounds=rounds,
                    warm_up=max(10, batch_size),
                )
                record["results"] += [{"batch_size": batch_size, **row} for row in rows]
                console.print(speed_tables(record)[-1].rich())
    console.print(f"{format_signature(record['machine'])}\n{format_signature(record['signature'])}", style="dim")
    tables = "\n".join(table.markdown() for table in speed_tables(record))
    for path, text in ((report, json.dumps(record, indent=1) + "\n"), (markdown, tables)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    console.print("\n\n".join(notes(record)), style="dim")


if __name__ == "__main__":
    main()
