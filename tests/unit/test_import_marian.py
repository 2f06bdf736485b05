"""`specmt import marian`: the pieces, weights and words of the model that was imported, or an error in one line."""

from __future__ import annotations

import json
import pickle
import random
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specmt.cli.main import run
from specmt.decoding.session import decode
from specmt.engine.architecture import sinusoids
from specmt.errors import ModelError, UsageError
from specmt.models.folder import VERIFIER, ModelFolder
from specmt.models.hub import Model, load_model
from specmt.models.interop.checkpoint import TORCH, open_checkpoint, open_npz
from specmt.models.interop.foreign import NEVER, Vocabulary, importing, licence_of
from specmt.models.interop.languages import choose_token, language_of, languages_of
from specmt.models.interop.marian import import_marian
from specmt.options import DecodingOptions
from specmt.text.pieces import PieceModel, Pieces, imported_pieces, load_pieces
from specmt.translator import Translator
from specmt.types import BOS, EOS, PAD, UNK
from tests.networks import array_of, logits_of

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
LANGUAGES = (">>deu<<", ">>fra<<", ">>eng<<")
EOS_BIAS = 8.0
"""Makes translations of random models end after several tokens."""

CONFIG: dict[str, Any] = {
    "model_type": "marian",
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "max_position_embeddings": 128,
    "activation_function": "swish",
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}


@pytest.fixture(scope="session")
def spm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """SentencePiece models of both languages, without byte fallback, as OPUS-MT has them."""
    folder = tmp_path_factory.mktemp("spm")
    for language in ("de", "en"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(SAMPLE.with_suffix(f".{language}")),
            model_prefix=str(folder / language),
            vocab_size=200,
            hard_vocab_limit=False,
            minloglevel=2,
            num_threads=1,
        )
    return {language: folder / f"{language}.model" for language in ("de", "en")}


def pieces_of(*paths: Path) -> list[str]:
    """Returns the pieces of SentencePiece models as OPUS-MT orders them: the end first, padding last."""
    pieces = ["</s>", "<unk>"]
    for path in paths:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        named = (processor.id_to_piece(i) for i in range(processor.get_piece_size()))
        pieces += [piece for piece in named if piece not in (*pieces, "<s>")]
    return pieces


@dataclass(frozen=True)
class Folder:
    """A folder in the layout of Hugging Face, and what is in it."""

    path: Path
    config: dict[str, Any]
    state: dict[str, Tensor]
    pieces: list[str]
    target_pieces: list[str]

    @property
    def pad(self) -> int:
        return len(self.target_pieces) - 1


