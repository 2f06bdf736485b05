#!/usr/bin/env python3
"""Measures what a glossary does: terms drawn from references, how many are met, quality and speed with and without it.

    scripts/glossary_use.py $SPECMT_CORPORA/tests/docs-test $SPECMT_CORPORA/tests/newstest2014.de-en --lines 1000

A term is a capitalised word of the source that is linked to one word of the reference, in at least two lines; its forms
are the words that it is linked to. Runs alternate; speeds are medians.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import click
import sacrebleu

from specmt.evaluation.alignment import align_pairs
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Translation


def draw_terms(model: Model, pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Returns terms and their forms, the most frequent first."""
    links: dict[str, Counter[str]] = defaultdict(Counter)
    for (source, target), alignment in zip(pairs, align_pairs(model, pairs, model.alignment_heads), strict=True):
        words, others = source.split(), target.split()
        once = Counter(one for one, _ in alignment)
        for one, other in alignment:
            term, form = (word.strip(".,;:!?()\"'„“”«»") for word in (words[one], others[other]))
            if once[one] == 1 and one > 0 and len(term) > 3 and term.isalpha() and term[0].isupper() and form.isalpha():
                links[term][form] += 1
    return {
        term: [form for form, _ in forms.most_common(8)] for term, forms in sorted(links.items()) if forms.total() > 1
    }


def read_pairs(stem: Path, languages: tuple[str, str], count: int) -> list[tuple[str, str]]:
    sides = (Path(f"{stem}.{language}").read_text("utf-8").split("\n")[:count] for language in languages)
    return [pair for pair in zip(*sides, strict=True) if all(pair)]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("stems", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--lines", default=1000, show_default=True, help="Lines of each set.")
@click.option("--repeats", default=3, show_default=True)
def main(stems: tuple[Path, ...], lines: int, repeats: int) -> None:
    """Measure glossaries on test sets, given as paths without .de and .en."""
    translator = Translator.from_pretrained()
    totals: Counter[str] = Counter()
    for stem in stems:
        pairs = read_pairs(stem, ("de", "en"), lines)
        terms = draw_terms(translator.model, pairs)  # type: ignore[arg-type]
        with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
            file.writelines(f"{term}\t{'|'.join(forms)}\n" for term, forms in terms.items())
            file.flush()
            options = {"free": DecodingOptions(), "glossary": DecodingOptions(glossary=Path(file.name))}
            seconds: dict[str, list[float]] = {name: [] for name in options}
            found: dict[str, list[Translation]] = {}
            for _ in range(repeats):
                for name, each in options.items():
                    started = time.perf_counter()
                    found[name] = list(translator.translate((source for source, _ in pairs), each))
                    seconds[name].append(time.perf_counter() - started)
        uses = [use for translation in found["glossary"] for use in translation.terms]
        met = Counter(use.met for use in uses)
        constrained = sum(any(use.met != "freely" for use in each.terms) for each in found["glossary"])
        click.echo(f"{stem.name}: {len(pairs)} lines, {len(terms)} terms, {len(uses)} uses in all, {dict(met)}")
        click.echo(f"  lines with a term that was not met freely: {constrained}")
        for name, translations in found.items():
            texts, references = [each.text for each in translations], [[target for _, target in pairs]]
            bleu, chrf = sacrebleu.corpus_bleu(texts, references), sacrebleu.corpus_chrf(texts, references)
            click.echo(f"  {name}: BLEU {bleu.score:.2f}, chrF {chrf.score:.2f}")
        ratio = statistics.median(a / b for a, b in zip(seconds["free"], seconds["glossary"], strict=True))
        click.echo(f"  speed: {ratio:.2f} of free decoding")
        totals.update({name: statistics.median(each) for name, each in seconds.items()})
    click.echo(f"all: speed {totals['free'] / totals['glossary']:.2f} of free decoding")


if __name__ == "__main__":
    main()
