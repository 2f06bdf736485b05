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
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from fairseq2.models.transformer import TransformerModel
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Module

from specmt.decoding.session import decode
from specmt.engine.backend import Drafter
from specmt.errors import DataError, UsageError
from specmt.files import write_whole
from specmt.models.config import DrafterConfig
from specmt.models.folder import CONFIG, DRAFTER, VERIFIER, ModelFolder, add_drafter, file_sha256
from specmt.models.hub import Model, decoder_sizes
from specmt.models.shapes import drafter_shapes
from specmt.options import Calibration, DecodingOptions
from specmt.training.calibrate import calibrate
from specmt.training.checkpoints import save_tensors
from specmt.training.data import ParallelData
from specmt.training.distill import distill_sources, distinct_lines, evenly, translate_whole
from specmt.training.drafter import BlockOptions
from specmt.training.factory import drafter_trainer, load_teacher
from specmt.training.loop import Trainer, Validate
from specmt.training.options import TrainOptions
from specmt.training.validate import weights_of
from specmt.training.work import DISTILLED, LEAST, SHARD, TRAINED, VALIDATION_LINES, Rates, Work
from specmt.types import Stats

WRITTEN: Final = "written.json"
"""What a run's folder holds beside its shards, its checkpoints and its work: the hashes of finished drafters."""

HELD_OUT: Final = 400
"""The most sentences that are held out: one in twenty."""

BATCH: Final = 64
"""Sentences that are distilled side by side."""

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


@dataclass
class Job:
    """A drafter that is made for a loaded verifier, in the folder of a run."""

    run: Path
    model: Model
    corpus: Corpus
    config: DrafterConfig
    options: TrainOptions
    blocks: BlockOptions
    initial: Mapping[str, Tensor] | None = None
    """The weights to start from; by default some of the verifier's layers."""

    threads: int = 1
    """Those of training; what translates may take fewer."""

    @cached_property
    def teacher(self) -> TransformerModel:
        """The verifier to train on."""
        return load_teacher(self.model.folder, torch.device(self.model.device))

    def measure_rates(self) -> Rates:
        """Measures each step on a few batches.

        :raises DataError: the verifier's translations of them do not end.
        """
        probe = evenly(self.corpus.training, _PROBE_GROUPS * BATCH)
        groups = max(1, len(probe) // BATCH)
        pairs: list[tuple[list[int], list[int]]] = []
        done, seconds, started = 0, 0.0, time.perf_counter()
        for first in range(groups):
            part = probe[first::groups]  # of the whole corpus: neighbours are alike
            pairs += translate_whole(self.model, part, BATCH)
            done, seconds = done + len(part), time.perf_counter() - started
            if seconds > _PROBE_SECONDS:
                break
        if not pairs:
            where = f"{self.model.path}: none of {done} translations"
            raise DataError(f"{where} comes to an end; this verifier cannot be distilled.")
        alone, started = evenly(self.corpus.held_out, 4), time.perf_counter()
        for sentence in alone:
            decode(self.model, [sentence], DecodingOptions(strategy="greedy"))
        line = (time.perf_counter() - started) / len(alone)
        ids = statistics.fmean(len(source) + len(target) + 2 for source, target in pairs)
        pairs *= math.ceil(4 * self.options.tokens_per_update / (ids * len(pairs)))
        data = ParallelData.of(pairs)
        with TemporaryDirectory() as scratch, _threads(self.threads):
            update = self._trainer(Path(scratch), data).seconds_of_update()
        return Rates(sentence=seconds / done, line=line, update=update, ids=ids)

    def distil(self, work: Work, report: Callable[[int, int], None]) -> int:
        """Distils the verifier, going on after the last shard; returns the number of pairs."""
        sources = evenly(self.corpus.training, work.sentences)
        name = self.model.folder.files[VERIFIER]  # not of the whole folder: the drafter will be in there
        place = self.run / DISTILLED
        return distill_sources(place, self.model, sources, name, shard=SHARD, batch_size=BATCH, report=report)

    def train(self, report: Callable[[dict[str, float]], None]) -> dict[str, Tensor]:
        """Trains the drafter, going on after the last checkpoint; returns its weights in float16."""
        sentences = evenly(self.corpus.held_out, VALIDATION_LINES)
        decoding = DecodingOptions(drafter="masked", block_size=self.config.block_size)

        def validate(drafter: Module) -> dict[str, float]:
            self._equip(weights_of(drafter))
            hypotheses = decode(self.model, sentences, decoding)
            length = sum((hypothesis.stats for hypothesis in hypotheses), Stats()).mean_accepted_length
            return {"accepted_held_out": round(length, 3)}

        folder = self.run / TRAINED
        trainer = self._trainer(folder, ParallelData.load(self.run / DISTILLED, "train"), validate)
        with _threads(self.threads):
            trainer.run(report=report)
        # With the table, even where it is the verifier's.
        table = trainer.model.get_parameter("embed.weight")
        weights = {"embed.weight": table, **load_file(folder / "final.safetensors")}
        return {name: weight.detach().half() for name, weight in weights.items()}

    def calibrate(self, weights: Mapping[str, Tensor]) -> Calibration:
        """Puts a drafter into the model, with its calibration on sentences that it was not trained on."""
        drafter = self._equip(weights)
        calibration = calibrate(self.model.verifier, drafter, self.corpus.held_out, self.config.block_size)
        self._equip(weights, calibration)
        return calibration

    def install(
        self, folder: Path, config: DrafterConfig, weights: Mapping[str, Tensor], calibration: Calibration
    ) -> ModelFolder:
        """Writes the drafter into a model folder, the verifier's own or another one.

        :raises UsageError: something that was not there before would be lost (`check_place`).
        """
        verifier = ModelFolder.read(self.model.path)
        check_place(folder, verifier, self.run)
        place = ModelFolder.read(folder) if (folder / CONFIG).exists() else verifier
        # Its hash first: a command that is stopped behind this line knows its own drafter again.
        weights = {name: weights[name] for name in drafter_shapes(config)}
        save_tensors(weights, self.run / DRAFTER)
        written = [*_written(self.run), file_sha256(self.run / DRAFTER)]
        write_whole(self.run / WRITTEN, json.dumps(sorted(set(written)), indent=2) + "\n")
        return add_drafter(folder, place, config, weights, calibration)

    def _trainer(self, folder: Path, data: ParallelData, validate: Validate | None = None) -> Trainer:
        return drafter_trainer(
            folder,
            data,
            self.teacher,
            self.model.folder.verifier,
            self.config,
            self.options,
            block_options=self.blocks,
            initial=self.initial,
            device=torch.device(self.model.device),
            validate=validate,
        )

    def _equip(self, weights: Mapping[str, Tensor], calibration: Calibration | None = None) -> Drafter:
        drafter = self.model.backend.for_drafts().masked_drafter(weights, decoder_sizes(self.config))
        self.model.drafter = drafter
        self.model.folder = replace(self.model.folder, drafter=self.config, calibration=calibration)
        return drafter


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
