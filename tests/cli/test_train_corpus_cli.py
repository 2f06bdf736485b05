"""`specmt train drafter --corpus`: from a verifier and text to a drafter, in one command."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specmt.evaluation import bench, payoff
from specmt.models.config import VerifierConfig
from specmt.models.folder import CONFIG, DRAFTER, PIECES, VERIFIER, ModelFolder
from specmt.models.hub import Model, load_model
from specmt.models.modules import create_verifier
from specmt.training import distill, pipeline, work
from specmt.training.data import Array
from specmt.training.loop import Trainer
from specmt.training.validate import weights_of
from specmt.types import EOS
from tests.commands import fails, specmt
from tests.folders import write_model

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "Hund", "Katze", "Maus", "und", "oder", "nicht"]
LINES = 90
OPTIONS = [
    *("--layers", "1", "--block-size", "4", "--correction-rank", "16", "--device", "cpu", "--threads", "1"),
    *("--tokens-per-batch", "600", "--tokens-per-update", "600", "--updates", "8", "--save-every", "4"),
]


@pytest.fixture(scope="module", autouse=True)
def soon_measured() -> Iterator[None]:
    """Times are of no use here: as few as can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payoff, "OPTIONS", bench.BenchOptions(rows=(1,), batch_sizes=(1, 4), repeats=1))
        patch.setattr(bench, "BUDGET", 0.0)
        patch.setattr(pipeline, "_PROBE_SECONDS", 0.0)
        for module in (pipeline, work):
            patch.setattr(module, "SHARD", 50)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pairs = list(permutations(WORDS, 2))
    random.Random(3).shuffle(pairs)
    lines = [" ".join([*pair, *WORDS[: number % 3]]) for number, pair in enumerate(pairs[:LINES])]
    path = tmp_path_factory.mktemp("corpus") / "corpus.de"
    path.write_text("".join(f"{line}\n" for line in [*lines, "", lines[0], f" {lines[1]} "]), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Finished:
    """What the command left and said."""

    verifier: Path
    before: dict[str, bytes]
    out: str
    err: str

    @property
    def run(self) -> Path:
        return self.verifier.with_name("verifier.training")


@pytest.fixture(scope="module")
def finished(tiny_model_without_drafter: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    verifier = tmp_path_factory.mktemp("finished") / "verifier"
    shutil.copytree(tiny_model_without_drafter, verifier)
    (verifier / "README.md").write_text("A card.\n")
    before = files_of(verifier)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert specmt("train", "drafter", "--verifier", verifier, "--corpus", corpus, *OPTIONS) == 0
    return Finished(verifier, before, out.getvalue(), err.getvalue())


@pytest.fixture
def verifier(tiny_model_without_drafter: Path, tmp_path: Path) -> Path:
    path = tmp_path / "verifier"
    shutil.copytree(tiny_model_without_drafter, path)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def translate(model: Path, corpus: Path, out: Path, *options: str) -> bytes:
    arguments = ["-o", out, "--model", model, "--device", "cpu", "--threads", "1", *options]
    assert specmt("translate", corpus, *arguments) == 0
    return out.read_bytes()


def test_one_command_puts_a_calibrated_drafter_into_the_model(finished: Finished) -> None:
    after = files_of(finished.verifier)
    assert {name for name in after if finished.before.get(name) != after[name]} == {CONFIG, DRAFTER}
    model = ModelFolder.read(finished.verifier)
    assert model.drafter is not None
    assert 1 <= model.drafter.block_size <= 4
    assert model.calibration is not None
    assert len(model.calibration.acceptance) == 4
    final = load_file(finished.run / "drafter" / "final.safetensors")
    assert all(torch.equal(final[name].half(), tensor) for name, tensor in model.weights(DRAFTER).items())
    assert not [path for path in finished.verifier.parent.rglob("*.tmp")]


def test_it_says_how_long_it_will_take_and_what_came_of_it(finished: Finished) -> None:
    held_out = LINES // work.LEAST
    for step in (f"distilling {LINES - held_out} sentences", "training, 8 updates", "calibrating and measuring", "all"):
        assert f"specmt: {step}: about " in finished.err
    assert f"specmt translate --model {finished.verifier}" in finished.err
    assert f"{held_out} held-out lines" in finished.out
    measured = json.loads((finished.run / "measured.json").read_text())
    assert list(measured["speeds"]) == ["1", "4"]
    for ways in measured["speeds"].values():
        assert list(ways) == ["greedy", "k=2", "k=3", "tree", "auto"]
    assert " pay here" in finished.out


def test_the_model_says_the_same_words(finished: Finished, corpus: Path, tmp_path: Path) -> None:
    stats = ["--stats", str(tmp_path / "stats"), "--block-size", "4"]
    speculative = translate(finished.verifier, corpus, tmp_path / "out", *stats)
    assert json.loads((tmp_path / "stats").read_text())["drafted"] > 0
    assert speculative == translate(finished.verifier, corpus, tmp_path / "out", "--strategy", "greedy")


def test_a_finished_command_finds_all_done_and_goes_on_with_more_updates(
    finished: Finished, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for folder in (finished.verifier, finished.run):
        shutil.copytree(folder, tmp_path / folder.name)
    verifier = tmp_path / finished.verifier.name
    command = ["train", "drafter", "--verifier", verifier, *OPTIONS]
    assert specmt(*command, "--corpus", corpus) == 0
    assert "training, 8 updates: done" in capfd.readouterr().err
    before = files_of(verifier)
    assert before[DRAFTER] == files_of(finished.verifier)[DRAFTER]
    (tmp_path / "other.de").write_text(corpus.read_text(encoding="utf-8") + "Katze\n", encoding="utf-8")
    for arguments, what in (
        (["--corpus", tmp_path / "other.de"], "on another text"),
        (["--corpus", corpus, "--layers", "2"], "on another shape of drafter"),
    ):
        assert specmt(*command, *arguments) == 2
        assert f"verifier.training: holds the work {what}; name a new folder" in capfd.readouterr().err
    assert files_of(verifier) == before
    # The drafter in the folder is this run's own, and may be put in its place.
    assert specmt(*command, "--corpus", corpus, "--updates", "12") == 0
    assert files_of(verifier)[DRAFTER] != before[DRAFTER]


def test_what_is_held_out_is_never_trained_on(verifier: Path, corpus: Path) -> None:
    model = load_model(verifier, device="cpu", threads=1)
    found = pipeline.read_corpus(model, [corpus], limit=1000, max_length=64)
    sides = [set(map(tuple, side)) for side in (found.training, found.held_out)]
    assert not sides[0] & sides[1]
    assert sum(map(len, sides)) == len(found.training) + len(found.held_out) == LINES
    assert len(found.held_out) == LINES // work.LEAST
    few = pipeline.read_corpus(model, [corpus], limit=40, max_length=64)
    assert len(few.training) + len(few.held_out) == 40
    short = pipeline.read_corpus(model, [corpus], limit=1000, max_length=12)
    assert max(map(len, short.training + short.held_out)) <= 12


def stopped(function: Callable[..., object], calls: int) -> Callable[..., object]:
    """Returns a function that is interrupted, as by Ctrl-C, after so many calls."""
    made: list[object] = []

    def call(*arguments: object, **options: object) -> object:
        made.append(function(*arguments, **options))
        if len(made) == calls:
            raise KeyboardInterrupt
        return made[-1]

    return call


def test_a_stopped_command_goes_on_where_it_was(
    finished: Finished, verifier: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "drafter", "--verifier", verifier, "--corpus", corpus, *OPTIONS]
    before = files_of(verifier)
    decoded: list[int] = []
    updates: list[int] = []
    decode_part, update = distill.translate_whole, Trainer._update

    def count_sentences(model: Model, sources: list[list[int]], batch_size: int) -> object:
        decoded.append(len(sources))
        return decode_part(model, sources, batch_size)

    def count_updates(trainer: Trainer, batches: list[Array]) -> object:
        updates.append(len(batches))
        return update(trainer, batches)

    monkeypatch.setattr(distill, "translate_whole", count_sentences)
    monkeypatch.setattr(Trainer, "_update", count_updates)
    for place, name, calls in (
        (distill, "translate_whole", 2),
        (Trainer, "_update", 3 + 6),  # the first ones are to measure
        (pipeline, "calibrate", 1),
        (pipeline, "save_tensors", 1),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, stopped(getattr(place, name), calls))
            assert specmt(*command) == 130
        assert "the same command goes on" in capfd.readouterr().err
        assert files_of(verifier) == before
    assert specmt(*command) == 0
    # What came after the last shard and the last checkpoint was done twice, and nothing else.
    assert decoded == [50, 36, 36]
    assert len(updates) == 5 * 3 + 6 + 4
    assert files_of(verifier)[DRAFTER] == files_of(finished.verifier)[DRAFTER]


def test_a_drafter_can_go_into_a_folder_of_its_own(verifier: Path, corpus: Path, tmp_path: Path) -> None:
    before = files_of(verifier)
    place = ["--into", tmp_path / "new" / "model"]
    assert (
        specmt("train", "drafter", tmp_path / "run", "--verifier", verifier, *place, *OPTIONS, "--corpus", corpus) == 0
    )
    assert files_of(verifier) == before
    model = ModelFolder.read(tmp_path / "new" / "model")
    assert model.drafter is not None
    for name in (PIECES, VERIFIER, DRAFTER):
        model.verified(name)
    assert not (tmp_path / "verifier.training").exists()


def test_a_large_table_stays_the_verifiers(
    verifier: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmt.models.config.LARGE", 400)
    assert specmt("train", "drafter", "--verifier", verifier, "--corpus", corpus, *OPTIONS) == 0
    folder = ModelFolder.read(verifier)
    assert folder.drafter is not None
    assert not folder.drafter.own_table
    for path in (verifier / DRAFTER, tmp_path / "verifier.training" / "drafter" / "final.safetensors"):
        assert "embed.weight" not in load_file(path)
    assert load_model(verifier, device="cpu", threads=1).drafter is not None
    outputs = [translate(verifier, corpus, tmp_path / "out", "--strategy", each) for each in ("speculative", "greedy")]
    assert outputs[0] == outputs[1]


def test_a_corpus_may_be_many_files(verifier: Path, corpus: Path, tmp_path: Path) -> None:
    lines = corpus.read_text(encoding="utf-8").splitlines(keepends=True)
    parts = [tmp_path / f"part{number}.de" for number in range(3)]
    for number, part in enumerate(parts):
        part.write_text("".join(lines[number::3]), encoding="utf-8")
    assert specmt("train", "drafter", "--corpus", *parts, "--verifier", verifier, *OPTIONS, "--limit", "60") == 0
    record = json.loads((tmp_path / "verifier.training" / work.WORK).read_text())
    assert record["work"]["sentences"] == 60 - 60 // work.LEAST


def test_other_architectures_with_prefixes(pieces_path: Path, corpus: Path, tmp_path: Path) -> None:
    config = VerifierConfig(
        model_dim=32,
        num_heads=2,
        ffn_dim=64,
        encoder_layers=1,
        decoder_layers=2,
        vocab_size=400,
        max_length=128,
        norm="post",
        activation="swish",
        positions="marian",
        first_position=2,
        output_bias=True,
        tied_output=False,
        source_prefix=(9, 10),
        target_prefix=(11,),
    )
    torch.manual_seed(5)
    weights = weights_of(create_verifier(config, torch.device("cpu")))
    weights["final_proj.bias"][EOS] = 1.5  # so that its translations end
    path = tmp_path / "post"
    write_model(path, pieces_path, config, weights)
    assert specmt("train", "drafter", "--verifier", path, "--corpus", corpus, *OPTIONS) == 0
    model = ModelFolder.read(path)
    assert model.drafter is not None
    assert (model.drafter.norm, model.drafter.activation, model.drafter.first_position) == ("post", "swish", 2)
    outputs = [translate(path, corpus, tmp_path / "out", "--strategy", each) for each in ("speculative", "greedy")]
    assert outputs[0] == outputs[1]


def test_mistakes_in_one_line(
    verifier: Path, tiny_model: Path, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.de").write_text("\n\n")
    (tmp_path / "short.de").write_text("eins\nzwei\neins\n")
    (tmp_path / "latin.de").write_bytes(b"gut\nschl\xfccht\n")
    (tmp_path / "file").write_text("")
    other = tmp_path / "other"
    shutil.copytree(verifier, other)
    weights = {name: 2 * tensor for name, tensor in ModelFolder.read(other).weights(VERIFIER).items()}
    folder = ModelFolder.read(verifier)
    write_model(other, verifier / PIECES, replace(folder.verifier, dropout=0.0), weights)
    theirs = tmp_path / "theirs"
    shutil.copytree(tiny_model, theirs)
    before = {path: files_of(path) for path in (verifier, other, theirs)}
    command = ["train", "drafter", *OPTIONS]
    of_ours = [*command, "--verifier", verifier]
    for arguments, code, message in (
        ([*of_ours, "--corpus", tmp_path / "none"], 66, "none: no such file."),
        ([*of_ours, "--corpus", tmp_path / "empty.de"], 65, "empty.de: must have at least 20 different lines"),
        ([*of_ours, "--corpus", tmp_path / "short.de"], 65, "but has 2 instead"),
        ([*of_ours, "--corpus", tmp_path / "latin.de"], 65, "latin.de:2: is not UTF-8"),
        ([*command, "--verifier", tmp_path / "none", "--corpus", corpus], 69, "none: is no model folder"),
        ([*command, "--verifier", theirs, "--corpus", corpus], 2, "has a drafter already; name a new folder"),
        ([*of_ours, "--corpus", corpus, "--into", other], 2, "other: is the folder of another model"),
        (
            [*of_ours, "--corpus", corpus, "--into", tmp_path / "file" / "x"],
            74,
            "x: cannot be written (Not a directory",
        ),
        ([*of_ours[:2], tmp_path / "file" / "run", *of_ours[2:], "--corpus", corpus], 74, "run: cannot be written"),
        ([*of_ours, "--corpus", corpus, "--hours", "0"], 2, "`hours` must be more than 0"),
        ([*of_ours, "--corpus", corpus, "--hours", "1e-7"], 2, "`hours` must be at least"),
        ([*of_ours, "--corpus", corpus, "--limit", "-1"], 2, "`limit` must be more than 0"),
        ([*of_ours, "--corpus", corpus, "--block-size", "0"], 2, "`block_size` must be"),
        ([*of_ours, "--corpus", corpus, "--data", tmp_path], 2, "either a text with `--corpus` or distilled data"),
        (of_ours, 2, "either a text with `--corpus` or distilled data"),
        ([*of_ours, "--data", tmp_path], 2, "Name the FOLDER"),
        ([*of_ours, tmp_path / "run", "--data", tmp_path, "--hours", "1"], 2, "`hours` is not for `--data`"),
        ([*of_ours, "--corpus", corpus, "--kind", "autoregressive"], 2, "`kind` is not for `--corpus`"),
    ):
        fails(capfd, arguments, code, message)
    assert {path: files_of(path) for path in (verifier, other, theirs)} == before
