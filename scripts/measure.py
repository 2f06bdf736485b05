#!/usr/bin/env python3
"""Measures what the commands of specmt do not: memory, the same output in any company, formats, start and samples.

Run one measurement at a time on a quiet machine, with SPECMT_CORPORA naming the folder of the test sets:

  python scripts/measure.py memory
  python scripts/measure.py identical
  python scripts/measure.py formats
  python scripts/measure.py determinism
  python scripts/measure.py start
  python scripts/measure.py sampling
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from specmt.decoding.batch import decode
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import Stats

SETS = ("docs-test", "everyday-test", "multi30k.test_2016_flickr", "newstest2014.de-en", "flores200-devtest")

console = Console(width=120)

report_option = click.option(
    "--json", "report", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here too."
)


def write_report(report: Path | None, rows: Sequence[dict[str, Any]], **more: object) -> None:
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps({**more, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def read_lines(name: str, side: str) -> list[str]:
    folder = os.environ.get("SPECMT_CORPORA")
    if folder is None:
        raise click.UsageError("SPECMT_CORPORA must name the folder of the test sets.")
    text = (Path(folder) / "tests" / f"{name}.{side}").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


def decode_lines(model: Model, lines: list[str], options: DecodingOptions) -> tuple[list[list[int]], list[str], Stats]:
    hypotheses = decode(model, model.pieces.encode_batch(lines), options)
    tokens = [hypothesis.tokens for hypothesis in hypotheses]
    total = sum((hypothesis.stats for hypothesis in hypotheses), Stats())
    return tokens, [model.pieces.decode(ids) for ids in tokens], total


@click.group()
@click.option("--model", "name", help="Model folder or name; default: the bundled one.")
@click.option("--threads", default=2, show_default=True)
@click.option("--dtype", default="float32", show_default=True)
@click.option("--kernels/--no-kernels", default=True, show_default=True, help="C++ kernels, or PyTorch alone.")
@click.pass_context
def main(context: click.Context, name: str | None, threads: int, dtype: str, kernels: bool) -> None:
    context.obj = lambda: load_model(name, dtype=dtype, threads=threads, kernels=kernels)


@main.command()
@click.option("--lines", default=2000, show_default=True)
@click.option("--set", "name", type=click.Choice(SETS), default="newstest2014.de-en", show_default=True)
@click.option("--width", default=4, show_default=True, help="Paths of the sampled trees.")
@click.option("--block-size", default=4, show_default=True, help="Drafted tokens of a path.")
@click.option("--seed", default=1, show_default=True)
@click.pass_obj
def sampling(load: Callable[[], Model], lines: int, name: str, width: int, block_size: int, seed: int) -> None:
    """Mean log-probability of speculative samples against ancestral ones, a sample a line; exits 1 if it is another.

    At temperature 1, where a score is the logarithm of the probability that the sample was drawn with.
    """
    model = load()
    sources = read_lines(name, "de")[:lines]
    ancestral = DecodingOptions(strategy="greedy", temperature=1.0, scores=True, seed=seed)
    chain = replace(ancestral, strategy="speculative", block_size=block_size, seed=seed + 1)
    ways = {
        "ancestral": ancestral,
        "chain": chain,
        f"sampled, width {width}": replace(chain, tree="sampled", width=width, seed=seed + 2),
    }
    table = Table(
        "samples", "lines", "mean log-probability", "difference a line", "tokens", "mean accepted length", "s"
    )
    scores: dict[str, list[float]] = {}
    for way, options in ways.items():
        started = time.perf_counter()
        hypotheses = decode(model, model.pieces.encode_batch(sources), options)
        elapsed = time.perf_counter() - started
        scores[way] = [hypothesis.score for hypothesis in hypotheses]
        differences = [one - other for one, other in zip(scores[way], scores["ancestral"], strict=True)]
        stats = sum((hypothesis.stats for hypothesis in hypotheses), Stats())
        table.add_row(
            way,
            str(len(sources)),
            "{:.2f} ± {:.2f}".format(*interval(scores[way])),
            "" if way == "ancestral" else "{:+.2f} ± {:.2f}".format(*interval(differences)),
            str(stats.tokens),
            f"{stats.mean_accepted_length:.2f}",
            f"{elapsed:.0f}",
        )
    console.print(table)
    console.print(f"{name}, 95% intervals; {block_size} drafted tokens, {model.dtype}", style="dim")
    mean, half = interval(scores["ancestral"])
    sys.exit(any(abs(statistics.fmean(values) - mean) > half for values in scores.values()))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean, and half of the width of its 95% interval."""
    return statistics.fmean(values), 1.96 * statistics.stdev(values) / len(values) ** 0.5


