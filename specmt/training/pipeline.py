"""From a verifier and text in its language to a drafter: the steps; how much there is to do says `work`."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from fairseq2.models.transformer import TransformerModel
from safetensors.torch import load_file
from torch import Tensor

from specmt.decoding.batch import decode
from specmt.engine.native import NativeVerifier
from specmt.errors import DataError, OutputError, UsageError
from specmt.files import write_whole
from specmt.models.config import DrafterConfig
from specmt.models.folder import CONFIG, DRAFTER, VERIFIER, ModelFolder, add_drafter, file_sha256
from specmt.models.hub import Model, drafter_network
from specmt.models.shapes import drafter_shapes
from specmt.models.verifier import create_verifier, load_verifier_weights
from specmt.options import Calibration, DecodingOptions
from specmt.training.calibrate import calibrate
from specmt.training.checkpoints import save_tensors
from specmt.training.data import ParallelData, Sequences
from specmt.training.distill import distill_sources, distinct_lines, evenly, translate_whole
from specmt.training.drafter import BlockOptions, drafter_trainer
from specmt.training.loop import TrainOptions
from specmt.training.validate import weights_of
from specmt.training.work import DISTILLED, LEAST, SHARD, TRAINED, VALIDATION_LINES, Rates, Work
from specmt.types import Stats

WRITTEN: Final = "written.json"
"""What a run's folder holds beside its shards, its checkpoints and its work: the hashes of finished drafters."""

HELD_OUT: Final = 400
"""The most sentences that are held out: one in twenty."""

_PROBE_SECONDS: Final = 3.0
_PROBE_GROUPS: Final = 4
"""Batches of sentences that are distilled to know how long it takes, at most, and after how many seconds no more."""


@dataclass(frozen=True)
class Corpus:
    """Different sentences as ids without EOS."""

    training: list[list[int]]
    held_out: list[list[int]]

    @property
    def sha256(self) -> str:
        """A hash that stands for all sentences."""
        return hashlib.sha256(json.dumps([self.training, self.held_out]).encode()).hexdigest()