def write_hugging_face(path: Path, spm: Mapping[str, Path], *, tokens: Iterable[str] = (), **changes: Any) -> Folder:
    """Writes a random model by hand; without shared embeddings, each language has a vocabulary of its own."""
    config = {**CONFIG, **changes}
    shared = config["share_encoder_decoder_embeddings"]
    joint = [*pieces_of(spm["de"], spm["en"]), *tokens, "<pad>"]
    pieces, target_pieces = (joint, joint) if shared else ([*pieces_of(spm[side]), "<pad>"] for side in ("de", "en"))
    pad = len(target_pieces) - 1
    config |= {"vocab_size": len(pieces), "decoder_vocab_size": len(target_pieces)}
    config |= {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "bad_words_ids": [[pad]]}
    config |= {key: value for key, value in changes.items() if key.endswith(("_id", "_ids"))}
    state = random_state(config)
    path.mkdir(parents=True)
    write_json(path / "config.json", config)
    write_json(
        path / "tokenizer_config.json", {"source_lang": "de", "target_lang": "en", "separate_vocabs": not shared}
    )
    write_json(path / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    if not shared:
        write_json(path / "target_vocab.json", {piece: i for i, piece in enumerate(target_pieces)})
    (path / "source.spm").write_bytes(spm["de"].read_bytes())
    (path / "target.spm").write_bytes(spm["en"].read_bytes())
    save_file(state, path / "model.safetensors")
    return Folder(path, config, state, pieces, target_pieces)


def random_state(config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns random weights named as in Hugging Face's Marian, of a model that does not say one word all the time.

    That takes tokens that outweigh their positions, and feed-forward networks that outweigh what stays the same from
    step to step: residual sums, the attention to the source, the mean of an activation.
    """
    width, inner = config["d_model"], config["encoder_ffn_dim"]
    generator = torch.Generator().manual_seed(1)
    state: dict[str, Tensor] = {}

    def add(name: str, *shape: int, mean: float = 0.0) -> None:
        state[name] = mean + torch.randn(*shape, generator=generator) / width**0.5

    def add_linear(name: str, outputs: int, inputs: int) -> None:
        add(f"{name}.weight", outputs, inputs)
        if name.endswith("fc2"):
            state[f"{name}.weight"] -= state[f"{name}.weight"].mean(1, keepdim=True)
            state[f"{name}.weight"] *= 4.0
        add(f"{name}.bias", outputs)

    def add_norm(name: str) -> None:
        add(f"{name}.weight", width, mean=1.0)
        add(f"{name}.bias", width)

    for stack in ("encoder", "decoder"):
        for number in range(config[f"{stack}_layers"]):
            layer = f"model.{stack}.layers.{number}"
            for attention in ["self_attn", *["encoder_attn"] * (stack == "decoder")]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    add_linear(f"{layer}.{attention}.{part}", width, width)
                add_norm(f"{layer}.{attention}_layer_norm")
            add_linear(f"{layer}.fc1", inner, width)
            add_linear(f"{layer}.fc2", width, inner)
            add_norm(f"{layer}.final_layer_norm")
    if config["share_encoder_decoder_embeddings"]:
        add("model.shared.weight", config["vocab_size"], width)
    else:
        add("model.encoder.embed_tokens.weight", config["vocab_size"], width)
        add("model.decoder.embed_tokens.weight", config["decoder_vocab_size"], width)
    if not config["tie_word_embeddings"]:
        add("lm_head.weight", config["decoder_vocab_size"], width)
    add("final_logits_bias", 1, config["decoder_vocab_size"])
    for name, tensor in state.items():
        if tensor.ndim == 2 and len(tensor) in (config["vocab_size"], config["decoder_vocab_size"]):
            is_scaled = config["scale_embedding"] or name == "lm_head.weight"
            tensor *= 3.0 if is_scaled else 3.0 * width**0.5
    state["final_logits_bias"][0, 0] += EOS_BIAS
    return state


def write_json(path: Path, record: object) -> None:
    path.write_text(json.dumps(record), encoding="utf-8")


def edit_json(path: Path, **changes: Any) -> None:
    write_json(path, {**json.loads(path.read_text(encoding="utf-8")), **changes})


@pytest.fixture
def opus(tmp_path: Path, spm: dict[str, Path]) -> Folder:
    return write_hugging_face(tmp_path / "opus-mt-de-en", spm)


# Pieces


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    return tmp_path / "vocabulary.json"


@pytest.fixture
def joint(spm: dict[str, Path], vocabulary: Path) -> PieceModel:
    pieces = ["<pad>", "<unk>", "<s>", "</s>", *LANGUAGES, *pieces_of(spm["de"], spm["en"])[2:]]
    write_json(vocabulary, {"source": None, "target": pieces})
    return imported_pieces(spm["de"], spm["en"], vocabulary)


def test_text_comes_back_by_way_of_imported_pieces(joint: PieceModel) -> None:
    for line in SAMPLE.with_suffix(".en").read_text(encoding="utf-8").splitlines()[:40]:
        ids = joint.encode_targets([line])[0]
        assert UNK not in ids
        assert joint.decode([*ids, EOS]) == line


def test_what_imported_pieces_never_stand_for(joint: PieceModel) -> None:
    assert joint.encode("Haus 漢字").count(UNK) == 1
    assert joint.decode([PAD, UNK, BOS, EOS]) == "" and joint.pieces([UNK]) == ["<unk>"]
    ids = joint.encode("</s> <pad> <s> >>deu<<")
    assert not {PAD, BOS, EOS, joint.pieces(range(len(joint))).index(">>deu<<")} & set(ids)
    lines = SAMPLE.with_suffix(".de").read_text(encoding="utf-8").splitlines()[:20]
    assert joint.encode_batch(lines) == [joint.encode(line) for line in lines]


def test_separate_pieces_have_numbers_of_their_own(spm: dict[str, Path], vocabulary: Path) -> None:
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    write_json(vocabulary, {side: [*special, *pieces_of(spm[name])[2:]] for side, name in SIDES})
    pieces = imported_pieces(spm["de"], spm["en"], vocabulary)
    ids = pieces.encode("Das Haus ist 3 km weg.")
    copied = pieces.to_target([*ids, EOS])
    assert not pieces.shared and (pieces.source_size, len(pieces)) == tuple(
        len(pieces_of(spm[n])) + 2 for _, n in SIDES
    )
    assert pieces.decode_source(ids) == "Das Haus ist 3 km weg."
    assert copied[-1] == EOS and "3" in pieces.decode(copied)
    for source, target in zip(pieces.source_pieces(ids), copied, strict=False):
        assert target == UNK or pieces.pieces([target]) == [source]


SIDES = (("source", "de"), ("target", "en"))


def test_our_own_pieces_answer_the_same_questions(pieces_path: Path) -> None:
    pieces = load_pieces(["pieces.model"], lambda _: pieces_path)
    assert isinstance(pieces, Pieces)
    ids = pieces.encode("Das Haus")
    assert pieces.shared and pieces.source_size == len(pieces)
    assert pieces.to_target(ids) == ids == pieces.encode_targets(["Das Haus"])[0]
    assert pieces.decode_source(ids) == "Das Haus" and pieces.source_pieces(ids) == pieces.pieces(ids)


@pytest.mark.parametrize("record", ["[]", '{"target": ["a"]}', '{"source": null, "target": [1, 2, 3, 4, 5]}', "{"])
def test_damaged_lists_of_pieces_are_named(spm: dict[str, Path], vocabulary: Path, record: str) -> None:
    vocabulary.write_text(record, encoding="utf-8")
    with pytest.raises(ModelError, match=r"vocabulary\.json: cannot be read as lists of pieces"):
        imported_pieces(spm["de"], spm["en"], vocabulary)


# Vocabularies in our order


@pytest.mark.parametrize(
    ("vocabulary", "rows"),
    [
        (Vocabulary(pieces=["</s>", "<unk>", "a", "<pad>"], eos=0, unk=1, pad=3, start=3), [3, 1, 3, 0, 2]),
        (Vocabulary(pieces=["</s>", "<unk>", "a", "b"], eos=0, unk=1), [-1, 1, -1, 0, 2, 3]),
        (Vocabulary(pieces=["<pad>", "</s>", "<unk>", "a"], eos=1, unk=2, pad=0, start=1), [0, 2, 1, 1, 3]),
        (Vocabulary(pieces=["<s>", "<pad>", "</s>", "<unk>"], eos=2, unk=3, pad=1, start=0), [1, 3, 0, 2]),
    ],
    ids=["OPUS-MT", "Marian", "the end starts", "a start of its own"],
)
def test_special_tokens_come_first(vocabulary: Vocabulary, rows: list[int]) -> None:
    assert vocabulary.rows() == rows
    assert vocabulary.ordered()[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    for foreign, piece in enumerate(vocabulary.pieces):
        assert vocabulary.ordered()[vocabulary.ids()[foreign]] == piece


# Languages


@pytest.mark.parametrize(
    ("name", "record", "languages"),
    [
        ("Helsinki-NLP/opus-mt-de-en", {}, ("de", "en")),
        ("downloads/opus-mt-tc-big-en-zle", {}, ("en", "zle")),
        ("opus-mt-en-ROMANCE", {}, (None, None)),
        ("model", {"source_lang": "deu", "target_lang": "eng"}, ("deu", "eng")),
        ("opus-mt-de-en", {"source_lang": None, "target_lang": "eng"}, ("de", "eng")),
        ("model", {}, (None, None)),
    ],
)
def test_languages_by_name_or_tokenizer(name: str, record: dict[str, Any], languages: tuple[str, str]) -> None:
    assert languages_of(name, record) == languages


@pytest.mark.parametrize(
    ("tokens", "asked", "chosen"),
    [
        (LANGUAGES, {"language": "deu"}, ">>deu<<"),
        (LANGUAGES, {"language": "de"}, ">>deu<<"),
        (LANGUAGES, {"language": "DE_at"}, ">>deu<<"),
        ([">>de<<", ">>fr_FR<<"], {"language": "fr-fr"}, ">>fr_FR<<"),
        ([">>de<<", ">>fr_FR<<"], {"language": "deu"}, ">>de<<"),
        ([">>de<<", ">>fr_FR<<"], {"language": "fr"}, ">>fr_FR<<"),
        (LANGUAGES, {"token": "fra", "language": "de"}, ">>fra<<"),
        (LANGUAGES, {"token": ">>fra<<", "language": None}, ">>fra<<"),
        (LANGUAGES, {"token": "", "language": "de"}, None),
        ([], {"language": "de"}, None),
    ],
)
def test_target_tokens(tokens: list[str], asked: dict[str, Any], chosen: str | None) -> None:
    assert choose_token(tokens, **{"token": None, **asked}) == chosen


@pytest.mark.parametrize(
    ("tokens", "asked", "message"),
    [
        (LANGUAGES, {"language": None}, "several targets; name one .*: >>deu<<, >>fra<<, >>eng<<"),
        (LANGUAGES, {"language": "it"}, "no target 'it'; .*: >>deu<<, >>fra<<, >>eng<<"),
        ([">>srp_Latn<<", ">>srp_Cyrl<<"], {"language": "sr"}, "'sr' may be >>srp_Latn<<, >>srp_Cyrl<<"),
        (LANGUAGES, {"token": "ita", "language": None}, "must be >>deu<<, .*, but is 'ita'"),
        ([], {"token": "deu", "language": None}, "must be absent, since the model has no target tokens"),
    ],
)
def test_unclear_targets(tokens: list[str], asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_token(tokens, **{"token": None, **asked})


def test_tokens_name_languages_by_short_codes() -> None:
    assert [language_of(token) for token in (">>deu<<", ">>de<<", ">>srp_Latn<<")] == ["de", "de", "srp_Latn"]


# Checkpoints


class Runs:
    """Creates a file where it is unpickled by the rules of pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("as_archive", [True, False])
def test_pickles_of_tensors_are_read_and_code_is_not_run(tmp_path: Path, as_archive: bool) -> None:
    state = {"a": torch.randn(3, 2).half(), "b": torch.arange(4), "c": torch.randn(2).bfloat16(), "d": torch.randn(2)}
    torch.save(state, tmp_path / TORCH, _use_new_zipfile_serialization=as_archive)
    checkpoint = open_checkpoint(tmp_path)
    assert list(checkpoint) == list(state)
    for name, tensor in state.items():
        array, wanted = checkpoint.read(name), array_of(tensor)
        assert np.array_equal(array, wanted) and array.dtype == wanted.dtype
    code = {"weight": torch.zeros(2), "code": Runs(tmp_path / "ran")}
    torch.save(code, tmp_path / TORCH, _use_new_zipfile_serialization=as_archive)
    with pytest.raises(ModelError, match=r"more than tensors in it \(it asks for .*\), which could run code"):
        open_checkpoint(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_pickles_need_pytorch_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / TORCH).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "specmt.models.interop.pickled", raising=False)
    with pytest.raises(
        ModelError, match=r"\.bin: is a pickle, and reading it needs PyTorch, .* install 'specmt\[torch\]'"
    ):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", TORCH])
def test_weights_in_parts_are_read(tmp_path: Path, name: str) -> None:
    state = {"a": torch.randn(3), "b": torch.randn(2)}
    stem, _, suffix = name.partition(".")
    parts = {key: f"{stem}-{i:05}-of-00002.{suffix}" for i, key in enumerate(state, start=1)}
    for key, part in parts.items():
        save = save_file if suffix == "safetensors" else torch.save
        save({key: state[key]}, tmp_path / part)
    write_json(tmp_path / f"{name}.index.json", {"weight_map": parts})
    checkpoint = open_checkpoint(tmp_path)
    assert all(np.array_equal(checkpoint.read(key), array_of(tensor)) for key, tensor in state.items())


@pytest.mark.parametrize("map_", [{"a": "../model.safetensors"}, {"a": 1}, []])
def test_an_index_names_files_beside_it_only(tmp_path: Path, map_: Any) -> None:
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": map_})
    with pytest.raises(ModelError, match="is not an index of weights"):
        open_checkpoint(tmp_path)


def test_archives_with_objects_are_refused_and_not_run(tmp_path: Path) -> None:
    objects = np.array([Runs(tmp_path / "ran")], dtype=object)
    np.savez(tmp_path / "model.npz", weight=np.zeros(2), objects=objects)
    checkpoint = open_npz(tmp_path / "model.npz")
    weight = checkpoint.read("weight")
    assert np.array_equal(weight, np.zeros(2)) and weight.dtype == np.float64
    with pytest.raises(ModelError, match=r"objects cannot be read \(Object arrays cannot be loaded"):
        checkpoint.read("objects")
    (tmp_path / "model.npz").write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    with pytest.raises(ModelError, match="cannot be read as a NumPy archive"):
        open_npz(tmp_path / "model.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["model.safetensors", TORCH])
@pytest.mark.parametrize("content", [b"", b"no weights at all", b"PK\3\4"])
def test_damaged_weights_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=re.escape(name)):
        open_checkpoint(tmp_path)


# Folders


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "model"
    with pytest.raises(ModelError), importing("x", folder) as new:
        (new / "part").touch()
        raise ModelError("no.")
    assert list((tmp_path / "some").iterdir()) == []
    with importing("x", folder) as new:
        (new / "part").touch()
        assert not folder.exists()
    assert [path.name for path in folder.iterdir()] == ["part"]
    with pytest.raises(UsageError, match="must be a new or an empty folder"), importing("x", folder):
        pass


def test_a_licence_is_what_the_head_of_a_readme_says(tmp_path: Path) -> None:
    assert licence_of(tmp_path) is None
    for text, licence in (("---\nlanguage: de\nlicense: a\n---\n\nlicense: b\n", "a"), ("license: b\n", None)):
        (tmp_path / "README.md").write_text(text, encoding="utf-8")
        assert licence_of(tmp_path) == licence


# Hugging Face's layout


def test_every_bit_arrives_under_our_names_and_ids(opus: Folder, tmp_path: Path) -> None:
    model = import_marian(str(opus.path), tmp_path / "ours")
    weights = load_file(model.path / VERIFIER)
    pieces = load_pieces(model.files, model.verified)
    assert (model.source, model.target) == ("de", "en")
    assert model.verifier.norm == "post" and model.verifier.activation == "swish" and model.verifier.output_bias
    table, bias = weights["encoder_frontend.embed.weight"], weights["final_proj.bias"]
    theirs = opus.state["model.shared.weight"]
    assert torch.equal(table[BOS], theirs[opus.pad])
    assert bias[PAD] == bias[BOS] == NEVER
    for i, piece in enumerate(pieces.pieces(range(len(pieces)))):
        if i != BOS:
            row = opus.pieces.index(piece)
            assert torch.equal(table[i], theirs[row]), piece
            assert i == PAD or bias[i] == opus.state["final_logits_bias"][0, row]
    layers = "encoder.layers.0.", "decoder.layers.1."
    for layer, ours, name in (
        (layers[0], "self_attn.q_proj.weight", "self_attn.q_proj.weight"),
        (layers[0], "self_attn.output_proj.bias", "self_attn.out_proj.bias"),
        (layers[0], "ffn_layer_norm.weight", "final_layer_norm.weight"),
        (layers[1], "encoder_decoder_attn.v_proj.weight", "encoder_attn.v_proj.weight"),
        (layers[1], "encoder_decoder_attn.output_proj.weight", "encoder_attn.out_proj.weight"),
        (layers[1], "encoder_decoder_attn_layer_norm.bias", "encoder_attn_layer_norm.bias"),
        (layers[1], "self_attn_layer_norm.bias", "self_attn_layer_norm.bias"),
        (layers[1], "ffn.inner_proj.weight", "fc1.weight"),
        (layers[1], "ffn.output_proj.bias", "fc2.bias"),
    ):
        assert torch.equal(weights[layer + ours], opus.state[f"model.{layer}{name}"]), ours


def test_a_folder_says_where_it_is_from_and_leaves_placeholders_alone(opus: Folder, tmp_path: Path) -> None:
    (opus.path / "README.md").write_text("---\nlicense: apache-2.0\n---\n", encoding="utf-8")
    model = import_marian(str(opus.path), tmp_path / "ours")
    card = (model.path / "README.md").read_text(encoding="utf-8")
    assert str(opus.path) in card and "apache-2.0" in card and "de→en" in card
    assert all(digest in card for digest in model.files.values())
    assert not model.protect


def test_other_files_give_the_same_model(opus: Folder, tmp_path: Path) -> None:
    first = import_marian(str(opus.path), tmp_path / "first")
    weights = opus.path / "model.safetensors"
    weights.unlink()
    torch.save(opus.state, opus.path / TORCH, _use_new_zipfile_serialization=False)
    assert import_marian(str(opus.path), tmp_path / "second").sha256 == first.sha256
    save_file({name: tensor.half() for name, tensor in opus.state.items()}, weights)
    (opus.path / "target.spm").write_bytes((opus.path / "source.spm").read_bytes())
    half = import_marian(str(opus.path), tmp_path / "half")
    assert {tensor.dtype for tensor in load_file(half.path / VERIFIER).values()} == {torch.float16}
    assert sorted(half.files) == ["source.spm", VERIFIER, "vocabulary.json"]  # equal SentencePiece models are one file
    assert load_pieces(half.files, half.verified).encode("Haus")


def test_banned_words_are_never_said(opus: Folder, tmp_path: Path) -> None:
    write_json(opus.path / "generation_config.json", {"bad_words_ids": [[opus.pad], [7]], "suppress_tokens": [9]})
    model = import_marian(str(opus.path), tmp_path / "ours")
    bias = load_file(model.path / VERIFIER)["final_proj.bias"]
    pieces = load_pieces(model.files, model.verified).pieces(range(len(bias)))
    said = {pieces[i] for i in (bias == NEVER).nonzero().flatten().tolist()}
    assert said == {"<pad>", "<s>", opus.pieces[7], opus.pieces[9]}


def remove(name: str) -> Any:
    return lambda opus: (opus.path / name).unlink()


def edit(name: str, **changes: Any) -> Any:
    return lambda opus: edit_json(opus.path / name, **changes)


def lose_a_piece(opus: Folder) -> None:
    write_json(opus.path / "vocab.json", {piece: i - (i > 5) for i, piece in enumerate(opus.pieces) if i != 5})
    pad = opus.pad - 1
    edit_json(opus.path / "config.json", pad_token_id=pad, decoder_start_token_id=pad, bad_words_ids=[])


def change_state(changes: Mapping[str, Tensor | None]) -> Any:
    def write(opus: Folder) -> None:
        state = {**opus.state, **changes}
        save_file(
            {name: tensor for name, tensor in state.items() if tensor is not None}, opus.path / "model.safetensors"
        )

    return write


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("source.spm"), r"source\.spm: cannot be read .*; the model needs it"),
        (remove("target.spm"), r"target\.spm: cannot be read .*; the model needs it"),
        (remove("vocab.json"), r"vocab\.json: cannot be read .*; the model needs it"),
        (remove("config.json"), r"must have the config\.json of a Hugging Face model, or one \.npz"),
        (remove("model.safetensors"), r"has no weights; there must be model\.safetensors or pytorch_model\.bin"),
        (edit("config.json", model_type="t5"), "`model_type` must be 'marian', but is 't5' instead"),
        (edit("config.json", model_type="m2m_100"), "but is 'm2m_100' instead; `specmt import nllb` may know it"),
        (edit("config.json", activation_function="tanh"), "must be one of relu, swish, silu, gelu, but is 'tanh'"),
        (edit("config.json", normalize_before=True), "`normalize_before` must be False, but is True"),
        (edit("config.json", static_position_embeddings=False), "`static_position_embeddings` must be True"),
        (edit("config.json", decoder_ffn_dim=48), "`decoder_ffn_dim` must be 96, but is 48"),
        (edit("config.json", encoder_layers=10**9), "`encoder_layers` must be a whole number from 1 to 1,000"),
        (edit("config.json", pad_token_id=[[]]), "<pad> must be"),
        (edit("config.json", bad_words_ids=[{"a": 1}]), "is not such a model"),
        (edit("config.json", bad_words_ids=3), "is not such a model"),
        (edit("vocab.json", **{"▁new": [1]}), "is not such a model"),
        (lambda opus: (opus.path / "config.json").write_text("[" * 100_000), "nested too deeply"),
        (edit("config.json", encoder_layers=3), r"has no model\.encoder\.layers\.2\..*of another architecture"),
        (edit("config.json", encoder_layers=1), r"has model\.encoder\.layers\.1\..*, which its configuration has no"),
        (edit("config.json", encoder_ffn_dim=64, decoder_ffn_dim=64), r"does not fit its configuration: .* must be 64"),
        (edit("config.json", encoder_attention_heads=3, decoder_attention_heads=3), "cannot be run: `model_dim` must"),
        (edit("config.json", d_model="wide"), "cannot be run: `model_dim` must be a whole number"),
        (edit("config.json", eos_token_id=5), "</s> must be 5, as config.json says, but is 0"),
        (edit("config.json", decoder_start_token_id=10**6), "has no piece 1000000, which config.json starts"),
        (edit("config.json", no_repeat_ngram_size=3), "`no_repeat_ngram_size` must be absent or 0, but is 3"),
        (edit("config.json", forced_bos_token_id=3), "`forced_bos_token_id` must be absent, but is 3"),
        (edit("config.json", bad_words_ids=[[4, 5]]), r"must ban single tokens, but bans \[4, 5\]"),
        (lose_a_piece, r"has rows, \d+, but has \d+ instead"),
        (edit("vocab.json", **{"▁new": 10**6}), r"the ids of its \d+ pieces must be 0 to \d+, each once"),
        (change_state({"model.shared.weight": torch.zeros(7, 64)}), "as many pieces as .* has rows, 7, but has"),
        (change_state({"final_logits_bias": torch.zeros(1, 7)}), r"as many pieces as final_proj\.bias has rows, 7"),
        (change_state({"model.encoder.embed_positions.weight": torch.zeros(128, 64)}), "must be sinusoids, but was"),
        (change_state({"model.encoder.layer_norm.weight": torch.zeros(64)}), r"has model\.encoder\.layer_norm\.weight"),
        (change_state({"model.decoder.layers.0.fc1.bias": None}), r"has no model\.decoder\.layers\.0\.fc1\.bias"),
    ],
)
def test_what_cannot_be_imported_leaves_nothing(opus: Folder, tmp_path: Path, damage: Any, message: str) -> None:
    damage(opus)
    with pytest.raises(ModelError, match=message):
        import_marian(str(opus.path), tmp_path / "out" / "ours")
    assert list((tmp_path / "out").iterdir()) == []


