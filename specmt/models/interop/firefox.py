"""Imports Firefox's translation models: what Mozilla publishes, and what translateLocally keeps."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from specmt.errors import ModelError, UsageError
from specmt.models.folder import ModelFolder, file_sha256
from specmt.models.interop.checkpoint import open_npz
from specmt.models.interop.foreign import Foreign, importing, write_model
from specmt.models.interop.languages import name_languages, split_pair
from specmt.models.interop.marian_binary import read_binary
from specmt.models.interop.marian_native import vocabulary_of
from specmt.models.interop.marian_network import MarianNetwork, parse_options
from specmt.models.interop.marian_shortlist import read_shortlist
from specmt.models.interop.unpacking import PACKED, read_unpacked
from specmt.models.reading import read_json, read_text

_CONFIG: Final = "config.intgemm8bitalpha.yml"
_INFO: Final = "model_info.json"
"""What translateLocally has beside a model: the names of its files, and its languages."""

_END: Final = r"(?:[.-]v?\d[\w.-]*)?"
"""A version behind a name."""

_ROLES: Final = {
    "model": re.compile(rf"(?:.*\.)?model\b[\w.-]*?\.(?:bin|npz){_END}"),
    "shortlist": re.compile(rf"lex\b[\w.-]*?\.s2t\.bin{_END}"),
    "source": re.compile(rf"srcvocab\b[\w.-]*?\.spm{_END}"),
    "target": re.compile(rf"trgvocab\b[\w.-]*?\.spm{_END}"),
    "both": re.compile(rf"vocab\b[\w.-]*?\.spm{_END}"),
}
"""What Mozilla calls files, without what packs them."""

_WORDS: Final = {"model", "lex", "vocab", "srcvocab", "trgvocab", "intgemm", "alphas", "bin", "npz", "spm", "final"}
"""Parts of names that are no languages."""

_BEST: Final = (".intgemm.alphas.bin", ".intgemm8.bin", ".bin")
"""Of a model in several files, which of them is taken; any other is the last."""


class _Files(NamedTuple):
    model: Path
    source: Path
    target: Path
    shortlist: Path | None


def import_firefox(
    sources: Sequence[str],
    folder: Path,
    *,
    languages: tuple[str | None, str | None] = (None, None),
    progress: Callable[[str], object] = lambda _: None,
) -> ModelFolder:
    """Writes a model of Firefox's, or one of the same kind, as a model folder; weights in int8 stay what they are.

    :param sources: a folder, or files: a model, a vocabulary or one of each language, and perhaps a shortlist; as they
        are, or packed
    :param languages: source and target; ``None``: as in the names of files or folder.
    :param progress: called with what is being done
    """
    with importing(sources[0], folder) as new:
        progress("looking for the model")
        paths = [Path(source) for source in sources]
        files = _find_files(paths)
        named = _languages(files, paths[0] if paths[0].is_dir() else None)
        pair = name_languages((languages[0] or named[0], languages[1] or named[1]), files.model)
        progress("reading")
        foreign, digests = _read(files)
        write_model(
            new,
            foreign,
            name=sources[0] if paths[0].is_dir() else str(files.model),
            languages=pair,
            imported=digests,
            progress=progress,
        )
    return ModelFolder.read(folder)


def _read(files: _Files) -> tuple[Foreign, dict[str, str]]:
    """Reads a model; returns it, and the sha256 of files by name."""
    digests: dict[str, str] = {}

    def read(path: Path) -> bytes:
        data = read_unpacked(path)
        digests[path.name] = file_sha256(path)
        inside = sha256(data).hexdigest()
        if inside != digests[path.name]:
            digests[_plain(path) if path.suffix in PACKED else f"{path.name}, unpacked"] = inside
        return data

    data = read(files.model)
    checkpoint = open_npz(files.model, data) if data.startswith(b"PK") else read_binary(files.model, data)
    del data
    spms = [read(path) for path in dict.fromkeys((files.source, files.target))]
    source, target = vocabulary_of(files.source, spms[0]), vocabulary_of(files.target, spms[-1])
    network = MarianNetwork(checkpoint, vocab_size=len(target.rows()), source_vocab_size=len(source.rows()))
    if network.config.norm != "post":
        raise ModelError(
            f"{files.model}: has norms before its sublayers (`transformer-preprocess`): Bergamot's engine means "
            "something else than Marian; `specmt import marian` reads them as Marian does."
        )
    if network.shared and source.pieces != target.pieces:
        raise ModelError(f"{files.model}: has one table of embeddings, but there are two vocabularies.")
    if network.shared:
        source = target
    shortlist = None
    if files.shortlist is not None:
        shortlist = read_shortlist(files.shortlist, read(files.shortlist), source, target)
    foreign = Foreign(
        origin=files.model,
        kind="Firefox (Marian)",
        config=network.config,
        target=target,
        source=None if network.shared else source,
        source_spm=spms[0],
        target_spm=spms[-1],
        read=network.read,
        never=(target.unk,),
        heads=network.guided,
        shortlist=shortlist,
    )
    return foreign, digests


def _find_files(paths: Sequence[Path]) -> _Files:
    """Returns the files of a model in a folder, or among files."""
    where = paths[0]
    for path in paths:
        if not os.path.exists(path):
            raise ModelError(f"{path}: is no file and no folder.")
    folders = [path for path in paths if path.is_dir()]
    if folders and len(paths) > 1:
        raise UsageError(f"Name one folder or some files, but not {folders[0]} with others.")
    if folders and (where / _CONFIG).exists():
        return _listed(where)
    found: dict[str, list[Path]] = {role: [] for role in _ROLES}
    for path in sorted(where.iterdir()) if folders else paths:
        role = next((role for role, pattern in _ROLES.items() if pattern.fullmatch(_plain(path).lower())), None)
        if role is not None:
            found[role].append(path)
        elif not folders:
            raise UsageError(
                f"{path}: its name must be such as model.deen.intgemm.alphas.bin, vocab.deen.spm or "
                "lex.50.50.deen.s2t.bin."
            )
    model = _one(where, found["model"], None)
    if model is None:
        raise ModelError(f"{where}: there must be a model, such as model.deen.intgemm.alphas.bin.")
    pair = _pair(model)
    source, target = (
        _one(where, found[side], pair) or _one(where, found["both"], pair) for side in ("source", "target")
    )
    if source is None or target is None:
        raise ModelError(
            f"{where}: there must be a vocabulary, such as vocab.deen.spm, or srcvocab.deen.spm and trgvocab.deen.spm."
        )
    return _Files(model, source, target, _one(where, found["shortlist"], pair))


def _listed(folder: Path) -> _Files:
    """Returns the files that translateLocally takes in a folder, but for a shortlist in text, as old models have it."""
    options = parse_options(read_text(folder / _CONFIG), folder / _CONFIG)
    model, *vocabularies = (folder / Path(str(each)).name for each in [*options["models"][:1], *options["vocabs"]])
    listed = (folder / Path(str(each)).name for each in options.get("shortlist", [])[:1])
    shortlist = next((path for path in listed if ".bin" in path.name), None)
    if not 1 <= len(vocabularies) <= 2:
        raise ModelError(f"{folder / _CONFIG}: `vocabs` must be one or two files, but are {len(vocabularies)} instead.")
    return _Files(model, vocabularies[0], vocabularies[-1], shortlist)


def _one(where: Path, paths: Sequence[Path], pair: str | None) -> Path | None:
    """Returns the file of a kind: of the pair, if one is, the best form of it, and rather as it is than packed."""
    of_pair = [path for path in paths if _pair(path) == pair] if pair else []

    def form(path: Path) -> int:
        return next((place for place, end in enumerate(_BEST) if _plain(path).endswith(end)), len(_BEST))

    found = sorted(of_pair or paths, key=lambda path: (form(path), path.suffix in PACKED))
    best = {_plain(path) for path in found if form(path) == form(found[0])}
    if len(best) > 1 or len({_pair(path) for path in found}) > 1:
        listed = ", ".join(path.name for path in found)
        raise UsageError(f"{where}: has several of a kind, {listed}; name the files of one model.")
    return next(iter(found), None)


def _plain(path: Path) -> str:
    """Returns the name of what a file packs."""
    return path.stem if path.suffix in PACKED else path.name


def _pair(path: Path) -> str | None:
    """Returns the part of a name that is two languages."""
    parts = (part for part in _plain(path).lower().split(".") if part not in _WORDS)
    return next((part for part in parts if split_pair(part)), None)


def _languages(files: _Files, folder: Path | None) -> tuple[str | None, str | None]:
    """Returns the languages that files say, or else what is beside them, or the folder's name."""
    pair = _pair(files.model) or _pair(files.source)
    home = folder or files.model.parent
    if pair is None and (home / _INFO).exists():
        record = read_json(home / _INFO)
        tags = [*record.get("srcTags", {})]
        if len(tags) == 1 and record.get("trgTag"):
            return tags[0], record["trgTag"]
        pair = str(record.get("shortName", ""))
    # As in de-en-tiny.
    found = split_pair("-".join((pair or home.resolve().name).split("-")[:2]))
    return found or (None, None)
