"""Data, schedules, mask blocks, the training loop and its exact resumption."""

from __future__ import annotations

import gzip
import json
import math
import multiprocessing
import os
import platform
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq2.models.transformer import TransformerModel
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Dropout, Linear, ReLU, Sequential, functional

from specmt.errors import DataError, InputNotFoundError, UsageError
from specmt.models.reference.modules import create_autoregressive, create_drafter, create_verifier
from specmt.text.pieces import Pieces
from specmt.training import loop
from specmt.training.data import ParallelData, Sequences, make_batches, read_pairs
from specmt.training.drafter import BlockOptions, autoregressive_loss, initialise_from, lay_blocks
from specmt.training.factory import FastDropout, drafter_trainer, use_fast_dropout, verifier_trainer
from specmt.training.loop import Trainer
from specmt.training.loss import CHUNK, cross_entropy
from specmt.training.options import TrainOptions, learning_rate
from specmt.training.prepare import train_pieces
from specmt.training.processes import deal, deal_batches
from specmt.training.validate import Validator, weights_of
from specmt.training.verifier import target_states, with_layers
from specmt.types import BOS, EOS, PAD
from tests.conftest import AHEAD, MASKED, VERIFIER

pytestmark = pytest.mark.usefixtures("no_curves")
CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
SAMPLE = tuple(Path(__file__).parents[2] / "data" / f"sample.{side}" for side in ("de", "en"))
OPTIONS = TrainOptions(
    updates=12,
    tokens_per_batch=120,
    tokens_per_update=240,
    lr=3e-3,
    warmup=4,
    save_every=3,
    validate_every=100,
    average=2,
    short_first=6,
    short_length=9,
)


