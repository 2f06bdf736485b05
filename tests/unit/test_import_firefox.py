"""`specmt import firefox`: weights that stay what they are, words of Bergamot's engine, or an error in one line."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmt.cli.main import run
from specmt.decoding.session import decode
from specmt.engine.weights import Rounded, floats
from specmt.errors import ModelError, UsageError
from specmt.models.describe import describe
from specmt.models.folder import VERIFIER, ModelFolder, file_sha256
from specmt.models.hub import Model, load_model
from specmt.models.interop.firefox import import_firefox
from specmt.models.interop.foreign import NEVER
from specmt.models.interop.languages import split_pair
from specmt.models.interop.unpacking import ZSTD
from specmt.options import AlignmentHeads, DecodingOptions
from specmt.text.pieces import load_pieces
from specmt.types import BOS, EOS, PAD, UNK
from tests.marian import (
    FLOAT32,
    Item,
    Marian,
    make_vocabulary,
    numbered,
    pack,
    pack_shortlist,
    quantised,
    random_model,
    random_shortlist,
    sentences,
    text_item,
    write_numbered,
)
from tests.networks import logits_of

ANSWERS = Path(__file__).parents[1] / "golden" / "firefox.json"
"""What Bergamot's engine says: SPECMT_BERGAMOT=… PYTHONPATH=. python tests/unit/test_import_firefox.py FOLDER

SPECMT_BERGAMOT names a Python 3.10 that has the package bergamot (tests/bergamot.py), FOLDER takes the models.
"""

SEEDS = range(1, 21)
MOST_STORED = 12
LINES = sentences(50, 7)

ATTENTION = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "output_proj": "o"}
SUBLAYERS = {
    "self_attn": ("self", ATTENTION),
    "ssru": ("rnn", {"input_proj": "", "forget_proj": "f"}),
    "encoder_decoder_attn": ("context", ATTENTION),
    "ffn": ("ffn", {"inner_proj": "1", "output_proj": "2"}),
}
"""Our and Marian's names of what layers hold."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, bool], Path]:
    """Returns folders with random models, each written once."""
    root = tmp_path_factory.mktemp("firefox")

    def written(seed: int, int8: bool = False) -> Path:
        path = root / f"{seed}-{int8}"
        return path if path.exists() else write_numbered(path, seed, int8=int8)

    return written


