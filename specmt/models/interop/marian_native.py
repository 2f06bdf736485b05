"""Reads what Marian itself writes: an .npz archive with its configuration inside, vocabularies beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.interop.checkpoint import open_npz, parse_yaml
from specmt.models.interop.foreign import Foreign, Vocabulary, number_pieces
from specmt.models.interop.marian_network import MarianNetwork, is_shared, parse_options
from specmt.models.reading import check_regular, read_bytes, read_json, read_text
from specmt.text.pieces import SOURCE_PIECES, TARGET_PIECES, load_processor

_DECODER: Final = "decoder.yml"


def read_native(path: Path) -> Foreign:
    """Returns the Marian model in a folder or an .npz file."""
    folder = path if path.is_dir() else path.parent
    decoder = parse_options(read_text(folder / _DECODER), folder / _DECODER) if (folder / _DECODER).exists() else {}
    checkpoint = open_npz(_find_weights(path, decoder))
    lists = _find_vocabularies(folder, decoder)
    source, target = (_vocabulary(each) for each in lists)
    if is_shared(checkpoint) and source.pieces != target.pieces:
        raise ModelError(f"{folder}: there are two vocabularies, but only one table of embeddings.")
    network = MarianNetwork(checkpoint, vocab_size=len(target.rows()), source_vocab_size=len(source.rows()))
    return Foreign(
        origin=checkpoint.origin,
        kind="Marian",
        config=network.config,
        target=target,
        source=None if network.shared else source,
        source_spm=_read_spm(folder, SOURCE_PIECES, lists[0]),
        target_spm=_read_spm(folder, TARGET_PIECES, lists[1]),
        read=network.read,
        # Marian emits <unk> only with this option.
        never=() if decoder.get("allow-unk", False) else (target.unk,),
    )


def _find_weights(path: Path, decoder: Mapping[str, Any]) -> Path:
    if not path.is_dir():
        return path
    named = [path / Path(str(each)).name for each in decoder.get("models", [])]
    found = named or [each for each in sorted(path.glob("*.npz")) if not each.name.endswith("optimizer.npz")]
    if len(found) != 1:
        listed = ", ".join(each.name for each in found) or "none"
        raise ModelError(
            f"{path}: must have the config.json of a Hugging Face model, or one .npz of Marian, but has {listed}; "
            "name the one that is meant."
        )
    return found[0]


def _find_vocabularies(folder: Path, decoder: Mapping[str, Any]) -> tuple[Path, Path]:
    """Returns the vocabularies of source and target, which may be the same."""
    found = [folder / Path(str(each)).name for each in decoder.get("vocabs", [])]
    for pattern in ("*vocab.yml", "vocab*.yml", "*vocab.json", "vocab*.spm"):
        # By name, `src` comes before `trg`, and `source` before `target`.
        found = found or sorted(folder.glob(pattern))
    if not found:
        raise ModelError(f"{folder}: has no vocabulary; there must be {_DECODER} that names it, or a file *vocab.yml.")
    if len(found) > 2:
        raise ModelError(
            f"{folder}: must have one or two vocabularies, but has {len(found)} instead; "
            f"name them in {_DECODER} as `vocabs`."
        )
    return found[0], found[-1]


def _read_spm(folder: Path, name: str, vocabulary: Path) -> bytes:
    path = vocabulary if vocabulary.suffix == ".spm" else folder / name
    if not path.exists():
        raise ModelError(f"{path}: is missing; the model needs it to cut text.")
    return read_bytes(path)


def _vocabulary(path: Path) -> Vocabulary:
    if path.suffix == ".spm":
        return vocabulary_of(check_regular(path))
    return _numbered(read_json(path) if path.suffix == ".json" else _parse_vocabulary(read_text(path), path), path)


def vocabulary_of(path: Path, data: bytes | None = None) -> Vocabulary:
    """Returns the pieces of a SentencePiece model that is a vocabulary as it is.

    :param data: what is in the file, if that was read already
    """
    processor = load_processor(path, data)
    return _numbered({processor.id_to_piece(i): i for i in range(processor.get_piece_size())}, path)


def _numbered(ids: Mapping[str, int], path: Path) -> Vocabulary:
    pieces = number_pieces(ids, path)
    for piece in ("<unk>", "</s>"):
        if piece not in ids:
            raise ModelError(f"{path}: has no {piece}.")
    return Vocabulary(pieces=pieces, unk=ids["<unk>"], eos=ids["</s>"])


def _parse_vocabulary(text: str, path: Path) -> dict[str, int]:
    """Returns the pieces of a vocabulary in YAML: a piece, a colon, a number on each line.

    Read as YAML, some pieces would be numbers or truth values, and all of them would take a minute.
    """
    ids = {}
    for number, line in enumerate(text.split("\n"), start=1):
        piece, colon, value = line.rstrip("\r").rpartition(":")
        if not line.strip():
            continue
        if not colon or not value.strip().isdecimal():
            raise ModelError(f"{path}: line {number} must be a piece, a colon and a number.")
        ids[_unquoted(piece, path)] = int(value)
    return ids


def _unquoted(piece: str, path: Path) -> str:
    if len(piece) >= 2 and piece[0] == piece[-1] == "'":
        return piece[1:-1].replace("''", "'")
    if len(piece) >= 2 and piece[0] == piece[-1] == '"':
        return str(parse_yaml(piece, path)) if "\\" in piece else piece[1:-1]
    return piece