def make_sequences(count: int, longest: int, seed: int) -> list[list[int]]:
    generator = random.Random(seed)
    return [[generator.randrange(4, 400) for _ in range(generator.randint(1, longest))] for _ in range(count)]


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder of 60 pairs; the target is the source."""
    folder = tmp_path_factory.mktemp("data")
    sequences = make_sequences(60, 14, seed=1)
    for side in ("source", "target"):
        Sequences.of(sequences).save(folder / f"train.{side}")
    return folder


@pytest.mark.parametrize("largest", [65_535, 65_536, 256_205])
def test_sequences_come_back_as_they_were(tmp_path: Path, largest: int) -> None:
    sequences = [*make_sequences(20, 9, seed=2), [], [largest], [4]]
    Sequences.of(sequences).save(tmp_path / "x")
    loaded = Sequences.load(tmp_path / "x")
    assert [loaded[index] for index in range(len(loaded))] == sequences
    assert loaded.lengths.tolist() == [len(sequence) for sequence in sequences]
    assert loaded.ids.dtype == (np.uint16 if largest < 2**16 else np.uint32)
    ids, lengths = loaded.pad(np.array([21, 20]), before=(BOS, largest), after=EOS)
    assert ids.tolist() == [[BOS, largest, largest, EOS], [BOS, largest, EOS, PAD]]
    assert lengths.tolist() == [4, 3]
    ids, lengths = loaded.pad(np.array([22, 20]))
    assert (ids.tolist(), lengths.tolist()) == ([[4], [PAD]], [1, 0])
    with pytest.raises(InputNotFoundError, match="specmt prepare"):
        Sequences.load(tmp_path / "y")


def test_reading_parallel_text(tmp_path: Path) -> None:
    text = "eins\u2028zwei\r\nß\n\nletzte".encode()
    (tmp_path / "a.de").write_bytes(text)
    (tmp_path / "b.gz").write_bytes(gzip.compress(text))
    wanted = ["eins\u2028zwei", "ß", "", "letzte"]
    assert list(read_pairs(tmp_path / "a.de", tmp_path / "b.gz")) == [(line, line) for line in wanted]
    (tmp_path / "short").write_bytes(b"x\ny\n")
    with pytest.raises(DataError, match="short:3: the file ends here"):
        list(read_pairs(tmp_path / "a.de", tmp_path / "short"))
    (tmp_path / "latin").write_bytes(b"gut\nschl\xfccht\n")
    with pytest.raises(DataError, match="latin: line 2 is not valid UTF-8"):
        list(read_pairs(tmp_path / "latin", tmp_path / "a.de"))
    with pytest.raises(InputNotFoundError):
        list(read_pairs(tmp_path / "none", tmp_path / "a.de"))


@pytest.fixture(scope="module")
def uneven_data() -> ParallelData:
    generator = random.Random(3)
    sides = []
    for _ in range(2):
        lengths = [generator.randint(1, 60) for _ in range(300)]
        sides.append(Sequences(np.zeros(sum(lengths), dtype=np.uint16), np.cumsum([0, *lengths])))
    return ParallelData(*sides)


def test_batches_hold_every_pair_once_within_the_budget(uneven_data: ParallelData) -> None:
    batches = make_batches(uneven_data, tokens=400, seed=1, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(300))
    sizes = []
    for batch in batches:
        source, target = uneven_data.source.lengths[batch] + 1, uneven_data.target.lengths[batch] + 1
        padded = len(batch) * (source.max() + target.max())
        assert padded <= 400
        sizes.append(padded)
    assert np.mean(sizes) > 250
    alone = make_batches(uneven_data, tokens=1, seed=1, epoch=0)  # all are over the budget
    assert [len(batch) for batch in alone] == [1] * 300


def test_seed_and_epoch_alone_decide_the_order(uneven_data: ParallelData) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in make_batches(uneven_data, tokens=400, seed=seed, epoch=epoch)]

    assert order(1, 0) == order(1, 0)
    assert len({str(order(seed, epoch)) for seed, epoch in ((1, 0), (1, 1), (2, 0), (2, 1))}) == 4


def test_a_length_limit_leaves_out_longer_pairs_only(uneven_data: ParallelData) -> None:
    batches = make_batches(uneven_data, tokens=400, seed=1, epoch=0, max_length=20)
    longest = np.maximum(uneven_data.source.lengths, uneven_data.target.lengths) + 1
    assert sorted(np.concatenate(batches).tolist()) == np.flatnonzero(longest <= 20).tolist()
    assert make_batches(uneven_data, tokens=400, seed=1, epoch=0, max_length=1) == []


@pytest.mark.parametrize("schedule", ["cosine", "inverse-sqrt"])
def test_the_learning_rate_rises_in_a_line_and_falls(schedule: str) -> None:
    options = TrainOptions(updates=1000, lr=2e-3, warmup=100, schedule=schedule)
    rates = [learning_rate(update, options) for update in range(1000)]
    assert rates[:100] == pytest.approx([2e-3 * step / 100 for step in range(1, 101)])
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert max(rates) <= 2e-3 * (1 + 1e-12)
    if schedule == "cosine":
        assert rates[550] == pytest.approx(2e-3 * (0.02 + 0.98 / 2))
        assert learning_rate(1000, options) == pytest.approx(2e-3 * 0.02)
    else:
        assert rates[399] == pytest.approx(1e-3)
        assert rates[899] == pytest.approx(2e-3 / 3)
    assert learning_rate(0, replace(options, warmup=0)) == pytest.approx(2e-3, rel=1e-3)


@pytest.mark.parametrize("schedule", ["cosine", "inverse-sqrt", "constant"])
def test_the_learning_rate_cools_down_to_nothing(schedule: str) -> None:
    options = TrainOptions(updates=1000, lr=2e-3, warmup=100, schedule=schedule)
    cooled = replace(options, cooldown=200)
    before = [learning_rate(update, options) for update in range(1001)]
    rates = [learning_rate(update, cooled) for update in range(1001)]
    assert rates[:801] == before[:801]
    assert rates[801:] == pytest.approx([before[800 + step] * (1 - step / 200) for step in range(1, 201)])
    assert rates[1000] == 0 < rates[999]
    if schedule == "constant":
        assert set(before[100:]) == {2e-3}


@pytest.mark.parametrize(
    "wrong", [{"updates": 0}, {"average": 0}, {"schedule": "linear"}, {"optimizer": "sgd"}, {"cooldown": -1}]
)
def test_impossible_training_options(wrong: dict[str, int | str]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        TrainOptions(**wrong)


def test_mask_blocks_see_their_prefix_and_themselves_and_want_what_follows() -> None:
    generator = random.Random(4)
    rows = [[BOS, *(generator.randrange(4, 400) for _ in range(length)), EOS] for length in (9, 1, 4, 9)]
    lengths = [len(row) for row in rows]
    width, block_size = max(lengths) - 1, 4
    target = torch.tensor([row + [PAD] * (width + 1 - len(row)) for row in rows])
    starts_seen = set()
    for seed in range(20):
        blocks = lay_blocks(
            target,
            torch.tensor(lengths),
            block_size=block_size,
            options=BlockOptions(spacing=3.0, decay=0.5),
            generator=torch.Generator().manual_seed(seed),
        )
        groups = math.ceil(width / 3)
        assert blocks.wanted.shape == blocks.previous.shape == blocks.weights.shape == (4, groups, block_size)
        assert blocks.tokens.shape == (4, width + groups * block_size)
        assert torch.equal(blocks.tokens[:, :width], target[:, :width])
        assert torch.equal(blocks.positions[:, :width], torch.arange(width).expand(4, -1))
        assert blocks.slots.tolist() == [[False] * width + [True] * groups * block_size] * 4
        assert set(blocks.bias.unique().tolist()) == {0.0, -math.inf}
        sees = (blocks.bias[:, 0] == 0).tolist()
        for row, ids in enumerate(rows):
            for query in range(width):
                assert sees[row][query] == [key <= query for key in range(width)] + [False] * groups * block_size
            for group in range(groups):
                first = width + group * block_size
                start = int(blocks.positions[row, first]) - 1
                starts_seen.add((row, start))
                assert 0 <= start < len(ids) - 1  # the first slot is never past EOS
                for slot in range(block_size):
                    place = start + 1 + slot
                    assert blocks.positions[row, first + slot] == place
                    assert blocks.wanted[row, group, slot] == (ids[place] if place < len(ids) else EOS)
                    assert blocks.previous[row, group, slot] == (ids[place - 1] if place <= len(ids) else EOS)
                    weight = 0.5**slot * (1.0 if place < len(ids) else 0.1)
                    assert blocks.weights[row, group, slot] == pytest.approx(weight)
                    prefix = [key <= start for key in range(width)]
                    own = [other == group for other in range(groups) for _ in range(block_size)]
                    assert sees[row][first + slot] == prefix + own
    # Every place of a sentence is a start some time.
    assert starts_seen == {(row, start) for row in range(4) for start in range(len(rows[row]) - 1)}


def test_no_mask_block_begins_within_what_is_given() -> None:
    target = torch.tensor([[BOS, 7, 8, *range(20, 40), EOS], [BOS, 7, 8, 30, EOS, *[PAD] * 19]])
    lengths = torch.tensor([24, 5])
    starts = set()
    for seed in range(30):
        blocks = lay_blocks(
            target,
            lengths,
            block_size=3,
            options=BlockOptions(),
            generator=torch.Generator().manual_seed(seed),
            given=2,
        )
        first = blocks.positions[:, 23::3] - 1
        starts |= {(row, int(start)) for row in (0, 1) for start in first[row]}
    assert starts == {(0, start) for start in range(2, 23)} | {(1, 2), (1, 3)}


def test_fast_dropout_drops_as_much_as_it_says_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 1003)  # not a multiple of 8
    for probability in (0.1, 0.5):
        y = FastDropout(probability)(x)
        dropped = round(probability * 256) / 256
        assert y.unique().tolist() == pytest.approx([0.0, 1 / (1 - dropped)])
        assert (y == 0).float().mean().item() == pytest.approx(dropped, abs=0.002)
        assert y.mean().item() == pytest.approx(1.0, abs=0.004)
        # Rows, columns and neighbours do not depend on each other.
        zero = (y == 0).float()
        assert zero.mean(0).std().item() == pytest.approx(math.sqrt(dropped * (1 - dropped) / 1000), rel=0.15)
        both = (zero[:, 1:] * zero[:, :-1]).mean().item()
        assert both == pytest.approx(dropped**2, abs=0.003)


def test_fast_dropout_replaces_every_dropout_and_passes_on_what_it_should() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    layer = FastDropout(0.4)
    assert FastDropout(0.0)(x) is x and FastDropout(0.4).eval()(x) is x
    y = layer(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad == 0, y == 0)
    assert layer(x.detach().bfloat16()).dtype == torch.bfloat16
    model = Sequential(Dropout(0.25), Sequential(ReLU(), Dropout(0.5)), Linear(2, 2))
    use_fast_dropout(model)
    assert [module.threshold for module in model.modules() if isinstance(module, FastDropout)] == [64, 128]
    assert not any(isinstance(module, Dropout) for module in model.modules())


@pytest.mark.parametrize(
    ("smoothing", "learns", "biased"), [(0.0, True, False), (0.1, True, True), (0.1, False, False)]
)
@pytest.mark.parametrize("count", [1, CHUNK, 2 * CHUNK + 3])
def test_cross_entropy_and_its_gradient_are_those_of_torch(
    count: int, smoothing: float, learns: bool, biased: bool
) -> None:
    torch.manual_seed(0)
    states, table = torch.randn(count, 16, requires_grad=True), torch.randn(50, 16, requires_grad=learns)
    bias = torch.randn(50, requires_grad=True) if biased else None
    leaves = [states, *[table] * learns, *([] if bias is None else [bias])]
    wanted, weights = torch.randint(50, (count,)), torch.rand(count)
    logits = functional.linear(states, table, bias)
    losses = functional.cross_entropy(logits, wanted, reduction="none", label_smoothing=smoothing)
    expected = torch.autograd.grad(2 * (losses * weights).sum(), leaves)
    loss = cross_entropy(states, table, wanted, weights, bias=bias, smoothing=smoothing)
    (2 * loss).backward()
    assert loss.item() == pytest.approx((losses * weights).sum().item(), rel=1e-5)
    for leaf, theirs in zip(leaves, expected, strict=True):
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad, theirs, rtol=1e-4, atol=1e-4)
    assert (table.grad is None) == (not learns)


@pytest.mark.parametrize("of", ["table", "drafter"])
def test_a_loss_never_holds_all_logits(
    tiny_verifier: TransformerModel, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    """Under autocast too, whose type the gradient of the states has not."""
    torch.manual_seed(0)
    sizes: list[int] = []
    logsumexp = Tensor.logsumexp
    monkeypatch.setattr(
        Tensor, "logsumexp", lambda self, *a, **o: (sizes.append(len(self)), logsumexp(self, *a, **o))[1]
    )
    count = 2 * CHUNK + 88
    if of == "drafter":
        drafter = create_autoregressive(AHEAD, CPU)
        target = torch.randint(EOS + 1, 300, (30, 21))
        loss, counted = autoregressive_loss(drafter, tiny_verifier, target, target, torch.full((30,), 21))
        assert counted == count
        loss.backward()
    else:
        states, table = torch.randn(count, 8, requires_grad=True), torch.randn(50, 8, requires_grad=True)
        wanted = torch.randint(50, (count,))
        with torch.autocast("cpu", torch.bfloat16):
            loss = cross_entropy(states, table, wanted, torch.ones(count))
        loss.backward()
        assert states.grad is not None and table.grad is not None
        assert states.grad.dtype == table.grad.dtype == torch.float32
        exact = functional.cross_entropy(states @ table.T, wanted, reduction="sum")
        assert loss.item() == pytest.approx(exact.item(), rel=1e-2)
    assert sizes == [CHUNK, CHUNK, 88]


class KilledError(Exception):
    """Stands for a kill in the middle of a run."""


def die(_: object) -> dict[str, float]:
    raise KilledError


Make = Callable[..., Trainer]
KINDS = ["verifier", "masked", "autoregressive"]


@pytest.fixture
def make(data_folder: Path, tiny_verifier: TransformerModel) -> Make:
    """Makes what trains a module of any kind, with weights and random numbers that are not those of a fresh process."""

    def trainer(kind: str, folder: Path, options: TrainOptions, *, dropout: float = 0.0, **more: Any) -> Trainer:
        torch.manual_seed(random.randrange(10**9))
        data = ParallelData.load(data_folder, "train")
        if kind == "verifier":
            config = replace(VERIFIER, dropout=dropout)
            return verifier_trainer(folder, data, config, options, device=CPU, **more)
        drafter = replace(MASKED if kind == "masked" else AHEAD, dropout=dropout)
        return drafter_trainer(folder, data, tiny_verifier, VERIFIER, drafter, options, device=CPU, **more)

    return trainer


def metrics_of(folder: Path) -> list[dict[str, float]]:
    """Returns what was logged, but for times."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


