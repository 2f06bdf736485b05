#!/usr/bin/env python3
"""Chooses the attention heads that a model's alignments are read from, by the alignment error rate of hand-made links.

    scripts/alignment_heads.py specmt/assets/de-en specmt/assets/en-de --write

The links are those of $SPECMT_CORPORA/alignment (100 sentences of Europarl, German and English).
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from specmt.evaluation.alignment import Sentence, choose_heads
from specmt.models.hub import load_model
from specmt.models.writing import write_heads
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
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--write", is_flag=True, help="Store the choice in the model's configuration.")
def main(models: tuple[Path, ...], write: bool) -> None:
    """Choose the heads of MODELS that alignments are read from."""
    corpus = Path(os.environ["SPECMT_CORPORA"]) / "alignment"
    for path in models:
        model = load_model(path)
        rates: list[tuple[AlignmentHeads, float]] = []
        heads, rate = choose_heads(
            model,
            read_sentences(corpus, *model.languages),
            rates.append,
        )
        for others, each in sorted(rates, key=lambda each: each[1])[:5]:
            click.echo(f"{path.name}: {each:.3f} {others}", err=True)
        click.echo(f"{path.name}: {heads} has an alignment error rate of {rate:.3f}")
        if write:
            write_heads(path, heads)


if __name__ == "__main__":
    main()