@main.command()
@click.option("--counts", default="1000,100000", show_default=True)
@report_option
def memory(counts: str, report: Path | None) -> None:
    """Peak memory of `specmt translate` in a pipe, by number of lines; checks count and order."""
    threads = str(click.get_current_context().find_root().params["threads"])
    sources = [line for line in read_lines("everyday-test", "de") if len(line) < 40]
    table = Table("lines", "peak MiB", "seconds", "lines out", "in order")
    found = []
    for count in map(int, counts.split(",")):
        generator = random.Random(1)
        lines = [generator.choice(sources) for _ in range(count)]
        distinct = {line: None for line in lines}
        command = [sys.executable, "-m", "specmt", "translate", "--threads", threads]
        started = time.perf_counter()
        process = subprocess.run(command, input="\n".join(lines) + "\n", text=True, capture_output=True, check=True)
        elapsed = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        out = process.stdout.removesuffix("\n").split("\n")
        # Equal lines have equal translations, so that order shows without translating anything twice.
        for line, translation in zip(lines, out, strict=False):
            distinct[line] = distinct[line] or translation
        in_order = len(out) == count and all(distinct[a] == b for a, b in zip(lines, out, strict=True))
        table.add_row(str(count), f"{peak:.0f}", f"{elapsed:.0f}", str(len(out)), str(in_order))
        found.append({"lines": count, "mebibytes": peak, "seconds": elapsed, "in_order": in_order})
    console.print(table)
    write_report(report, found)