def weights_in(folder: Path) -> dict[str, dict[str, Tensor]]:
    return {path.name: load_file(path) for path in folder.glob("*.safetensors")}


def assert_same_weights(left: Path, right: Path) -> None:
    ours, theirs = weights_in(left), weights_in(right)
    assert set(ours) == set(theirs) >= {"final.safetensors", "state.safetensors"}
    for file, tensors in ours.items():
        assert set(tensors) == set(theirs[file])
        for name, tensor in tensors.items():
            assert torch.equal(tensor, theirs[file][name]), (file, name)


@pytest.mark.parametrize(
    ("kind", "optimizer", "killed_at"),
    [
        ("verifier", "adamw", 1),
        ("verifier", "muon", 5),
        ("verifier", "adamw", 8),
        ("verifier", "muon", 12),
        ("masked", "muon", 5),
        ("autoregressive", "muon", 5),
    ],
)
def test_a_killed_run_goes_on_as_if_nothing_had_been(
    make: Make, tmp_path: Path, kind: str, optimizer: str, killed_at: int
) -> None:
    """Kills before the first checkpoint, within and after the phase of short pairs (6 updates), and at the end."""
    options = replace(OPTIONS, optimizer=optimizer)

    def run(name: str) -> None:
        make(kind, tmp_path / name, options, dropout=0.1).run()

    run("whole")
    with pytest.raises(KilledError):
        killed = replace(options, validate_every=killed_at)
        make(kind, tmp_path / "killed", killed, dropout=0.1, validate=die).run()
    state = tmp_path / "killed" / "state.safetensors"
    assert state.exists() == (killed_at >= 3)
    assert not (tmp_path / "killed" / "final.safetensors").exists()
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as stream:
        stream.write('{"update": 1')  # cut off by the kill
    run("killed")
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    losses = [[row["loss"] for row in metrics_of(tmp_path / name) if "loss" in row] for name in ("whole", "killed")]
    if killed_at != 1:
        assert losses[0] == losses[1]
    # A finished run has nothing left to do.
    run("killed")
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")


