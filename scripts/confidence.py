#!/usr/bin/env python3
"""Fits what tells how likely translations of a model are to be acceptable, and says how far that can be trusted.

    scripts/confidence.py de-en en-de --corpora $SPECMT_CORPORA --judged data/judged.{pair}.tsv --write

Fitted on the validation sets, of which each counts as much as the others. A translation is acceptable where its chrF is
at least the threshold that agrees best with verdicts of a person; of equally good ones the smallest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import click
import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import CHRF

from specmt.models.writing import write_confidence
from specmt.options import DecodingOptions
from specmt.text.confidence import Confidence, features, fit
from specmt.text.lines import read_lines
from specmt.translator import Translator

SETS: Final = {
    "valid": ("docs-valid", "everyday-valid", "multi30k.val", "newstest2013"),
    "tests": ("docs-test", "everyday-test", "multi30k.test_2016_flickr", "newstest2014.{pair}", "flores200-devtest"),
}
BINS: Final = 10

Floats = npt.NDArray[np.float64]


class Said(NamedTuple):
    """A translation, and how near it is to its reference."""

    set: str
    line: int
    features: tuple[float, ...]
    chrf: float


class Row(NamedTuple):
    """What is said of a set."""

    set: str
    lines: int
    acceptable: float
    said: float
    error: float
    worst_found: float
    by_length: float


def decode(translator: Translator, folder: Path, names: Sequence[str]) -> Iterator[Said]:
    """Translates sets, and compares with their references."""
    (source, target), chrf = translator.model.languages, CHRF()
    for name in (name.format(pair=f"{source}-{target}") for name in names):
        references = [line.text for line in read_lines(folder / f"{name}.{target}")]
        lines = (line.text for line in read_lines(folder / f"{name}.{source}"))
        said = translator.translate(lines, DecodingOptions(scores=True))
        for number, (each, reference) in enumerate(zip(said, references, strict=True), 1):
            if each.log_probs:
                found = features(each.line.text, each.text, each.log_probs)
                yield Said(name, number, found, chrf.sentence_score(each.text, [reference]).score)


def choose_threshold(said: Sequence[Said], judged: Path) -> tuple[float, float]:
    """Returns the chrF that agrees best with verdicts, and how often it does."""
    lines = (line.split("\t") for line in judged.read_text().splitlines())
    verdicts = {(name, int(number)): verdict == "1" for name, number, verdict in lines}
    pairs = [(each.chrf, verdicts[each.set, each.line]) for each in said if (each.set, each.line) in verdicts]
    best, least = max((sum((chrf >= t) == good for chrf, good in pairs) / len(pairs), -t) for t in range(101))
    return float(-least), best


def bins(chances: Floats, outcomes: Floats) -> Iterator[tuple[float, float, float]]:
    """Yields the share of the translations in bins of equal width, the mean probability and the share acceptable."""
    places = np.minimum((chances * BINS).astype(int), BINS - 1)
    for number in range(BINS):
        if (inside := places == number).any():
            yield float(inside.mean()), float(chances[inside].mean()), float(outcomes[inside].mean())


def measure(said: Sequence[Said], confidence: Confidence) -> tuple[Row, list[tuple[float, float, float]]]:
    """Returns what is said of translations, and their bins."""
    chances = np.array([confidence.of(each.features) for each in said])
    outcomes = np.array([float(each.chrf >= confidence.threshold) for each in said])
    tenth, found = len(said) // 10, [*bins(chances, outcomes)]

    def least(values: Floats) -> set[int]:
        return {*np.argsort(values, kind="stable")[:tenth].tolist()}

    worst = least(np.array([each.chrf for each in said]))
    shares = (len(worst & least(by)) / tenth for by in (chances, np.array([-each.features[2] for each in said])))
    error = sum(share * abs(one - other) for share, one, other in found)
    return Row(said[0].set, len(said), float(outcomes.mean()), float(chances.mean()), error, *shares), found


def diagram(curves: Mapping[str, Sequence[tuple[float, float, float]]]) -> str:
    """Returns a reliability diagram as SVG: what was said against what is true; larger points are of more lines."""
    edge, size = 44, 320
    whole = size + 2 * edge
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {whole}" font-family="sans-serif">'
        f'<rect width="{whole}" height="{whole}" fill="#fff"/>'
        f'<path d="M{edge} {edge}v{size}h{size}M{edge} {edge + size}l{size} -{size}" fill="none" stroke="#999"/>'
        f'<text x="{whole / 2}" y="{whole - 10}" text-anchor="middle">confidence, from 0 to 1</text>'
        f'<text transform="translate(24 {whole / 2})rotate(-90)" text-anchor="middle">share that is acceptable</text>'
    ]
    for number, (name, found) in enumerate(curves.items()):
        colour = ("#174ea6", "#b3261e")[number % 2]
        places = [(edge + size * said, edge + size * (1 - true), 2 + 10 * share) for share, said, true in found]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{colour}"/>' for x, y, r in places]
        parts.append(f'<text x="{edge + 12}" y="{edge + 16 + 18 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, required=True, metavar="MODEL...")
@click.option("--corpora", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--judged", metavar="FILE", required=True, help="SET, LINE, VERDICT (0 or 1); {pair} is the direction.")
@click.option("--write", is_flag=True, help="Store the fit in the model's configuration.")
@click.option("--diagram", "picture", type=click.Path(path_type=Path), help="Write a reliability diagram, as SVG.")
def main(names: tuple[str, ...], corpora: Path, judged: str, write: bool, picture: Path | None) -> None:
    """Fit MODELs on validation sets, and report on test sets."""
    curves = {}
    for name in names:
        translator = Translator.from_pretrained(name)
        valid, tests = ([*decode(translator, corpora / part, sets)] for part, sets in SETS.items())
        pair = "-".join(translator.model.languages)
        threshold, agreement = choose_threshold(valid, Path(judged.format(pair=pair)))
        sizes = Counter(each.set for each in valid)
        confidence = fit(
            np.array([each.features for each in valid]),
            np.array([float(each.chrf >= threshold) for each in valid]),
            np.array([len(valid) / len(sizes) / sizes[each.set] for each in valid]),
            threshold,
        )
        click.echo(f"{name}: chrF of {threshold:g} agrees with {agreement:.1%} of the verdicts; {confidence}")
        click.echo("\t".join(Row._fields))
        for _, group in groupby(tests, key=lambda each: each.set):
            click.echo("\t".join(map(_shown, measure([*group], confidence)[0])))
        row, curves[name] = measure(tests, confidence)
        click.echo("\t".join(map(_shown, row._replace(set="all"))))
        if write:
            write_confidence(translator.model.path, confidence)
    if picture is not None:
        picture.write_text(diagram(curves), encoding="utf-8")


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