@pytest.fixture(scope="module")
def mozilla(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model in int8, named as Mozilla names it, and its shortlist."""
    model, vocabularies = numbered(1)
    folder = tmp_path_factory.mktemp("mozilla")
    (folder / "model.deen.intgemm.alphas.bin").write_bytes(model.binary(int8=True))
    (folder / "vocab.deen.spm").write_bytes(vocabularies["vocab.spm"])
    lists = random_shortlist(model.pieces, 3)
    (folder / "lex.50.50.deen.s2t.bin").write_bytes(pack_shortlist(lists, first=50, best=40))
    return folder


@pytest.fixture
def deen(tmp_path: Path, mozilla: Path) -> Path:
    """A copy of that folder."""
    return shutil.copytree(mozilla, tmp_path / "mozilla")


# Weights


def stored(array: Any, int8: bool) -> Any:
    """Returns a matrix as it is in a file, in float32: what the engine unpacks embeddings to, bit for bit."""
    if not int8 or len(array) == 1:
        return array
    codes, factor = quantised(array)
    return codes.astype(np.float32) * (np.float32(1) / factor)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 5, 7])
def test_every_weight_is_what_the_file_says(tmp_path: Path, seed: int, int8: bool) -> None:
    model, _ = numbered(seed)
    ours = import_firefox([str(write_numbered(tmp_path / "de-en", seed, int8=int8))], tmp_path / "ours")
    weights = ours.weights(VERIFIER)

    def check(name: str, theirs: str) -> None:
        weight, array = weights.pop(name), model.weights[theirs]
        assert np.array_equal(floats(weight), np.squeeze(stored(array, int8).T)), name
        if int8 and len(array) > 1:
            assert isinstance(weight, Rounded) and np.array_equal(weight.values, quantised(array)[0].T)

    shared = "Wemb" in model.weights
    for side, theirs in [("encoder", "Wemb")] if shared else [(f"{s}coder", f"{s}coder_Wemb") for s in ("en", "de")]:
        table, array = floats(weights.pop(f"{side}_frontend.embed.weight")), stored(model.weights[theirs], int8)
        assert not table[[PAD, BOS]].any()
        assert np.array_equal(table[[EOS, UNK, *range(4, len(table))]], array)
    bias, array = floats(weights.pop("final_proj.bias")), model.weights["decoder_ff_logit_out_b"][0]
    assert (bias[[PAD, UNK, BOS]] == np.float32(NEVER)).all()
    assert np.array_equal(bias[[EOS, *range(4, len(bias))]], np.delete(array, 1))
    tied = model.options["transformer-tied-layers"] or range(1, 9)
    own = "ssru" if model.options["transformer-decoder-autoreg"] == "rnn" else "self_attn"
    for stack, parts in (("encoder", ("self_attn", "ffn")), ("decoder", (own, "encoder_decoder_attn", "ffn"))):
        for number in range(model.options[f"{stack[:3]}-depth"]):
            layer, place = f"{stack}.layers.{number}", tied[number] if stack == "decoder" else number + 1
            for part in parts:
                theirs, projections = SUBLAYERS[part]
                their = f"{stack}_l{place}_{theirs}"
                for projection, letter in projections.items():
                    check(f"{layer}.{part}.{projection}.weight", f"{their}_W{letter}")
                    if letter:
                        check(f"{layer}.{part}.{projection}.bias", f"{their}_b{letter}")
                norm = f"{layer}.{'self_attn' if part == 'ssru' else part}_layer_norm"
                within = "ffn" if part in ("ssru", "ffn") else "Wo"
                check(f"{norm}.weight", f"{their}_{within}_ln_scale")
                check(f"{norm}.bias", f"{their}_{within}_ln_bias")
    assert not weights


def test_an_archive_of_numpy_is_the_same_model(tmp_path: Path, folders: Callable[..., Path]) -> None:
    first = import_firefox([str(folders(2, False))], tmp_path / "first", languages=("de", "zh"))
    other = tmp_path / "other"
    shutil.copytree(folders(2, False), other)
    (other / "model.bin").unlink()
    numbered(2)[0].write_npz(other / "model.npz")
    second = import_firefox([str(other)], tmp_path / "second", languages=("de", "zh"))
    assert second.sha256 == first.sha256 and second.verifier == first.verifier
    assert second.alignment == AlignmentHeads(layer=second.verifier.decoder_layers - 1, heads=(0,), reads="output")


@pytest.mark.parametrize(("layer", "number"), [("last", 2), (1, 0), ("2", 1)])
def test_the_head_that_was_guided_says_alignments(tmp_path: Path, layer: object, number: int) -> None:
    folder = write_numbered(tmp_path / "de-en", 5)
    model, _ = numbered(5)
    model.options["transformer-guided-alignment-layer"] = layer
    (folder / "model.bin").write_bytes(model.binary())
    assert import_firefox([str(folder)], tmp_path / "ours").alignment == AlignmentHeads(
        layer=number, heads=(0,), reads="output"
    )


# Words


def surface(model: Model, tokens: Sequence[int]) -> list[str]:
    """Returns pieces as Bergamot's engine shows them, without the end and without spaces before all else."""
    said = [piece.replace("▁", " ") for piece in model.pieces.pieces([token for token in tokens if token != EOS])]
    first = next((place for place, piece in enumerate(said) if piece.strip()), len(said))
    return [piece.strip() if place <= first else piece for place, piece in enumerate(said)]


def gap_at(model: Model, source: Sequence[int], tokens: Sequence[int], place: int) -> float:
    """Returns how far apart the two best scores are where a token is said."""
    best = np.sort(logits_of(model.verifier, [source], np.array([[BOS, *tokens[:place]]]))[0, place])[-2:]
    return float(best[1] - best[0])


def compare(
    model: Model,
    lines: Sequence[str],
    answers: Sequence[Sequence[str]],
    may_differ: Callable[[Sequence[int], str], bool] = lambda source, piece: False,
    **how: Any,
) -> int:
    """Asserts that words are the engine's, up to what either ends at, or that two scores are as good as equal.

    Returns how many translations are the same.

    :param may_differ: whether the engine alone may say a piece of a source
    """
    sources, same = model.pieces.encode_batch(lines), 0
    found = decode(model, sources, DecodingOptions(strategy="greedy", **how))
    for source, answer, said in zip(sources, answers, found, strict=True):
        has_end = answer[-1:] == [""]
        mine, theirs = surface(model, said.tokens), answer[: len(answer) - has_end]
        different = [place for place, pair in enumerate(zip(mine, theirs, strict=False)) if len({*pair}) > 1]
        if different:
            place = different[0]
            assert may_differ(source, theirs[place]) or gap_at(model, source, said.tokens, place) < 1e-4
        elif has_end and len(said.tokens) < 2 * len(source):
            assert len(mine) == len(theirs)
        same += not different
    return same


@pytest.mark.parametrize("seed", SEEDS)
def test_words_are_those_of_bergamots_engine(tmp_path: Path, folders: Callable[..., Path], seed: int) -> None:
    record = json.loads(ANSWERS.read_text(encoding="utf-8"))[str(seed)]
    folder = folders(seed, False)
    assert record["sha256"] == file_sha256(folder / "model.bin"), "the answers are another model's"
    import_firefox([str(folder)], tmp_path / "ours", languages=("de", "en"))
    model = load_model(tmp_path / "ours", device="cpu", dtype="float32")
    answers = record["answers"]
    if (python := os.environ.get("SPECMT_BERGAMOT")) is not None:
        answers = ask(python, folder, LINES)
        assert [each[:MOST_STORED] for each in answers[: len(record["answers"])]] == record["answers"]
    assert compare(model, LINES[: len(answers)], answers) >= len(answers) - 1


@pytest.mark.parametrize("seed", [6, 9, 12, 18])
def test_words_in_int8_are_mostly_those_of_bergamots_engine(tmp_path: Path, seed: int) -> None:
    if (python := os.environ.get("SPECMT_BERGAMOT")) is None:
        pytest.skip("SPECMT_BERGAMOT names no Python that has bergamot")
    folder = write_numbered(tmp_path / "de-en", seed, int8=True)
    import_firefox([str(folder)], tmp_path / "ours", languages=("de", "en"))
    model = load_model(tmp_path / "ours", device="cpu", dtype="int8")
    found = decode(model, model.pieces.encode_batch(LINES), DecodingOptions(strategy="greedy"))
    same = different = 0
    # In float32 the engine computes matrices in int8 all the same, but measures activations, where a random model's
    # factors of them are no measure.
    for said, answer in zip(found, ask(python, folder, LINES), strict=True):
        pairs = list(zip(surface(model, said.tokens), answer, strict=False))
        first = next((place for place, pair in enumerate(pairs) if len({*pair}) > 1), None)
        same += len(pairs) if first is None else first
        different += first is not None
    assert same / (same + different) >= 0.95, f"{same} of {same + different}"


def ask(python: str, folder: Path, lines: Sequence[str], *options: str) -> list[list[str]]:
    """Returns what Bergamot's engine says (tests/bergamot.py)."""
    script = Path(__file__).parents[1] / "bergamot.py"
    command = [python, str(script), str(folder), options[0] if options else "float32", *options[1:]]
    text = "".join(f"{line}\n" for line in lines)
    answers = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in answers.splitlines()]