def test_a_run_that_time_ends_goes_through_its_whole_schedule(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, update = SimpleNamespace(now=0.0), Trainer._update
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    def take_a_second(*arguments: Any) -> Any:
        clock.now += 1.0
        return update(*arguments)

    monkeypatch.setattr(Trainer, "_update", take_a_second)
    options = replace(OPTIONS, warmup=0, short_first=0, save_every=1)
    make("verifier", tmp_path, options).run(seconds=4.0)
    rows = metrics_of(tmp_path)
    assert [row["update"] for row in rows] == [1, 2, 3, 4]
    assert [row["lr"] for row in rows] == [learning_rate(place, options) for place in (0, 3, 6, 9)]
    assert (tmp_path / "final.safetensors").exists()
    # It goes on where more time is given, or no limit.
    make("verifier", tmp_path, options).run()
    assert [row["update"] for row in metrics_of(tmp_path)] == [*range(1, 13)]


def test_the_final_weights_are_the_mean_of_the_last_checkpoints(make: Make, tmp_path: Path) -> None:
    make("verifier", tmp_path, OPTIONS).run()
    names = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    assert names == ["checkpoint-00000009.safetensors", "checkpoint-00000012.safetensors"]
    final = load_file(tmp_path / "final.safetensors")
    last = [load_file(tmp_path / name) for name in names]
    for name, tensor in final.items():
        assert torch.equal(tensor, ((last[0][name].double() + last[1][name].double()) / 2).float())
        assert not torch.equal(last[0][name], last[1][name])
    rows = metrics_of(tmp_path)
    assert [row["update"] for row in rows if "loss" in row] == [3, 6, 9, 12]
    assert rows[-1]["update"] == 12


def test_nothing_short_enough_is_an_error_and_no_endless_loop(make: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="short_length"):
        make("verifier", tmp_path, replace(OPTIONS, short_length=1)).run()


@pytest.mark.parametrize("kind", KINDS)
def test_training_learns_and_a_drafters_verifier_stays(
    make: Make, tiny_verifier: TransformerModel, tmp_path: Path, kind: str
) -> None:
    before = {name: tensor.clone() for name, tensor in tiny_verifier.state_dict().items()}
    reports: list[dict[str, float]] = []
    trainer = make(kind, tmp_path, replace(OPTIONS, updates=30, short_first=0, save_every=5))
    trainer.run(report=reports.append)
    losses = [report["loss"] for report in reports]
    assert losses[-1] < losses[0] - 0.5
    assert [report["update"] for report in reports] == [5, 10, 15, 20, 25, 30]
    assert [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == reports
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny_verifier.state_dict().items())
    assert kind == "verifier" or all(parameter.grad is None for parameter in tiny_verifier.parameters())
    if kind == "masked":
        assert trainer.model.get_parameter("correction.output.weight").any()


@pytest.mark.parametrize("kind", KINDS)
def test_training_starts_from_given_weights(make: Make, tmp_path: Path, kind: str) -> None:
    start = weights_of(make(kind, tmp_path, OPTIONS).model)
    start = {name: tensor + torch.randn_like(tensor) for name, tensor in start.items()}
    options = replace(OPTIONS, updates=1, short_first=0, lr=0.0, weight_decay=0.0)
    trainer = make(kind, tmp_path, options, initial=start)
    trainer.run()
    assert all(torch.equal(tensor, start[name]) for name, tensor in weights_of(trainer.model).items())


def test_layers_are_taken_over_from_where_they_lie() -> None:
    old = replace(VERIFIER, encoder_layers=3, decoder_layers=3)
    weights = {f"{stack}.layers.{n}.w": torch.tensor(n) for stack in ("encoder", "decoder") for n in range(3)}
    weights["encoder_frontend.embed.weight"] = torch.tensor(7)
    changed = with_layers(weights, old, replace(old, encoder_layers=6, decoder_layers=1))
    assert [int(changed[f"encoder.layers.{n}.w"]) for n in range(6)] == [0, 0, 1, 1, 2, 2]
    assert int(changed["decoder.layers.0.w"]) == 1
    assert len(changed) == 8
    assert with_layers(weights, old, old) == weights


def test_validation_loss_is_that_of_the_reference(tiny_verifier: TransformerModel, tmp_path: Path) -> None:
    sides = {
        "source": ["ein Haus", "der Hund und die Katze", "ja"],
        "target": ["a house", "the dog and the cat", "yes"],
    }
    (tmp_path / "valid.toy.json").write_text(json.dumps(sides))
    train_pieces([(SAMPLE[0], SAMPLE[1])], tmp_path / "p.model", vocab_size=400, sample=99)
    validator = Validator(tmp_path, Pieces(tmp_path / "p.model"), lines=2)
    total = count = 0.0
    for source, target in zip(*(validator.pieces.encode_batch(side[:2]) for side in sides.values()), strict=True):
        ids = torch.tensor([[BOS, *target, EOS]])
        states = target_states(
            tiny_verifier, torch.tensor([[*source, EOS]]), torch.tensor([len(source) + 1]), ids[:, :-1]
        )
        with torch.no_grad():
            total += float(functional.cross_entropy(tiny_verifier.final_proj(states)[0], ids[0, 1:], reduction="sum"))
        count += len(target) + 1
    assert validator.loss(tiny_verifier, CPU) == {"loss_toy": pytest.approx(total / count, abs=1e-3)}


def test_a_drafter_starts_from_the_verifiers_layers() -> None:
    torch.manual_seed(0)
    verifier = create_verifier(replace(VERIFIER, decoder_layers=5), CPU)
    weights = verifier.state_dict()
    for layers, picks in ((1, [2]), (2, [0, 4]), (3, [0, 2, 4])):
        drafter = create_drafter(replace(MASKED, layers=layers), CPU)
        initialise_from(drafter, verifier, 5)
        state = drafter.state_dict()
        for layer, pick in enumerate(picks):
            names = [name for name in state if name.startswith(f"decoder.layers.{layer}.")]
            assert len(names) == 26
            for name in names:
                assert torch.equal(state[name], weights[name.replace(f".{layer}.", f".{pick}.", 1)])
        assert torch.equal(state["embed.weight"], weights["encoder_frontend.embed.weight"])
        assert torch.equal(state["decoder.layer_norm.weight"], weights["decoder.layer_norm.weight"])


def test_an_autoregressive_drafter_starts_as_its_verifier_with_fewer_layers() -> None:
    """With as many layers it is the verifier; with one, the verifier without its first."""
    torch.manual_seed(0)
    verifier = create_verifier(VERIFIER, CPU).eval()
    drafters = {layers: create_autoregressive(replace(AHEAD, layers=layers), CPU) for layers in (2, 1)}
    for drafter in drafters.values():
        initialise_from(drafter.eval(), verifier, 2)
    source, lengths = torch.tensor([[5, 6, EOS], [7, EOS, PAD]]), torch.tensor([3, 2])
    target = torch.tensor([[BOS, 8, 9, EOS], [BOS, 10, EOS, PAD]])
    with torch.no_grad():
        for layers, drafter in drafters.items():
            del verifier.decoder.layers[: 2 - layers]
            states = target_states(verifier, source, lengths, target[:, :-1])
            logits = verifier.final_proj(states)
            wanted = functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
            loss, count = autoregressive_loss(drafter, verifier, target, source, lengths)
            assert count == 5
            assert (loss / count).item() == pytest.approx(wanted.item(), rel=1e-5)


FREED = """
import torch
from specmt.training.processes import tune_memory

def kept():
    before = resident()
    block = torch.ones(50_000_000)
    del block
    return resident() - before > 150_000_000

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

print(kept())
tune_memory()
print(kept())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not tuned")
def test_a_training_process_keeps_the_memory_that_it_frees() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FREED]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.split() == ["False", "True"]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_batches_are_dealt_out_evenly(rows: list[int], world: int) -> None:
    """Of batches with the same number of ids, a process has at most a row more of each that was cut."""
    offsets = np.cumsum([0, *rows])
    batches = [np.arange(*ends) for ends in pairwise(offsets)]
    shares = deal_batches(batches, [840] * len(rows), world)
    assert len(shares) == world
    dealt = [index for share in shares for batch in share for index in batch]
    assert sorted(dealt) == list(range(offsets[-1]))
    assert all(batch.size for share in shares for batch in share)
    of = np.repeat(840 / np.array(rows), rows)  # the ids of each row
    loads = [sum(of[batch].sum() for batch in share) for share in shares]
    assert max(loads) - min(loads) <= len(rows) % world * 840 / min(rows) + 1e-6


def test_large_batches_are_dealt_out_first() -> None:
    assert deal([5, 9, 1, 7], 2) == [[1, 2], [3, 0]]
    assert deal([1], 3) == [[0], [], []]


PROCESSES = """
import os
from specmt.training.data import ParallelData
from specmt.training.factory import verifier_trainer
from specmt.training.processes import start_processes

os.environ |= environment
device = start_processes("cpu", 1)
trainer = verifier_trainer(folder, ParallelData.load(data, "train"), config, options, device=device)
seen, steps, loss = [], [], trainer.batch_loss
trainer.batch_loss = lambda batch: (seen.append(len(batch)), loss(batch))[1]
if len(trainer.optimizer.parts) > 1:
    muon = trainer.optimizer.parts[1]
    step = muon.step
    muon.step = lambda: (steps.append(sum(p.grad is not None for p in trainer.parameters.values())), step())
trainer.run()
(folder / f"seen-{os.environ['RANK']}").write_text(f"{len(seen)} {sum(seen)} {max(steps)}")
"""


def train_together(count: int, **given: object) -> None:
    """Runs so many processes that find in their environment what torchrun puts there; PyTorch is imported once."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}", "WORLD_SIZE": f"{count}"}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["specmt.training.factory"])
    ranks = [{"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", **place} for rank in range(count)]
    processes = [context.Process(target=exec, args=(PROCESSES, {"environment": each, **given})) for each in ranks]
    for process in processes:
        process.start()
    for process in processes:
        process.join(200)
    context.set_forkserver_preload([])  # others that are forked would have all of PyTorch in their memory
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    assert [process.exitcode for process in processes] == [0] * count


