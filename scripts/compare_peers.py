#!/usr/bin/env python3
"""Compares specmt with CTranslate2 on the same verifier, the same lines and the same machine, text to text.

The verifier of a model folder becomes a CTranslate2 model. Its searches, each in the setting that is fastest on some of
the lines, take turns with specmt, and so does fairseq2's beam search. First the greedy tokens of CTranslate2 are
compared with specmt's, both in float32.

It needs the peers (pip install '.[peers]'). Run it on a quiet machine, with SPECMT_CORPORA naming the folder of the
test sets:

  python scripts/compare_peers.py --json runs/peers.json

CTranslate2's own variables work as always, such as CT2_USE_MKL=1 for Intel's kernels on processors of others.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from peers.ctranslate2_worker import load, translate
from rich.console import Console
from sacrebleu.metrics.bleu import BLEU
from widen import write_wide

from specmt.decoding.rows import target_limit
from specmt.engine.threads import use_threads
from specmt.errors import SpecmtError
from specmt.evaluation.machine import describe_machine, format_signature
from specmt.evaluation.tables import Table
from specmt.evaluation.timing import ratios, spread
from specmt.models.folder import PIECES, find
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.text.segment import split_layout
from specmt.translator import Translator

BASE = "specmt greedy"
"""The way that all others are compared with."""

TRIED = 6
"""Lines at least that a setting is tried on."""

LEAST_IDENTICAL = 0.97
"""Near-ties may go the other way by rounding; fewer identical lines than this mean a wrong conversion."""

PACKAGES = ("specmt", "torch", "fairseq2", "ctranslate2", "numpy", "sentencepiece", "sacrebleu")
GREEDY = DecodingOptions(strategy="greedy")

console = Console(width=140)


@dataclass(frozen=True)
class Result:
    """What a way made of all lines, in how many seconds, text to text."""

    seconds: float
    texts: list[str]
    pieces: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Way:
    """A program and what it is asked to do, in one of the settings that it can do it in."""

    name: str
    setting: str
    translate: Callable[[Sequence[str]], Result]


class Peers:
    """CTranslate2, in processes of its own, whose threads do not fight with those of this one."""

    def __init__(self, model: Model, converted: Path, threads: int) -> None:
        """
        :param converted: the verifier as a CTranslate2 model
        """
        self._model, self._converted, self._threads = model, converted.resolve(), threads
        self._processes = ExitStack()
        self._start = cache(self._new)
        self.close = self._processes.close

    def _new(self, *arguments: str | int) -> Executor:
        spawned = ProcessPoolExecutor(1, get_context("spawn"), load, arguments)
        return self._processes.enter_context(spawned)

    def ctranslate2(self, compute_type: str, batch_size: int, beam_size: int) -> Iterator[Way]:
        """Yields a search in every use of the threads; batches side by side are not batches of 1."""
        name = f"CTranslate2 {compute_type} {'greedy' if beam_size == 1 else f'beam {beam_size}'}"
        paths = str(self._converted), str(self._model.folder.verified(PIECES).resolve())
        shares = [(1, 1), (1, self._threads), *[(self._threads, 1)] * (batch_size > 1)]
        for workers, threads in dict.fromkeys(shares):
            worker = (*paths, compute_type, workers, threads)

            def ask(lines: Sequence[str], worker: Sequence[str | int] = worker) -> Result:
                most = max(len(ids) for ids in self._model.pieces.encode_batch(lines)) + 1
                limit = target_limit(most, self._model.folder.verifier.max_length)  # it has one for all sentences
                answer = self._start(*worker).submit(translate, list(lines), batch_size, beam_size, limit)
                return Result(*answer.result())

            yield Way(name, f"{workers} × {threads} threads", ask)


def specmt_way(name: str, model: Model, options: DecodingOptions, threads: int) -> Way:
    """Returns specmt in the type of a model; the text is what the model makes of it, as with the peers."""
    translator = Translator(model)
    options = replace(options, protect=False, keep_numbers=False)

    def translate(lines: Sequence[str]) -> Result:
        use_threads(threads)
        started = time.perf_counter()
        found = list(translator.translate(lines, options))
        return Result(time.perf_counter() - started, [each.text for each in found], [each.tokens for each in found])

    return Way(name, f"{model.dtype}, {threads} threads", translate)


def fairseq2_way(model: Model, batch_size: int, threads: int) -> Way:
    """Returns fairseq2's beam search, in float32."""

    def translate(lines: Sequence[str]) -> Result:
        import torch
        from peers.fairseq2_search import search

        torch.set_num_threads(threads)
        started = time.perf_counter()
        sources = model.pieces.encode_batch(lines)
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        texts = [""] * len(lines)
        for begin in range(0, len(order), batch_size):
            some = order[begin : begin + batch_size]
            found = search(model, [sources[index] for index in some], DecodingOptions(beam_size=5))
            for index, each in zip(some, found, strict=True):
                texts[index] = model.pieces.decode(each[0].tokens)
        return Result(time.perf_counter() - started, texts)

    return Way("fairseq2 beam 5", f"float32, {threads} threads", translate)


