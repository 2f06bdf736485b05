"""Reads what Marian itself writes: an .npz archive with its configuration inside, vocabularies beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from specmt.engine.arrays import Array
from specmt.errors import ModelError
from specmt.models.config import VerifierConfig
from specmt.models.interop.checkpoint import Checkpoint, open_npz, parse_yaml
from specmt.models.interop.foreign import (
    OUTPUT_BIAS,
    OUTPUT_TABLE,
    SOURCE_TABLE,
    TARGET_TABLE,
    Foreign,
    Options,
    Vocabulary,
    number_pieces,
)
from specmt.models.reading import check_regular, read_json, read_text
from specmt.text.pieces import SOURCE_PIECES, TARGET_PIECES, load_processor

_CONFIG: Final = "special:model.yml"
_DECODER: Final = "decoder.yml"
_BIAS: Final = "decoder_ff_logit_out_b"
_OUTPUTS: Final = ("decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W")
_POSITIONS: Final = 512
"""The longest source or target; sinusoids reach as far as one likes."""

_NEEDED: Final[Mapping[str, tuple[object, ...]]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-tied-layers": ([],),
    "transformer-train-positions": (False,),
    "transformer-train-position-embeddings": (False,),
    "right-left": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
}
"""Options with the values that can be run; an option that is not there has one of them."""

_NORMS: Final = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}
"""What stands before, behind and on top of sublayers: dropout, addition, normalisation."""

_SUBLAYERS: Final = {"self_attn": "self", "encoder_decoder_attn": "context", "ffn": "ffn"}
_PROJECTIONS: Final = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "output_proj": "o"}
_FFN: Final = {"inner_proj": "1", "output_proj": "2"}
_KINDS: Final = {"weight": "W", "bias": "b"}
_NORM: Final = {"weight": "ln_scale", "bias": "ln_bias"}
_LAYER: Final = re.compile(rf"layers\.(\d+)\.({'|'.join(_SUBLAYERS)})(?:_layer_norm|\.(\w+))\.(weight|bias)")


def read_native(path: Path) -> Foreign:
    """Returns the Marian model in a folder or an .npz file.

    :raises ModelError: there is none, a file is missing, or it is something that cannot be run here.
    """
    folder = path if path.is_dir() else path.parent
    decoder = _options(read_text(folder / _DECODER), folder / _DECODER) if (folder / _DECODER).exists() else {}
    checkpoint = open_npz(_find_weights(path, decoder))
    if _CONFIG not in checkpoint:
        raise ModelError(f"{checkpoint.origin}: is no Marian model; it has no {_CONFIG}.")
    text = bytes(checkpoint.read(_CONFIG).ravel().tolist()).rstrip(b"\0").decode("utf-8", errors="replace")
    options = _options(text, f"{checkpoint.origin}: {_CONFIG}")
    shared = "Wemb" in checkpoint
    lists = _find_vocabularies(folder, decoder)
    source, target = (_vocabulary(each) for each in lists)
    if shared and source.pieces != target.pieces:
        raise ModelError(f"{folder}: there are two vocabularies, but only one table of embeddings.")
    config = _config(checkpoint, options, len(target.rows()), None if shared else len(source.rows()))
    return Foreign(
        origin=checkpoint.origin,
        kind="Marian",
        config=config,
        target=target,
        source=None if shared else source,
        source_spm=_find_spm(folder, SOURCE_PIECES, lists[0]),
        target_spm=_find_spm(folder, TARGET_PIECES, lists[1]),
        read=partial(_read_weight, checkpoint, config),
        # Marian emits <unk> only with this option.
        never=() if decoder.get("allow-unk", False) else (target.unk,),
    )


def _config(checkpoint: Checkpoint, options: Options, vocab_size: int, source_vocab_size: int | None) -> VerifierConfig:
    options.require({**_NEEDED, "transformer-decoder-dim-ffn": (0, options["transformer-dim-ffn"])})
    norms = tuple(
        str(options.get(f"transformer-{name}", "")) for name in ("preprocess", "postprocess", "postprocess-top")
    )
    if norms not in _NORMS:
        raise ModelError(
            f"{options.where}: `transformer-preprocess`, `-postprocess` and `-postprocess-top` must be "
            f"{' or '.join(map(repr, _NORMS))}, but are {norms!r} instead."
        )
    return options.configure(
        model_dim=options["dim-emb"],
        num_heads=options["transformer-heads"],
        ffn_dim=options["transformer-dim-ffn"],
        encoder_layers=options["enc-depth"],
        decoder_layers=options["dec-depth"],
        vocab_size=vocab_size,
        source_vocab_size=source_vocab_size,
        max_length=_POSITIONS,
        norm=_NORMS[norms],
        activation=options.activation("transformer-ffn-activation", "swish"),
        positions="marian",
        tied_output=checkpoint.find(*_OUTPUTS) is None,
    )


def _read_weight(checkpoint: Checkpoint, config: VerifierConfig, name: str) -> Array | None:
    if name == OUTPUT_BIAS:
        return checkpoint.read(_BIAS) if _BIAS in checkpoint else None
    if name in (SOURCE_TABLE, TARGET_TABLE):
        return checkpoint.read("Wemb", "encoder_Wemb" if name == SOURCE_TABLE else "decoder_Wemb")
    if name == OUTPUT_TABLE:
        # Older versions keep it transposed.
        return checkpoint.read(*_OUTPUTS) if _OUTPUTS[0] in checkpoint else _transposed(checkpoint.read(_OUTPUTS[1]))
    array = checkpoint.read(their_name(name, config))
    return _transposed(array) if name.endswith("_proj.weight") else array.ravel()


def _transposed(array: Array) -> Array:
    return np.ascontiguousarray(array.T)


def their_name(name: str, config: VerifierConfig) -> str:
    """Returns what Marian calls a weight of a layer, or of the norm behind a stack."""
    stack, _, rest = name.partition(".")
    found = _LAYER.fullmatch(rest)
    if found is None:
        return f"{stack}_top_{_NORM[name.rpartition('.')[2]]}"
    number, part, projection, kind = found.groups()
    sublayer = f"{stack}_l{int(number) + 1}_{_SUBLAYERS[part]}"
    if projection is None:
        return f"{sublayer}_{'ffn' if part == 'ffn' else 'Wo'}_{_NORM[kind]}{'_pre' if config.norm == 'pre' else ''}"
    return f"{sublayer}_{_KINDS[kind]}{(_FFN if part == 'ffn' else _PROJECTIONS)[projection]}"


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


def _find_spm(folder: Path, name: str, vocabulary: Path) -> Path:
    path = vocabulary if vocabulary.suffix == ".spm" else folder / name
    if not path.exists():
        raise ModelError(f"{path}: is missing; the model needs it to cut text.")
    return path


def _vocabulary(path: Path) -> Vocabulary:
    if path.suffix == ".spm":
        processor = load_processor(check_regular(path))
        ids = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    else:
        ids = read_json(path) if path.suffix == ".json" else _parse_vocabulary(read_text(path), path)
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


def _options(text: str, where: object) -> Options:
    record = parse_yaml(text, where)
    if not isinstance(record, dict):
        raise ModelError(f"{where}: must hold options by name, but holds a {type(record).__name__} instead.")
    return Options(where, record)
