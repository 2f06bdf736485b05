"""Model folders that are there whole or not at all, and their cards."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from specmt.errors import OutputError, UsageError
from specmt.models.folder import CARD, ModelFolder

_LICENCE: Final = re.compile(r"^license:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a folder to write into, which takes its name when the block ends, and vanishes if it fails.

    :raises UsageError: there is a file, or a folder with something in it, of that name.
    :raises OutputError: it cannot be made.
    """
    folder = folder.absolute()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder}: must be a new or an empty folder, but there is something already.")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}).") from error
    try:
        yield temporary
        try:
            temporary.replace(folder)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written ({error.strerror}).") from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def licence_of(folder: Path) -> str | None:
    """Returns the licence that the README of a Hugging Face folder names at its head, if it does."""
    try:
        text = (folder / CARD).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    parts = text.split("---", 2)
    found = _LICENCE.search(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    return found[1].strip("\"'") if found else None


def write_card(model: ModelFolder, *, origin: str, kind: str, licence: str | None, notes: list[str]) -> None:
    """Writes the model card of an imported model.

    :param origin: the name or folder that it was imported from
    :param kind: what it was there, such as ``Marian (Hugging Face)``
    :param notes: what else is to be known, a sentence each
    """
    config = model.verifier
    lines = [
        f"# {Path(origin).name}",
        "",
        f"{model.source}→{model.target} translation, imported by `specmt import`: encoder-decoder Transformer, "
        f"{config.encoder_layers}+{config.decoder_layers} layers, width {config.model_dim}, "
        f"{config.vocab_size} target pieces.",
        "",
        f"- **From:** {origin}, {kind}",
        f"- **Licence of the weights:** {licence or 'not said by its files; see where it is from'}",
        *[f"- {note}" for note in notes],
        "",
        "## Files",
        "",
        "| file | sha256 |",
        "|-|-|",
        *[f"| {name} | {digest} |" for name, digest in model.files.items()],
    ]
    (model.path / CARD).write_text("\n".join(lines) + "\n", encoding="utf-8")
