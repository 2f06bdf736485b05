"""Imported NLLB and M2M100 models say what they said where they come from: random weights, and the bundled model."""

from __future__ import annotations

import json
import random
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sentencepiece
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Module

import specmt.models.reference  # noqa: F401  (makes fairseq2 importable)
from specmt.cli.main import run
from specmt.decoding.session import decode
from specmt.errors import ModelError, SpecmtError
from specmt.models.folder import CARD, VERIFIER, ModelFolder, find
from specmt.models.hub import Model, load_model
from specmt.models.interop import fairseq
from specmt.models.interop.fairseq import SPM as TOKENIZER
from specmt.models.interop.fairseq import language_codes
from specmt.models.interop.foreign import NEVER
from specmt.models.interop.foreign import SOURCE_TABLE as TABLE
from specmt.models.interop.languages import _LONG, find_language, shorten
from specmt.models.interop.nllb import import_nllb
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import BOS, EOS, PAD, UNK
from tests.networks import logits_of

from fairseq2.nn import BatchLayout  # isort: skip  (specmt.models.reference makes it importable)

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
PIECES = 300
DIRECTION = ("deu_Latn", "eng_Latn")
LENGTH = 24
"""How many tokens are compared: all that are there, or those that every sentence may have."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model as NLLB's: <unk>, <s>, </s>, pieces."""
    path = tmp_path_factory.mktemp("tokenizer") / TOKENIZER
    sentencepiece.SentencePieceTrainer.train(
        input=[str(SAMPLE.with_suffix(end)) for end in (".de", ".en")],
        model_prefix=str(path.with_suffix("")),
        vocab_size=PIECES,
        model_type="bpe",
        minloglevel=2,
    )
    return path


