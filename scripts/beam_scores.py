#!/usr/bin/env python3
"""Quality of greedy decoding beside beam search with the same weights, on all lines of the test sets.

Beam search is CTranslate2's, in float32: `specmt evaluate --strategies greedy,beam:5` has fairseq2's, which finds the
same and takes several times as long. Lines are translated as they are, without protection of what is to be copied.
It needs the peers (pip install '.[peers]') and SPECMT_CORPORA, the folder of the test sets.

  python scripts/beam_scores.py --from de --to en --json runs/beam-de-en.json
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import torch
from measure import decode_lines, read_lines
from rich.console import Console
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from specmt.cli.progress import counting_bar
from specmt.decoding.loop import target_limit
from specmt.evaluation.quality import loops
from specmt.evaluation.tables import Table
from specmt.models.folder import PIECES, find
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.text.pieces import Pieces

try:
    import ctranslate2
    from peers.to_ctranslate2 import ids_of, write_ctranslate2
except ImportError as error:
    sys.exit(f"beam_scores.py needs CTranslate2 ({error}): pip install '.[peers]'")

FORMATS = {"set": "", "way": "", "lines": ",", "BLEU": ".2f", "chrF2": ".2f", "loops": ".2%"}
"""The columns."""

CHUNK = 256
"""Lines between two reports of progress."""


@click.command()
@click.option("--model", "name", help="Model folder or name; default: the bundled one of the direction.")
@click.option("--from", "source", default="de", show_default=True)
@click.option("--to", "target", default="en", show_default=True)
@click.option("--sets", help="Default: docs-test, everyday-test, multi30k's, newstest2014 and flores.")
@click.option("--lines", type=int, help="Only the first lines of each set.")
@click.option("--beam-size", default=5, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--dtype", default="auto", show_default=True, help="What specmt computes in.")
@click.option("--json", "report", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(
    name: str | None,
    source: str,
    target: str,
    sets: str | None,
    lines: int | None,
    beam_size: int,
    threads: int,
    dtype: str,
    report: Path | None,
) -> None:
    """BLEU, chrF2 and the share of lines that loop, greedy and beam."""
    if "SPECMT_CORPORA" not in os.environ:
        raise click.UsageError("SPECMT_CORPORA must name the folder of the test sets.")
    torch.set_num_threads(threads)
    folder = find(name, source=source, target=target)
    model = load_model(folder.path, device="cpu", dtype=dtype, threads=threads)
    pieces = Pieces(folder.verified(PIECES))
    newstest = f"newstest2014.{source}-{target}"
    names = sets or f"docs-test,everyday-test,multi30k.test_2016_flickr,{newstest},flores200-devtest"
    rows = []
    with TemporaryDirectory(prefix="specmt-beam-") as temporary:
        write_ctranslate2(folder, Path(temporary))
        translator = ctranslate2.Translator(temporary, device="cpu", compute_type="float32", intra_threads=threads)
        for test_set in names.split(","):
            sources, references = (read_lines(test_set, side)[:lines] for side in (source, target))
            _, greedy, _ = decode_lines(model, sources, DecodingOptions(strategy="greedy"))
            beam = search(translator, pieces, sources, beam_size, folder.verifier.max_length)
            for way, texts in (("greedy", greedy), (f"beam {beam_size}", beam)):
                rows.append({"set": test_set, "way": way, "lines": len(sources), **scores(texts, references)})
    cells = [tuple(format(each[key], form) for key, form in FORMATS.items()) for each in rows]
    Console(width=120).print(Table(f"{source}→{target}", list(FORMATS), cells).rich())
    if report is not None:
        report.write_text(json.dumps({"model_sha256": folder.sha256, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def search(
    translator: ctranslate2.Translator, pieces: Pieces, sources: Sequence[str], beam_size: int, max_length: int
) -> list[str]:
    """Returns the best translations that beam search finds."""
    texts: list[str] = []
    ids = ids_of(pieces)
    encoded = [pieces.pieces(ids) for ids in pieces.encode_batch(sources)]
    with counting_bar("beam search") as report:
        for begin in range(0, len(encoded), CHUNK):
            some = encoded[begin : begin + CHUNK]
            limit = target_limit(max(map(len, some)) + 1, max_length)  # one for all of them
            found = translator.translate_batch(some, max_batch_size=32, beam_size=beam_size, max_decoding_length=limit)
            texts += [pieces.decode([ids[piece] for piece in result.hypotheses[0]]) for result in found]
            report(len(texts), len(encoded))
    return texts


def scores(texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Returns corpus scores and the share of lines that loop."""
    return {
        "BLEU": BLEU().corpus_score(texts, [references]).score,
        "chrF2": CHRF().corpus_score(texts, [references]).score,
        "loops": sum(map(loops, texts)) / len(texts),
    }


if __name__ == "__main__":
    main()
