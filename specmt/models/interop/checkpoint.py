"""Files of other programs: where they are, and their weights, tensor by tensor; nothing in them is ever executed."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Generic, final

import numpy as np
import yaml
from typing_extensions import TypeVar

from specmt.engine.arrays import Array
from specmt.engine.backends import needing_torch
from specmt.engine.weights import Weight
from specmt.errors import ModelError
from specmt.models.reading import check_regular, read_json
from specmt.models.tensors import read_arrays
from specmt.text.printable import printable

SAFETENSORS: Final = "model.safetensors"
TORCH: Final = "pytorch_model.bin"
WEIGHTS: Final = (SAFETENSORS, f"{SAFETENSORS}.index.json", TORCH, f"{TORCH}.index.json")
"""The files that a Hugging Face folder may keep its weights in, the best first."""

_MOST_BRACKETS: Final = 1000
"""In YAML; the time to read nested ones grows with the square of their number."""

_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")

W_co = TypeVar("W_co", bound=Weight, covariant=True, default=Array)


def locate(source: str, files: Sequence[str]) -> Path:
    """Returns the path of a model: one that exists, or a folder with what was fetched from the Hugging Face Hub.

    :param files: the names of files that are needed, if the model has them, beside its weights
    """
    path = Path(source)
    if os.path.exists(path):
        return path
    if not _NAME.fullmatch(source):
        raise ModelError(f"{source}: is no folder here, and no name on the Hugging Face Hub, such as someone/model.")
    return _fetch(source, files)


def _fetch(name: str, files: Sequence[str]) -> Path:
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{name}: is no folder here, and to fetch it from the Hugging Face Hub takes `pip install 'specmt[hub]'`."
        ) from error
    try:
        try:
            there = HfApi().list_repo_files(name)
        except RepositoryNotFoundError as error:
            raise ModelError(
                f"{name}: is no folder here, and not on the Hugging Face Hub, or not for everyone."
            ) from error
        except HfHubHTTPError:
            raise
        except OSError:
            # Without network, what was fetched before will do.
            return Path(snapshot_download(name, local_files_only=True))
        best = next((weights for weights in WEIGHTS if weights in there), WEIGHTS[0])
        # Of weights in parts, the index and the parts.
        stem = best.removesuffix(".index.json")
        weights = [best] if best == stem else [best, stem.replace(".", "-*.")]
        return Path(snapshot_download(name, allow_patterns=[*files, *weights]))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{name}: cannot be fetched from the Hugging Face Hub ({type(error).__name__}); "
            f"fetch it where there is a network (`hf download {name} --local-dir DIR`) and import the folder."
        ) from error


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(names) > len({*names}):
            raise yaml.constructor.ConstructorError(None, None, "a key is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, where: object) -> Any:
    """Returns what YAML holds."""
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise ModelError(f"{where}: is not valid YAML of a model (it is nested too deeply).")
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: of dates that there are not
        raise ModelError(f"{where}: is not valid YAML ({printable(' '.join(str(error).split()))}).") from error


@final
class Checkpoint(Generic[W_co]):
    """The tensors of one or more files; what is not mapped into memory is read when it is asked for."""

    def __init__(self, origin: Path, arrays: Mapping[str, W_co]) -> None:
        """
        :param origin: what to name in errors
        """
        self.origin = origin
        self._arrays = arrays

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def check_names(self, known: Container[str]) -> None:
        """Checks that no weight would be left out."""
        for name in self:
            if name not in known:
                raise ModelError(f"{self.origin}: has {printable(name)}, which its configuration has no place for.")

    def find(self, *names: str) -> str | None:
        """Returns the first of several names that there is."""
        return next((name for name in names if name in self._arrays), None)

    def read(self, *names: str) -> W_co:
        """Returns the first of several tensors that there is."""
        name = self.find(*names)
        if name is None:
            raise ModelError(f"{self.origin}: has no {names[0]}; is it of another architecture?")
        try:
            return self._arrays[name]
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise ModelError(f"{self.origin}: {name} cannot be read ({error}).") from error


def open_checkpoint(folder: Path) -> Checkpoint:
    """Opens the weights of a Hugging Face folder: safetensors, or else a PyTorch pickle; whole or in parts."""
    name = next((name for name in WEIGHTS if (folder / name).exists()), None)
    if name is None:
        raise ModelError(f"{folder}: has no weights; there must be {SAFETENSORS} or {TORCH}.")
    is_index = name.endswith(".json")
    paths = [folder / part for part in _parts(folder / name)] if is_index else [folder / name]
    read = read_arrays if SAFETENSORS in name else _read_pickle
    arrays: dict[str, Array] = {}
    for path in paths:
        arrays |= read(path)
    return Checkpoint(folder if is_index else paths[0], arrays)


def open_file(path: Path) -> Checkpoint:
    """Opens one file of fairseq or fairseq2: safetensors, or else a PyTorch pickle with the tensors in it or in its
    ``model``.
    """
    return Checkpoint(path, read_arrays(path) if path.suffix == ".safetensors" else _read_pickle(path))


def open_npz(path: Path, data: bytes | None = None) -> Checkpoint:
    """Opens a NumPy archive, such as Marian writes.

    :param data: what is in the file, if that was read already
    """
    try:
        archive: Mapping[str, Array] = np.load(BytesIO(data) if data else check_regular(path), allow_pickle=False)
        if not isinstance(archive, Mapping):
            raise ValueError("it is a single array")
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: cannot be read as a NumPy archive ({error}).") from error
    return Checkpoint(path, archive)


def _parts(index: Path) -> list[str]:
    record = read_json(index).get("weight_map")
    parts = record.values() if isinstance(record, dict) else [None]
    if not all(isinstance(part, str) and Path(part).name == part for part in parts):
        raise ModelError(f"{index}: is not an index of weights; `weight_map` must name files beside it.")
    return sorted(set(parts))


def _read_pickle(path: Path) -> dict[str, Array]:
    with needing_torch(f"{path}: is a pickle, and reading it"):
        from specmt.models.interop.pickled import read_pickle
    return read_pickle(path)
