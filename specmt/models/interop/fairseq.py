"""Reads NLLB-200 as fairseq2 and fairseq keep it: by the name of fairseq2's asset card, or from a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.interop.checkpoint import WEIGHTS, Checkpoint, open_file
from specmt.models.interop.multilingual import CONTROL, TOKENIZER, Found, Vocabulary, filled, pieces_of

METADATA: Final = "model.yaml"
SUFFIXES: Final = (".pt", ".safetensors")
_STEP: Final = "step_*/model/pp_00/tp_00/sdp_00.pt"
_OUR_CONTROL: Final = ("<pad>", "<unk>", "<s>", "</s>")
_DATA: Final = ("<MINED_DATA>", "<MMT_BT_DATA>", "<SMT_BT_DATA>")
_WIDTHS: Final = (1024, 2048)
_HEADS: Final = 16
"""Of all NLLB models, which have one of these widths."""


def fetch_card(name: str) -> tuple[Path, Path] | None:
    """Fetches the checkpoint and the tokenizer of one of fairseq2's NLLB models; ``None`` if there is no such card.

    :raises ModelError: the card is of another family, or its files cannot be fetched.
    """
    from fairseq2.assets import AssetDownloadError, get_asset_download_manager, get_asset_store

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
            f"checkpoint and {TOKENIZER}."
        ) from error


def is_checkpoint(path: Path) -> bool:
    """Returns whether a path may be a checkpoint of fairseq2 or fairseq, or a folder with one."""
    return path.suffix in SUFFIXES if path.is_file() else _find_weights(path) is not None


def read_fairseq(path: Path, origin: str, tokenizer: Path | None = None) -> Found:
    """Reads all but the weights of a checkpoint.

    :param path: the file, or a folder with it, its SentencePiece model and perhaps fairseq2's ``model.yaml``
    :param tokenizer: the SentencePiece model, where it is not beside the checkpoint
    :raises ModelError: it is of another architecture, or a file is missing or does not fit.
    """
    folder = path if path.is_dir() else path.parent
    weights = path if path.is_file() else _find_weights(path)
    if weights is None:
        raise ModelError(f"{path}: has no checkpoint; there must be one file that ends in {' or '.join(SUFFIXES)}.")
    checkpoint = open_file(weights)
    is_old = "decoder.embed_tokens.weight" in checkpoint
    table = ("decoder.embed_tokens.weight",) if is_old else ("encoder_frontend.embed.weight", "final_proj.weight")
    rows, width = checkpoint.read(*table).shape
    return Found(
        origin=origin,
        kind=f"fairseq{'' if is_old else '2'} NLLB",
        vocabulary=_vocabulary(tokenizer or _find_tokenizer(folder), rows, is_old=is_old),
        checkpoint=checkpoint,
        prefix="" if is_old else None,
        table=table,
        output=None,
        architecture=_architecture(checkpoint, width, _read_metadata(folder), is_old=is_old),
    )


def language_codes() -> list[str]:
    """Returns the codes of NLLB-200's languages in the order of their tokens, as fairseq2's card has them."""
    from ruamel.yaml import YAML

    package = find_spec("fairseq2")
    assert package is not None and package.submodule_search_locations is not None
    card = Path(package.submodule_search_locations[0]) / "assets" / "cards" / "models" / "nllb.yaml"
    with card.open(encoding="utf-8") as stream:
        first: Mapping[str, Any] = next(iter(YAML(typ="safe", pure=True).load_all(stream)))
    return list(first["tokenizer_config_overrides"]["langs"])


def _find_weights(folder: Path) -> Path | None:
    steps = {int(re.sub(r"\D", "", path.relative_to(folder).parts[0])): path for path in folder.glob(_STEP)}
    if steps:
        return steps[max(steps)]
    files = [path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES and path.name not in WEIGHTS]
    return files[0] if len(files) == 1 else None


def _find_tokenizer(folder: Path) -> Path:
    models = [path for path in sorted(folder.iterdir()) if path.suffix in (".model", ".spm")]
    return models[0] if len(models) == 1 else folder / TOKENIZER


def _read_metadata(folder: Path) -> Mapping[str, Any]:
    """Returns the configuration that fairseq2 writes beside its checkpoints, if it is there."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = folder / METADATA
    if not path.is_file():
        return {}
    try:
        record = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        family, config = record["model_family"], record["model_config"]
    except (YAMLError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: is not what fairseq2 writes of a model ({' '.join(str(error).split())}).") from error
    if family != "nllb":
        raise ModelError(f"{path}: `model_family` must be nllb, but is {family!r} instead.")
    return dict(config)


def _architecture(checkpoint: Checkpoint, width: int, config: Mapping[str, Any], *, is_old: bool) -> dict[str, Any]:
    if not config and width not in _WIDTHS:
        raise ModelError(
            f"{checkpoint.origin}: how many attention heads it has is nowhere said, and its width, {width}, is none of "
            f"NLLB's; put fairseq2's {METADATA} beside it."
        )
    heads = config.get("num_encoder_attn_heads", _HEADS)
    if config.get("num_decoder_attn_heads", heads) != heads:
        raise ModelError(f"{METADATA}: encoder and decoder must have equally many attention heads, but have not.")
    inner = "fc1" if is_old else "ffn.inner_proj"
    return {
        "model_dim": width,
        "num_heads": heads,
        "ffn_dim": checkpoint.read(f"encoder.layers.0.{inner}.weight").shape[0],
        "encoder_layers": _count_layers(checkpoint, "encoder"),
        "decoder_layers": _count_layers(checkpoint, "decoder"),
        "max_length": config.get("max_seq_len", 1024),
        "first_position": 2,
    }


def _count_layers(checkpoint: Checkpoint, stack: str) -> int:
    matches = (re.match(rf"{stack}\.layers\.(\d+)\.", name) for name in checkpoint)
    return 1 + max((int(match[1]) for match in matches if match), default=-1)


def _vocabulary(processor: Path, rows: int, *, is_old: bool) -> Vocabulary:
    own = [*(CONTROL if is_old else _OUR_CONTROL), *pieces_of(processor)]
    languages = [f"__{code}__" for code in language_codes()]
    tokens = filled([*own, *languages, *_DATA], rows, processor)
    pad, unk, eos = (tokens.index(token) for token in ("<pad>", "<unk>", "</s>"))
    added = range(len(own), rows)
    return Vocabulary(tokens=tokens, pad=pad, unk=unk, eos=eos, start=eos, processor=processor, added=added)
