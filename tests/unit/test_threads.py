"""The number of threads is measured once, unless somebody has said it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specmt.engine import threads
from specmt.engine.backend import Verifier
from specmt.models.hub import load_model

pytestmark = pytest.mark.usefixtures("needs_kernels")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with nothing in it, and nobody who has said how many threads."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.mark.usefixtures("fresh")
def test_it_is_measured_once(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def two(network: Verifier, most: int) -> int:
        measured.append(most)
        return 2

    monkeypatch.setattr(threads, "fastest", two)
    for _ in range(2):
        torch.set_num_threads(3)
        load_model(tiny_model, dtype="float32")
        assert torch.get_num_threads() == 2
    assert measured == [3]
    load_model(tiny_model, dtype="float32", threads=1)
    assert torch.get_num_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    torch.set_num_threads(3)
    load_model(tiny_model, dtype="float32")
    assert torch.get_num_threads() == 3
    assert measured == [3]


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_the_fastest_of_all_counts_wins(tiny_model: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    model = load_model(tiny_model, dtype="float32", threads=1)
    tried: list[int] = []
    clock = 0.0

    class Timed:
        def __getattr__(self, name: str) -> object:
            return getattr(model.verifier, name)

        def score(self, *call: torch.Tensor) -> torch.Tensor:
            nonlocal clock
            count = torch.get_num_threads()
            if count not in tried:
                tried.append(count)
            clock += {1: 4.0, 2: 3.0, 3: 2.95, 4: 5.0, 5: 1.0}[count]
            return torch.empty(0)

    monkeypatch.setattr(threads.time, "perf_counter", lambda: clock)
    assert threads.fastest(Timed(), most) == {1: 1, 2: 2, 3: 2, 5: 5}[most]  # type: ignore[arg-type]
    assert tried == {1: [1], 2: [1, 2], 3: [1, 2, 3], 5: [1, 2, 4, 5]}[most]
