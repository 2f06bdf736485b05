"""One plain training loop for verifier and drafter: accumulate, clip, step, save, resume exactly."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module

from specmt.errors import UsageError
from specmt.training.checkpoints import average_checkpoints, find_checkpoints, load_state, save_state, save_tensors
from specmt.training.data import Array
from specmt.training.plot import plot_metrics

Loss = Callable[[Array], tuple[Tensor, Tensor]]
"""Takes the indices of a batch; returns the summed loss and the number of target tokens."""

SCHEDULES: Final = ("inverse-sqrt", "cosine", "constant")
OPTIMIZERS: Final = ("adamw", "muon")
STATE: Final = "state.safetensors"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How to train."""

    updates: int = 20_000
    """The number of parameter updates."""

    tokens_per_batch: int = 4096
    """The most padded ids, source and target together, in one forward pass."""

    tokens_per_update: int = 8192
    """The ids over which gradients are accumulated before an update."""

    lr: float = 1e-3
    """The peak learning rate."""

    warmup: int = 500
    """The updates over which the learning rate rises from 0."""

    schedule: str = "cosine"
    """``cosine`` (to 2% of the peak at the last update), ``inverse-sqrt`` or ``constant``."""

    cooldown: int = 0
    """The updates at the end over which the learning rate falls to 0 in a line, on top of the schedule."""

    optimizer: str = "adamw"
    """``adamw``, or ``muon`` for the matrices inside layers and AdamW for the rest (Jordan et al. 2024)."""

    weight_decay: float = 0.01
    """The decoupled weight decay."""

    clip: float = 1.0
    """The largest norm of the gradient."""

    label_smoothing: float = 0.1
    """The probability mass spread over the vocabulary (verifier only)."""

    short_first: int = 0
    """The updates at the start that see only short pairs."""

    short_length: int = 24
    """The longest pair seen in those updates, in pieces."""

    save_every: int = 500
    """The updates between checkpoints."""

    validate_every: int = 2000
    """The updates between validations."""

    average: int = 5
    """How many of the last checkpoints are averaged into the final weights."""

    seed: int = 1
    """The seed of data order, initial weights and dropout."""

    def __post_init__(self) -> None:
        for name in ("updates", "tokens_per_batch", "tokens_per_update", "save_every", "validate_every", "average"):
            if getattr(self, name) < 1:
                raise UsageError(f"`{name}` must be at least 1, but is {getattr(self, name)} instead.")
        for name, choices in (("schedule", SCHEDULES), ("optimizer", OPTIMIZERS)):
            if getattr(self, name) not in choices:
                value = getattr(self, name)
                raise UsageError(f"`{name}` must be one of {', '.join(choices)}, but is {value!r} instead.")
        if self.cooldown < 0:
            raise UsageError(f"`cooldown` must be at least 0, but is {self.cooldown} instead.")


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


@dataclass
class Progress:
    """Where a run stands; saved with every checkpoint."""

    update: int = 0
    epoch: int = 0
    position: int = 0
    """The next update within the epoch."""

    tokens: int = 0
    seconds: float = 0.0


