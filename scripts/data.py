#!/usr/bin/env python3
"""Prepares the training data of the bundled models from the corpora in $SPECMT_CORPORA; see docs/training.md.

Usage: SPECMT_CORPORA=… python scripts/data.py FOLDER --direction de-en|en-de [--pieces FILE] [--exclude SOURCE,…]

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
from pathlib import Path

from specmt.training.augment import vary
from specmt.training.cleaning import Deduplicator, find_fault, modern_spelling, normalise, plain_quotes
from specmt.training.data import read_pairs
from specmt.training.synthetic import Pair, synthesise

# Each source's weight: how often a pair of it counts. They make general text and documentation about equal parts,
# counted in words, and interface strings a thirtieth. The order decides who keeps a pair that several have.
WEIGHTS: dict[str, dict[str, float]] = {
    "news": {
        "wmt-newstest-old": 4,
        "pud": 4,
        "wmt21-newstest": 4,
        "wmt22-24-general": 3,
        "opennmt-wmt10k-detok": 1.5,
    },
    "parliament": {"europarl-20k": 1.5},
    "encyclopaedic": {
        "xquad": 3,
        "mlqe-pe-wikipedia-detok": 2,
        "pawsx-human-detok": 1.5,
        "xnli-human": 2,
        "stellarium-skycultures": 1,
    },
    "talks": {"iwslt17-devtest": 3, "joeynmt-toy-ted": 3, "wmt21-ted": 3},
    "captions": {"multi30k": 2.5},
    "chat": {"cocoa-mt": 1.5, "wmt22-chat": 1.5, "bcontrast-chat": 1.5},
    "everyday": {
        "tatoeba-anki-2018": 0.8,
        "tatoeba-anki-2018-05": 0.8,
        "tatoeba-manythings": 0.5,
        "short-phrases": 1,
    },
    "web": {
        "opensource-guide": 2,
        "bitcoin-org": 2,
        "mozilla-www": 2,
        "mozilla-www-ftl": 2,
        "mozilla-foundation-thunderbird": 2,
        "hugo-sites": 2,
        "innersource": 2,
        "mozilla-legal": 1,
        "opus100-sample": 1,
        "annual-reports-berlin": 3,
        "corona-warn-app": 2,
        "opendatahandbook": 2,
        "cs-unplugged": 2,
        "privacyguides": 1,
        "scratch-l10n": 1,
        "monero-mastodon-sites": 1,
    },
    "reports": {"audit-reports-sao": 2, "eu-gdpr": 2},
    "books": {
        "bilinguator-books": 1,
        "gutenberg-novels": 0.6,
        "gutenberg-nonfiction": 0.6,
        "gutenberg-macaulay": 0.35,
        "gutenberg-mommsen": 0.3,
    },
    "games": {
        "shattered-pixel-dungeon": 1,
        "unknown-horizons": 1,
        "andors-trail": 1,
        "freeciv": 1,
        "thrive": 0.5,
        "valyria-tear": 0.5,
        "supertuxkart": 0.5,
        "colobot": 0.5,
    },
    "names": {"cldr-names": 1, "celestia-names": 1, "osm-presets": 0.5, "iso-codes-names": 0.2},
    "documentation": {
        "progit2": 2,
        "tails-website": 2,
        "gnome-user-docs": 2,
        "debian-website": 1,
        "php-manual": 1.5,
        "hugo-sites2": 1,
        "git-manpages-l10n": 1,
        "msdocs-aspnet": 1,
        "msdocs-dotnet": 0.8,
        "msdocs-dynamics365": 0.5,
        "msdocs-office-win32": 0.5,
    },
    "interface": {"yast-l10n": 0.5, "kde4-l10n": 0.3},
}
NOISY = {"opus100-sample", "opennmt-wmt10k-detok"}
VALID = ("docs-valid", "everyday-valid", "multi30k.val", "newstest2013")
TRANSLATIONS = 3
"""The most translations of a sentence, over all sources."""


def clean(source: str, german: str, english: str, *, modern: bool) -> tuple[Pair, str | None]:
    """Returns a pair as it is to be trained on, and why it is not if so."""
    german, english = normalise(german), normalise(english)
    fault = find_fault(german, english, strict=source in NOISY)
    return (modern_spelling(german) if modern else german, english), fault


def copies(weight: float, rng: random.Random) -> int:
    """Returns how often a pair counts: the weight, rounded up or down at random."""
    return int(weight) + (rng.random() < weight % 1)


def write_text(corpora: Path, folder: Path, *, direction: str, excluded: set[str], seed: int, synthetic: float) -> None:
    """Writes the text files and a record of what was kept of each source."""
    folder.mkdir(parents=True, exist_ok=True)
    side = 0 if direction == "de-en" else 1
    seen = Deduplicator(TRANSLATIONS)
    record: dict[str, dict[str, object]] = {}
    written = 0
    for domain, sources in WEIGHTS.items():
        for name, weight in sources.items():
            if name in excluded:
                continue
            rng = random.Random(f"{seed} {name}")
            faults: Counter[str] = Counter()
            kept, pairs, words = 0, 0, 0
            train = corpora / "train"
            with (folder / f"{name}.de").open("w") as de, (folder / f"{name}.en").open("w") as en:
                for texts in read_pairs(train / f"{name}.de.gz", train / f"{name}.en.gz"):
                    # A model that reads German must know the old spelling, one that writes it must not.
                    (german, english), fault = clean(name, *texts, modern=side == 1 or rng.random() < 0.7)
                    if fault is None and not seen.admit(german, english):
                        fault = "duplicate"
                    if fault is not None:
                        faults[fault] += 1
                        continue
                    kept += 1
                    if side == 0:
                        english = plain_quotes(english)
                    for _ in range(copies(weight, rng)):
                        for text, file in zip(vary((german, english), rng, source=side), (de, en), strict=True):
                            file.write(text + "\n")
                        pairs += 1
                        words += german.count(" ") + english.count(" ") + 2
            record[name] = {"domain": domain, "weight": weight, "kept": kept, "written": pairs, "words": words}
            record[name]["left_out"] = dict(faults.most_common())
            written += pairs
            print(f"{name}: {json.dumps(record[name])}", file=sys.stderr)
    rng = random.Random(f"{seed} synthetic")
    with (folder / "synthetic.de").open("w") as de, (folder / "synthetic.en").open("w") as en:
        for _ in range(int(written * synthetic)):
            german, english = synthesise(rng)
            if rng.random() < 0.5:
                german, english = vary((german, english), rng, source=side, rate=2)
            de.write(german + "\n")
            en.write(english + "\n")
    record["synthetic"] = {"written": int(written * synthetic)}
    (folder / "recipe.json").write_text(json.dumps(record, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--direction", choices=("de-en", "en-de"), required=True)
    parser.add_argument("--exclude", default="", help="comma-separated names of sources to leave out")
    parser.add_argument("--pieces", type=Path, help="use this SentencePiece model instead of training one")
    parser.add_argument("--synthetic", type=float, default=0.025, help="synthetic pairs, relative to the others")
    parser.add_argument("--max-length", type=int, default=160, help="leave out pairs with more pieces on a side")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    corpora = Path(os.environ["SPECMT_CORPORA"])
    excluded = set(filter(None, arguments.exclude.split(",")))
    unknown = excluded - {name for sources in WEIGHTS.values() for name in sources}
    if unknown:
        parser.error(f"--exclude: no such source: {', '.join(sorted(unknown))}")
    text = arguments.folder / "text"
    write_text(
        corpora,
        text,
        direction=arguments.direction,
        excluded=excluded,
        seed=arguments.seed,
        synthetic=arguments.synthetic,
    )
    source, target = arguments.direction.split("-")
    command = [sys.executable, "-m", "specmt", "prepare", str(arguments.folder)]
    command += ["--max-length", str(arguments.max_length)]
    if arguments.pieces is not None:
        command += ["--pieces", str(arguments.pieces)]
    for path in sorted(text.glob("*.de")):
        command += ["--train", str(path.with_suffix(f".{source}")), str(path.with_suffix(f".{target}"))]
    for name in VALID:
        valid = corpora / "valid"
        command += ["--valid", str(valid / f"{name}.{source}"), str(valid / f"{name}.{target}")]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
