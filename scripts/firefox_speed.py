#!/usr/bin/env python3
"""Measures greedy decoding in int8 against Bergamot's engine, the one in Firefox, at random models of the real sizes.

Text to text, two threads, in turns: ours in batches of 32 and as `auto` has it, the engine's with two workers and in
batches as it likes. Figures are target pieces a second, and how many times as many those are, in medians of all rounds;
each has a translator of its own, as where its caches lie decides a few hundredths. A drafter there is none. Run it on a
quiet machine, with SPECMT_CORPORA naming the folder of the test sets and SPECMT_BERGAMOT a Python 3.10 that has the
package bergamot 0.4.5:

  PYTHONPATH=. python scripts/firefox_speed.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
from compare_peers import read_lines

from specmt.evaluation.machine import describe_machine, format_signature
from specmt.evaluation.timing import ratios
from specmt.models.hub import load_model
from specmt.models.interop.firefox import import_firefox
from specmt.options import DecodingOptions
from specmt.translator import Translator
from tests.marian import make_vocabulary, random_model

ROOT = Path(__file__).parents[1]
SIZES = {"tiny": (256, 1536, 6, 2), "base-memory": (384, 1536, 6, 4), "base": (512, 2048, 6, 2)}
"""Widths, units of feed-forward networks, layers of encoder and decoder."""

PIECES, HEADS = 32_000, 8
AUTO = DecodingOptions(batch_size=32, keep_numbers=False, protect=False)
ENGINE = "engine"
WAYS = {"greedy": DecodingOptions(**{**vars(AUTO), "strategy": "greedy"}), "auto": AUTO}


def write(folder: Path, text: str, size: str) -> None:
    """Writes a random model of a size, in int8, and what it becomes by `specmt import firefox`."""
    width, inner, encoder, decoder = SIZES[size]
    shape = {"dim-emb": width, "transformer-dim-ffn": inner, "enc-depth": encoder, "dec-depth": decoder}
    model = random_model((PIECES, PIECES), 1, **shape, **{"transformer-heads": HEADS})
    (folder / "vocab.spm").write_bytes(make_vocabulary(text, PIECES))
    (folder / "model.bin").write_bytes(model.binary(int8=True))
    import_firefox([str(folder)], folder / "ours", languages=("de", "en"))


def ask_engine(folder: Path, lines: list[str], rounds: int) -> list[float]:
    """Returns the pieces a second of each round."""
    command = [os.environ["SPECMT_BERGAMOT"], ROOT / "tests" / "bergamot.py", folder, "int8shiftAlphaAll"]
    command += ["--rounds", str(rounds), "--workers", "2"]
    said = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    return [pieces / seconds for seconds, pieces in map(json.loads, said.splitlines())]


@click.command(help=__doc__)
@click.option("--lines", default=300, show_default=True, help="Lines of newstest2014.")
@click.option("--rounds", default=9, show_default=True)
@click.option("--sizes", default=",".join(SIZES), show_default=True)
def main(lines: int, rounds: int, sizes: str) -> None:
    if not os.environ.get("SPECMT_BERGAMOT"):
        sys.exit("SPECMT_BERGAMOT must name a Python that has bergamot.")
    whole = read_lines("newstest2014.de-en", "de")
    print(format_signature(describe_machine()))
    for size in sizes.split(","):
        with TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, "\n".join(whole), size)
            some = whole[:lines]
            model = load_model(folder / "ours", device="cpu", dtype="int8", threads=2)
            found: dict[str, list[float]] = {way: [] for way in (ENGINE, *WAYS)}
            for number in range(rounds):
                found[ENGINE].append(ask_engine(folder, some, 2)[-1])  # warm, as our model is
                for way in [*WAYS][:: 1 if number % 2 else -1]:
                    translator, start = Translator(model), time.perf_counter()
                    said = list(translator.translate(some, WAYS[way]))
                    found[way].append(sum(each.stats.tokens for each in said) / (time.perf_counter() - start))
        engine, greedy, auto = (median(found[way]) for way in (ENGINE, "greedy", "auto"))
        faster, gain = (
            median(ratios(found[one], found[other])) for one, other in (("greedy", ENGINE), ("auto", "greedy"))
        )
        print(
            f"{size}: engine {engine:,.0f}, greedy {greedy:,.0f} ({faster:.2f} times), "
            f"auto {auto:,.0f} ({gain:.2f} of greedy)",
            flush=True,
        )


if __name__ == "__main__":
    main()
