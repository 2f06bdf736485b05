"""What a training run keeps on disk: weights to average, and the state that an exact resume needs; no pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from specmt.errors import UsageError
from specmt.files import whole


def find_checkpoints(folder: Path) -> list[Path]:
    """Returns the checkpoints of a run, oldest first."""
    return sorted(folder.glob("checkpoint-*.safetensors"))


def average_checkpoints(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of the weights of several checkpoints."""
    total = {name: tensor.double() for name, tensor in load_file(paths[0]).items()}
    for path in paths[1:]:
        for name, tensor in load_file(path).items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes a safetensors file under a temporary name and renames it."""
    with whole(path) as temporary:
        save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary, metadata)


def save_state(
    path: Path,
    weights: Mapping[str, Tensor],
    optimizers: Sequence[Optimizer],
    device: torch.device,
    metadata: dict[str, str],
) -> None:
    """Writes weights, optimizers and random numbers, with what else the run wants to remember."""
    state = {f"weights/{name}": tensor for name, tensor in weights.items()}
    for number, optimizer in enumerate(optimizers):
        for index, values in optimizer.state_dict()["state"].items():
            state |= {f"optimizer/{number}/{index}/{key}": tensor for key, tensor in values.items()}
    state["random"] = torch.get_rng_state()
    if device.type == "cuda":
        state["random_cuda"] = torch.cuda.get_rng_state(device)
    save_tensors(state, path, metadata)


def load_state(
    path: Path, weights: Mapping[str, Tensor], optimizers: Sequence[Optimizer], device: torch.device
) -> dict[str, str]:
    """Sets weights, optimizers and random numbers to what was saved; returns the rest.

    :raises UsageError: it was saved by the training of another module, or with other optimizers.
    """
    with safe_open(path, framework="pt") as file:
        metadata: dict[str, str] = file.metadata()
    state = load_file(path)
    shapes = {name.removeprefix("weights/"): t.shape for name, t in state.items() if name.startswith("weights/")}
    kinds = {name.split("/")[1] for name in state if name.startswith("optimizer/")}
    if shapes != {name: weight.shape for name, weight in weights.items()} or len(kinds) != len(optimizers):
        raise UsageError(f"{path.parent}: holds a run of another shape or optimizer; name a new folder.")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(state[f"weights/{name}"])
    for number, optimizer in enumerate(optimizers):
        values: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            match name.split("/"):
                case ["optimizer", which, index, key] if int(which) == number:
                    values.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": values, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(state["random"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["random_cuda"], device)
    return metadata
