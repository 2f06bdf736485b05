#!/usr/bin/env python3
"""Prepares the data of the bundled German-English model from the corpora in $SPECMT_CORPORA.

Usage: SPECMT_CORPORA=… python scripts/de_en_data.py FOLDER [--exclude SOURCE,…]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

# Captions and other general text are scarce beside documentation: what is named here counts several times.
REPEATS = {
    "multi30k": 6,
    "wmt-newstest-old": 2,
    "pud": 2,
    "iwslt17-devtest": 2,
    "debian-website": 2,
    "php-manual": 2,
    "tails-website": 2,
    "gnome-user-docs": 2,
    "progit2": 2,
}
# Interface strings, table cells and noisy or old-spelling text: left out of the small model's short training.
EXCLUDED = (
    "kde4-l10n",
    "yast-l10n",
    "msdocs-office-win32",
    "stellarium-skycultures",
    "unknown-horizons",
    "shattered-pixel-dungeon",
    "opus100-sample",
    "opennmt-wmt10k-detok",
    "europarl-20k",
)
VALID = ("docs-valid", "everyday-valid", "multi30k.val", "newstest2013")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--exclude", default=",".join(EXCLUDED), help="comma-separated names of sources to leave out")
    arguments = parser.parse_args()
    corpora = Path(os.environ["SPECMT_CORPORA"])
    excluded = set(filter(None, arguments.exclude.split(",")))
    command = [sys.executable, "-m", "specmt", "prepare", str(arguments.folder), "--max-length", "80"]
    for source in sorted((corpora / "train").glob("*.de.gz")):
        name = source.name.removesuffix(".de.gz")
        if name not in excluded:
            pair = ["--train", str(source), str(source.with_name(f"{name}.en.gz"))]
            command += pair * REPEATS.get(name, 1)
    for name in VALID:
        command += ["--valid", str(corpora / "valid" / f"{name}.de"), str(corpora / "valid" / f"{name}.en")]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
