"""From parallel text to a model that translates, by the commands that a user would type."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from specmt.engine.weights import floats
from specmt.models.folder import AUTOREGRESSIVE, DRAFTER, PIECES, VERIFIER, ModelFolder
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.text.pieces import SOURCE_PIECES, VOCABULARY, Pieces
from specmt.training import distill as distill_module
from specmt.training.data import ParallelData
from tests.commands import fails, specmt
from tests.folders import files_in, write_model

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
MACHINE = ["--device", "cpu", "--threads", "1"]
TRAINING = [
    *MACHINE,
    *("--tokens-per-batch", "1200", "--tokens-per-update", "1200", "--warmup", "10", "--lr", "1e-2"),
    *("--dropout", "0", "--average", "1", "--validation-lines", "6"),
]
VERIFIER_OPTIONS = [
    *("--model-dim", "32", "--num-heads", "2", "--ffn-dim", "64", "--encoder-layers", "1", "--decoder-layers", "1"),
    *("--updates", "90", "--save-every", "45", "--validate-every", "45"),
]
SHARD = 100
WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "Hund", "Katze", "Maus", "und", "oder", "nicht"]
TOY = 300


@dataclass(frozen=True)
class Runs:
    """The folders that the commands made, one after the other."""

    text: Path
    data: Path
    verifier: Path
    distilled: Path
    drafter: Path
    autoregressive: Path


def train_verifier(folder: Path, data: Path) -> int:
    return specmt("train", "verifier", folder, "--data", data, *TRAINING, *VERIFIER_OPTIONS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    root = tmp_path_factory.mktemp("runs")
    (root / "text").mkdir()
    found = Runs(*(root / name for name in ("text", "data", "verifier", "distilled", "drafter", "autoregressive")))
    # Soon learnt: the translation of a few words is these words.
    generator = random.Random(1)
    toy = "".join(" ".join(generator.choices(WORDS, k=generator.randint(1, 5))) + "\n" for _ in range(TOY))
    for side in ("de", "en"):
        (found.text / f"toy.{side}.gz").write_bytes(gzip.compress(toy.encode()))
    sample = [SAMPLE.with_suffix(".de"), SAMPLE.with_suffix(".en")]
    twins = [found.text / "toy.de.gz", found.text / "toy.en.gz"]
    prepare = ["--train", *sample, "--train", *twins, "--valid", *sample, "--vocab-size", "400", "--max-length", "30"]
    assert specmt("prepare", found.data, *prepare) == 0
    assert train_verifier(found.verifier, found.data) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distill_module, "SHARD", SHARD)
        assert specmt("distill", found.distilled, *distill_arguments(found)) == 0
    assert specmt("train", "drafter", found.drafter, *drafter_arguments(found)) == 0
    assert specmt("train", "drafter", found.autoregressive, *autoregressive_arguments(found)) == 0
    return found


def distill_arguments(runs: Runs) -> list[str | Path]:
    return [SAMPLE.with_suffix(".de"), runs.text / "toy.de.gz", "--model", runs.verifier / "model", *MACHINE]


def drafter_arguments(runs: Runs) -> list[str | Path]:
    shape = ["--layers", "1", "--block-size", "4", "--correction-rank", "16"]
    counts = ["--updates", "20", "--save-every", "10", "--validate-every", "20"]
    places = ["--verifier", runs.verifier / "model", "--data", runs.distilled, "--validation-data", runs.data]
    return [*places, *shape, *counts, *TRAINING]


def autoregressive_arguments(runs: Runs) -> list[str | Path]:
    counts = ["--updates", "20", "--save-every", "10", "--validate-every", "20", "--block-size", "3"]
    places = ["--verifier", runs.drafter / "model", "--data", runs.distilled, "--validation-data", runs.data]
    return ["--kind", "autoregressive", *places, *counts, *TRAINING]


def test_prepare_encodes_every_usable_pair(runs: Runs) -> None:
    record = json.loads((runs.data / "data.json").read_text())
    total = len(SAMPLE.with_suffix(".de").read_text(encoding="utf-8").splitlines())
    assert record["pairs"] + record["left_out"] == total + TOY
    assert record["left_out"] > 0
    assert record["vocab_size"] == len(Pieces(runs.data / PIECES)) == 400
    data = ParallelData.load(runs.data, "train")
    assert len(data) == len(data.target) == record["pairs"] > TOY
    pieces = Pieces(runs.data / PIECES)
    kept = [(pieces.decode(data.source[i]), pieces.decode(data.target[i])) for i in range(len(data))]
    sides = [SAMPLE.with_suffix(f".{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")]
    assert set(kept[:-TOY]) <= set(zip(*sides, strict=True))
    toy = gzip.decompress((runs.text / "toy.de.gz").read_bytes()).decode().splitlines()
    assert kept[-TOY:] == list(zip(toy, toy, strict=True))
    assert max(data.source.lengths.max(), data.target.lengths.max()) <= 30
    valid = json.loads((runs.data / "valid.sample.json").read_text(encoding="utf-8"))
    assert len(valid["source"]) == len(valid["target"]) == total


def test_training_leaves_model_metrics_and_curve(runs: Runs) -> None:
    for folder, updates, validation in (
        (runs.verifier, 90, "bleu_sample"),
        (runs.drafter, 20, "accepted_sample"),
        (runs.autoregressive, 20, "accepted_sample"),
    ):
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert rows[-1]["update"] == updates
        assert validation in rows[-1]
        assert ("loss_sample" in rows[-1]) == (folder == runs.verifier)
        losses = [row["loss"] for row in rows if "loss" in row]
        assert losses[-1] < losses[0]
        assert (folder / "metrics.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert not list(folder.glob("*.tmp"))
    first, second = ModelFolder.read(runs.verifier / "model"), ModelFolder.read(runs.drafter / "model")
    assert first.drafter is None
    assert second.drafter is not None
    assert (second.drafter.layers, second.drafter.block_size, second.drafter.correction_rank) == (1, 4, 16)
    assert {name: len(each.acceptance) for name, each in second.calibrations.items()} == {"masked": 4}
    assert first.files[VERIFIER] == second.files[VERIFIER]
    final = load_file(runs.drafter / "final.safetensors")
    assert all(np.array_equal(final[name].half().numpy(), weight) for name, weight in second.weights(DRAFTER).items())
    both = ModelFolder.read(runs.autoregressive / "model")
    assert (both.drafter, both.calibrations["masked"]) == (second.drafter, second.calibrations["masked"])
    assert dict(second.files) == {name: digest for name, digest in both.files.items() if name != AUTOREGRESSIVE}
    assert both.autoregressive is not None
    assert both.autoregressive.layers == 1
    final = load_file(runs.autoregressive / "final.safetensors")
    assert all(
        np.array_equal(final[name].half().numpy(), weight) for name, weight in both.weights(AUTOREGRESSIVE).items()
    )


@pytest.mark.parametrize("layers", [None, 4])
def test_a_verifier_starts_from_another_with_more_layers_too(runs: Runs, tmp_path: Path, layers: int | None) -> None:
    start = ["--initial", runs.verifier / "model", *TRAINING, "--updates", "1", "--schedule", "constant", "--lr", "0"]
    more = [] if layers is None else ["--encoder-layers", str(layers)]
    assert specmt("train", "verifier", tmp_path / "on", "--data", runs.data, *start, *more, "--to", "xx") == 0
    before, after = ModelFolder.read(runs.verifier / "model"), ModelFolder.read(tmp_path / "on" / "model")
    had = before.verifier.encoder_layers
    assert after.target == "xx"
    assert after.verifier == replace(before.verifier, encoder_layers=layers or had)
    old, new = before.weights(VERIFIER), after.weights(VERIFIER)
    assert all(
        np.array_equal(floats(new[name]), floats(weight))
        for name, weight in old.items()
        if "encoder.layers" not in name
    )
    name = "encoder.layers.{}.ffn.inner_proj.weight"
    for layer in range(layers or had):
        lies = (2 * layer + 1) * had // (2 * (layers or had))
        assert np.array_equal(floats(new[name.format(layer)]), floats(old[name.format(lies)]))


def test_a_start_from_other_pieces_or_another_shape_is_refused(
    runs: Runs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = ["--initial", runs.verifier / "model", *TRAINING, "--updates", "1"]
    assert specmt("train", "verifier", tmp_path / "a", "--data", runs.data, *start, "--ffn-dim", "24") == 2
    assert "its verifier has another shape: encoder.layers.0.ffn.inner_proj.weight must be" in capfd.readouterr().err
    sample = [SAMPLE.with_suffix(".de"), SAMPLE.with_suffix(".en")]
    assert specmt("prepare", tmp_path / "data", "--train", *sample, "--vocab-size", "380") == 0
    assert specmt("train", "verifier", tmp_path / "b", "--data", tmp_path / "data", *start) == 2
    assert "prepare --pieces" in capfd.readouterr().err


def test_distilling_keeps_the_verifiers_finished_output(runs: Runs, tmp_path: Path) -> None:
    data = ParallelData.load(runs.distilled, "train")
    pieces = Pieces(runs.data / PIECES)
    sources = [pieces.decode(data.source[index]) for index in range(len(data))]
    assert len(set(sources)) == len(sources) > 20
    (tmp_path / "in.de").write_text("".join(f"{source}\n" for source in sources), encoding="utf-8")
    arguments = ["--model", runs.verifier / "model", "--strategy", "greedy", "--format", "jsonl", *MACHINE]
    assert specmt("translate", tmp_path / "in.de", "-o", tmp_path / "out", *arguments) == 0
    records = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    same = [records[i]["tokens"] == pieces.pieces(data.target[i]) for i in range(len(data))]
    assert sum(same) > 0.9 * len(same)  # a sentence that is cut in two for its length may differ


def test_a_killed_distillation_goes_on_after_its_last_shard(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distill_module, "SHARD", SHARD)
    decode = distill_module.decode
    decoded: list[int] = []

    def die_at_the_second(model: object, sources: list[list[int]], options: object) -> object:
        decoded.append(len(sources))
        if len(decoded) == 2:
            raise KeyboardInterrupt
        return decode(model, sources, options)  # type: ignore[arg-type]

    monkeypatch.setattr(distill_module, "decode", die_at_the_second)
    assert specmt("distill", tmp_path, *distill_arguments(runs)) == 130
    assert {path.name for path in tmp_path.iterdir()} == {"distill.json", "shard-00000.json"}
    assert specmt("distill", tmp_path, *distill_arguments(runs)) == 0
    shards = len(list(tmp_path.glob("shard-*")))
    assert shards > 1
    assert decoded[:2] == [SHARD, decoded[2]]
    assert len(decoded) == shards + 1  # the first shard was not decoded again
    assert not list(tmp_path.glob("*.tmp"))
    made = files_in(tmp_path)
    assert {name: made[name] for name in files_in(runs.distilled)} == files_in(runs.distilled)


def test_distilling_other_text_or_in_another_number_format_into_a_folder_is_refused(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(distill_module, "SHARD", SHARD)
    lines = (SAMPLE.with_suffix(".de")).read_text(encoding="utf-8").splitlines()
    (tmp_path / "other.de").write_text("".join(f"{line}\n" for line in reversed(lines)), encoding="utf-8")
    arguments = distill_arguments(runs)
    before = files_in(runs.distilled)
    for other in ([tmp_path / "other.de", *arguments[1:]], [*arguments, "--dtype", "bfloat16"]):
        assert specmt("distill", runs.distilled, *other) == 2
        assert "holds the distillation of other text, of another model or in other" in capfd.readouterr().err
    assert files_in(runs.distilled) == before


def test_a_verifier_may_have_imported_pieces(runs: Runs, tmp_path: Path) -> None:
    verifier = ModelFolder.read(runs.verifier / "model")
    pieces = Pieces(verifier.path / PIECES)
    files = [tmp_path / SOURCE_PIECES, tmp_path / VOCABULARY]
    files[0].write_bytes((verifier.path / PIECES).read_bytes())
    files[1].write_text(json.dumps({"source": None, "target": pieces.pieces(range(len(pieces)))}), encoding="utf-8")
    imported = tmp_path / "imported"
    write_model(imported, files, verifier.verifier, verifier.weights(VERIFIER))
    arguments = [imported if each == verifier.path else each for each in drafter_arguments(runs)]
    assert specmt("train", "drafter", tmp_path / "run", *arguments) == 0
    ours, theirs = (ModelFolder.read(folder / "model") for folder in (tmp_path / "run", runs.drafter))
    assert ours.calibrations == theirs.calibrations and {*ours.calibrations} == {"masked"}
    assert ours.files[DRAFTER] == theirs.files[DRAFTER]
    assert SOURCE_PIECES in ours.files


@pytest.mark.parametrize("limit", [1, 7, 71, 72, 73, 1000])
def test_a_limit_takes_lines_at_even_distances(tmp_path: Path, limit: int) -> None:
    lines = [f"line {number}" for number in range(72)]
    (tmp_path / "a").write_text("".join(f"{line}\n\n" for line in [*lines, *lines[:5]]))  # blank and repeated lines
    taken = distill_module.evenly(distill_module.distinct_lines([tmp_path / "a"]), limit)
    assert len(taken) == min(limit, len(lines))
    places = [lines.index(line) for line in taken]
    assert places == sorted(places)
    gaps = {after - before for before, after in pairwise(places)}
    assert not gaps or max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize("options", [[], ["--batch-size", "1"], ["--batch-tokens", "900", "--dtype", "bfloat16"]])
def test_the_model_translates_the_same_with_and_without_its_drafters(
    runs: Runs, tmp_path: Path, options: list[str]
) -> None:
    source = tmp_path / "in.de.gz"
    source.write_bytes((runs.text / "toy.de.gz").read_bytes())
    outputs = []
    for drafter, model in (
        ("auto", runs.drafter),
        ("none", runs.drafter),
        ("none", runs.verifier),
        ("autoregressive --block-size 3", runs.autoregressive),
    ):
        arguments = ["--model", model / "model", "--drafter", *drafter.split(), "--stats", tmp_path / "stats", *MACHINE]
        assert specmt("translate", source, "-o", tmp_path / "out", *arguments, *options) == 0
        outputs.append((tmp_path / "out").read_bytes())
        stats = json.loads((tmp_path / "stats").read_text())
        assert (stats["drafted"] == 0) == (drafter == "none") or drafter == "auto"
    assert len(set(outputs)) == 1
    assert outputs[0].count(b"\n") == TOY
    assert len(set(outputs[0].split(b"\n"))) > 20


def test_a_failed_preparation_leaves_nothing_behind(
    runs: Runs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sample = [SAMPLE.with_suffix(".de"), SAMPLE.with_suffix(".en")]
    (tmp_path / "short.en").write_text("One line.\n")
    (tmp_path / "no.model").write_bytes(b"no SentencePiece model")
    own = ["--pieces", runs.data / PIECES]
    command = ["prepare", tmp_path / "new", "--train", *sample, "--vocab-size", "390"]
    for arguments, code in (
        (["prepare", tmp_path / "new", "--train", sample[0], tmp_path / "short.en", *own], 65),
        ([*command, "--pieces", tmp_path / "no.model"], 69),
        ([*command, *own, "--max-length", "1"], 65),
        ([*command, *own, "--valid", tmp_path / "none", sample[1]], 66),
    ):
        assert specmt(*arguments) == code
        assert capfd.readouterr().err.startswith("specmt: error: ")
        assert not (tmp_path / "new").exists()
    # What is there stays whole where a second command fails, and is replaced where it does not.
    assert specmt(*command) == 0
    before = files_in(tmp_path / "new")
    assert len(Pieces(tmp_path / "new" / PIECES)) == 390
    assert specmt(*command, *own, "--valid", tmp_path / "none", sample[1]) == 66
    assert files_in(tmp_path / "new") == before
    assert specmt(*command, *own) == 0
    assert (tmp_path / "new" / PIECES).read_bytes() == (runs.data / PIECES).read_bytes()
    assert files_in(tmp_path / "new").keys() == before.keys()


def test_a_failed_distillation_leaves_nothing_in_the_way(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, arguments = tmp_path / "distilled", distill_arguments(runs)
    assert specmt("distill", folder, *arguments, "--max-length", "1") == 65  # no sentence is that short
    assert not folder.exists()
    decode = distill_module.decode

    def stop(*_: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(distill_module, "decode", stop)
        assert specmt("distill", folder, *arguments) == 130  # before the first part is done
    with monkeypatch.context() as patch:
        endless = [replace(h, tokens=[]) for h in decode(load_model(runs.verifier / "model"), [[5]], DecodingOptions())]
        patch.setattr(distill_module, "decode", lambda _, sources, options: endless * len(sources))
        assert specmt("distill", folder, *arguments, "--limit", "50") == 65  # no translation comes to an end
    assert list(folder.iterdir()) == []
    assert specmt("distill", folder, *arguments, "--limit", "60") == 0


def test_mistakes_in_one_line(runs: Runs, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    german, english = SAMPLE.with_suffix(".de"), SAMPLE.with_suffix(".en")
    (tmp_path / "short.en").write_text("One line.\n")
    (tmp_path / "latin.en").write_bytes(b"schl\xfccht\n")
    verifier = ["train", "verifier", tmp_path / "v", "--data", runs.data, *MACHINE]
    drafter = ["train", "drafter", tmp_path / "d", "--verifier", runs.verifier / "model", *MACHINE]
    autoregressive = [*drafter, "--data", runs.distilled, "--kind", "autoregressive"]
    masked_only = "is for drafters of the kind masked, but the kind is autoregressive"
    for arguments, code, message in (
        (["prepare", tmp_path / "p", "--train", tmp_path / "none", english], 66, "none: no such file."),
        (["prepare", tmp_path / "p", "--train", german, tmp_path / "short.en"], 65, "short.en:2: the file ends here"),
        (["prepare", tmp_path / "p", "--train", german, tmp_path / "latin.en"], 65, "latin.en: line 1 is not valid"),
        (["prepare", tmp_path / "p", "--train", german, english, "--vocab-size", "90000"], 2, "`vocab_size` 90000"),
        (["train", "verifier", tmp_path / "v", "--data", tmp_path / "none"], 66, "run `specmt prepare` first"),
        ([*verifier, "--arch", "huge"], 2, "`arch` must be one of"),
        ([*verifier, "--num-heads", "5"], 2, "`model_dim` must be a multiple"),
        ([*verifier, "--updates", "0"], 2, "`updates` must be at least 1"),
        ([*verifier, "--dropout", "1"], 2, "`dropout` must be"),
        ([*drafter, "--data", tmp_path / "none"], 66, "run `specmt prepare` first"),
        ([*drafter, "--data", runs.distilled, "--layers", "0"], 2, "`layers` must be a whole number from 1"),
        ([*autoregressive, "--layers", "0"], 2, "`layers` must be a whole number from 1"),
        ([*autoregressive, "--block-size", "0"], 2, "`block_size` must be at least 1"),
        ([*autoregressive, "--spacing", "5"], 2, f"`spacing` {masked_only}"),
        ([*autoregressive, "--correction-rank", "64"], 2, f"`correction_rank` {masked_only}"),
        ([*autoregressive, "--decay", "0.8"], 2, f"`decay` {masked_only}"),
        ([*autoregressive, "--initial", runs.drafter / "model"], 69, "the model has no autoregressive.safetensors"),
        (["distill", tmp_path / "x", german, "--model", tmp_path / "none"], 69, "is no model folder"),
        (["distill", tmp_path / "x", tmp_path / "none", "--model", runs.verifier / "model"], 66, "none: no such file."),
    ):
        fails(capfd, arguments, code, message)
