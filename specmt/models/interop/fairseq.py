"""Reads NLLB-200 as fairseq2 and fairseq keep it: by the name of fairseq2's asset card, or from a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml

from specmt.engine.arrays import Array
from specmt.errors import ModelError
from specmt.models.config import VerifierConfig
from specmt.models.interop.checkpoint import WEIGHTS, Checkpoint, open_file, parse_yaml
from specmt.models.interop.foreign import CONTROL, OUTPUT_BIAS, SOURCE_TABLE, Foreign, Options, Vocabulary
from specmt.models.interop.hugging_face import fairseq_name
from specmt.models.reading import check_regular, read_bytes, read_text
from specmt.text.pieces import load_processor

SPM: Final = "sentencepiece.bpe.model"

METADATA: Final = "model.yaml"
SUFFIXES: Final = (".pt", ".safetensors")
_STEP: Final = "step_*/model/pp_00/tp_00/sdp_00.pt"
_CONTROL: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""What ids 0 to 3 are in fairseq and in what comes from it; in fairseq2, they are ours."""

_SPARE: Final = 64
"""How many rows of a table may stand for nothing: tables are filled up to round numbers."""

_DATA: Final = ("<MINED_DATA>", "<MMT_BT_DATA>", "<SMT_BT_DATA>")
_WIDTHS: Final = (1024, 2048)
_HEADS: Final = 16
"""Of all NLLB models, which have one of these widths."""


def fetch_card(name: str) -> tuple[Path, Path] | None:
    """Fetches the checkpoint and the tokenizer of one of fairseq2's NLLB models; ``None`` if there is no such card."""
    import specmt.models.reference  # noqa: F401  (makes fairseq2 importable)

    try:
        from fairseq2.assets import AssetDownloadError, get_asset_download_manager, get_asset_store
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{name}: is no folder here, and to look for it among fairseq2's models that is needed: "
            "`pip install 'specmt[torch]'`."
        ) from error

    card = get_asset_store().maybe_retrieve_card(name)
    if card is None:
        return None
    family = card.maybe_get_field("model_family")
    if family is None or family.as_(str) != "nllb":
        raise ModelError(f"{name}: must be of fairseq2's family nllb, but is of {family and family.as_(str)} instead.")
    manager = get_asset_download_manager()
    try:
        checkpoint = manager.download_model(card.field("checkpoint").as_uri())
        return checkpoint, manager.download_tokenizer(card.field("tokenizer").as_uri())
    except AssetDownloadError as error:
        raise ModelError(
            f"{name}: cannot be fetched ({error}) Import it where there is a network, or from a folder with its "
            f"checkpoint and {SPM}."
        ) from error


def is_checkpoint(path: Path) -> bool:
    """Returns whether a path may be a checkpoint of fairseq2 or fairseq, or a folder with one."""
    return _find_weights(path) is not None if path.is_dir() else path.suffix in SUFFIXES


def read_fairseq(path: Path, spm: Path | None = None) -> Foreign:
    """Reads all but the weights of a checkpoint.

    :param path: the file, or a folder with it, its SentencePiece model and perhaps fairseq2's ``model.yaml``
    :param spm: the SentencePiece model, where it is not beside the checkpoint
    """
    folder = path if path.is_dir() else path.parent
    weights = _find_weights(path) if path.is_dir() else path
    if weights is None:
        raise ModelError(f"{path}: has no checkpoint; there must be one file that ends in {' or '.join(SUFFIXES)}.")
    checkpoint = open_file(weights)
    is_old = "decoder.embed_tokens.weight" in checkpoint
    table = ("decoder.embed_tokens.weight",) if is_old else (SOURCE_TABLE, "final_proj.weight")
    rows, width = checkpoint.read(*table).shape
    spm = spm or _find_spm(folder)
    own = pieces_of(spm, is_old=is_old)
    pieces = filled([*own, *(f"__{code}__" for code in language_codes()), *_DATA], rows, spm)
    pad, unk, eos = (pieces.index(piece) for piece in ("<pad>", "<unk>", "</s>"))
    vocabulary = Vocabulary(
        pieces=pieces, pad=pad, unk=unk, eos=eos, start=eos, added=range(len(own), rows), displaced_last=True
    )
    return Foreign(
        origin=checkpoint.origin,
        kind=f"fairseq{'' if is_old else '2'} NLLB",
        config=_configure(checkpoint, width, len(vocabulary.rows()), _read_metadata(folder), is_old=is_old),
        target=vocabulary,
        source_spm=read_bytes(spm),
        target_spm=read_bytes(spm),
        read=partial(_read_weight, checkpoint, table, is_old),
    )