@pytest.mark.long
def test_processes_share_the_work_and_train_like_one(make: Make, data_folder: Path, tmp_path: Path) -> None:
    """Three processes, stopped half way, and gone on with by two: the weights are those of one but for rounding."""
    config = replace(VERIFIER, dropout=0.0)
    options = replace(
        OPTIONS, updates=6, short_first=2, tokens_per_update=600, warmup=1, schedule="constant", lr=1e-3, save_every=2
    )
    alone = make("verifier", tmp_path / "one", options)
    matrices = len(alone.optimizer.shares[0])
    alone.run()
    for count, updates in ((3, 4), (2, 6)):
        given = {"data": data_folder, "config": config, "options": replace(options, updates=updates)}
        train_together(count, folder=tmp_path / "many", **given)
        # The work was dealt out, not done as often as there are processes.
        shares = [tuple(map(int, (tmp_path / "many" / f"seen-{r}").read_text().split())) for r in range(count)]
        assert all(0 < steps <= matrices // count + 2 for _, _, steps in shares)
        assert max(pairs for _, pairs, _ in shares) < 0.7 * sum(pairs for _, pairs, _ in shares)
    one, many = (load_file(tmp_path / name / "state.safetensors") for name in ("one", "many"))
    assert one.keys() == many.keys()
    # The bias of keys has no gradient but for rounding. Of optimizers, the momentum of matrices is gathered from all.
    names = {name for name in one if name.startswith("weights/") and "k_proj.bias" not in name}
    names |= {name for name in one if name.startswith("optimizer/1/")}
    far = {name: float((many[name] - one[name]).norm() / one[name].norm()) for name in names}
    assert len(names) > matrices
    # AdamW moves an element by about the rate however small its gradient is: rounding may turn one in a bias.
    turned = [name for name, value in far.items() if value >= 0.03]
    assert all(name.endswith(".bias") for name in turned) and len(turned) < 2, far
    for name in turned:
        rest = (many[name] - one[name]).abs().sort().values[:-1]
        assert float(rest.norm() / one[name].norm()) < 0.03, name
    losses = [[row["loss"] for row in metrics_of(tmp_path / name)] for name in ("one", "many")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
