"""What a training process needs of the machine, and what several do together: dealing out work, summing gradients."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from specmt.engine.backends import choose_device
from specmt.training.data import Array
from specmt.training.options import TrainOptions

M_TRIM_THRESHOLD: Final = -1
M_TOP_PAD: Final = -2
M_MMAP_MAX: Final = -4
"""Parameters of glibc's ``mallopt``."""


def tune_memory() -> None:
    """Lets this process keep the memory that it frees, and few of oneDNN's primitives, before its first batch.

    No two batches have the same shape. Kept primitives, which serve a single shape, were a quarter of the memory, and
    memory handed back and asked for again a fifth of the time.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
    with suppress(OSError, AttributeError):  # other C libraries have no `mallopt`
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1), (M_TOP_PAD, 2**28)):
            mallopt(parameter, value)


def start_processes(device: str, threads: int | None) -> torch.device:
    """Joins the process group if torchrun started this process; returns the device to train on.

    :raises UsageError: there is no such device.
    """
    tune_memory()
    if threads is not None:
        torch.set_num_threads(min(threads, os.cpu_count() or threads))
    place = torch.device(choose_device(device))
    if "LOCAL_RANK" in os.environ:
        if place.type == "cuda":
            place = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(place)
        dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
    return place


def deal(sizes: Sequence[int], hands: int) -> list[list[int]]:
    """Returns the numbers of items for each hand: the largest first, always to the hand that holds least."""
    dealt: list[list[int]] = [[] for _ in range(hands)]
    held = [0] * hands
    for item in sorted(range(len(sizes)), key=lambda item: (-sizes[item], item)):
        hand = held.index(min(held))
        dealt[hand].append(item)
        held[hand] += sizes[item]
    return dealt


def deal_batches(batches: Sequence[Array], sizes: Sequence[int], world: int) -> list[list[Array]]:
    """Returns the batches of each of ``world`` processes: the larger ones whole, those left over cut into rows.

    :param sizes: the ids in each batch
    """
    order = sorted(range(len(batches)), key=lambda batch: (-sizes[batch], batch))
    whole, left = order[: len(order) // world * world], order[len(order) // world * world :]
    shares = [[batches[whole[item]] for item in hand] for hand in deal([sizes[batch] for batch in whole], world)]
    for batch in left:
        # Rows are in the order of their length, so that each process takes as many ids.
        for rank in range(min(world, len(batches[batch]))):
            shares[rank].append(batches[batch][rank::world])
    return shares


def sum_over_processes(tensors: Sequence[Tensor]) -> None:
    """Puts the sum over all processes into each tensor, in one message."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    _fill(tensors, flat)


def _fill(tensors: Sequence[Tensor], flat: Tensor) -> None:
    begin = 0
    for tensor in tensors:
        tensor.copy_(flat[begin : begin + tensor.numel()].view_as(tensor))
        begin += tensor.numel()


class SharedOptimizer:
    """Muon for the matrices inside layers and AdamW for the rest, or AdamW for all.

    Each process steps its share of Muon's matrices and gets the others' from those that stepped them; what comes out
    is the same for any number of processes.
    """

    def __init__(self, parameters: Mapping[str, Tensor], options: TrainOptions, *, rank: int, world: int) -> None:
        hidden = [p for name, p in parameters.items() if p.ndim == 2 and ".layers." in name]
        if options.optimizer == "adamw":
            hidden = []
        known = set(map(id, hidden))
        rest = [p for p in parameters.values() if id(p) not in known]
        groups = [
            {"params": [p for p in rest if p.ndim >= 2], "weight_decay": options.weight_decay},
            {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.parts: list[Optimizer] = [AdamW(groups, lr=options.lr, betas=(0.9, 0.98), eps=1e-9)]
        if hidden:
            # Scaled to the size of an AdamW step, so that one learning rate serves both (Liu et al. 2025, section 2.2).
            self.parts.append(Muon(hidden, weight_decay=options.weight_decay, adjust_lr_fn="match_rms_adamw"))
        costs = [p.numel() * min(p.shape) for p in hidden]
        self.shares = [[hidden[item] for item in hand] for hand in deal(costs, world)]
        self.rank = rank

    def step(self, rate: float) -> None:
        """Makes an update with a learning rate, and forgets the gradients."""
        for other in self.shares[: self.rank] + self.shares[self.rank + 1 :]:
            for parameter in other:
                parameter.grad = None  # which Muon leaves alone
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)
        self._send(self.shares)

    def gather(self) -> None:
        """Gives every process all of the optimizer's state, so that any can save it."""
        if len(self.shares) > 1 and len(self.parts) > 1:
            state = self.parts[1].state
            name = "momentum_buffer"
            self._send([[state[p].setdefault(name, torch.zeros_like(p)) for p in share] for share in self.shares])

    @torch.no_grad()
    def _send(self, shares: Sequence[Sequence[Tensor]]) -> None:
        for owner, tensors in enumerate(shares if len(shares) > 1 else ()):
            if not tensors:
                continue
            flat = torch.cat([tensor.flatten() for tensor in tensors])
            dist.broadcast(flat, owner)
            if owner != self.rank:
                _fill(tensors, flat)
