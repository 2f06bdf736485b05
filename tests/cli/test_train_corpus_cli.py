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

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from specmt.cli.train import ManyValues, drafter
from specmt.engine.weights import floats
from specmt.errors import DataError
from specmt.evaluation import bench, payoff
from specmt.models.config import VerifierConfig
from specmt.models.folder import AUTOREGRESSIVE, CONFIG, DRAFTER, PIECES, VERIFIER, ModelFolder
from specmt.models.hub import Model, load_model
from specmt.models.reference.modules import create_verifier
from specmt.models.reference.weights import to_arrays
from specmt.training import corpus as steps
from specmt.training import distill, validate
from specmt.training.data import Array, ParallelData, Sequences
from specmt.training.loop import Trainer
from specmt.training.validate import weights_of
from specmt.types import EOS
from tests.commands import fails, specmt
from tests.folders import files_in, with_ssru, write_model

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "Hund", "Katze", "Maus", "und", "oder", "nicht"]
LINES = 90
OPTIONS = [
    *("--layers", "1", "--block-size", "4", "--correction-rank", "16", "--device", "cpu", "--threads", "1"),
    *("--tokens-per-batch", "600", "--tokens-per-update", "600", "--updates", "8", "--save-every", "4"),
]


@pytest.fixture(scope="module", autouse=True)
def soon_measured() -> Iterator[None]:
    """Times are of no use here: as few as can be. Nor are pictures, which take longer than these runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payoff, "OPTIONS", bench.BenchOptions(rows=(1,), batch_sizes=(1, 4), repeats=1))
        patch.setattr(bench, "BUDGET", 0.0)
        patch.setattr(steps, "SHARD", 50)
        patch.setattr("specmt.training.loop.plot_metrics", lambda metrics, picture: None)
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
    before = files_in(verifier)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert specmt("train", "drafter", "--verifier", verifier, "--corpus", corpus, *OPTIONS) == 0
    return Finished(verifier, before, out.getvalue(), err.getvalue())


@pytest.fixture
def verifier(tiny_model_without_drafter: Path, tmp_path: Path) -> Path:
    path = tmp_path / "verifier"
    shutil.copytree(tiny_model_without_drafter, path)
    return path


def translate(model: Path, corpus: Path, out: Path, *options: str) -> bytes:
    arguments = ["-o", out, "--model", model, "--device", "cpu", "--threads", "1", *options]
    assert specmt("translate", corpus, *arguments) == 0
    return out.read_bytes()


def test_one_command_puts_a_calibrated_drafter_into_the_model(finished: Finished) -> None:
    after = files_in(finished.verifier)
    assert {name for name in after if finished.before.get(name) != after[name]} == {CONFIG, DRAFTER}
    model = ModelFolder.read(finished.verifier)
    assert model.drafter is not None
    assert 1 <= model.drafter.block_size <= 4
    assert {name: len(each.acceptance) for name, each in model.calibrations.items()} == {"masked": 4}
    final = load_file(finished.run / "drafter" / "final.safetensors")
    assert all(np.array_equal(final[name].half().numpy(), weight) for name, weight in model.weights(DRAFTER).items())
    assert not [path for path in finished.verifier.parent.rglob("*.tmp")]


def test_it_says_what_it_does_and_what_came_of_it(finished: Finished) -> None:
    held_out = LINES // steps.LEAST
    sentences = len(ParallelData.load(finished.run / "distilled", "train"))
    assert f"distilling: {LINES - held_out}/{LINES - held_out}\n" in finished.err
    assert f"specmt: training on {sentences} sentences, 8 updates\n" in finished.err
    rows = [json.loads(line) for line in (finished.run / "drafter" / "metrics.jsonl").read_text().splitlines()]
    assert [row["update"] for row in rows if "accepted_held_out" in row] == [2, 4, 6, 8]
    assert f"specmt translate --model {finished.verifier}" in finished.err
    assert f"{held_out} held-out lines" in finished.out
    measured = json.loads((finished.run / "measured.json").read_text())
    assert list(measured["speeds"]) == ["1", "4"]
    for ways in measured["speeds"].values():
        assert list(ways) == ["greedy", "k=2", "k=3", "tree", "auto"]
    assert " pay here" in finished.out


def test_a_finished_command_finds_all_done_and_goes_on_with_more_updates(
    finished: Finished, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for folder in (finished.verifier, finished.run):
        shutil.copytree(folder, tmp_path / folder.name)
    verifier = tmp_path / finished.verifier.name
    command = ["train", "drafter", "--verifier", verifier, *OPTIONS]
    assert specmt(*command, "--corpus", corpus) == 0
    before, trained = files_in(verifier), files_in(tmp_path / finished.run.name / "drafter")
    assert before[DRAFTER] == files_in(finished.verifier)[DRAFTER]
    (tmp_path / "other.de").write_text(corpus.read_text(encoding="utf-8") + "Katze\n", encoding="utf-8")
    capfd.readouterr()
    for arguments, what in (
        (
            ["--corpus", tmp_path / "other.de"],
            "distilled: holds the distillation of other text, of another model or in",
        ),
        (["--corpus", corpus, "--layers", "2"], "drafter: holds a run of another shape or optimizer"),
        (["--corpus", corpus, "--optimizer", "adamw"], "drafter: holds a run of another shape or optimizer"),
        (["--corpus", corpus, "--block-size", "3"], "drafter: holds a run with another `drafter`"),
        (["--corpus", corpus, "--decay", "0.8"], "drafter: holds a run with another `blocks`"),
        (["--corpus", corpus, "--initial", verifier], "drafter: holds a run with another `initial`"),
    ):
        assert specmt(*command, *arguments) == 2
        err = capfd.readouterr().err
        assert f"{what}" in err and "; name a new folder" in err
    assert files_in(verifier) == before and files_in(tmp_path / finished.run.name / "drafter") == trained
    # The drafter in the folder is this run's own, and may be put in its place.
    assert specmt(*command, "--corpus", corpus, "--updates", "12") == 0
    assert files_in(verifier)[DRAFTER] != before[DRAFTER]


def test_what_is_held_out_is_never_trained_on(verifier: Path, corpus: Path) -> None:
    model = load_model(verifier, device="cpu", threads=1)
    found = steps.read_corpus(model, [corpus], limit=1000, max_length=64)
    held_out = model.pieces.encode_batch(found.held_out)
    sides = [set(map(tuple, side)) for side in (found.training, held_out)]
    assert not sides[0] & sides[1]
    assert sum(map(len, sides)) == len(found.training) + len(found.held_out) == LINES
    assert len(found.held_out) == LINES // steps.LEAST
    few = steps.read_corpus(model, [corpus], limit=40, max_length=64)
    assert len(few.training) + len(few.held_out) == 40
    short = steps.read_corpus(model, [corpus], limit=1000, max_length=12)
    assert max(map(len, [*short.training, *model.pieces.encode_batch(short.held_out)])) <= 12


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
    before = files_in(verifier)
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
        (Trainer, "_update", 6),
        (validate, "calibrate", 1),
        (steps, "write_tensors", 1),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, stopped(getattr(place, name), calls))
            assert specmt(*command) == 130
        assert "the same command goes on" in capfd.readouterr().err
        assert files_in(verifier) == before
    assert specmt(*command) == 0
    # What came after the last shard and the last checkpoint was done twice, and nothing else.
    assert decoded == [50, 36, 36]
    assert len(updates) == 6 + 4
    assert files_in(verifier)[DRAFTER] == files_in(finished.verifier)[DRAFTER]


def test_hours_end_it_with_what_has_been_learnt(
    verifier: Path, corpus: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "drafter", "--verifier", verifier, "--corpus", corpus, *OPTIONS, "--updates", "100000"]
    assert specmt(*command, "--hours", "1e-5") == 0
    assert ModelFolder.read(verifier).drafter is not None
    run = verifier.with_name("verifier.training")
    rows = [json.loads(line) for line in (run / "drafter" / "metrics.jsonl").read_text().splitlines()]
    assert 1 <= rows[-1]["update"] < 1000
    # Of the text, the first part alone was there in time, from all over it; it stays when the command goes on.
    before = files_in(run / "distilled")
    assert len([name for name in before if name.startswith("shard")]) == 1
    assert specmt(*command, "--hours", "1e-5") == 0
    assert files_in(run / "distilled") == before


def test_parts_are_of_the_whole_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: Model) -> None:
    seen: list[list[int]] = []
    monkeypatch.setattr(distill, "translate_whole", lambda _, sources, size: seen.append([s[0] for s in sources]) or [])
    found = steps.Corpus([[number] for number in range(120)], ["eins"])
    with pytest.raises(DataError, match="none of the translations comes to an end"):
        steps.distil(tmp_path, model, found, seconds=100.0, report=lambda done, total: None)
    assert sorted(number for part in seen for number in part) == list(range(120))
    assert [len(part) for part in seen] == [50, 50, 20]
    assert min(seen[0]) < 10 and max(seen[0]) > 110


@pytest.mark.parametrize(("pairs", "updates"), [(2_000, 300), (60_000, 1500), (400_000, 5000)])
def test_updates_go_with_the_text(pairs: int, updates: int) -> None:
    side = Sequences(np.zeros(24 * pairs, dtype=np.uint16), np.arange(pairs + 1) * 24)
    assert steps.choose_updates(ParallelData(side, side), 6000) == updates


def test_an_autoregressive_drafter_of_many_files_in_a_folder_of_its_own(
    verifier: Path, corpus: Path, tmp_path: Path
) -> None:
    lines, parts = corpus.read_text(encoding="utf-8").splitlines(keepends=True), []
    for number in range(3):
        parts.append(tmp_path / f"part{number}.de")
        parts[-1].write_text("".join(lines[number::3]), encoding="utf-8")
    before, run, path = files_in(verifier), tmp_path / "run", tmp_path / "new" / "model"
    options = [each for each in OPTIONS if each not in ("--correction-rank", "16")]
    command = ["train", "drafter", run, "--verifier", verifier, "--into", path, "--kind", "autoregressive", *options]
    assert specmt(*command, "--limit", "60", "--corpus", *parts) == 0
    assert files_in(verifier) == before
    model = ModelFolder.read(path)
    assert model.drafter is None and model.autoregressive is not None and {*model.calibrations} == {"autoregressive"}
    for name in (PIECES, VERIFIER, AUTOREGRESSIVE):
        model.verified(name)
    assert not (tmp_path / "verifier.training").exists()
    record = json.loads((run / "distilled" / distill.WORK).read_text())
    assert record["sentences"] == 60 - 60 // steps.LEAST
    outputs = [translate(path, corpus, tmp_path / "out", "--drafter", each) for each in ("autoregressive", "none")]
    assert outputs[0] == outputs[1]


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
    assert load_model(verifier, device="cpu", threads=1).network("masked") is not None
    outputs = [translate(verifier, corpus, tmp_path / "out", "--strategy", each) for each in ("speculative", "greedy")]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("decoder", ["attention", "ssru"])
def test_other_architectures_with_prefixes(decoder: str, pieces_path: Path, corpus: Path, tmp_path: Path) -> None:
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
    named = to_arrays(weights)
    write_model(path, pieces_path, *((config, named) if decoder == "attention" else with_ssru(named, config)[::-1]))
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
    weights = {name: 2 * floats(weight) for name, weight in ModelFolder.read(other).weights(VERIFIER).items()}
    folder = ModelFolder.read(verifier)
    write_model(other, verifier / PIECES, replace(folder.verifier, dropout=0.0), weights)
    theirs = tmp_path / "theirs"
    shutil.copytree(tiny_model, theirs)
    before = {path: files_in(path) for path in (verifier, other, theirs)}
    command = ["train", "drafter", *OPTIONS]
    of_ours = [*command, "--verifier", verifier]
    for arguments, code, message in (
        ([*of_ours, "--corpus", tmp_path / "none"], 66, "none: no such file."),
        ([*of_ours, "--corpus", tmp_path / "empty.de"], 65, "empty.de: must have at least 20 different lines"),
        ([*of_ours, "--corpus", tmp_path / "short.de"], 65, "but has 2 instead"),
        ([*of_ours, "--corpus", tmp_path / "latin.de"], 65, "latin.de: line 2 is not valid UTF-8"),
        ([*command, "--verifier", tmp_path / "none", "--corpus", corpus], 69, "none: is no model folder"),
        ([*command, "--verifier", theirs, "--corpus", corpus], 2, "has a drafter already; name a new folder"),
        ([*of_ours, "--corpus", corpus, "--into", other], 2, "other: is the folder of another model"),
        (
            [*of_ours, "--corpus", corpus, "--into", tmp_path / "file" / "x"],
            74,
            "x: cannot be written (Not a directory",
        ),
        ([*of_ours[:2], tmp_path / "file" / "run", *of_ours[2:], "--corpus", corpus], 74, "run: cannot be written"),
        ([*of_ours, "--corpus", corpus, "--hours", "0"], 2, "0.0 is not in the range x>0"),
        ([*of_ours, "--corpus", corpus, "--limit", "-1"], 2, "-1 is not in the range x>=1"),
        ([*of_ours, "--corpus", corpus, "--block-size", "0"], 2, "`block_size` must be"),
        ([*of_ours, "--corpus", corpus, "--data", tmp_path], 2, "either a text with `--corpus` or distilled data"),
        (of_ours, 2, "either a text with `--corpus` or distilled data"),
        ([*of_ours, "--data", tmp_path], 2, "Name the FOLDER"),
        ([*of_ours, tmp_path / "run", "--data", tmp_path, "--hours", "1"], 2, "`hours` is not for `--data`"),
        ([*of_ours, "--corpus", corpus, "--validation-data", tmp_path], 2, "`validation-data` is not for `--corpus`"),
    ):
        fails(capfd, arguments, code, message)
    assert {path: files_in(path) for path in (verifier, other, theirs)} == before


@pytest.mark.parametrize(
    ("args", "corpus", "folder"),
    [
        (["--corpus", "a", "b", "c", "--verifier", "v"], ("a", "b", "c"), None),
        (["run", "--verifier", "v", "--corpus", "a", "b"], ("a", "b"), "run"),
        (["--corpus", "a", "--corpus", "b", "--verifier", "v", "run"], ("a", "b"), "run"),
        (["--corpus=a", "--verifier", "v"], ("a",), None),
        (["run", "--verifier", "v", "--data", "d"], (), "run"),
    ],
)
def test_a_corpus_takes_what_a_shell_makes_of_a_pattern(args: list[str], corpus: tuple[str, ...], folder: str) -> None:
    assert isinstance(drafter, ManyValues)
    values = drafter.make_context("drafter", args).params
    assert values["corpus"] == tuple(map(Path, corpus))
    assert values["folder"] == (None if folder is None else Path(folder))