@pytest.fixture(scope="module")
def sentences(tokenizer: Path) -> list[str]:
    """200 random sentences of up to ten pieces."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    generator = random.Random(5)
    made = [[generator.randrange(3, PIECES) for _ in range(generator.randint(1, 10))] for _ in range(400)]
    texts = dict.fromkeys(" ".join(processor.decode(ids).split()) for ids in made)
    return [text for text in texts if text][:200]


def scatter(model: Module, eos: int) -> None:
    """Gives a model random weights, such that it says something else at every step, and ends now and then."""
    torch.manual_seed(11)
    tables = {}
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter, mean=float(name.endswith("weight")), std=0.1)
        elif "embed" in name or "shared" in name:
            tables[name] = torch.nn.init.normal_(parameter, std=0.1)
        else:
            torch.nn.init.normal_(parameter, std=0.35)
    with torch.no_grad():
        for table in tables.values():
            table[eos] *= 7.0


def theirs(ours: int, rows: int) -> int:
    """Returns the id of Hugging Face for one of ours: four change places, and <s> has gone to the end."""
    return {PAD: 1, UNK: 3, EOS: 2, rows: 0}.get(ours, ours)


# Hugging Face


@pytest.fixture(scope="module")
def nllb(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NLLB-distilled-600M in small, random, as Hugging Face keeps it."""
    transformers = pytest.importorskip("transformers", reason="the peer is not installed")
    folder = tmp_path_factory.mktemp("huggingface") / "nllb"
    theirs = transformers.NllbTokenizer(str(tokenizer))
    theirs.save_pretrained(folder)
    model = transformers.M2M100ForConditionalGeneration(
        transformers.M2M100Config(
            vocab_size=len(theirs) + 2,
            d_model=64,
            encoder_layers=3,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=96,
            decoder_ffn_dim=96,
            max_position_embeddings=128,
            dropout=0.0,
        )
    )
    scatter(model, eos=2)
    model.save_pretrained(folder)
    (folder / CARD).write_text("---\nlicense: cc-by-nc-4.0\n---\n\n# NLLB\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def imported(nllb: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    path = tmp_path_factory.mktemp("imported") / "nllb"
    assert run(["import", "nllb", str(nllb), str(path), "--from", "deu_Latn", "--to", "en"]) == 0
    return ModelFolder.read(path)


@pytest.fixture(scope="module")
def model(imported: ModelFolder, kernels: bool) -> Model:
    return load_model(imported.path, device="cpu", dtype="float32", kernels=kernels)


@pytest.fixture(scope="module")
def said(nllb: Path, sentences: list[str]) -> SimpleNamespace:
    """What Hugging Face makes of the sentences: ids, generated tokens, their text, and logits of its forward pass."""
    transformers = pytest.importorskip("transformers", reason="the peer is not installed")
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(nllb).eval()
    tokenizer = transformers.NllbTokenizer.from_pretrained(nllb, src_lang=DIRECTION[0], tgt_lang=DIRECTION[1])
    batch = tokenizer(sentences, return_tensors="pt", padding=True)
    language = tokenizer.convert_tokens_to_ids(DIRECTION[1])
    with torch.inference_mode():
        output = model.generate(
            **batch, num_beams=1, do_sample=False, forced_bos_token_id=language, max_new_tokens=LENGTH + 1
        )
        logits = model(**batch, decoder_input_ids=output).logits
    return SimpleNamespace(
        sources=[row[mask.bool()].tolist() for row, mask in zip(batch.input_ids, batch.attention_mask, strict=True)],
        output=output,
        texts=tokenizer.batch_decode(output, skip_special_tokens=True),
        logits=logits,
    )


def until_end(row: list[int], eos: int) -> list[int]:
    return row[: row.index(eos)] if eos in row else row


def test_the_folder_says_what_it_is(imported: ModelFolder, nllb: Path) -> None:
    config = imported.verifier
    assert (imported.source, imported.target, imported.protect) == ("de", "en", False)
    assert (config.norm, config.activation, config.positions, config.first_position) == ("pre", "relu", "sinusoidal", 2)
    assert config.scaled_embedding and config.tied_output and config.output_bias
    assert (config.encoder_layers, config.decoder_layers, config.num_heads, config.ffn_dim) == (3, 3, 4, 96)
    pieces = json.loads((imported.path / "vocabulary.json").read_text(encoding="utf-8"))["target"]
    assert [pieces[i] for i in (*config.source_prefix, *config.target_prefix)] == list(DIRECTION)
    card = (imported.path / CARD).read_text(encoding="utf-8")
    assert "cc-by-nc-4.0" in card and "deu_Latn→eng_Latn" in card and str(nllb) in card


def test_no_bit_of_the_weights_is_lost(imported: ModelFolder, nllb: Path) -> None:
    there, here = load_file(nllb / "model.safetensors"), load_file(imported.path / VERIFIER)
    name = "decoder.layers.1.encoder_decoder_attn.output_proj.weight"
    assert torch.equal(here[name], there["model.decoder.layers.1.encoder_attn.out_proj.weight"])
    table = here[TABLE]
    rows = len(table) - 1
    assert torch.equal(table[BOS], table[EOS])
    for ours in (PAD, UNK, EOS, 4, 77, rows - 1, rows):
        assert torch.equal(table[ours], there["model.shared.weight"][theirs(ours, rows)])
    bias = here["final_proj.bias"]
    assert bias[[PAD, BOS]].tolist() == [NEVER, NEVER] and not bias[[UNK, EOS]].any() and not bias[4:].any()


def test_text_becomes_the_same_ids(model: Model, said: SimpleNamespace, sentences: list[str]) -> None:
    rows = model.folder.verifier.vocab_size - 1
    prefix = list(model.folder.verifier.source_prefix)
    ours = [[*prefix, *ids, EOS] for ids in model.pieces.encode_batch(sentences)]
    assert [[theirs(i, rows) for i in ids] for ids in ours] == said.sources


def test_greedy_tokens_are_those_of_generate(model: Model, said: SimpleNamespace, sentences: list[str]) -> None:
    rows = model.folder.verifier.vocab_size - 1
    sources = model.pieces.encode_batch(sentences)
    found = [each.tokens for each in decode(model, sources, DecodingOptions(strategy="greedy", batch_size=32))]
    wanted = [until_end(row[2:], 2) for row in said.output.tolist()]
    assert [[theirs(i, rows) for i in tokens[:LENGTH]] for tokens in found] == wanted
    lengths = {len(row) for row in wanted}
    assert len(lengths) > 3 and LENGTH in lengths, "some sentences must end, and some must not"
    assert len({token for row in wanted for token in row}) > 50, "the model must not say one thing only"


def test_logits_are_those_of_the_forward_pass(model: Model, said: SimpleNamespace, sentences: list[str]) -> None:
    rows = model.folder.verifier.vocab_size - 1
    columns = torch.tensor([theirs(i, rows) for i in range(rows + 1)])
    back = {theirs(i, rows): i for i in range(rows + 1) if i != BOS}
    targets = torch.tensor([[back[i] for i in row] for row in said.output.tolist()])
    targets[:, 0] = BOS
    found = torch.from_numpy(logits_of(model.verifier, model.pieces.encode_batch(sentences), targets.numpy()))
    wanted = said.logits[:, :, columns]
    assert (found[:, :, [PAD, BOS]] < -6e4).all()
    spoken = [UNK, *range(EOS, rows + 1)]
    counted = (targets != PAD)[:, :, None]
    torch.testing.assert_close((found * counted)[:, :, spoken], (wanted * counted)[:, :, spoken], rtol=0.0, atol=1e-4)
    assert wanted.std() > 0.5, "logits must be of a size that errors show in"


def test_text_comes_out_without_names_of_languages(
    imported: ModelFolder, said: SimpleNamespace, sentences: list[str]
) -> None:
    translator = Translator.from_pretrained(imported.path, device="cpu", dtype="float32")
    as_said = DecodingOptions(strategy="greedy", keep_numbers=False, protect=False)
    translations = list(translator.translate(sentences, as_said))
    ended = [i for i, row in enumerate(said.output.tolist()) if 2 in row[1:]]
    assert len(ended) > 20
    for i in ended:
        assert translations[i].text == " ".join(said.texts[i].split())


def test_a_pickle_of_weights_is_read_too(nllb: Path, imported: ModelFolder, tmp_path: Path) -> None:
    folder = shutil.copytree(nllb, tmp_path / "nllb")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert import_nllb(str(folder), tmp_path / "out", languages=DIRECTION).files == imported.files


def test_languages_are_found_in_older_files(nllb: Path, imported: ModelFolder, tmp_path: Path) -> None:
    folder = shutil.copytree(nllb, tmp_path / "nllb")
    (folder / "tokenizer_config.json").unlink()
    assert import_nllb(str(folder), tmp_path / "added", languages=DIRECTION).verifier == imported.verifier
    (folder / "added_tokens.json").unlink()
    config = import_nllb(str(folder), tmp_path / "listed", languages=DIRECTION).verifier
    first = 1 + PIECES
    ids = [first + language_codes().index(code) for code in DIRECTION]
    assert [*config.source_prefix, *config.target_prefix] == ids


# The bundled model


def test_the_bundled_model_comes_back_from_hugging_face(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the peer is not installed")
    from peers.to_m2m100 import write_m2m100

    bundled = find(None, source="de", target="en")
    exported = tmp_path / "m2m100"
    write_m2m100(bundled, exported)
    imported = import_nllb(str(exported), tmp_path / "imported", languages=("de", "en"))
    assert not imported.verifier.source_prefix and not imported.verifier.target_prefix
    lines = SAMPLE.with_suffix(".de").read_text(encoding="utf-8").split("\n")[:15]
    for dtype in ("float32", "auto"):
        ours, other = (
            [
                (translation.text, translation.tokens)
                for translation in Translator.from_pretrained(path, device="cpu", dtype=dtype).translate(
                    lines, DecodingOptions(strategy="greedy")
                )
            ]
            for path in (bundled.path, imported.path)
        )
        assert ours == other


# fairseq2


@pytest.fixture(scope="module")
def reference(tokenizer: Path) -> Any:
    """NLLB of fairseq2, small and random; importing it takes a second."""
    from fairseq2.device import CPU
    from fairseq2.models.nllb import NllbConfig, create_nllb_model

    rows = 1 + PIECES + len(language_codes()) + 3
    config = NllbConfig(
        model_dim=64,
        max_seq_len=128,
        vocab_size=rows,
        num_encoder_layers=2,
        num_decoder_layers=3,
        num_encoder_attn_heads=4,
        num_decoder_attn_heads=4,
        ffn_inner_dim=96,
        dropout_p=0.0,
    )
    with CPU:
        model = create_nllb_model(config)
    scatter(model, eos=EOS)
    return SimpleNamespace(model=model.eval(), config=config)


@pytest.fixture
def checkpoint(reference: Any, tokenizer: Path, tmp_path: Path) -> Path:
    """A folder as fairseq2's trainer writes it, with the tokenizer put in."""
    folder = tmp_path / "run"
    weights = folder / "step_20" / "model" / "pp_00" / "tp_00" / "sdp_00.pt"
    weights.parent.mkdir(parents=True)
    torch.save(reference.model.state_dict(), weights)
    shutil.copytree(folder / "step_20", folder / "step_9")
    torch.save({}, folder / "step_9" / "model" / "pp_00" / "tp_00" / "sdp_00.pt")
    record = {"name": "checkpoint", "model_family": "nllb", "model_config": vars(reference.config)}
    with (folder / "model.yaml").open("w", encoding="utf-8") as stream:
        YAML().dump(record, stream)
    shutil.copy(tokenizer, folder)
    return folder


def test_logits_are_those_of_fairseq2(
    checkpoint: Path, reference: Any, sentences: list[str], tmp_path: Path, kernels: bool
) -> None:
    folder = import_nllb(str(checkpoint), tmp_path / "out", languages=("de", "eng"))
    assert (folder.source, folder.target, folder.verifier.first_position) == ("de", "en", 2)
    model = load_model(folder.path, device="cpu", dtype="float32", kernels=kernels)
    config = folder.verifier
    assert config.vocab_size == reference.config.vocab_size + 1  # <s> has made room for </s>, with which targets begin
    sources = model.pieces.encode_batch(sentences)
    targets = [[EOS, *config.target_prefix, *source] for source in reversed(sources)]
    begun = pad([[BOS, *target[1:]] for target in targets])
    got = torch.from_numpy(logits_of(model.verifier, sources, begun.numpy()))
    places = [[*config.source_prefix, *source, EOS] for source in sources]
    with torch.inference_mode():
        source_layout, target_layout = (
            BatchLayout.of(pad(rows), [len(row) for row in rows]) for rows in (places, targets)
        )
        wanted = reference.model(pad(places), source_layout, pad(targets), target_layout)
    for row, target in enumerate(targets):
        ours, other = got[row, : len(target)], wanted[row, : len(target)]
        torch.testing.assert_close(ours[:, EOS:-1], other[:, EOS:], rtol=0.0, atol=1e-4)
        torch.testing.assert_close(ours[:, [UNK, -1]], other[:, [UNK, BOS]], rtol=0.0, atol=1e-4)


def pad(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def test_a_checkpoint_of_fairseq_is_the_same_model(
    checkpoint: Path, reference: Any, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = import_nllb(str(checkpoint), tmp_path / "of-fairseq2", languages=DIRECTION)
    names = {
        ".encoder_decoder_attn": ".encoder_attn",
        ".output_proj.": ".out_proj.",
        ".ffn.inner_proj.": ".fc1.",
        ".ffn.out_proj.": ".fc2.",
        ".ffn_layer_norm.": ".final_layer_norm.",
        "coder_frontend.embed.": "coder.embed_tokens.",
        "final_proj.": "decoder.output_projection.",
    }
    state = {}
    for name, tensor in reference.model.state_dict().items():
        for ours, other in names.items():
            name = name.replace(ours, other)
        if tensor.shape[0] == reference.config.vocab_size:
            tensor = tensor.clone()
            tensor[[1, 3, 0, 2]] = tensor[[0, 1, 2, 3]]
        state[name] = tensor
    folder = tmp_path / "fairseq"
    folder.mkdir()
    torch.save({"args": Namespace(arch="transformer"), "model": state}, folder / "checkpoint.pt")
    shutil.copy(tokenizer, folder / "flores200.model")
    with pytest.raises(ModelError, match="how many attention heads"):
        import_nllb(str(folder), tmp_path / "out", languages=DIRECTION)
    monkeypatch.setattr(fairseq, "_WIDTHS", (64,))
    monkeypatch.setattr(fairseq, "_HEADS", 4)
    got = import_nllb(str(folder), tmp_path / "out", languages=DIRECTION)
    here, there = (load_file(each.path / VERIFIER) for each in (got, wanted))
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)


def test_a_model_of_fairseq2_by_its_name(
    checkpoint: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairseq2 import assets

    class Manager:
        def download_model(self, uri: Any) -> Path:
            assert "nllb200densedst600m" in str(uri)
            return checkpoint / "step_20" / "model" / "pp_00" / "tp_00" / "sdp_00.pt"

        def download_tokenizer(self, uri: Any) -> Path:
            assert "flores200" in str(uri)
            return tokenizer

    monkeypatch.setattr(assets, "get_asset_download_manager", Manager)
    monkeypatch.setattr(fairseq, "_WIDTHS", (64,))
    monkeypatch.setattr(fairseq, "_HEADS", 4)
    got = import_nllb("nllb-200_dense_distill_600m", tmp_path / "out", languages=("fr", "de"))
    assert (got.source, got.target, got.verifier.decoder_layers) == ("fr", "de", 3)


# Errors


def offline(*_: object, **__: object) -> Any:
    raise ConnectionError("there is no network")


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    import huggingface_hub
    from fairseq2 import assets

    class Manager:
        def download_model(self, uri: Any) -> Path:
            raise assets.AssetDownloadError(uri, "Address is not reachable.")

    monkeypatch.setattr(assets, "get_asset_download_manager", Manager)
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", offline)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    for name in ("nllb-200_dense_distill_600m", "facebook/nllb-200-distilled-600M"):
        assert run(["import", "nllb", name, str(tmp_path / "out"), "--from", "de", "--to", "en"]) == 69
        assert f"{name}: cannot be fetched" in capfd.readouterr().err
    assert run(["import", "nllb", "nothing-here", str(tmp_path / "out"), "--from", "de", "--to", "en"]) == 69
    assert "nothing-here: is no folder here" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def edit(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")


def without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def cut(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.shared.weight"] = weights["model.shared.weight"][:-1].contiguous()
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: without(folder, TOKENIZER), "without the SentencePiece model"),
        (lambda folder: without(folder, "config.json"), "config.json: cannot be read"),
        (lambda folder: without(folder, "model.safetensors"), "has no weights"),
        (lambda folder: edit(folder, model_type="nllb-moe"), "mixture of experts"),
        (lambda folder: edit(folder, model_type="marian"), "is 'marian' instead; use `specmt import marian`"),
        (lambda folder: edit(folder, model_type="t5"), "must be m2m_100"),
        (lambda folder: edit(folder, encoder_layers=10**9), "`encoder_layers` must be a whole number from 1 to 1,000"),
        (lambda folder: edit(folder, pad_token_id="x"), "is not such a model"),
        (lambda folder: edit(folder, vocab_size=10**12), "but the model has embeddings for 1000000000000"),
        (lambda folder: (folder / "added_tokens.json").write_text(f'{{"x": {10**12}}}'), "embeddings for"),
        (lambda folder: (folder / "tokenizer_config.json").write_text("[" * 100_000), "nested too deeply"),
        (lambda folder: edit(folder, vocab_size=1000), "but the model has embeddings for 1000"),
        (lambda folder: edit(folder, vocab_size=300), "but the model has embeddings for 300"),
        (lambda folder: edit(folder, decoder_ffn_dim=128), "`decoder_ffn_dim` must be 96, but is 128"),
        (lambda folder: edit(folder, d_model=32), "does not fit its configuration"),
        (lambda folder: edit(folder, encoder_layers=4), "encoder.layers.3"),
        (lambda folder: edit(folder, activation_function="tanh"), "`activation_function` must be one of relu"),
        (lambda folder: edit(folder, eos_token_id=10**6), "`eos_token_id` must be under"),
        (lambda folder: edit(folder, encoder_attention_heads=5, decoder_attention_heads=5), "`model_dim` must be"),
        (cut, "must have as many pieces as"),
    ],
)
def test_what_is_wrong_is_named(nllb: Path, tmp_path: Path, harm: Callable[[Path], None], message: str) -> None:
    folder = shutil.copytree(nllb, tmp_path / "nllb")
    harm(folder)
    with pytest.raises(ModelError) as raised:
        import_nllb(str(folder), tmp_path / "out", languages=DIRECTION)
    assert message in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["nllb"]


def test_files_beside_a_checkpoint_that_are_none(checkpoint: Path, pieces_path: Path, tmp_path: Path) -> None:
    config = (checkpoint / "model.yaml").read_text(encoding="utf-8")
    for text, message in (
        ("[" * 5000, "nested too deeply"),
        ("a: {", "is not valid YAML"),
        ("a: {b: 1, b: 2}", r"is not valid YAML \(a key is there twice"),
        ("a: 2001-99-99", "is not valid YAML"),
        ("3", "is not such a model"),
        ("name: x", "has no `model_family`"),
        (config.replace("model_dim", "x").replace("nllb", "t5"), "`model_family` must be nllb, but is 't5'"),
    ):
        (checkpoint / "model.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(ModelError, match=message):
            import_nllb(str(checkpoint), tmp_path / "out", languages=DIRECTION)
    (checkpoint / "model.yaml").write_text(config, encoding="utf-8")
    shutil.copy(pieces_path, checkpoint / TOKENIZER)
    with pytest.raises(ModelError, match="must begin with <unk> <s> </s>, but begins with <pad> <unk> <s> instead"):
        import_nllb(str(checkpoint), tmp_path / "out", languages=DIRECTION)


# Languages


def test_codes_of_languages() -> None:
    known = language_codes()
    assert len(known) == 202 and {code for long in _LONG.values() for code in long} <= set(known)
    assert [find_language(code, known) for code in ("deu_Latn", "de", "deu")] == ["deu_Latn"] * 3
    assert [find_language(code, known) for code in ("DE", "de-AT", "DEU_latn")] == ["deu_Latn"] * 3
    assert find_language("zh", ["zho_Hans", "deu_Latn"]) == "zho_Hans"
    assert find_language("de", ["de", "en"]) == "de"
    assert [shorten(code) for code in ("deu_Latn", "zho_Hans", "ace_Arab", "de")] == [
        "de",
        "zho_Hans",
        "ace_Arab",
        "de",
    ]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("zh", "'zh' may be zho_Hans or zho_Hant"),
        ("zho", "'zho' may be zho_Hans or zho_Hant"),
        ("deu_Ltan", "Near it are deu_Latn"),
        ("", "The model knows no language ''"),
        ("klingon", "The model knows no language 'klingon'; its codes look like 'ace_Arab'"),
    ],
)
def test_unclear_and_unknown_languages(code: str, message: str) -> None:
    with pytest.raises(SpecmtError) as raised:
        find_language(code, language_codes())
    assert message in str(raised.value) and raised.value.exit_code == 2