# Shortlists


def test_a_shortlist_is_what_the_engine_may_say(tmp_path: Path, deen: Path) -> None:
    ours = import_firefox([str(deen)], tmp_path / "ours")
    model = load_model(tmp_path / "ours", device="cpu", dtype="float32")
    assert ours.shortlist is not None and (ours.shortlist.frequent, ours.shortlist.associated) == (50, 40)
    assert ours.shortlist.sentences == 0 and ours.shortlist.recall is None
    lists, rows = random_shortlist((400, 400), 3), [-1, 1, -1, 0, *range(2, 400)]  # piece by our id
    for line in LINES[:10]:
        source = model.pieces.encode(line)
        theirs = {*range(50), *lists[0], *(rows[piece] for piece in source)}.union(*(lists[rows[p]] for p in source))
        wanted = sorted(our for our, their in enumerate(rows) if their in theirs and our != UNK)
        assert model.shortlist.of(source).tolist() == wanted and wanted[0] == EOS
    said = decode(model, model.pieces.encode_batch(LINES), DecodingOptions(strategy="greedy", shortlist=True))
    for line, hypothesis in zip(LINES, said, strict=True):
        assert {*hypothesis.tokens} <= {*model.shortlist.of(model.pieces.encode(line)).tolist()}


def test_separate_vocabularies_have_no_copies_on_shortlists(tmp_path: Path, folders: Callable[..., Path]) -> None:
    lists = random_shortlist((304, 600), 4)
    folder = tmp_path / "de-zh"
    shutil.copytree(folders(2, True), folder)
    (folder / "lex.50.50.dezh.s2t.bin").write_bytes(pack_shortlist(lists, first=50, best=40))
    import_firefox([str(folder)], tmp_path / "ours")
    model = load_model(tmp_path / "ours", device="cpu")
    source = model.pieces.encode("Das Haus")
    wanted = {*range(50), *lists[0]}.union(*(lists[piece - 2] for piece in source)) - {1}
    assert model.shortlist.of(source).tolist() == sorted(EOS if piece == 0 else piece + 2 for piece in wanted)


