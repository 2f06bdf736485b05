"""From a verifier and text in its language to a drafter: the steps, what there is to do, and how long it takes."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from fairseq2.models.transformer import TransformerModel
from safetensors.torch import load_file
from torch import Tensor

from specmt.config import Calibration, DecodingOptions
from specmt.decoding.batch import decode
from specmt.engine.native import NativeVerifier
from specmt.errors import DataError, OutputError, UsageError
from specmt.models.config import DrafterConfig
from specmt.models.folder import CONFIG, DRAFTER, VERIFIER, ModelFolder, add_drafter, file_sha256
from specmt.models.hub import Model, drafter_network
from specmt.models.shapes import drafter_shapes
from specmt.models.verifier import create_verifier, load_verifier_weights
from specmt.training.calibrate import calibrate
from specmt.training.checkpoints import find_checkpoints, save_tensors
from specmt.training.data import ParallelData, Sequences
from specmt.training.distill import distill_sources, distinct_lines, evenly, translate_whole
from specmt.training.drafter import BlockOptions, drafter_trainer
from specmt.training.loop import TrainOptions
from specmt.training.validate import weights_of
from specmt.types import Stats

DISTILLED: Final = "distilled"
TRAINED: Final = "drafter"
WORK: Final = "work.json"
WRITTEN: Final = "written.json"
"""What a run's folder holds: shards, checkpoints, how much there is to do, and the hashes of finished drafters."""

LEAST: Final = 20
HELD_OUT: Final = 400
"""The fewest sentences of a corpus, and the most that are held out: one in twenty."""

SHARD: Final = 1024
"""Sentences decoded between two saves."""

PASSES: Final = 3.0
FEWEST_UPDATES: Final = 300
MOST_UPDATES: Final = 5000
"""How often each sentence is trained on by default, as far as that is not too few or too many updates."""

MOST_PASSES: Final = 20.0
"""How often at most, however many hours there are."""

SAVE_SECONDS: Final = 120.0
"""What an interrupt may cost, roughly."""

VALIDATIONS: Final = 5
VALIDATION_LINES: Final = 40

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


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What this machine takes, in seconds, and how long sentences are."""

    sentence: float
    """To distil a sentence."""

    line: float
    """To translate a line alone."""

    update: float
    """To train for an update."""

    ids: float
    """Of a sentence and its translation, on average."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much there is to do."""

    sentences: int
    """To distil."""

    updates: int
    save_every: int
    hours: float | None = None
    """The hours that it was reckoned for."""


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


def choose_work(
    sentences: int,
    rates: Rates,
    checking: float,
    tokens_per_update: int,
    *,
    hours: float | None = None,
    updates: int | None = None,
) -> Work:
    """Returns how many sentences to distil and how many updates to make.

    By default all sentences, each some times over. Within hours, as many as leave the time to do so, and more updates
    if there is time left.

    :param checking: seconds of what comes after training
    :raises UsageError: there is no time for anything.
    """
    passes = rates.ids / tokens_per_update  # updates for a sentence
    if hours is None:
        usual = round(PASSES * sentences * passes)
        chosen = updates or min(MOST_UPDATES, max(FEWEST_UPDATES, usual))
    else:
        seconds = 3600 * hours - checking
        fixed, each = (PASSES * passes, 0) if updates is None else (0.0, updates)
        price = rates.sentence + fixed * rates.update
        affordable = int((seconds - each * rates.update) / price)
        if affordable < LEAST:
            least = (checking + each * rates.update + LEAST * price) / 3600
            raise UsageError(f"`hours` must be at least {math.ceil(1000 * least) / 1000}, but is {hours:g} instead.")
        sentences = min(sentences, affordable)
        left = int((seconds - sentences * rates.sentence) / rates.update)
        chosen = updates or max(1, min(left, math.ceil(MOST_PASSES * sentences * passes)))
    save_every = min(200, max(10, int(SAVE_SECONDS / rates.update)))
    return Work(sentences=sentences, updates=chosen, save_every=save_every, hours=hours)


def go_on(work: Work, rates: Rates, checking: float, folder: Path, *, hours: float | None, updates: int | None) -> Work:
    """Returns what there is to do in a run that goes on: as when it began, unless it is given other limits."""
    if updates is not None:
        return replace(work, updates=updates)
    if hours is None or hours == work.hours:
        return work
    distilling, _ = seconds_left(work, rates, folder)
    more = int((3600 * hours - checking - distilling) / rates.update)
    return replace(work, updates=updates_done(folder) + max(1, more), hours=hours)


def seconds_left(work: Work, rates: Rates, folder: Path) -> tuple[float, float]:
    """Returns the seconds that distilling and training have to go on for in a folder."""
    shards = len(list((folder / DISTILLED).glob("shard-*.json")))
    distilling = max(0, work.sentences - shards * SHARD) * rates.sentence
    left = max(0, work.updates - updates_done(folder))
    validating = VALIDATIONS * VALIDATION_LINES * rates.sentence * left / work.updates
    return distilling, left * rates.update + validating


def updates_done(folder: Path) -> int:
    """Returns the updates up to the last checkpoint in a run's folder."""
    checkpoints = find_checkpoints(folder / TRAINED)
    return int(checkpoints[-1].stem.removeprefix("checkpoint-")) if checkpoints else 0


def identity(
    verifier: ModelFolder, corpus: Corpus, config: DrafterConfig, options: BlockOptions, initial: ModelFolder | None
) -> dict[str, Any]:
    """Returns what must be the same when a run goes on."""
    return {
        "verifier": verifier.files[VERIFIER],
        "corpus": corpus.sha256,
        "drafter": asdict(config),
        "blocks": asdict(options),
        "initial": None if initial is None else initial.files[DRAFTER],
    }


def load_work(folder: Path, of: Mapping[str, Any]) -> Work | None:
    """Returns how much there was to do when a run began, if it did.

    :param of: the identity of the run (`identity`)
    :raises UsageError: the folder is that of another run.
    """
    path = folder / WORK
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    wanted = json.loads(json.dumps(of))
    for name, value in wanted.items():
        if record["of"].get(name) != value:
            what = {"corpus": "text", "verifier": "verifier"}.get(name, "shape of drafter")
            raise UsageError(f"{folder}: holds the work on another {what}; name a new folder.")
    return Work(**record["work"])


def save_work(folder: Path, work: Work, of: Mapping[str, Any]) -> None:
    """Writes how much there is to do."""
    _write_json(folder / WORK, {"of": of, "work": asdict(work)})


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
    device, policy = torch.device(model.device), model.graph_policy
    model.drafter = drafter_network(weights, config, device, kind, kernels=native, policy=policy)
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
    _write_json(run / WRITTEN, sorted(set(written)))
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


def _write_json(path: Path, value: object) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