# The command


def test_the_command_imports_a_model_that_translates(
    opus: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", "marian", str(opus.path), str(tmp_path / "ours")]) == 0
    assert capsys.readouterr().err == f"{tmp_path / 'ours'}: de→en\n"
    translator = Translator.from_pretrained(tmp_path / "ours", device="cpu", dtype="float32")
    (translation,) = translator.translate(["Das ist ein Haus."], DecodingOptions(strategy="greedy"))
    assert translation.tokens


def test_the_command_fails_in_one_line(
    opus: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    edit_json(opus.path / "tokenizer_config.json", source_lang=None)
    nameless = opus.path.rename(tmp_path / "model")
    for arguments, code, message in (
        ([str(nameless), str(tmp_path / "new")], 2, "nothing says what the source language is; name it with --from"),
        ([str(nameless), str(nameless)], 2, "must be a new or an empty folder"),
        ([str(nameless), str(tmp_path / "new"), "--target-token", "deu"], 2, "the model has no target tokens"),
        ([str(tmp_path / "none"), str(tmp_path / "new")], 69, "is no folder here, and no name on the Hugging Face Hub"),
        (["someone/opus-mt-de-en", str(tmp_path / "new")], 69, "fetch it where there is a network"),
    ):
        assert run(["import", "marian", *arguments]) == code
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "new").exists()


# Marian's own layout


def write_native(path: Path, spm: Mapping[str, Path], hf: Folder, *, vocabularies: str = "yml", **options: Any) -> Path:
    """Writes a model of Hugging Face's layout as Marian would have; its padding, the last row, is nothing to Marian."""
    path.mkdir()
    shared = "model.shared.weight" in hf.state
    pre = "n" if options.get("transformer-preprocess") else ""
    arrays: dict[str, Any] = {}
    for name, tensor in hf.state.items():
        found = re.fullmatch(r"model\.(encoder|decoder)\.layers\.(\d)\.(.+)\.(weight|bias)", name)
        top = re.fullmatch(r"model\.(encoder|decoder)\.layer_norm\.(weight|bias)", name)
        array = tensor.numpy()
        if found:
            layer, part, kind = f"{found[1]}_l{int(found[2]) + 1}", found[3], found[4]
            if part in ("fc1", "fc2"):
                arrays[f"{layer}_ffn_{'W' if kind == 'weight' else 'b'}{part[-1]}"] = array
            elif part.endswith("_proj"):
                inside = {"self_attn": "self", "encoder_attn": "context"}[part.partition(".")[0]]
                arrays[f"{layer}_{inside}_{'W' if kind == 'weight' else 'b'}{part.partition('.')[2][0]}"] = array
            else:
                norms = {"self": "self_Wo", "encoder": "context_Wo", "final": "ffn_ffn"}
                suffix = {"weight": "scale", "bias": "bias"}[kind] + ("_pre" if pre else "")
                arrays[f"{layer}_{norms[part.partition('_')[0]]}_ln_{suffix}"] = array
        elif top:
            arrays[f"{top[1]}_top_ln_{'scale' if top[2] == 'weight' else 'bias'}"] = array
    arrays = {name: a.T if a.ndim == 2 else a[None] for name, a in arrays.items()}
    arrays["decoder_ff_logit_out_b"] = hf.state["final_logits_bias"][:, :-1].numpy()
    if shared:
        arrays["Wemb"] = hf.state["model.shared.weight"][:-1].numpy()
    else:
        arrays["encoder_Wemb"] = hf.state["model.encoder.embed_tokens.weight"][:-1].numpy()
        arrays["decoder_Wemb"] = hf.state["model.decoder.embed_tokens.weight"][:-1].numpy()
    if "lm_head.weight" in hf.state:
        arrays["decoder_ff_logit_out_W"] = hf.state["lm_head.weight"][:-1].T.numpy()
    config = {
        "type": "transformer",
        "enc-depth": hf.config["encoder_layers"],
        "dec-depth": hf.config["decoder_layers"],
        "dim-emb": hf.config["d_model"],
        "transformer-dim-ffn": hf.config["encoder_ffn_dim"],
        "transformer-heads": hf.config["encoder_attention_heads"],
        "transformer-ffn-activation": hf.config["activation_function"],
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        **options,
    }
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in config.items())
    arrays["special:model.yml"] = np.frombuffer(f"{text}\0".encode(), dtype=np.int8)
    np.savez(path / "opus.npz", **arrays)
    for side, pieces in (("src", hf.pieces), ("trg", hf.target_pieces)):
        write_vocabulary(path / f"opus.{side}.vocab.{vocabularies}", pieces[:-1])
    (path / "source.spm").write_bytes(spm["de"].read_bytes())
    (path / "target.spm").write_bytes(spm["en"].read_bytes())
    return path