@pytest.mark.skipif("SPECMT_BERGAMOT" not in os.environ, reason="needs Bergamot's engine (tests/bergamot.py)")
@pytest.mark.parametrize("seed", [1, 2, 7])
def test_words_with_a_shortlist_are_those_of_bergamots_engine(tmp_path: Path, seed: int) -> None:
    folder = write_numbered(tmp_path / "theirs", seed)
    lists = random_shortlist(numbered(seed)[0].pieces, seed)
    (folder / "lex.s2t.bin").write_bytes(pack_shortlist(lists, first=50, best=40))
    import_firefox([str(folder)], tmp_path / "ours", languages=("de", "en"))
    model = load_model(tmp_path / "ours", device="cpu", dtype="float32")

    def is_filling(source: Sequence[int], piece: str) -> bool:
        """Whether it is one of those by which the engine fills a list up to a multiple of eight."""
        said = model.pieces.pieces(model.shortlist.of(source).tolist())
        return piece.strip() not in {each.replace("▁", " ").strip() for each in said}

    answers = ask(os.environ["SPECMT_BERGAMOT"], folder, LINES, "float32", "--shortlist")
    assert compare(model, LINES, answers, is_filling, shortlist=True) >= 40
    said = [decode(model, model.pieces.encode_batch(LINES), DecodingOptions(shortlist=each)) for each in (False, True)]
    assert sum(one.tokens != other.tokens for one, other in zip(*said, strict=True)) > 10


# Files


def test_packed_files_are_the_same_model(tmp_path: Path, deen: Path) -> None:
    first = import_firefox([str(deen)], tmp_path / "first")
    for kind, compress in (("gz", gzip.compress), ("zst", import_module(ZSTD).compress)):
        packed = tmp_path / kind
        packed.mkdir()
        for path in deen.iterdir():
            (packed / f"{path.name}.{kind}").write_bytes(compress(path.read_bytes()))
        second = import_firefox([str(path) for path in packed.iterdir()], tmp_path / f"ours-{kind}")
        assert second.sha256 == first.sha256 and (second.source, second.target) == ("de", "en")
        imported = describe(second)["imported"]
        for path in deen.iterdir():
            assert (
                imported[path.name] == sha256(path.read_bytes()).hexdigest() == describe(first)["imported"][path.name]
            )
            assert imported[f"{path.name}.{kind}"] == file_sha256(packed / f"{path.name}.{kind}")


def test_files_are_found_by_the_names_that_mozilla_gives_them(tmp_path: Path, deen: Path) -> None:
    wanted = import_firefox([str(deen)], tmp_path / "wanted")

    def check(names: dict[str, str], *, more: Sequence[str] = (), **how: Any) -> ModelFolder:
        folder = tmp_path / f"{len([*tmp_path.iterdir()])}-de-en-tiny"
        folder.mkdir()
        for old, new in names.items():
            shutil.copyfile(deen / old, folder / new)
        for name in more:
            (folder / name).write_text("{}", encoding="utf-8")
        return import_firefox([str(folder)], folder.with_suffix(".ours"), **how)

    model, vocabulary, shortlist = "model.deen.intgemm.alphas.bin", "vocab.deen.spm", "lex.50.50.deen.s2t.bin"
    plain = {model: "model.intgemm8.bin", vocabulary: "vocab.spm"}
    assert check(plain, languages=("de", "en")).verifier == wanted.verifier
    versions = {
        model: "model.deen.intgemm8.bin.v2.1",
        vocabulary: "vocab.deen.spm-1.0",
        shortlist: "lex.deen.s2t.bin.2",
    }
    assert check(versions, more=["metadata.json", "model.deen.npz.decoder.yml"]).sha256 == wanted.sha256
    swapped = {model: "model.enzh_hant.intgemm.alphas.bin", vocabulary: "vocab.enzh_hant.spm"}
    assert check(swapped).target == "zh-Hant"


