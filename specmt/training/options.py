"""How to train, and the learning rate of each update; this module needs no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from specmt.errors import UsageError

SCHEDULES: Final = ("cosine", "inverse-sqrt", "constant")
OPTIMIZERS: Final = ("adamw", "muon")


def _field(default: Any, text: str, *choices: str) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How to train; the command line has an option for each field."""

    updates: int = _field(20_000, "Parameter updates in all.")
    lr: float = _field(1e-3, "Peak learning rate.")
    warmup: int = _field(500, "Updates over which the learning rate rises from 0.")
    schedule: str = _field("cosine", "cosine falls to 2% of the peak at the last update.", *SCHEDULES)
    cooldown: int = _field(0, "Last updates, over which the rate falls to 0 in a line, on top of the schedule.")
    optimizer: str = _field("muon", "muon: for the matrices inside layers, and AdamW for the rest.", *OPTIMIZERS)
    weight_decay: float = _field(0.01, "Decoupled weight decay.")
    clip: float = _field(1.0, "Largest norm of the gradient.")
    tokens_per_batch: int = _field(6144, "Padded ids, source and target together, in a forward pass.")
    tokens_per_update: int = _field(6144, "Ids over which gradients are accumulated before an update.")
    save_every: int = _field(200, "Updates between checkpoints.")
    validate_every: int = _field(1000, "Updates between validations.")
    average: int = _field(3, "Last checkpoints that are averaged into the final weights.")
    seed: int = _field(1, "Decides data order, initial weights and dropout.")
    label_smoothing: float = _field(0.1, "Probability mass spread over the vocabulary.")
    short_first: int = _field(0, "Updates at the start that see short pairs only.")
    short_length: int = _field(24, "The longest of those pairs, in pieces.")

    def __post_init__(self) -> None:
        for name in ("updates", "tokens_per_batch", "tokens_per_update", "save_every", "validate_every", "average"):
            if getattr(self, name) < 1:
                raise UsageError(f"`{name}` must be at least 1, but is {getattr(self, name)} instead.")
        for name, choices in (("schedule", SCHEDULES), ("optimizer", OPTIMIZERS)):
            if getattr(self, name) not in choices:
                value = getattr(self, name)
                raise UsageError(f"`{name}` must be one of {', '.join(choices)}, but is {value!r} instead.")
        for name in ("warmup", "cooldown", "short_first"):
            if getattr(self, name) < 0:
                raise UsageError(f"`{name}` must be at least 0, but is {getattr(self, name)} instead.")


def learning_rate(update: int, options: TrainOptions) -> float:
    """Returns the learning rate of an update, counted from 0."""
    left = min(1.0, (options.updates - update) / options.cooldown) if options.cooldown else 1.0
    return max(0.0, left) * _scheduled(update, options)


def _scheduled(update: int, options: TrainOptions) -> float:
    if update < options.warmup:
        return options.lr * (update + 1) / options.warmup
    if options.schedule == "constant":
        return options.lr
    if options.schedule == "inverse-sqrt":
        return options.lr * math.sqrt(max(1, options.warmup) / (update + 1))
    progress = min(1.0, (update - options.warmup) / max(1, options.updates - options.warmup))
    return options.lr * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * progress)))