def write_vocabulary(path: Path, pieces: list[str]) -> None:
    """Writes a vocabulary as JSON, or as Marian quotes it in YAML."""
    if path.suffix == ".json":
        write_json(path, {piece: i for i, piece in enumerate(pieces)})
        return
    odd = {'"', "\\"}
    quoted = (json.dumps(each, ensure_ascii=False) if odd & {*each} or i % 3 else each for i, each in enumerate(pieces))
    quoted = (f"'{each}'" if each in (",", "[", "{", "-", "#", "'") else each for each in quoted)
    path.write_text("".join(f"{each}: {i}\n" for i, each in enumerate(quoted)), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "vocabularies"),
    [
        ({}, "yml"),
        ({"activation_function": "relu", "share_encoder_decoder_embeddings": False}, "json"),
        ({"tie_word_embeddings": False}, "yml"),
    ],
    ids=["OPUS-MT", "separate vocabularies", "an output table of its own"],
)
def test_marians_own_file_is_the_same_model(
    tmp_path: Path, spm: dict[str, Path], changes: dict[str, Any], vocabularies: str
) -> None:
    hf = write_hugging_face(tmp_path / "opus-mt-de-en", spm, **changes)
    # What there is nothing of in Marian is zeros there, and <unk> is not to be said.
    for name in hf.state:
        if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight")):
            hf.state[name][-1] = 0.0
    save_file(hf.state, hf.path / "model.safetensors")
    edit_json(hf.path / "config.json", bad_words_ids=[[1]])
    native = write_native(tmp_path / "de-en", spm, hf, vocabularies=vocabularies)
    first = import_marian(str(hf.path), tmp_path / "first")
    second = import_marian(str(native), tmp_path / "second")
    third = import_marian(str(native / "opus.npz"), tmp_path / "third", languages=("de", "en"))
    assert second.sha256 == first.sha256 == third.sha256
    # Hugging Face's sinusoids are others than Marian's (tests/unit/test_import_firefox.py asks an engine of its kin).
    alike = replace(second.verifier, max_length=128, norm_epsilon=1e-5, positions="marian")
    assert alike == first.verifier