def test_folders_of_translatelocally(tmp_path: Path, deen: Path) -> None:
    folder = tmp_path / "share" / "de-en.tiny.v2"
    folder.mkdir(parents=True)
    names = {"model.deen.intgemm.alphas.bin": "m.bin", "vocab.deen.spm": "v.spm", "lex.50.50.deen.s2t.bin": "l.bin"}
    for old, new in names.items():
        shutil.copyfile(deen / old, folder / new)
    (folder / "vocab.spm").write_bytes(b"of another model")
    config = "relative-paths: true\nmodels:\n- m.bin\nvocabs:\n- v.spm\n- v.spm\nshortlist:\n- {}\n- false\n"
    for shortlist in ("lex.s2t.gz", "l.bin"):  # the one of old models is text
        (folder / "config.intgemm8bitalpha.yml").write_text(config.format(shortlist), encoding="utf-8")
        ours = import_firefox([str(folder)], tmp_path / shortlist, languages=("xx", "yy"))
        assert (ours.source, ours.target) == ("xx", "yy") and (ours.shortlist is not None) == (shortlist == "l.bin")
    info: dict[str, Any] = {"shortName": "eng-ukr-tiny11", "src": "English", "trg": "Ukrainian"}
    for number, record in enumerate((info, {**info, "srcTags": {"en": "English"}, "trgTag": "uk"})):
        (folder / "model_info.json").write_text(json.dumps(record), encoding="utf-8")
        ours = import_firefox([str(folder)], tmp_path / f"ours{number}")
        assert (ours.source, ours.target) == ("en", "uk")


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("deen", ("de", "en")),
        ("en-de", ("en", "de")),
        ("hbsen", ("hbs", "en")),
        ("enhbs", ("en", "hbs")),
        ("engukr", ("en", "uk")),
        ("enzh_hant", ("en", "zh-Hant")),
        ("zh_hansen", ("zh-Hans", "en")),
        ("intgemm8", None),
        ("s2t", None),
        ("xxyy", None),
    ],
)
def test_languages_side_by_side(text: str, pair: tuple[str, str] | None) -> None:
    assert split_pair(text) == pair


# Errors


def check_error(source: Path | Sequence[Path], message: str, folder: Path, kind: type[Exception] = ModelError) -> None:
    sources = [source] if isinstance(source, Path) else source
    with pytest.raises(kind, match=message) as caught:
        import_firefox([str(each) for each in sources], folder, languages=("de", "en"))
    assert "\n" not in str(caught.value) and not folder.exists()
    assert not [path for path in folder.parent.iterdir() if path.name.endswith(".tmp")]


def small() -> Marian:
    return random_model((400, 400), 1, **{"enc-depth": 1, "dec-depth": 1})


