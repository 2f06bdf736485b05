"""Training data in the verifier's own words: of five translations by beam search, the one nearest to the reference.

Sequence-level interpolation (Kim & Rush 2016, Sequence-Level Knowledge Distillation, section 3.3): a verifier trained
further on it says with greedy search what it said with beam search, and leans to the references where it has a choice.

Example: python scripts/best_of_beam.py runs/de-en/beam --data runs/de-en/data --model runs/de-en/verifier/model
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import numpy as np
from sacrebleu.metrics import CHRF

from specmt.cli.progress import counting_bar
from specmt.decoding.rows import target_limit
from specmt.decoding.session import decode
from specmt.files import write_whole
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.training.data import ParallelData
from specmt.training.distill import check_same_work

BEAM = DecodingOptions(strategy="beam", beam_size=5, n_best=5, batch_size=32)
SHARD = 1024
"""Sentences translated between two saves."""


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="What `specmt prepare` made.")
@click.option("--model", required=True, type=click.Path(path_type=Path), help="Model folder.")
@click.option("--pairs", default=60_000, show_default=True, help="Pairs to translate, drawn at random.")
@click.option("--references", default=30_000, show_default=True, help="Other pairs, which stay as they are.")
@click.option("--max-length", default=64, show_default=True, help="Most pieces a side of what is translated.")
@click.option("--threads", default=1, show_default=True, help="CPU threads.")
@click.option("--seed", default=1, show_default=True)
def main(
    out: Path, data: Path, model: Path, pairs: int, references: int, max_length: int, threads: int, seed: int
) -> None:
    """Writes prepared data into OUT; a second call goes on."""
    train = ParallelData.load(data, "train")
    order = np.random.default_rng(seed).permutation(len(train))
    short = np.maximum(train.source.lengths, train.target.lengths)[order] <= max_length
    drawn = order[short][:pairs]
    kept = np.setdiff1d(order, drawn, assume_unique=True)
    kept = np.random.default_rng(seed + 1).permutation(kept)[:references]

    verifier = load_model(model, device="cpu", dtype="int8", threads=threads)
    shards = out / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    work = {"model": verifier.sha256, "pairs": len(drawn), "of": len(train), "max_length": max_length, "seed": seed}
    check_same_work(shards, work)
    paths = [shards / f"{number:05d}.json" for number in range(-(-len(drawn) // SHARD))]
    with counting_bar("translating") as report:
        for number, path in enumerate(paths):
            if not path.exists():
                chunk = drawn[number * SHARD : (number + 1) * SHARD]
                some = [(train.source[i], train.target[i]) for i in chunk]
                write_whole(path, json.dumps(nearest(verifier, some)))
            report(number + 1, len(paths))

    targets = [target for path in paths for target in json.loads(path.read_text(encoding="utf-8"))]
    chosen = [(train.source[i], target) for i, target in zip(drawn, targets, strict=True)]
    chosen += [(train.source[i], train.target[i]) for i in kept]
    ParallelData.of(chosen).save(out, "train")
    for path in (data / "pieces.model", *data.glob("valid.*.json")):
        shutil.copyfile(path, out / path.name)
    record = json.loads((data / "data.json").read_text(encoding="utf-8"))
    record |= {"pairs": len(chosen), "best_of_beam": len(targets), "model_sha256": verifier.sha256}
    write_whole(out / "data.json", json.dumps(record, indent=2) + "\n")
    click.echo(f"{out}: {len(targets):,} pairs in the model's own words, {len(kept):,} as they were.")


def nearest(model: Model, pairs: list[tuple[list[int], list[int]]]) -> list[list[int]]:
    """Returns, for each pair of ids, the translation with the highest chrF, or the reference where no beam ended."""
    metric, decoded = CHRF(), model.pieces.decode
    best: list[list[int]] = []
    for (source, reference), beams in zip(pairs, decode(model, [source for source, _ in pairs], BEAM), strict=True):
        limit = target_limit(len(source) + 1, model.folder.verifier.max_length)
        found = [each.tokens for each in (beams, *beams.alternatives) if 0 < len(each.tokens) < limit]
        scores = [metric.sentence_score(decoded(tokens), [decoded(reference)]).score for tokens in found]
        best.append(found[int(np.argmax(scores))] if found else reference)
    return best


if __name__ == "__main__":
    main()
