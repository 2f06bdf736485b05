#!/usr/bin/env python3
"""Prepares the training data of the bundled models from the corpora in $SPECMT_CORPORA; see docs/training.md.

Usage: SPECMT_CORPORA=… python scripts/data.py FOLDER --direction de-en|en-de [--pieces FILE] [--back FOLDER]

Writes FOLDER/text/SOURCE.{de,en} (cleaned, weighted, varied) and what `specmt prepare` makes of them. The same
arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recipe.augment import is_sentence, join, vary
from recipe.cleaning import Deduplicator, find_fault, modern_spelling, normalise, plain_quotes
from recipe.synthetic import Pair, synthesise

from specmt.training.data import read_pairs

SOURCES = Path(__file__).parent / "recipe" / "sources.txt"
"""A domain a line, its sources and how often a pair of each counts; the order decides who keeps a pair that several
have. General text is about half of all words.
"""
DOCUMENTS = {"news", "parliament", "talks", "web", "reports", "books", "documentation", "back-translated"}
"""Domains whose sources are running text: the line before is the sentence before."""
NOISY = {"opus100-sample", "opennmt-wmt10k-detok"}
VALID = ("docs-valid", "everyday-valid", "multi30k.val", "newstest2013")
TRANSLATIONS = 3
"""The most translations of a sentence, over all sources."""


def clean(german: str, english: str, *, modern: bool, strict: bool) -> tuple[Pair, str | None]:
    """Returns a pair as it is to be trained on, and why it is not if so."""
    german, english = normalise(german), normalise(english)
    fault = find_fault(german, english, strict=strict)
    return (modern_spelling(german) if modern else german, english), fault


def copies(weight: float, rng: random.Random) -> int:
    """Returns how often a pair counts: the weight, rounded up or down at random."""
    return int(weight) + (rng.random() < weight % 1)


def read_sources(excluded: set[str]) -> list[tuple[str, str, float]]:
    """Returns domain, name and weight of each source.

    :raises ValueError: a source that is to be left out is not there.
    """
    found = []
    for line in SOURCES.read_text(encoding="utf-8").splitlines():
        domain, _, rest = line.partition(": ")
        for name, weight in map(str.split, rest.split(", ")):
            found.append((domain, name, float(weight)))
    if unknown := excluded - {name for _, name, _ in found}:
        raise ValueError(f"no such source: {', '.join(sorted(unknown))}")
    return [source for source in found if source[1] not in excluded]


class Writer:
    """Writes the text of all sources into a folder, and keeps a record of what was kept of each."""

    def __init__(self, folder: Path, direction: str, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.side = 0 if direction == "de-en" else 1
        self.seed = seed
        self.seen = Deduplicator(TRANSLATIONS)
        self.record: dict[str, dict[str, object]] = {}
        self.written = 0

    def write(self, domain: str, name: str, weight: float, files: tuple[Path, Path], *, strict: bool) -> None:
        """Writes one source: cleaned, weighted, varied."""
        rng = random.Random(f"{self.seed} {name}")
        faults: Counter[str] = Counter()
        kept, pairs, words = 0, 0, 0
        run: list[Pair] = []  # sentences of one document, up to this one
        with self._open(name) as write:
            for texts in read_pairs(*files):
                # A model that reads German must know the old spelling, one that writes it must not.
                modern = self.side == 1 or rng.random() < 0.7
                (german, english), fault = clean(*texts, modern=modern, strict=strict)
                if fault is None and not self.seen.admit(german, english):
                    fault = "duplicate"
                if fault is not None:
                    faults[fault] += 1
                    run = []
                    continue
                kept += 1
                if self.side == 0:
                    english = plain_quotes(english)
                pair = (german, english)
                run = [*run[-3:], pair] if domain in DOCUMENTS and is_sentence(pair) else []
                for _ in range(copies(weight, rng)):
                    german, english = vary(join(run or [pair], rng), rng, source=self.side)
                    write((german, english))
                    pairs += 1
                    words += german.count(" ") + english.count(" ") + 2
        self.record[name] = {"domain": domain, "weight": weight, "kept": kept, "written": pairs, "words": words}
        self.record[name]["left_out"] = dict(faults.most_common())
        self.written += pairs
        print(f"{name}: {json.dumps(self.record[name])}", file=sys.stderr)

    def write_synthetic(self, share: float) -> None:
        """Writes pairs made from nothing, so many in relation to the others, and the record."""
        rng = random.Random(f"{self.seed} synthetic")
        count = int(self.written * share)
        with self._open("synthetic") as write:
            for _ in range(count):
                pair = synthesise(rng)
                write(vary(pair, rng, source=self.side, rate=2) if rng.random() < 0.5 else pair)
        self.record["synthetic"] = {"written": count}
        (self.folder / "recipe.json").write_text(json.dumps(self.record, indent=2) + "\n")

    @contextmanager
    def _open(self, name: str) -> Iterator[Callable[[Pair], None]]:
        with (self.folder / f"{name}.de").open("w") as de, (self.folder / f"{name}.en").open("w") as en:

            def write(pair: Pair) -> None:
                de.write(pair[0] + "\n")
                en.write(pair[1] + "\n")

            yield write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--direction", choices=("de-en", "en-de"), required=True)
    parser.add_argument("--exclude", default="", help="comma-separated names of sources to leave out")
    parser.add_argument("--pieces", type=Path, help="use this SentencePiece model instead of training one")
    parser.add_argument("--synthetic", type=float, default=0.025, help="synthetic pairs, relative to the others")
    parser.add_argument("--back", type=Path, help="folder of back-translated text, NAME.de and NAME.en")
    parser.add_argument("--back-weight", type=float, default=1.0, help="how often a pair of it counts")
    parser.add_argument("--max-length", type=int, default=160, help="leave out pairs with more pieces on a side")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    corpora = Path(os.environ["SPECMT_CORPORA"])
    try:
        sources = read_sources(set(filter(None, arguments.exclude.split(","))))
    except ValueError as error:
        parser.error(f"--exclude: {error}")
    text = arguments.folder / "text"
    writer = Writer(text, arguments.direction, arguments.seed)
    for domain, name, weight in sources:
        train = corpora / "train"
        files = (train / f"{name}.de.gz", train / f"{name}.en.gz")
        writer.write(domain, name, weight, files, strict=name in NOISY)
    for path in sorted(arguments.back.glob("*.de")) if arguments.back else ():
        files = (path, path.with_suffix(".en"))
        writer.write("back-translated", f"back-{path.stem}", arguments.back_weight, files, strict=True)
    writer.write_synthetic(arguments.synthetic)
    source, target = arguments.direction.split("-")
    command = [sys.executable, "-m", "specmt", "prepare", str(arguments.folder)]
    command += ["--max-length", str(arguments.max_length)]
    if arguments.pieces is not None:
        command += ["--pieces", str(arguments.pieces)]
    for name in writer.record:
        command += ["--train", str(text / f"{name}.{source}"), str(text / f"{name}.{target}")]
    for name in VALID:
        valid = corpora / "valid"
        command += ["--valid", str(valid / f"{name}.{source}"), str(valid / f"{name}.{target}")]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