def test_the_vocabulary_may_be_a_sentencepiece_model(tmp_path: Path, spm: dict[str, Path], opus: Folder) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(spm["de"]))
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    state = {**opus.state, "model.shared.weight": torch.randn(len(pieces) + 1, 64)}
    state["final_logits_bias"] = torch.randn(1, len(pieces) + 1)
    native = write_native(tmp_path / "de-en", spm, replace(opus, state=state))
    for path in native.glob("*.yml"):
        path.unlink()
    for name in ("source.spm", "target.spm"):
        (native / name).unlink()
    (native / "vocab.spm").write_bytes(spm["de"].read_bytes())
    (native / "decoder.yml").write_text(
        "models: [opus.npz]\nvocabs:\n- /a/vocab.spm\n- /a/vocab.spm\n", encoding="utf-8"
    )
    model = import_marian(str(native), tmp_path / "ours")
    ours = load_pieces(model.files, model.verified)
    ids = ours.encode("Das ist ein Haus.")
    assert ours.pieces(ids) == processor.encode("Das ist ein Haus.", out_type=str)
    table = load_file(model.path / VERIFIER)["encoder_frontend.embed.weight"]
    assert torch.equal(table[ids], state["model.shared.weight"][processor.encode("Das ist ein Haus.")])
    assert not table[[PAD, BOS]].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transformer-decoder-autoreg": "rnn"}, "`dec-cell` must be 'ssru', but is 'gru'"),
        ({"transformer-decoder-autoreg": "average-attention"}, "'self-attention' or 'rnn', but is 'average-attention'"),
        ({"type": "s2s"}, "`type` must be 'transformer', but is 's2s'"),
        ({"transformer-train-positions": True}, "`transformer-train-positions` must be False"),
        ({"transformer-postprocess": "dhn"}, r"\('', 'dan', ''\) or \('n', 'da', 'n'\), but are \('', 'dhn', ''\)"),
        ({"transformer-postprocess-emb": "nd"}, "`transformer-postprocess-emb` must be '' or 'd', but is 'nd'"),
        ({"transformer-tied-layers": [1, 3]}, r"-layers` must name a layer up to 2 for each .*, but is \[1, 3\]"),
        ({"transformer-tied-layers": [1, 1]}, "has decoder_l2_.*, which its configuration has no place for"),
        ({"transformer-ffn-activation": "sigmoid"}, "must be 'swish' or 'relu', but is 'sigmoid' instead"),
        ({"transformer-ffn-activation": "gelu"}, "must be 'swish' or 'relu', but is 'gelu' instead"),
        ({"transformer-sparse-attention": 1}, "has `transformer-sparse-attention`, an option that is not known here"),
        ({"transformer-decoder-dim-ffn": 48}, "`transformer-decoder-dim-ffn` must be 0 or 96"),
        ({"enc-depth": 3}, "has no encoder_l3_self_Wq"),
    ],
)
def test_marian_models_that_cannot_be_run(
    tmp_path: Path, spm: dict[str, Path], opus: Folder, options: dict[str, Any], message: str
) -> None:
    native = write_native(tmp_path / "de-en", spm, opus, **options)
    with pytest.raises(ModelError, match=message):
        import_marian(str(native), tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_files_that_marian_models_lack_are_named(tmp_path: Path, spm: dict[str, Path], opus: Folder) -> None:
    native = write_native(tmp_path / "de-en", spm, opus)

    def check(message: str) -> None:
        with pytest.raises(ModelError, match=message):
            import_marian(str(native), tmp_path / "ours")

    (native / "second.npz").write_bytes((native / "opus.npz").read_bytes())
    check(r"or one \.npz of Marian, but has opus\.npz, second\.npz; name the one")
    np.savez(native / "opus.npz", a=np.zeros(2))
    (native / "decoder.yml").write_text("models: [opus.npz]\n", encoding="utf-8")
    check(r"is no Marian model; it has no special:model\.yml")
    (native / "second.npz").replace(native / "opus.npz")
    (native / "source.spm").unlink()
    check(r"source\.spm: is missing")
    (native / "opus.src.vocab.yml").write_text("no number\n", encoding="utf-8")
    check(r"opus\.src\.vocab\.yml: line 1 must be a piece, a colon and a number")
    for path in native.glob("*.vocab.yml"):
        path.unlink()
    check(r"has no vocabulary; there must be decoder\.yml that names it")
    (native / "decoder.yml").write_text("models: [a, b: c", encoding="utf-8")
    check(r"decoder\.yml: is not valid YAML")


# The words of Hugging Face's models, with its own code


@dataclass(frozen=True)
class Pair:
    """A model of Hugging Face and what it was imported as."""

    theirs: Any
    tokenizer: Any
    ours: ModelFolder
    prefix: str = ""


VARIANTS: dict[str, dict[str, Any]] = {
    # As it is, but an eighth as wide and with fewer pieces.
    "opus-mt-de-en": {"encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256},
    "multilingual": {"tokens": LANGUAGES},
    "relu and separate vocabularies": {"activation_function": "relu", "share_encoder_decoder_embeddings": False},
    "gelu and an output table of its own": {
        "activation_function": "gelu",
        "tie_word_embeddings": False,
        "scale_embedding": False,
    },
}


def make_pair(root: Path, spm: Mapping[str, Path], **changes: Any) -> Pair:
    """Imports a random model; one with several targets says French."""
    transformers = pytest.importorskip("transformers")
    folder = write_hugging_face(root / "opus-mt-de-en", spm, **changes)
    theirs = transformers.MarianMTModel.from_pretrained(folder.path).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder.path)
    prefix = ">>fra<<" if changes.get("tokens") == LANGUAGES else ""
    ours = import_marian(str(folder.path), root / "ours", languages=("de", "fr" if prefix else "en"))
    return Pair(theirs, tokenizer, ours, prefix)


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, spm: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("marian"), spm, **VARIANTS[request.param])


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """200 sentences of one to four random words, some with characters that the pieces lack."""
    words = SAMPLE.with_suffix(".de").read_text(encoding="utf-8").split()
    generator = random.Random(3)
    return [" ".join(generator.choices([*words, "漢字", "🙂"], k=generator.randint(1, 4))) for _ in range(200)]