def test_files_that_are_cut_off_anywhere(tmp_path: Path, deen: Path) -> None:
    path, data = deen / "model.deen.intgemm.alphas.bin", small().binary(int8=True)
    count = struct.unpack_from("<Q", data, 8)[0]
    names = 16 + 32 * count
    lengths = [struct.unpack_from("<Q", data, 16 + 32 * i)[0] for i in range(count)]
    shapes = names + sum(lengths)
    padding = shapes + 4 * 2 * count - 4  # all but the options are matrices
    for length, where in (
        (0, "its head"),
        (7, "its head"),
        (15, "its head"),
        (16, "the list of its items"),
        (names - 1, "the list of its items"),
        (names, "the names of its items"),
        (shapes - 1, "the names of its items"),
        (shapes, "the shapes of its items"),
        (padding - 1, "the shapes of its items"),
        (padding, "the padding before its data"),
        (padding + 8, "the padding before its data"),
        (len(data) // 2, "the data of "),
        (len(data) - 1, "the data of special:model.yml"),
    ):
        path.write_bytes(data[:length])
        check_error(deen, f"model.deen.intgemm.alphas.bin: is damaged or cut off in {where}", tmp_path / "ours")


def replaced(model: Marian, name: str, /, **changes: Any) -> bytes:
    """Returns a binary file with an item changed, or without it."""
    items = [*model.items(int8=True), text_item(model.options)]
    if not changes:
        return pack(item for item in items if item.name != name)
    return pack(Item(**{**vars(item), **changes}) if item.name == name else item for item in items)


MATRIX = "decoder_l1_rnn_W"
CODES = bytes(64 * 64)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda m: b"<!DOCTYPE html>\n", "is no binary file of Marian; its version must be 1, but is"),
        (lambda m: pack([], version=2), "its version must be 1, but is 2"),
        (lambda m: struct.pack("<2Q", 1, 1 << 60), "cut off in the list of its items"),
        (lambda m: pack([]), "is no Marian model; it has no special:model.yml"),
        (lambda m: b"PK\3\4no archive", "cannot be read as a NumPy archive"),
        (lambda m: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "fetch that with `git lfs pull`"),
        (lambda m: gzip.compress(m.binary())[:-9], "is damaged and cannot be unpacked"),
        (lambda m: gzip.compress(m.binary())[:20] + bytes(40), "is damaged and cannot be unpacked"),
        (lambda m: import_module(ZSTD).compress(m.binary())[:-9], "is damaged and cannot be unpacked"),
        (lambda m: replaced(m, MATRIX), f"has no {MATRIX}; is it of another architecture"),
        (lambda m: replaced(m, MATRIX, name="gru_U"), "has gru_U, which its configuration has no place for"),
        (lambda m: replaced(m, MATRIX, name="decoder_l1_rnn_Wf"), "it has decoder_l1_rnn_Wf twice"),
        (lambda m: replaced(m, MATRIX, name="\x1b[31m"), r"has \\x1b\[31m, which its configuration"),
        (lambda m: replaced(m, MATRIX, type=0x4102), "or in int8 for intgemm, but is of type 0x4102"),
        (lambda m: replaced(m, MATRIX, shape=(64, -64)), r"has an impossible shape, \(64, -64\)"),
        (lambda m: replaced(m, MATRIX, shape=()), r"has an impossible shape, \(\)"),
        (lambda m: replaced(m, MATRIX, shape=(64, 1 << 30)), "too few for its shape"),
        (lambda m: replaced(m, MATRIX, shape=(64, 68)), "too few for its shape"),
        (lambda m: replaced(m, MATRIX, shape=(64, 4, 16)), "must be a matrix, since it is in int8"),
        (lambda m: replaced(m, MATRIX, shape=(32, 128)), "must be 64 × 64, but is 128 × 32 instead"),
        (lambda m: replaced(m, MATRIX, data=CODES + struct.pack("<f", 0.0)), "must be finite"),
        (lambda m: replaced(m, MATRIX, data=CODES + struct.pack("<f", -1.0)), "must be finite"),
        (lambda m: replaced(m, MATRIX, data=CODES + struct.pack("<f", float("nan"))), "must be finite"),
        (lambda m: replaced(m, "decoder_l1_rnn_bf", data=struct.pack("<64f", *[float("inf")] * 64)), "must be finite"),
        (lambda m: replaced(m, "special:model.yml", type=FLOAT32, shape=(8,)), "model.yml must be text"),
        (lambda m: replaced(m, "special:model.yml", data=b"a: [\0" + bytes(2000)), "is not valid YAML"),
        (lambda m: replaced(m, "special:model.yml", data=b"- a\0" + bytes(2000), shape=(4,)), "must hold options"),
    ],
)  # fmt: skip
def test_damaged_models(tmp_path: Path, deen: Path, data: Callable[[Marian], bytes], message: str) -> None:
    (deen / "model.deen.intgemm.alphas.bin").write_bytes(data(small()))
    check_error(deen, message, tmp_path / "ours")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transformer-decoder-autoreg": "average-attention"}, "'self-attention' or 'rnn', but is 'average-attention'"),
        ({"dec-cell": "gru"}, "`dec-cell` must be 'ssru', but is 'gru'"),
        ({"layer-normalization": True}, "`layer-normalization` must be False, but is True"),
        ({"transformer-rnn-projection": True}, "`transformer-rnn-projection` must be False"),
        ({"transformer-no-bias": True}, "`transformer-no-bias` must be False"),
        ({"type": "s2s"}, "`type` must be 'transformer', but is 's2s'"),
        ({"transformer-ffn-activation": "gelu"}, "must be 'swish' or 'relu', but is 'gelu' instead"),
        ({"transformer-ffn-depth": 3}, "`transformer-ffn-depth` must be 2"),
        ({"transformer-postprocess": "da"}, r"must be \('', 'dan', ''\), but are \('', 'da', ''\)"),
        (
            {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
            "but are",
        ),
        ({"transformer-tied-layers": [2]}, "must name a layer up to 1 for each decoder layer"),
        ({"transformer-guided-alignment-layer": 2}, "must be last or up to 1, but is 2"),
        ({"transformer-heads": 3}, "cannot be run"),
        ({"dec-depth": 2}, "has no decoder_l2_rnn_W"),
        ({"dim-emb": 128}, "does not fit its configuration"),
        ({"mixture-of-experts": 4}, "has `mixture-of-experts`, an option that is not known here"),
    ],
)
def test_models_that_cannot_be_run(tmp_path: Path, deen: Path, options: dict[str, Any], message: str) -> None:
    model = small()
    model.options |= options
    (deen / "model.deen.intgemm.alphas.bin").write_bytes(model.binary(int8=True))
    check_error(deen, message, tmp_path / "ours")