class Trainer:
    """Trains a module on batches of indices, in a folder that holds checkpoints and metrics.

    With torchrun the micro-batches of each update are dealt out to the ranks and gradients are summed, so that the
    result does not depend on the number of devices but for rounding.
    """

    def __init__(
        self,
        folder: Path,
        model: Module,
        loss: Loss,
        batches: Callable[[int, int | None], list[Array]],
        batch_tokens: Callable[[Array], int],
        options: TrainOptions,
        *,
        validate: Callable[[], dict[str, float]] | None = None,
        device: torch.device,
    ) -> None:
        """
        :param batches: returns the batches of an epoch, given its number and the length limit in force.
        :param batch_tokens: returns the ids in a batch, source and target together.
        :param validate: returns metrics; called on rank 0 with the model in evaluation mode.
        """
        self.folder = folder
        self.model = model
        self.loss = loss
        self.batches = batches
        self.batch_tokens = batch_tokens
        self.options = options
        self.validate = validate
        self.device = device
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.optimizers = make_optimizers(self.parameters, options)
        self.progress = Progress()
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, *, report: Callable[[dict[str, float]], None] = lambda _: None) -> None:
        """Trains to the last update, from the last checkpoint if there is one, and writes the averaged weights."""
        self._resume()
        self._rewind_metrics()
        options, progress = self.options, self.progress
        self.model.train()
        started, tokens_before = time.perf_counter(), progress.tokens
        seconds_before = progress.seconds
        window_loss = torch.zeros((), dtype=torch.float64, device=self.device)
        window_count = torch.zeros((), dtype=torch.float64, device=self.device)
        for micro_batches in self._updates():
            loss, count = self._update(micro_batches)
            window_loss += loss
            window_count += count
            progress.update += 1
            progress.seconds = seconds_before + time.perf_counter() - started
            due = progress.update % options.save_every == 0 or progress.update == options.updates
            if progress.update % 50 == 0 or due:
                metrics = {
                    "update": progress.update,
                    "epoch": progress.epoch,
                    "loss": (window_loss / window_count).item(),
                    "lr": learning_rate(progress.update - 1, options),
                    "tokens": progress.tokens,
                    "seconds": progress.seconds,
                    "tokens_per_second": (progress.tokens - tokens_before) / (time.perf_counter() - started),
                }
                window_loss.zero_()
                window_count.zero_()
                self._log(metrics, report)
            if due:
                self._save()
            if self.validate is not None and (
                progress.update % options.validate_every == 0 or progress.update == options.updates
            ):
                self._validate(report)
        if self.rank == 0:
            weights = average_checkpoints(find_checkpoints(self.folder)[-options.average :])
            save_tensors(weights, self.folder / "final.safetensors")
            plot_metrics(self.folder / "metrics.jsonl", self.folder / "metrics.png")

    def seconds_of_update(self, count: int = 2) -> float:
        """Returns the mean seconds of an update, after one to warm up; what was learnt in them is for nothing."""
        self.model.train()
        updates = self._updates()
        self._update(next(updates))
        started = time.perf_counter()
        for _ in range(count):
            self._update(next(updates))
        return (time.perf_counter() - started) / count

    def _updates(self) -> Iterator[list[Array]]:
        """Yields the micro-batches of each update still to do."""
        options, progress = self.options, self.progress
        while progress.update < options.updates:
            short = progress.update < options.short_first
            groups = list(self._group(self.batches(progress.epoch, options.short_length if short else None)))
            if not groups:
                raise UsageError("There is nothing to train on; is `short_length` less than the shortest pair?")
            for group in groups[progress.position :]:
                progress.position += 1
                # A checkpoint after the last short update must not resume within the short pairs' epoch.
                is_last_short = progress.update + 1 == options.short_first
                if is_last_short:
                    progress.epoch, progress.position = progress.epoch + 1, 0
                yield group
                if is_last_short or progress.update >= options.updates:
                    break
            else:
                progress.epoch, progress.position = progress.epoch + 1, 0

    def _group(self, batches: list[Array]) -> Iterator[list[Array]]:
        group: list[Array] = []
        tokens = 0
        for batch in batches:
            group.append(batch)
            tokens += self.batch_tokens(batch)
            if tokens >= self.options.tokens_per_update * 0.75:
                yield group
                group, tokens = [], 0
        if group:
            yield group

    def _update(self, micro_batches: list[Array]) -> tuple[Tensor, Tensor]:
        options, progress = self.options, self.progress
        totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        for batch in micro_batches[self.rank :: self.world]:
            with torch.autocast(self.device.type, torch.bfloat16):
                loss, count = self.loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            totals[0] += loss.detach()
            totals[1] += count
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters.values()]
        if self.world > 1:
            dist.all_reduce(totals)
            for gradient in gradients:
                dist.all_reduce(gradient)
        torch._foreach_div_(gradients, float(totals[1].clamp(min=1.0)))
        for parameter, gradient in zip(self.parameters.values(), gradients, strict=True):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), options.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(progress.update, options) * group["lr_scale"]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        progress.tokens += sum(self.batch_tokens(batch) for batch in micro_batches)
        return totals[0], totals[1]

    def _validate(self, report: Callable[[dict[str, float]], None]) -> None:
        if self.rank == 0 and self.validate is not None:
            self.model.eval()
            started = time.perf_counter()
            with torch.no_grad():
                metrics = self.validate()
            self.model.train()
            metrics["validation_seconds"] = time.perf_counter() - started
            self._log({"update": self.progress.update, **metrics}, report)
        if self.world > 1:
            dist.barrier()

    def _log(self, metrics: dict[str, float], report: Callable[[dict[str, float]], None]) -> None:
        if self.rank == 0:
            with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(metrics) + "\n")
            report(metrics)

    def _save(self) -> None:
        """Saves weights, and all that an exact resume needs, in that order: a kill in between loses nothing."""
        if self.rank != 0:
            return
        save_tensors(self.parameters, self.folder / f"checkpoint-{self.progress.update:08d}.safetensors")
        record = {"progress": json.dumps(asdict(self.progress)), "options": json.dumps(asdict(self.options))}
        save_state(self.folder / STATE, self.parameters, self.optimizers, self.device, record)
        for old in find_checkpoints(self.folder)[: -self.options.average]:
            old.unlink()

    def _rewind_metrics(self) -> None:
        """Drops what a killed run logged after its last checkpoint, and a line that the kill cut off."""
        path = self.folder / "metrics.jsonl"
        if self.rank != 0 or not path.exists():
            return
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            with suppress(ValueError):
                if json.loads(line)["update"] <= self.progress.update:
                    kept.append(line)
        path.write_text("".join(kept), encoding="utf-8")

    def _resume(self) -> None:
        path = self.folder / STATE
        if path.exists():
            record = load_state(path, self.parameters, self.optimizers, self.device)
            self.progress = Progress(**json.loads(record["progress"]))


def make_optimizers(parameters: Mapping[str, Tensor], options: TrainOptions) -> list[torch.optim.Optimizer]:
    """Returns AdamW over all parameters, or Muon over the matrices inside layers and AdamW over the rest."""
    hidden = {name: p for name, p in parameters.items() if p.ndim == 2 and ".layers." in name}
    if options.optimizer == "adamw":
        hidden = {}
    rest = {name: p for name, p in parameters.items() if name not in hidden}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in rest.values() if p.ndim >= 2], "weight_decay": options.weight_decay, "lr_scale": 1.0},
        {"params": [p for p in rest.values() if p.ndim < 2], "weight_decay": 0.0, "lr_scale": 1.0},
    ]
    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.98), eps=1e-9)]
    if hidden:
        group = {"params": list(hidden.values()), "lr_scale": 1.0}
        decay = options.weight_decay
        # Scaled to the size of an AdamW step, so that one learning rate serves both (Liu et al. 2025, section 2.2).
        optimizers.append(torch.optim.Muon([group], weight_decay=decay, adjust_lr_fn="match_rms_adamw"))
    return optimizers