def _read_weight(checkpoint: Checkpoint, table: tuple[str, ...], is_old: bool, name: str) -> Array | None:
    if name == OUTPUT_BIAS:
        return None
    if name == SOURCE_TABLE:
        return checkpoint.read(*table)
    return checkpoint.read(fairseq_name(name) if is_old else name)


def pieces_of(path: Path, *, is_old: bool) -> list[str]:
    """Returns the pieces of a SentencePiece model that was made for fairseq, four control pieces before them.

    :param is_old: whether these are in the order of fairseq, not of fairseq2
    """
    if not path.exists():
        raise ModelError(f"{path}: is missing; without the SentencePiece model, text cannot be turned into tokens.")
    processor = load_processor(check_regular(path))
    pieces = [str(processor.id_to_piece(i)) for i in range(processor.get_piece_size())]
    if pieces[:3] != ["<unk>", "<s>", "</s>"]:
        actual = " ".join(pieces[:3])
        raise ModelError(
            f"{path}: must begin with <unk> <s> </s>, but begins with {actual} instead; is it the model's?"
        )
    return [*(_CONTROL if is_old else CONTROL), *pieces[3:]]


def filled(pieces: Iterable[str], rows: int, where: Path) -> list[str]:
    """Returns as many pieces as the table has rows, the last ones without meaning.

    :param where: what to name in an error
    """
    pieces = list(pieces)
    if not len(pieces) <= rows <= len(pieces) + _SPARE:
        raise ModelError(
            f"{where}: the tokenizer has {len(pieces)} tokens, but the model has embeddings for {rows}; do they belong "
            "together?"
        )
    return pieces + [f"<unused {i}>" for i in range(rows - len(pieces))]


def language_codes() -> list[str]:
    """Returns the codes of NLLB-200's languages in the order of their tokens, as fairseq2's card has them."""
    package = find_spec("fairseq2")
    if package is None or package.submodule_search_locations is None:
        raise ModelError(
            "A checkpoint of NLLB does not tell its languages, and fairseq2, which does, is absent: "
            "`pip install 'specmt[torch]'`, or import the model as Hugging Face has it."
        )
    card = Path(package.submodule_search_locations[0]) / "assets" / "cards" / "models" / "nllb.yaml"
    with card.open(encoding="utf-8") as stream:
        first: Mapping[str, Any] = next(yaml.safe_load_all(stream))
    return list(first["tokenizer_config_overrides"]["langs"])


def _find_weights(folder: Path) -> Path | None:
    steps = {int(re.sub(r"\D", "", path.relative_to(folder).parts[0])): path for path in folder.glob(_STEP)}
    if steps:
        return steps[max(steps)]
    files = [path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES and path.name not in WEIGHTS]
    return files[0] if len(files) == 1 else None


def _find_spm(folder: Path) -> Path:
    models = [path for path in sorted(folder.iterdir()) if path.suffix in (".model", ".spm")]
    return models[0] if len(models) == 1 else folder / SPM


def _read_metadata(folder: Path) -> Options:
    """Returns the configuration that fairseq2 writes beside its checkpoints, if it is there."""
    path = folder / METADATA
    if not path.exists():
        return Options(path, {})
    record = Options(path, parse_yaml(read_text(path), path))
    if record["model_family"] != "nllb":
        raise ModelError(f"{path}: `model_family` must be nllb, but is {record['model_family']!r} instead.")
    return Options(path, record["model_config"])


def _configure(checkpoint: Checkpoint, width: int, pieces: int, config: Options, *, is_old: bool) -> VerifierConfig:
    if not config and width not in _WIDTHS:
        raise ModelError(
            f"{checkpoint.origin}: how many attention heads it has is not known, and its width, {width}, is none of "
            f"NLLB's; put fairseq2's {METADATA} beside it."
        )
    heads = config.get("num_encoder_attn_heads", _HEADS)
    config.require({"num_decoder_attn_heads": (heads,)})
    inner = "fc1" if is_old else "ffn.inner_proj"
    return Options(checkpoint.origin, {}).configure(
        model_dim=width,
        num_heads=heads,
        ffn_dim=checkpoint.read(f"encoder.layers.0.{inner}.weight").shape[0],
        encoder_layers=_count_layers(checkpoint, "encoder"),
        decoder_layers=_count_layers(checkpoint, "decoder"),
        max_length=config.get("max_seq_len", 1024),
        first_position=2,
        vocab_size=pieces,
        dropout=0.0,
    )


def _count_layers(checkpoint: Checkpoint, stack: str) -> int:
    matches = (re.match(rf"{stack}\.layers\.(\d+)\.", name) for name in checkpoint)
    return 1 + max((int(match[1]) for match in matches if match), default=-1)
