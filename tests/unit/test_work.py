"""How much there is to do for a drafter, and how long it takes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from specmt.cli.train import ManyValues, drafter
from specmt.errors import UsageError
from specmt.training.work import (
    DISTILLED,
    FEWEST_UPDATES,
    LEAST,
    MOST_PASSES,
    MOST_UPDATES,
    SHARD,
    TRAINED,
    Rates,
    Work,
    choose_work,
    go_on,
    seconds_left,
)

RATES = Rates(sentence=0.02, line=0.1, update=4.0, ids=50.0)
TOKENS = 6000


@pytest.mark.parametrize(("sentences", "updates"), [(2_000, FEWEST_UPDATES), (60_000, 1500), (240_000, MOST_UPDATES)])
def test_updates_go_with_the_sentences(sentences: int, updates: int) -> None:
    work = choose_work(sentences, RATES, 100.0, TOKENS)
    assert (work.sentences, work.updates) == (sentences, updates)
    assert choose_work(sentences, RATES, 100.0, TOKENS, updates=7).updates == 7


@pytest.mark.parametrize("hours", [0.05, 0.5, 3.0, 24.0])
@pytest.mark.parametrize("updates", [None, 10])
def test_what_hours_allow_takes_no_longer(hours: float, updates: int | None) -> None:
    work = choose_work(100_000, RATES, 100.0, TOKENS, hours=hours, updates=updates)
    seconds = work.sentences * RATES.sentence + work.updates * RATES.update + 100.0
    passes = work.updates * TOKENS / (work.sentences * RATES.ids)
    assert seconds <= 3600 * hours
    assert LEAST <= work.sentences <= 100_000
    if updates is not None:
        assert work.updates == updates
    elif work.sentences < 100_000:
        assert seconds > 3600 * hours - 2 * RATES.update
        assert passes == pytest.approx(3, rel=0.2)
    else:
        assert seconds > 3600 * hours - 2 * RATES.update or passes == pytest.approx(MOST_PASSES, rel=0.01)


@pytest.mark.parametrize("updates", [None, 50])
def test_too_few_hours_are_an_error_that_says_how_many_it_takes(updates: int | None) -> None:
    with pytest.raises(UsageError, match=r"`hours` must be at least ([\d.]+), but is 0.01 instead") as caught:
        choose_work(100_000, RATES, 100.0, TOKENS, hours=0.01, updates=updates)
    found = re.search(r"least ([\d.]+),", str(caught.value))
    assert found is not None
    work = choose_work(100_000, RATES, 100.0, TOKENS, hours=float(found[1]), updates=updates)
    assert work.sentences >= LEAST


def test_slow_machines_save_more_often() -> None:
    every = [choose_work(1000, replace(RATES, update=each), 1.0, TOKENS).save_every for each in (0.01, 2.0, 100.0)]
    assert every == [200, 60, 10]


def test_what_is_left_of_a_run(tmp_path: Path) -> None:
    work = Work(sentences=3 * SHARD + 10, updates=100, save_every=10, hours=2.0)
    before = seconds_left(work, RATES, tmp_path)
    for folder, names in (
        (DISTILLED, ["shard-00000.json", "shard-00001.json"]),
        (TRAINED, ["checkpoint-00000050.safetensors", "checkpoint-00000060.safetensors"]),
    ):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    distilling, training = seconds_left(work, RATES, tmp_path)
    assert before[0] == pytest.approx((3 * SHARD + 10) * RATES.sentence)
    assert distilling == pytest.approx((SHARD + 10) * RATES.sentence)
    assert training == pytest.approx(0.4 * before[1])
    assert training >= 40 * RATES.update

    assert go_on(work, RATES, 100.0, tmp_path, hours=None, updates=None) == work
    assert go_on(work, RATES, 100.0, tmp_path, hours=2.0, updates=None) == work
    assert go_on(work, RATES, 100.0, tmp_path, hours=None, updates=70) == replace(work, updates=70)
    more = go_on(work, RATES, 100.0, tmp_path, hours=1.0, updates=None)
    assert more.sentences == work.sentences
    assert more.updates == 60 + int((3600 - 100 - distilling) / RATES.update)
    assert go_on(work, RATES, 100.0, tmp_path, hours=0.001, updates=None).updates == 61
    for number in range(4):
        (tmp_path / DISTILLED / f"shard-0000{number}.json").touch()
    assert seconds_left(replace(work, updates=60), RATES, tmp_path) == (0.0, 0.0)


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