def test_pieces_are_those_of_hugging_face(pair: Pair, sentences: list[str]) -> None:
    pieces = load_pieces(pair.ours.files, pair.ours.verified)
    for sentence in sentences:
        theirs = pair.tokenizer([pair.prefix + sentence]).input_ids[0][bool(pair.prefix) : -1]
        names = pair.tokenizer.convert_ids_to_tokens(theirs)
        if pair.tokenizer.separate_vocabs:
            source = {i: piece for piece, i in pair.tokenizer.encoder.items()}
            names = [source[i] for i in theirs]
        assert pieces.source_pieces(pieces.encode(sentence)) == names
        ids = pair.tokenizer(text_target=[sentence]).input_ids[0]
        assert pieces.decode(pieces.encode_targets([sentence])[0]) == pair.tokenizer.decode(
            ids, skip_special_tokens=True
        )


def assert_same_tokens(pair: Pair, pieces: Any, sentences: Sequence[str], greedy: list[list[int]], most: int) -> None:
    """Asserts that the first tokens, up to ``most``, are those that Hugging Face generates."""
    for begin in range(0, len(sentences), 50):
        batch = pair.tokenizer(
            [pair.prefix + each for each in sentences[begin : begin + 50]], return_tensors="pt", padding=True
        )
        generated = pair.theirs.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=most + 1)
        for number, their in enumerate(generated[:, 1:].tolist(), start=begin):
            mine = greedy[number]
            ending = [EOS] if len(mine) < 2 * len(pieces.encode(sentences[number])) else []  # else it may be our limit
            mine = [*mine, *ending][:most]
            assert pieces.pieces(mine) == pair.tokenizer.convert_ids_to_tokens(their)[: len(mine)]