def fastest(ways: Sequence[Way], lines: Sequence[str], batch_size: int) -> Way:
    """Returns the way that was fastest on some of the lines, from all over them."""
    if len(ways) == 1:
        return ways[0]
    count = max(TRIED, 2 * batch_size)  # two batches at least: some settings have batches side by side
    some = list(lines[:: max(1, len(lines) // count)][:count])
    seconds = []
    for way in ways:
        way.translate(some[:2])
        seconds.append(way.translate(some).seconds)
    return ways[seconds.index(min(seconds))]


def all_ways(model: Model, int8: Model, peers: Peers, threads: int, batch_size: int) -> list[list[Way]]:
    """Returns everything that is compared, each in every setting that it has a choice of.

    :param model: in the type that specmt is to use
    :param int8: the same in int8
    """
    options = partial(DecodingOptions, batch_size=batch_size)
    greedy, beam = options(strategy="greedy"), options(strategy="beam", beam_size=5)
    ours = [(BASE, model, greedy), ("specmt auto", model, options())]
    if model.folder.drafter is not None:
        ours.append(("specmt masked, 8 ahead", model, options(drafter="masked", block_size=8)))
    if model.folder.autoregressive is not None:
        ours.append(("specmt autoregressive, 5 ahead", model, options(drafter="autoregressive", block_size=5)))
    ours += [(f"{BASE}, int8", int8, greedy), ("specmt auto, int8", int8, options())]
    ours += [("specmt beam 5", model, beam), ("specmt beam 5, int8", int8, beam)]
    fairseq2 = [fairseq2_way(model, batch_size, each) for each in dict.fromkeys([1, threads])]
    theirs = [peers.ctranslate2(kind, batch_size, beam_size) for beam_size in (1, 5) for kind in ("float32", "int8")]
    return [*([specmt_way(*way, threads)] for way in ours), *map(list, (fairseq2, *theirs))]


def read_lines(name: str, side: str) -> list[str]:
    """Returns one side of a test set."""
    if "SPECMT_CORPORA" not in os.environ:
        raise click.UsageError("SPECMT_CORPORA must name the folder of the test sets.")
    text = (Path(os.environ["SPECMT_CORPORA"]) / "tests" / f"{name}.{side}").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


def read_pairs(model: Model, sets: Sequence[str], count: int) -> tuple[list[str], list[str]]:
    """Returns the first lines of each set and their references, without lines that are not translated in one piece."""
    sides = [[line for name in sets for line in read_lines(name, side)[:count]] for side in model.languages]
    most = model.max_source_length
    pairs = [(source.strip(), reference) for source, reference in zip(*sides, strict=True)]
    kept = [pair for pair in pairs if len(split_layout(pair[0])) == 1 and 0 < len(model.pieces.encode(pair[0])) < most]
    return [source for source, _ in kept], [reference for _, reference in kept]


def check(wanted: Result, peers: Peers, sources: Sequence[str]) -> bool:
    """Compares greedy tokens in float32 with ours; returns whether nearly all lines have the same."""
    way = next(peers.ctranslate2("float32", 32, 1))
    # A batch has one limit, its longest source's.
    theirs = [pieces[: len(own)] for pieces, own in zip(way.translate(sources).pieces, wanted.pieces, strict=True)]
    same = sum(one == other for one, other in zip(theirs, wanted.pieces, strict=True))
    console.print(f"{way.name}: {same} of {len(sources)} lines have the tokens of specmt (greedy, float32)")
    return same >= LEAST_IDENTICAL * len(sources)


def measure(
    ways: Sequence[Way], sources: list[str], references: list[str], wanted: Sequence[str], *, rounds: int, warm_up: int
) -> list[dict[str, Any]]:
    """Runs the ways in turn; returns a row of the record for each.

    :param wanted: what specmt's greedy decoding says in float32
    :param warm_up: how many lines are translated before the clock runs
    """
    results: dict[str, list[Result]] = {way.name: [] for way in ways}
    for way in ways:
        way.translate(sources[:warm_up])
    for _ in range(rounds):
        for way in ways:
            results[way.name].append(way.translate(sources))
    rows = []
    for way in ways:
        texts = results[way.name][-1].texts
        bleu = BLEU().corpus_score(texts, [references]).score
        identical = sum(a == b for a, b in zip(texts, wanted, strict=True)) / len(sources)
        seconds = [result.seconds for result in results[way.name]]
        figures = {"seconds": seconds, "bleu": bleu, "identical": identical}
        rows.append({"way": way.name, "setting": way.setting, **figures})
    return rows


def speed_table(record: Mapping[str, Any], batch_size: int) -> Table:
    """Returns what was measured of all ways at a batch size."""
    rows = [row for row in record["results"] if row["batch_size"] == batch_size]
    base = next(row for row in rows if row["way"] == BASE)
    columns = ("", "setting", "sentences/s", f"times {BASE}", "BLEU", "as in float32")
    cells = []
    for row in rows:
        speeds = interval([record["lines"] / seconds for seconds in row["seconds"]], 1)
        ratio = "1" if row is base else interval(ratios(base["seconds"], row["seconds"]), 2)
        cells.append((row["way"], row["setting"], speeds, ratio, f"{row['bleu']:.1f}", f"{row['identical']:.1%}"))
    return Table(f"Batch size {batch_size}", columns, cells)


def interval(values: Sequence[float], digits: int) -> str:
    """Returns the median, with the lowest and the highest value."""
    found = spread(values)
    return f"{found.median:.{digits}f} ({found.low:.{digits}f}–{found.high:.{digits}f})" if found else ""


def notes(record: Mapping[str, Any]) -> list[str]:
    """Returns what must be known of the figures, a paragraph each."""
    return [
        f"{record['lines']} lines of {record['sets']}, the same weights everywhere, text to text: each way gets all "
        f"lines at once, to sort by length as it likes. All ways take turns, {record['rounds']} times; speeds are "
        "medians (lowest to highest), ratios are taken within a round. CTranslate2 runs in processes of its own, in "
        "the setting (threads) that was fastest on some of the lines. Last column: lines that come out as in specmt's "
        "greedy decoding in float32.",
        *(f"{name}={value}" for name, value in record["environment"].items()),
        format_signature({**record["signature"], **record["machine"]}),
    ]


@click.command()
@click.option("--model", "name", help="Model folder or name; default: the bundled one.")
@click.option("--widened", default=1, show_default=True, help="Repeat every dimension so often: as if it were larger.")
@click.option("--threads", default=2, show_default=True)
@click.option("--dtype", default="bfloat16", show_default=True, help="What specmt computes in, int8 aside.")
@click.option("--sets", default="docs-test,newstest2014.de-en", show_default=True)
@click.option("--lines", default=20, show_default=True, help="How many lines of each set.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--batch-sizes", default="1,8,32", show_default=True)
@click.option("--only", default="", help="Only ways whose names begin so (a,b), and specmt's greedy decoding.")
@click.option("--json", "report", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    name: str | None,
    widened: int,
    threads: int,
    dtype: str,
    sets: str,
    lines: int,
    rounds: int,
    batch_sizes: str,
    only: str,
    report: Path | None,
) -> None:
    """Quality and speed of specmt beside other programs, text to text, on the CPU."""
    with TemporaryDirectory(prefix="specmt-peers-") as temporary:
        folder = find(name, source="de", target="en")
        if widened > 1:
            folder = write_wide(folder.path, widened, Path(temporary) / "wide")
        load_as = partial(load_model, folder.path, device="cpu", threads=threads)
        try:
            model, exact, int8 = (load_as(dtype=kind) for kind in (dtype, "float32", "int8"))
        except SpecmtError as error:
            raise click.ClickException(str(error)) from error
        sources, references = read_pairs(model, sets.split(","), lines)
        converted, alone = Path(temporary) / "ctranslate2", all(name.startswith("specmt") for name in only.split(","))
        if not alone:
            from peers.to_ctranslate2 import write_ctranslate2

            write_ctranslate2(folder, converted)
        with closing(Peers(model, converted, threads)) as peers:
            wanted = specmt_way("", exact, GREEDY, threads).translate(sources)
            if not (alone or check(wanted, peers, sources)):
                sys.exit(1)
            record: dict[str, Any] = {
                "machine": describe_machine(PACKAGES),
                "signature": Translator(model).signature(DecodingOptions()),
                "environment": {key: value for key, value in sorted(os.environ.items()) if key.startswith("CT2_")},
                "sets": sets,
                "lines": len(sources),
                "rounds": rounds,
                "results": [],
            }
            for size in map(int, batch_sizes.split(",")):
                settings = all_ways(model, int8, peers, threads, size)
                asked = [each for each in settings if each[0].name.startswith((BASE, *only.split(",")))]
                ways = [fastest(each, sources, size) for each in asked]
                rows = measure(ways, sources, references, wanted.texts, rounds=rounds, warm_up=max(10, size))
                record["results"] += [{"batch_size": size, **row} for row in rows]
                console.print(speed_table(record, size).rich())
    console.print("\n".join(notes(record)), markup=False)
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