def test_norms_before_sublayers_are_left_to_marian(tmp_path: Path, deen: Path) -> None:
    model = small()
    model.options |= {
        "transformer-preprocess": "n",
        "transformer-postprocess": "da",
        "transformer-postprocess-top": "n",
    }
    model.options["transformer-decoder-autoreg"] = "self-attention"
    arrays = {}
    for name, array in model.weights.items():
        own = name.replace("decoder_l1_rnn_ffn", "decoder_l1_self_Wo")
        if "_rnn_" not in own:
            arrays[f"{own}_pre" if "_ln_" in own else own] = array
    for part in "qkvo":
        arrays |= {
            f"decoder_l1_self_W{part}": np.zeros((64, 64), "f4"),
            f"decoder_l1_self_b{part}": np.zeros((1, 64), "f4"),
        }
    arrays |= {
        f"{stack}_top_ln_{kind}": np.zeros((1, 64), "f4")
        for stack in ("encoder", "decoder")
        for kind in ("scale", "bias")
    }
    model.weights = arrays
    (deen / "model.deen.intgemm.alphas.bin").write_bytes(model.binary())
    check_error(deen, "has norms before its sublayers", tmp_path / "ours")


def test_damaged_shortlists(tmp_path: Path, deen: Path) -> None:
    path, lists = deen / "lex.50.50.deen.s2t.bin", random_shortlist((400, 400), 3)
    data = path.read_bytes()
    cut = sum(map(len, lists)) % 2 * 4  # to whole words of 8 bytes, which are what is summed up
    for damaged, message in (
        (b"", "is damaged or cut off in its head"),
        (data[:40], "is damaged or cut off in its head"),
        (b"\0" + data[1:], "is no binary shortlist of Marian"),
        (data[:100] + bytes([data[100] ^ 1]) + data[101:], "its checksum is another one"),
        (data[: -8 - cut], "its checksum is another one"),
        (
            pack_shortlist(lists[1:], first=50, best=40),
            "must be for 400 source pieces, as the vocabulary, but is for 399",
        ),
        (pack_shortlist([[400]] * 400, first=50, best=40), "is damaged, or for other vocabularies"),
        (pack_shortlist(lists, first=50, best=40) + b"1234", "is damaged"),
    ):
        path.write_bytes(damaged)
        check_error(deen, message, tmp_path / "ours")


