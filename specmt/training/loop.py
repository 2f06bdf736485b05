"""One plain training loop for verifier and drafter: accumulate, clip, step, save, resume exactly."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module

from specmt.errors import UsageError
from specmt.models.config import VerifierConfig
from specmt.training.checkpoints import average_checkpoints, find_checkpoints, load_state, save_state, save_tensors
from specmt.training.data import Array, ParallelData, Sequences, make_batches
from specmt.training.options import TrainOptions, learning_rate
from specmt.training.processes import SharedOptimizer, deal_batches, sum_over_processes
from specmt.types import BOS, EOS

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes sources (B, S) up to EOS and their lengths (B), targets (B, T + 1) from BOS to EOS and their lengths (B), both
with the verifier's prefixes; returns the summed loss and the sum of its weights.
"""

Validate = Callable[[Any], dict[str, float]]
"""Takes the module in training, in evaluation mode, and returns metrics; called in the first process only."""

STATE: Final = "state.safetensors"


@dataclass
class Progress:
    """Where a run stands; saved with every checkpoint."""

    update: int = 0
    epoch: int = 0
    position: int = 0
    """The next update within the epoch."""

    tokens: int = 0
    seconds: float = 0.0


@dataclass(eq=False)
class Trainer:
    """Trains a module on batches of indices, in a folder that holds checkpoints and metrics.

    With torchrun the micro-batches of each update and the optimizer's work are dealt out to the processes, so that the
    result does not depend on their number but for rounding.
    """

    folder: Path
    data: ParallelData
    model: Module
    loss: Loss

    config: VerifierConfig
    """The verifier's, whose prefixes go before sources and targets."""

    options: TrainOptions
    _: KW_ONLY
    device: torch.device
    validate: Validate | None = None

    identity: Mapping[str, object] = field(default_factory=dict)
    """What must be the same when the run is resumed, by name."""

    def __post_init__(self) -> None:
        self.lengths = self.data.source.lengths + self.data.target.lengths + 2
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        self.parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.optimizer = SharedOptimizer(self.parameters, self.options, rank=self.rank, world=self.world)
        self.progress = Progress()
        self.place = 0
        """The update that the schedule is at."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, *, seconds: float = math.inf, report: Callable[[dict[str, float]], None] = lambda _: None) -> None:
        """Trains to the last update, from the last checkpoint if there is one, and writes the averaged weights.

        :param seconds: after which the last update comes, however few there were: the schedule goes by whichever of
            updates and seconds is further on.
        """
        self._resume()
        self._rewind_metrics()
        options, progress = self.options, self.progress
        first = self.place = progress.update
        self.model.train()
        started, tokens_before = time.perf_counter(), progress.tokens
        seconds_before = progress.seconds
        window = torch.zeros(2, dtype=torch.float64, device=self.device)
        for micro_batches in self._updates():
            window += self._update(micro_batches)
            rate = learning_rate(self.place, options)
            progress.update += 1
            spent = time.perf_counter() - started
            progress.seconds = seconds_before + spent
            self.place = max(progress.update, first + int(spent / seconds * (options.updates - first)))
            due = progress.update % options.save_every == 0 or self.is_done
            if progress.update % 50 == 0 or due:
                metrics = {
                    "update": progress.update,
                    "epoch": progress.epoch,
                    "loss": (window[0] / window[1]).item(),
                    "lr": rate,
                    "tokens": progress.tokens,
                    "seconds": progress.seconds,
                    "tokens_per_second": (progress.tokens - tokens_before) / spent,
                }
                window.zero_()
                self._log(metrics, report)
            if due:
                self._save()
            if self.validate is not None and (progress.update % options.validate_every == 0 or self.is_done):
                self._validate(report)
        if self.rank == 0:
            weights = average_checkpoints(find_checkpoints(self.folder)[-options.average :])
            save_tensors(weights, self.folder / "final.safetensors")
            with suppress(ModuleNotFoundError):  # without matplotlib there is no curve
                plot_metrics(self.folder / "metrics.jsonl", self.folder / "metrics.png")

    @property
    def is_done(self) -> bool:
        """Whether the last update was made."""
        return self.place >= self.options.updates

    def _updates(self) -> Iterator[list[Array]]:
        """Yields the micro-batches of each update still to do."""
        options, progress = self.options, self.progress
        while not self.is_done:
            short = progress.update < options.short_first
            batches = make_batches(
                self.data,
                tokens=options.tokens_per_batch,
                seed=options.seed,
                epoch=progress.epoch,
                max_length=options.short_length if short else None,
            )
            groups = list(self._group(batches))
            if not groups:
                raise UsageError("There is nothing to train on; is `short_length` less than the shortest pair?")
            for group in groups[progress.position :]:
                progress.position += 1
                # A checkpoint after the last short update must not resume within the short pairs' epoch.
                is_last_short = progress.update + 1 == options.short_first
                if is_last_short:
                    progress.epoch, progress.position = progress.epoch + 1, 0
                yield group
                if is_last_short or self.is_done:
                    break
            else:
                progress.epoch, progress.position = progress.epoch + 1, 0

    def _group(self, batches: list[Array]) -> Iterator[list[Array]]:
        group: list[Array] = []
        tokens = 0
        for batch in batches:
            group.append(batch)
            tokens += int(self.lengths[batch].sum())
            if tokens >= self.options.tokens_per_update * 0.75:
                yield group
                group, tokens = [], 0
        if group:
            yield group

    def _update(self, micro_batches: list[Array]) -> Tensor:
        """Returns the summed loss of all processes and the sum of its weights (2)."""
        sizes = [int(self.lengths[batch].sum()) for batch in micro_batches]
        totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        for batch in deal_batches(micro_batches, sizes, self.world)[self.rank]:
            with torch.autocast(self.device.type, torch.bfloat16):
                loss, count = self.batch_loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            totals[0] += loss.detach()
            totals[1] += count
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters.values()]
        if self.world > 1:
            dist.all_reduce(totals)
            sum_over_processes(gradients)
        torch._foreach_div_(gradients, float(totals[1].clamp(min=1.0)))
        for parameter, gradient in zip(self.parameters.values(), gradients, strict=True):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.options.clip)
        self.optimizer.step(learning_rate(self.place, self.options))
        self.progress.tokens += sum(sizes)
        return totals

    def batch_loss(self, indices: Array) -> tuple[Tensor, Tensor]:
        """Returns the summed loss of some pairs and the sum of its weights."""
        config, device = self.config, self.device
        source, source_lengths = padded(self.data.source, indices, config.source_prefix)
        target, target_lengths = padded(self.data.target, indices, (BOS, *config.target_prefix))
        return self.loss(source.to(device), source_lengths, target.to(device), target_lengths.to(device))

    def _validate(self, report: Callable[[dict[str, float]], None]) -> None:
        if self.rank == 0 and self.validate is not None:
            self.model.eval()
            started = time.perf_counter()
            with torch.no_grad():
                metrics = self.validate(self.model)
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
        self.optimizer.gather()
        if self.rank != 0:
            return
        save_tensors(self.parameters, self.folder / f"checkpoint-{self.progress.update:08d}.safetensors")
        noted = {"progress": asdict(self.progress), "options": asdict(self.options), "identity": self.identity}
        record = {name: json.dumps(value) for name, value in noted.items()}
        save_state(self.folder / STATE, self.parameters, self.optimizer.parts, self.device, record)
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
            record = load_state(path, self.parameters, self.optimizer.parts, self.device)
            own = json.loads(json.dumps(self.identity))
            for name, value in json.loads(record.get("identity", "{}")).items():
                if own.get(name, value) != value:
                    raise UsageError(f"{self.folder}: holds a run with another `{name}`; name a new folder.")
            self.progress = Progress(**json.loads(record["progress"]))


def padded(sequences: Sequences, indices: Array, before: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Returns sequences as padded ids (B, T), EOS behind each, and their lengths (B).

    :param before: ids that stand before each
    """
    ids, lengths = sequences.pad(indices, before=before, after=EOS)
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def plot_metrics(metrics: Path, picture: Path) -> None:
    """Draws the metrics of a run, one panel each, as a PNG file."""
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    skipped = {"update", "epoch", "seconds", "tokens", "validation_seconds"}
    names = list(dict.fromkeys(name for row in rows for name in row if name not in skipped))
    figure = Figure(figsize=(4 * min(3, len(names)), 3 * math.ceil(len(names) / 3)), layout="constrained")
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(math.ceil(len(names) / 3), min(3, len(names)), number)
        points = [(row["update"], row[name]) for row in rows if name in row]
        axes.plot(*zip(*points, strict=True), marker="." if len(points) < 60 else "")
        axes.set(title=name.replace("_", " "), xlabel="update")
        axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=120)