@main.command()
@click.option("--lines", default=2000, show_default=True, help="Half of them from docs-test, half from newstest2014.")
@click.option("--dtypes", default="float32,bfloat16,int8", show_default=True)
@click.option("--batch-sizes", default="1,2,3,8,33", show_default=True)
@report_option
def identical(lines: int, dtypes: str, batch_sizes: str, report: Path | None) -> None:
    """Compares output files of `specmt translate`, byte by byte; exits 1 at any difference.

    Each batch size, one thread and two, shuffled lines (put back in order), greedy and draft trees.
    """
    texts = [line for name in ("docs-test", "newstest2014.de-en") for line in read_lines(name, "de")[: lines // 2]]
    order = random.Random(1).sample(range(len(texts)), len(texts))
    runs: dict[str, list[str]] = {f"batch {size}": ["--batch-size", size] for size in batch_sizes.split(",")}
    runs["one thread"] = ["--threads", "1"]
    runs["shuffled"] = []
    runs["greedy"] = ["--strategy", "greedy"]
    runs["8 drafted"] = ["--block-size", "8"]
    runs["trees of 16"] = ["--tree", "best-first", "--nodes", "16", "--block-size", "8", "--batch-size", "5"]
    table = Table("type", "run", "lines", "identical", "seconds")
    found = []
    same = True
    for dtype in dtypes.split(","):
        wanted: list[str] | None = None
        for name, arguments in runs.items():
            command = [sys.executable, "-m", "specmt", "translate", "--threads", "2", "--dtype", dtype, *arguments]
            given = [texts[index] for index in order] if name == "shuffled" else texts
            text = "\n".join(given) + "\n"
            started = time.perf_counter()
            process = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
            elapsed = time.perf_counter() - started
            out = process.stdout.removesuffix("\n").split("\n")
            if name == "shuffled":
                out = [line for _, line in sorted(zip(order, out, strict=True))]
            wanted = wanted or out
            same = same and out == wanted
            table.add_row(dtype, name, str(len(out)), str(out == wanted), f"{elapsed:.1f}")
            found.append({"dtype": dtype, "run": name, "lines": len(out), "identical": out == wanted})
    console.print(table)
    write_report(report, found)
    sys.exit(0 if same else 1)


@main.command()
@click.option("--lines", type=int, help="Only the first lines of each set.")
@report_option
@click.pass_obj
def formats(load: Callable[[], Model], lines: int | None, report: Path | None) -> None:
    """BLEU and share of lines as in float32, by number format (greedy)."""
    path = load().path
    table = Table("set", "type", "BLEU", "chrF2", "as in float32")
    found = []
    for name in ("docs-test", "newstest2014.de-en"):
        sources, references = read_lines(name, "de")[:lines], read_lines(name, "en")[:lines]
        wanted: list[list[int]] | None = None
        for dtype in ("float32", "bfloat16", "int8"):
            model = load_model(path, dtype=dtype)
            tokens, texts, _ = decode_lines(model, sources, DecodingOptions(strategy="greedy"))
            wanted = wanted or tokens
            share = sum(one == other for one, other in zip(tokens, wanted, strict=True)) / len(sources)
            bleu, chrf = (round(metric.corpus_score(texts, [references]).score, 3) for metric in (BLEU(), CHRF()))
            table.add_row(name, dtype, f"{bleu:.1f}", f"{chrf:.1f}", f"{share:.1%}")
            row = {"set": name, "lines": len(sources), "dtype": dtype, "bleu": bleu, "chrf": chrf, "identical": share}
            found.append(row)
    console.print(table)
    write_report(report, found)


@main.command()
@click.option("--lines", default=100, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--batch-sizes", default="1,8,32", show_default=True)
@click.pass_context
def determinism(context: click.Context, lines: int, repeats: int, batch_sizes: str) -> None:
    """What the same bits in any company cost on PyTorch, where shapes are padded for them; on the kernels nothing."""
    threads, dtype = (context.find_root().params[name] for name in ("threads", "dtype"))
    models = [
        load_model(dtype=dtype, threads=threads, deterministic=deterministic, kernels=False)
        for deterministic in (False, True)
    ]
    sources = models[0].pieces.encode_batch(read_lines("docs-test", "de")[:lines])
    table = Table("batch", "free s", "deterministic s", "cost")
    for batch_size in map(int, batch_sizes.split(",")):
        options = DecodingOptions(strategy="greedy", batch_size=batch_size)
        pairs = []
        for _ in range(repeats + 1):
            seconds = []
            for model in models:
                started = time.perf_counter()
                decode(model, sources, options)
                seconds.append(time.perf_counter() - started)
            pairs.append(seconds)
        free, strict = (statistics.median(column) for column in zip(*pairs[1:], strict=True))
        cost = statistics.median(strict / free for free, strict in pairs[1:]) - 1
        table.add_row(str(batch_size), f"{free:.2f}", f"{strict:.2f}", f"{cost:+.1%}")
    console.print(table)


@main.command()
@click.option("--repeats", default=5, show_default=True)
@report_option
def start(repeats: int, report: Path | None) -> None:
    """Where the time of translating one line in a fresh process goes."""
    threads = str(click.get_current_context().find_root().params["threads"])
    stages = {
        "python": "pass",
        "and import torch": "import torch",
        "and import specmt": "import specmt.models.hub, specmt.decoding.batch, specmt.translator",
        "and load the model": "from specmt.translator import Translator; Translator.from_pretrained()",
    }
    commands = {name: [sys.executable, "-c", code] for name, code in stages.items()}
    commands["specmt translate, one line"] = [sys.executable, "-m", "specmt", "translate", "--threads", threads]
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, input="Guten Tag.\n", text=True, capture_output=True, check=True)
            seconds[name].append(time.perf_counter() - started)
    table = Table("what", "median s")
    for name, values in seconds.items():
        table.add_row(name, f"{statistics.median(values[1:]):.2f}")
    console.print(table)
    write_report(report, [{"what": name, "seconds": values[1:]} for name, values in seconds.items()])


if __name__ == "__main__":
    main()
