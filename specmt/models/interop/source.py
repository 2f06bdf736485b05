"""Where an imported model comes from: a folder, or the Hugging Face Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.interop.checkpoint import WEIGHTS

_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")


def locate(source: str, files: Sequence[str]) -> Path:
    """Returns the path of a model: one that exists, or a folder with what was fetched from the Hub.

    :param files: the names of files that are needed, if the model has them, beside its weights
    :raises ModelError: there is no such model, or the Hub cannot be reached.
    """
    path = Path(source)
    if path.exists():
        return path
    if not _NAME.fullmatch(source):
        raise ModelError(f"{source}: is no folder here, and no name on the Hugging Face Hub, such as someone/model.")
    return _fetch(source, files)


def _fetch(name: str, files: Sequence[str]) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

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


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file.

    :raises ModelError: the file is missing or has something else in it.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); the model needs it.") from error
    except ValueError as error:
        raise ModelError(f"{path}: is not valid JSON ({error}).") from error
    if not isinstance(record, dict):
        raise ModelError(f"{path}: must hold an object, but holds a {type(record).__name__} instead.")
    return record
