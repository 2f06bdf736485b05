"""How much there is to do for a drafter, how long it takes, and what of it is done."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from specmt.errors import UsageError
from specmt.files import write_whole
from specmt.models.config import DrafterConfig
from specmt.models.folder import DRAFTER, VERIFIER, ModelFolder
from specmt.training.checkpoints import find_checkpoints
from specmt.training.drafter import BlockOptions

DISTILLED: Final = "distilled"
TRAINED: Final = "drafter"
WORK: Final = "work.json"
"""What a run's folder holds: shards, checkpoints, and how much there is to do."""

LEAST: Final = 20
"""The fewest sentences to distil."""

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
"""How often a drafter is validated as it is trained, and on how many sentences."""


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
    verifier: ModelFolder, corpus_sha256: str, config: DrafterConfig, options: BlockOptions, initial: ModelFolder | None
) -> dict[str, Any]:
    """Returns what must be the same when a run goes on."""
    return {
        "verifier": verifier.files[VERIFIER],
        "corpus": corpus_sha256,
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
    write_whole(folder / WORK, json.dumps({"of": of, "work": asdict(work)}, indent=2) + "\n")