def test_files_that_are_missing_or_too_many(tmp_path: Path, deen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, model, vocabulary = tmp_path / "ours", deen / "model.deen.intgemm.alphas.bin", deen / "vocab.deen.spm"
    check_error(tmp_path / "nothing", "is no file and no folder", ours)
    check_error([deen, model], "Name one folder or some files", ours, UsageError)
    check_error(model, "there must be a vocabulary, such as", ours)
    check_error(vocabulary, "there must be a model, such as", ours)
    shutil.copyfile(vocabulary, deen / "other.txt")
    check_error([model, deen / "other.txt"], "its name must be such as", ours, UsageError)
    shutil.copyfile(model, deen / "model.ende.intgemm.alphas.bin")
    check_error(deen, "has several of a kind, model.deen.*, model.ende", ours, UsageError)
    (deen / "model.ende.intgemm.alphas.bin").unlink()
    vocabulary.write_bytes(b"no model")
    check_error(deen, "cannot be read as a SentencePiece model", ours)
    vocabulary.write_bytes(make_vocabulary("ein anderes " * 9 + "".join(map(chr, range(65, 91))), 40))
    check_error(deen, "must have as many pieces as|must be for 40 source pieces", ours)
    vocabulary.unlink()
    check_error(deen, "there must be a vocabulary", ours)
    (deen / "srcvocab.deen.spm").write_bytes(numbered(1)[1]["vocab.spm"])
    check_error(deen, "there must be a vocabulary", ours)
    (deen / "trgvocab.deen.spm").write_bytes(numbered(2)[1]["trgvocab.spm"])
    check_error(deen, "has one table of embeddings, but there are two vocabularies", ours)
    monkeypatch.setitem(sys.modules, ZSTD, None)
    model.write_bytes(b"\x28\xb5\x2f\xfd")
    check_error(deen, r"is packed by zstd, and to unpack it takes `pip install 'specmt\[zstd\]'`", ours)


def test_the_command(tmp_path: Path, deen: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = [str(path) for path in deen.iterdir()]
    assert run(["import", "firefox", *files, str(tmp_path / "ours")]) == 0
    assert capfd.readouterr().err.endswith("ours: de→en\n")
    assert run(["models", "show", str(tmp_path / "ours")]) == 0
    shown = capfd.readouterr().out
    assert "Imported from" in shown and "Shortlist" in shown
    assert run(["models", "verify", str(tmp_path / "ours")]) == 0
    for name in ("model.deen.intgemm.alphas.bin", "vocab.deen.spm"):
        (deen / name).rename(deen / name.replace("deen.", ""))
    capfd.readouterr()
    files = [str(path) for path in deen.iterdir() if not path.name.startswith("lex")]
    assert run(["import", "firefox", *files, str(tmp_path / "second")]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "nothing says what the source language is; name it with --from." in said
    assert run(["import", "firefox", *files, str(tmp_path / "second"), "--from", "de", "--to", "en"]) == 0
    pieces = load_pieces(ModelFolder.read(tmp_path / "second").files, lambda name: tmp_path / "second" / name)
    assert pieces.decode(pieces.encode("Das Haus ist alt.")) == "Das Haus ist alt."


def test_pieces_of_chinese_are_wide(tmp_path: Path, folders: Callable[..., Path]) -> None:
    ours = import_firefox([str(folders(2, True))], tmp_path / "ours", languages=("de", "zh"))
    model = load_model(ours.path, device="cpu")
    assert not model.pieces.shared and (model.pieces.source_size, len(model.pieces)) == (306, 602)
    text = "乯欍加Linux。"
    ids = model.pieces.encode_targets([text])[0]
    assert UNK not in ids and model.pieces.decode(ids) == text
    greedy = decode(model, model.pieces.encode_batch(LINES), DecodingOptions(strategy="greedy"))
    drafted = decode(model, model.pieces.encode_batch(LINES), DecodingOptions(drafter="lookup", block_size=4))
    assert [each.tokens for each in drafted] == [each.tokens for each in greedy]
    assert max(len(piece) for each in greedy for piece in model.pieces.pieces(each.tokens)) == 3


def write_answers() -> None:
    """Asks the engine anew, for what there is to be compared with where it cannot run."""
    record = {}
    root = Path(sys.argv[1])
    for seed in SEEDS:
        folder = write_numbered(root / str(seed), seed)
        answers = ask(os.environ["SPECMT_BERGAMOT"], folder, LINES[:10])
        record[str(seed)] = {
            "sha256": file_sha256(folder / "model.bin"),
            "answers": [each[:MOST_STORED] for each in answers],
        }
    lines = (f'"{seed}": {json.dumps(each, ensure_ascii=False)}' for seed, each in record.items())
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_answers()