def test_greedy_output_is_that_of_hugging_face(pair: Pair, sentences: list[str], kernels: bool) -> None:
    sentences = sentences[: 60 if kernels else 25]  # both are slow: PyTorch, and theirs
    model = load_model(pair.ours.path, device="cpu", dtype="float32", kernels=kernels)
    sources = model.pieces.encode_batch(sentences)
    greedy = [h.tokens for h in decode(model, sources, DecodingOptions(strategy="greedy", batch_size=20))]
    assert len({len(tokens) for tokens in greedy}) > 5
    assert_same_tokens(pair, model.pieces, sentences, greedy, 1 + max(map(len, greedy)))


@torch.no_grad()
def assert_same_logits(pair: Pair, model: Model, sentences: Sequence[str]) -> None:
    """Asserts that logits after random targets are those of Hugging Face."""
    width = 6
    ids = {piece: i for i, piece in enumerate(model.pieces.pieces(range(len(model.pieces))))}
    by_theirs = [ids[pair.tokenizer.decoder[i]] for i in range(len(ids) - 1)]
    generator = torch.Generator().manual_seed(5)
    for begin in range(0, len(sentences), 50):
        chosen = sentences[begin : begin + 50]
        batch = pair.tokenizer([pair.prefix + each for each in chosen], return_tensors="pt", padding=True)
        start = pair.theirs.config.decoder_start_token_id
        targets = torch.randint(1, len(by_theirs) - 1, (len(chosen), width), generator=generator)
        targets[:, 0] = start
        wanted = pair.theirs(**batch, decoder_input_ids=targets).logits
        tokens = np.array([[BOS, *(by_theirs[token] for token in row[1:])] for row in targets.tolist()])
        sources = model.pieces.encode_batch(chosen)
        got = torch.from_numpy(logits_of(model.verifier, sources, tokens)[..., by_theirs])
        never = pair.theirs.config.pad_token_id
        got[..., never] = wanted[..., never]
        assert float((got - wanted).abs().max()) < 1e-4
        assert float(wanted.std()) > 0.5