def read_corpus(model: Model, files: Sequence[Path], *, limit: int, max_length: int) -> Corpus:
    """Reads sentences of at most so many pieces, evenly spaced if there are more than ``limit``.

    :raises InputNotFoundError: a file cannot be opened.
    :raises DataError: a line is not UTF-8, or there are too few.
    """
    longest = min(max_length, model.max_source_length - 1)  # EOS
    lines = [line.strip() for line in evenly(distinct_lines(files), limit)]
    fitting = (tuple(ids) for ids in model.pieces.encode_batch(lines) if 1 <= len(ids) <= longest)
    # Lines that differ may still be the same to the model.
    sentences = [list(ids) for ids in dict.fromkeys(fitting)]
    if len(sentences) < LEAST:
        names = ", ".join(map(str, files))
        raise DataError(
            f"{names}: must have at least {LEAST} different lines of 1 to {longest} pieces, but "
            f"{'has' if len(files) == 1 else 'have'} {len(sentences)} instead."
        )
    held_out = set(evenly(range(len(sentences)), min(HELD_OUT, len(sentences) // LEAST)))
    sides: tuple[list[list[int]], list[list[int]]] = ([], [])
    for number, sentence in enumerate(sentences):
        sides[number in held_out].append(sentence)
    return Corpus(*sides)


def check_writable(folder: Path) -> None:
    """Makes a folder where there is none.

    :raises OutputError: nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder):
            pass
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror}).") from error


def check_place(folder: Path, verifier: ModelFolder, run: Path) -> None:
    """Checks that a drafter can go into a folder, and that nothing is lost by it.

    :param run: the folder of the run that makes the drafter
    :raises UsageError: a model of another verifier is there, or a drafter that is not of this run.
    """
    if not (folder / CONFIG).exists():
        return
    there = ModelFolder.read(folder)
    if there.files.get(VERIFIER) != verifier.files.get(VERIFIER):
        raise UsageError(f"{folder}: is the folder of another model; name a new one with `--into`.")
    if there.drafter is not None and there.files.get(DRAFTER) not in _written(run):
        raise UsageError(f"{folder}: the model has a drafter already; name a new folder with `--into`.")


def load_teacher(folder: ModelFolder, device: torch.device) -> TransformerModel:
    """Returns the verifier as fairseq2 modules, to train on."""
    teacher = create_verifier(folder.verifier, device)
    load_verifier_weights(teacher, folder.weights(VERIFIER))
    return teacher


def measure_rates(
    model: Model,
    corpus: Corpus,
    teacher: TransformerModel,
    config: DrafterConfig,
    options: TrainOptions,
    block_options: BlockOptions,
    *,
    batch_size: int,
    threads: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Rates:
    """Measures each step on a few batches.

    :param threads: those of training
    :raises DataError: the verifier's translations of them do not end.
    """
    probe = evenly(corpus.training, _PROBE_GROUPS * batch_size)
    groups = max(1, len(probe) // batch_size)
    pairs: list[tuple[list[int], list[int]]] = []
    done, seconds, started = 0, 0.0, clock()
    for first in range(groups):
        part = probe[first::groups]  # of the whole corpus: neighbours are alike
        pairs += translate_whole(model, part, batch_size)
        done, seconds = done + len(part), clock() - started
        if seconds > _PROBE_SECONDS:
            break
    if not pairs:
        raise DataError(
            f"{model.path}: none of {done} translations comes to an end; this verifier cannot be distilled."
        )
    alone, started = evenly(corpus.held_out, 4), clock()
    for sentence in alone:
        decode(model, [sentence], DecodingOptions(strategy="greedy"))
    line = (clock() - started) / len(alone)
    ids = statistics.fmean(len(source) + len(target) + 2 for source, target in pairs)
    pairs *= math.ceil(4 * options.tokens_per_update / (ids * len(pairs)))
    data = ParallelData(*(Sequences.of(list(side)) for side in zip(*pairs, strict=True)))
    device = torch.device(model.device)
    with TemporaryDirectory() as scratch, _threads(threads):
        _, trainer = drafter_trainer(
            Path(scratch),
            data,
            teacher,
            model.folder.verifier,
            config,
            options,
            block_options=block_options,
            device=device,
        )
        update = trainer.seconds_of_update()
    return Rates(sentence=seconds / done, line=line, update=update, ids=ids)


def distill(
    folder: Path, model: Model, corpus: Corpus, work: Work, *, batch_size: int, report: Callable[[int, int], None]
) -> int:
    """Distils the verifier in a run's folder, going on after the last shard; returns the number of pairs."""
    sources = evenly(corpus.training, work.sentences)
    name = model.folder.files[VERIFIER]  # not of the whole folder: the drafter will be in there
    place = folder / DISTILLED
    return distill_sources(place, model, sources, name, shard=SHARD, batch_size=batch_size, report=report)


def train(
    folder: Path,
    model: Model,
    corpus: Corpus,
    teacher: TransformerModel,
    config: DrafterConfig,
    options: TrainOptions,
    block_options: BlockOptions,
    *,
    initial: Mapping[str, Tensor] | None,
    threads: int,
    report: Callable[[dict[str, float]], None],
) -> dict[str, Tensor]:
    """Trains the drafter in a run's folder, going on after the last checkpoint; returns its weights in float16."""
    sentences = evenly(corpus.held_out, VALIDATION_LINES)
    decoding = DecodingOptions(block_size=config.block_size)

    def validate(drafter: torch.nn.Module) -> dict[str, float]:
        equip(model, config, weights_of(drafter))
        hypotheses = decode(model, sentences, decoding)
        length = sum((hypothesis.stats for hypothesis in hypotheses), Stats()).mean_accepted_length
        return {"accepted_held_out": round(length, 3)}

    drafter, trainer = drafter_trainer(
        folder / TRAINED,
        ParallelData.load(folder / DISTILLED, "train"),
        teacher,
        model.folder.verifier,
        config,
        options,
        block_options=block_options,
        initial=initial,
        device=torch.device(model.device),
        validate=validate,
    )
    with _threads(threads):
        trainer.run(report=report)
    # With the table, even where it is the verifier's.
    weights = {"embed.weight": drafter.embed.weight, **load_file(folder / TRAINED / "final.safetensors")}
    return {name: weight.detach().half() for name, weight in weights.items()}


def equip(
    model: Model, config: DrafterConfig, weights: Mapping[str, Tensor], calibration: Calibration | None = None
) -> None:
    """Puts a drafter into a loaded model."""
    native = isinstance(model.verifier, NativeVerifier)
    kind = torch.int8 if native else model.verifier.dtype
    model.drafter = drafter_network(weights, config, torch.device(model.device), kind, kernels=native)
    model.folder = replace(model.folder, drafter=config, calibration=calibration)
    model.plans.clear()


def calibrate_model(model: Model, config: DrafterConfig, weights: Mapping[str, Tensor], corpus: Corpus) -> Calibration:
    """Puts a drafter into a loaded model, with its calibration on sentences that it was not trained on."""
    equip(model, config, weights)
    if model.drafter is None:
        raise RuntimeError("The model was given a drafter and has none.")
    calibration = calibrate(model.verifier, model.drafter, corpus.held_out, config.block_size)
    equip(model, config, weights, calibration)
    return calibration


def install(
    folder: Path,
    run: Path,
    verifier: ModelFolder,
    config: DrafterConfig,
    weights: Mapping[str, Tensor],
    calibration: Calibration,
) -> ModelFolder:
    """Writes the drafter into a model folder, the verifier's own or another one.

    :param run: the folder of the run that made it
    :raises UsageError: something that was not there before would be lost (`check_place`).
    """
    check_place(folder, verifier, run)
    place = ModelFolder.read(folder) if (folder / CONFIG).exists() else ModelFolder.read(verifier.path)
    # Its hash first: a command that is stopped behind this line knows its own drafter again.
    weights = {name: weights[name] for name in drafter_shapes(config)}
    save_tensors(weights, run / DRAFTER)
    written = [*_written(run), file_sha256(run / DRAFTER)]
    write_whole(run / WRITTEN, json.dumps(sorted(set(written)), indent=2) + "\n")
    return add_drafter(folder, place, config, weights, calibration)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _written(run: Path) -> list[str]:
    path = run / WRITTEN
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []
