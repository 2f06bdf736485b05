#!/usr/bin/env python3
"""Finishes a trained model: alignment heads, the lexicon, and networks in int8, half the size of float16.

    python scripts/finish.py runs/de-en/both/model runs/de-en/model --text runs/de-en/data/text

Alignments are read from the heads with the lowest error rate on the hand-made links of $SPECMT_CORPORA/alignment (100
sentences of Europarl, German and English); the lexicon is what the training text tells of characters and spellings.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
from recipe.spellings import learn

from specmt.evaluation.alignment import Sentence, choose_heads
from specmt.models.folder import ModelFolder
from specmt.models.hub import load_model
from specmt.models.writing import add_lexicon, store_in_int8, write_heads
from specmt.options import AlignmentHeads


def read_sentences(folder: Path, source: str, target: str) -> list[Sentence]:
    """Returns the sentences in a direction."""
    links: dict[int, set[tuple[int, int]]] = {}
    for line in (folder / "de-en.ref.wa").read_text().splitlines():
        number, german, english, _ = line.split()
        pair = (int(german), int(english))
        links.setdefault(int(number) - 1, set()).add(pair if source == "de" else pair[::-1])
    sides = ((folder / f"test.{side}").read_text("utf-8-sig").split("\n") for side in (source, target))
    pairs = zip(*sides, strict=True)
    return [(*pair, frozenset(links[number])) for number, pair in enumerate(pairs) if number in links]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", type=click.Path(path_type=Path, exists=True))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--text", required=True, type=click.Path(path_type=Path, exists=True), help="The folder of data.py.")
def main(model: Path, out: Path, text: Path) -> None:
    """Put heads and lexicon into MODEL, and write it into OUT in int8."""
    folder = ModelFolder.read(model)
    languages = folder.source, folder.target
    rates: list[tuple[AlignmentHeads, float]] = []
    sentences = read_sentences(Path(os.environ["SPECMT_CORPORA"]) / "alignment", *languages)
    heads, rate = choose_heads(load_model(model), sentences, rates.append)
    for others, each in sorted(rates, key=lambda each: each[1])[:5]:
        click.echo(f"{each:.3f} {others}", err=True)
    click.echo(f"{heads} has an alignment error rate of {rate:.3f}")
    write_heads(model, heads)
    lexicon = learn(*(sorted(text.glob(f"*.{language}")) for language in languages))
    add_lexicon(model, lexicon)
    click.echo(f"{len(lexicon.letters)} characters, {len(lexicon.spellings)} spellings")
    store_in_int8(out, ModelFolder.read(model))


if __name__ == "__main__":
    main()