def test_logits_are_those_of_hugging_face(pair: Pair, sentences: list[str], kernels: bool) -> None:
    model = load_model(pair.ours.path, device="cpu", dtype="float32", kernels=kernels)
    assert_same_logits(pair, model, sentences if kernels else sentences[:50])  # PyTorch is slow


@pytest.mark.long
def test_a_model_of_the_real_size_says_what_it_says_there(
    tmp_path: Path, spm: dict[str, Path], sentences: list[str]
) -> None:
    """As opus-mt-de-en in all sizes, its 58,101 pieces included; a few sentences take seconds enough."""
    known, sentences = len(pieces_of(spm["de"], spm["en"])) + 1, sentences[:6]
    pair = make_pair(
        tmp_path,
        spm,
        tokens=[f"▁{number}" for number in range(10**6, 10**6 + 58_101 - known)],
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        max_position_embeddings=512,
    )
    assert pair.ours.verifier.vocab_size == 58_101 + 1  # the start has a row of its own
    model = load_model(pair.ours.path, device="cpu", dtype="float32")
    sources = model.pieces.encode_batch(sentences)
    greedy = [h.tokens for h in decode(model, sources, DecodingOptions(strategy="greedy"))]
    assert len({tuple(tokens) for tokens in greedy}) > len(sentences) // 2
    assert_same_tokens(pair, model.pieces, sentences, greedy, 8)
    lookup = DecodingOptions(drafter="lookup", block_size=4)
    assert [h.tokens for h in decode(model, sources, lookup)] == greedy
    assert_same_logits(pair, model, sentences)


@torch.no_grad()
def test_pre_norm_models_of_marian_say_what_pegasus_does(
    tmp_path: Path, spm: dict[str, Path], sentences: list[str]
) -> None:
    """Hugging Face has Marian with norms behind sublayers only; with norms before them, it is what Pegasus is."""
    transformers = pytest.importorskip("transformers")
    hf = write_hugging_face(tmp_path / "pegasus", spm, activation_function="relu")
    generator = torch.Generator().manual_seed(1)  # with many others, it repeats one piece
    for stack in ("encoder", "decoder"):
        for kind, mean in (("weight", 1.0), ("bias", 0.0)):
            hf.state[f"model.{stack}.layer_norm.{kind}"] = mean + 0.1 * torch.randn(64, generator=generator)
    hf.state["model.shared.weight"][-1] = 0.0  # Marian starts with nothing
    native = write_native(
        tmp_path / "de-en",
        spm,
        hf,
        **{"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
    )
    ours = import_marian(str(native), tmp_path / "ours")
    assert ours.verifier.norm == "pre"
    config = {**hf.config, "model_type": "pegasus", "forced_eos_token_id": None, "bad_words_ids": None}
    theirs = transformers.PegasusForConditionalGeneration(transformers.PegasusConfig(**config)).eval()
    missing, unexpected = theirs.load_state_dict(hf.state, strict=False)
    assert not unexpected and not [name for name in missing if "embed" not in name and name != "lm_head.weight"]
    for stack in (theirs.model.encoder, theirs.model.decoder):
        table = stack.embed_positions.weight
        table.copy_(torch.from_numpy(sinusoids(len(table), 64, ours.verifier)))  # Marian's are others
    model = load_model(ours.path, device="cpu", dtype="float32")
    sources = model.pieces.encode_batch(sentences[:60])
    greedy = [h.tokens for h in decode(model, sources, DecodingOptions(strategy="greedy"))]
    number = {piece: i for i, piece in enumerate(hf.pieces)}
    for source, mine in zip(sources, greedy, strict=True):
        ids = torch.tensor([[*(number[piece] for piece in model.pieces.pieces(source)), 0]])
        targets = torch.tensor([[hf.pad, *(number[piece] for piece in model.pieces.pieces(mine))]])
        logits = theirs(input_ids=ids, decoder_input_ids=targets).logits[0]
        logits[:, [hf.pad, 1]] = -torch.inf
        said = [hf.pieces[i] for i in logits.argmax(-1).tolist()]
        ending = ["</s>"] if len(mine) < 2 * len(source) else said[-1:]
        assert [*model.pieces.pieces(mine), *ending] == said
    assert len({tuple(mine) for mine in greedy}) > 10
