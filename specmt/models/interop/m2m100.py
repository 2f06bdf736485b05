"""Reads Hugging Face's M2M100, which NLLB-200 is too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.interop.checkpoint import open_checkpoint
from specmt.models.interop.multilingual import CONTROL, TOKENIZER, Found, Vocabulary, filled, pieces_of
from specmt.models.interop.output import licence_of
from specmt.models.interop.source import read_json

CONFIG: Final = "config.json"
VOCABULARY: Final = "vocab.json"
_TOKENIZER_CONFIG: Final = "tokenizer_config.json"
_SPECIAL: Final = "special_tokens_map.json"
_ADDED: Final = "added_tokens.json"
FILES: Final = (CONFIG, TOKENIZER, VOCABULARY, _TOKENIZER_CONFIG, _SPECIAL, _ADDED, "README.md")
"""The files that are of use, beside the weights."""

_ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "silu": "swish", "swish": "swish"}


def read_m2m100(folder: Path, origin: str) -> Found:
    """Reads all but the weights of a folder.

    :raises ModelError: it is of another architecture, or a file is missing or does not fit.
    """
    config = _Config(folder / CONFIG)
    _check_kind(config)
    for part in ("ffn_dim", "attention_heads"):
        if config[f"encoder_{part}"] != config[f"decoder_{part}"]:
            raise ModelError(f"{config.path}: `encoder_{part}` and `decoder_{part}` must be equal, but are not.")
    activation = config.get("activation_function", "relu")
    if activation not in _ACTIVATIONS:
        raise ModelError(
            f"{config.path}: `activation_function` must be one of {', '.join(_ACTIVATIONS)}, but is {activation!r} "
            "instead."
        )
    architecture = {
        "model_dim": config["d_model"],
        "num_heads": config["encoder_attention_heads"],
        "ffn_dim": config["encoder_ffn_dim"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "max_length": config.get("max_position_embeddings", 1024),
        "activation": _ACTIVATIONS[activation],
        "first_position": config.get("pad_token_id", 1) + 1,
        "scaled_embedding": config.get("scale_embedding", True),
    }
    is_m2m = (folder / VOCABULARY).is_file()
    return Found(
        origin=origin,
        kind=f"Hugging Face {'M2M100' if is_m2m else 'NLLB'}",
        vocabulary=_read_vocabulary(folder, config, is_m2m=is_m2m),
        checkpoint=open_checkpoint(folder),
        prefix="model.",
        table=("model.shared.weight", "model.encoder.embed_tokens.weight", "lm_head.weight"),
        output=None if config.get("tie_word_embeddings", True) else "lm_head.weight",
        architecture=architecture,
        licence=licence_of(folder),
    )


class _Config:
    """A configuration that says what it lacks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values = read_json(path)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise ModelError(f"{self.path}: has no `{name}`; is it the configuration of an M2M100 or NLLB model?")
        return self._values[name]

    def get(self, name: str, default: Any) -> Any:
        value = self._values.get(name)
        return default if value is None else value


def _check_kind(config: _Config) -> None:
    kind = config["model_type"]
    if kind == "nllb-moe":
        raise ModelError(f"{config.path}: is of a mixture of experts, which cannot be imported; dense NLLB can.")
    if kind != "m2m_100":
        hint = "; use `specmt import marian`" if kind == "marian" else ""
        raise ModelError(f"{config.path}: `model_type` must be m2m_100 (NLLB, M2M100), but is {kind!r} instead{hint}.")


def _read_vocabulary(folder: Path, config: _Config, *, is_m2m: bool) -> Vocabulary:
    rows = config["vocab_size"]
    if is_m2m:
        if not (folder / TOKENIZER).is_file():
            pieces_of(folder / TOKENIZER)
        tokens = _tokens_by_id(folder / VOCABULARY)
    else:
        tokens = [*CONTROL, *pieces_of(folder / TOKENIZER)]
    own = len(tokens)
    tokens = filled([*tokens, *_added_tokens(folder, own)], rows, folder)
    ids = {token: i for i, token in reversed(list(enumerate(tokens)))}
    for token in ("<pad>", "<unk>"):
        if token not in ids:
            raise ModelError(f"{folder}: its vocabulary has no {token}.")
    eos = config["eos_token_id"]
    start = config.get("decoder_start_token_id", eos)
    for name, i in (("eos_token_id", eos), ("decoder_start_token_id", start)):
        if not 0 <= i < rows:
            raise ModelError(f"{config.path}: `{name}` must be under {rows}, but is {i} instead.")
    return Vocabulary(
        tokens=tokens,
        pad=ids["<pad>"],
        unk=ids["<unk>"],
        eos=eos,
        start=start,
        processor=folder / TOKENIZER,
        added=range(own, rows),
    )


def _tokens_by_id(path: Path) -> list[str]:
    ids = read_json(path)
    tokens = sorted(ids, key=lambda token: (str(type(ids[token])), ids[token]))
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ModelError(f"{path}: must number its tokens from 0 to {len(tokens) - 1}, but does not.")
    return tokens


def _added_tokens(folder: Path, first: int) -> list[str]:
    """Returns the tokens that the tokenizer has beside its pieces, languages above all, in the order of ids."""
    numbered: dict[int, str] = {}
    if (folder / _TOKENIZER_CONFIG).is_file():
        added = read_json(folder / _TOKENIZER_CONFIG).get("added_tokens_decoder", {})
        numbered = {int(i): _text(token) for i, token in added.items()}
    if (folder / _ADDED).is_file():
        numbered |= {i: token for token, i in read_json(folder / _ADDED).items()}
    numbered = {i: token for i, token in numbered.items() if i >= first}
    if numbered:
        return [numbered.get(i, f"<unused {i}>") for i in range(first, max(numbered) + 1)]
    if (folder / _SPECIAL).is_file():
        special = read_json(folder / _SPECIAL)
        tokens = [_text(token) for token in special.get("additional_special_tokens", [])]
        return [*tokens, _text(special["mask_token"])] if "mask_token" in special else tokens
    return []


def _text(token: str | Mapping[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])
