"""How many threads compute: PyTorch's where it is the backend, and those of the kernels alone where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from specmt.decoding.session import decode
from specmt.engine import threads
from specmt.engine.threads import MOST_THREADS, available, thread_count, use_threads
from specmt.models.hub import load_model
from specmt.options import DecodingOptions


def test_the_machine_is_asked_where_nobody_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_used", None)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert (available(), thread_count()) == (3, 3)
    monkeypatch.setattr(threads, "_used", None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1000000")
    assert thread_count() == MOST_THREADS
    use_threads(5)
    assert thread_count() == 5


@pytest.mark.parametrize("said", ["", "0", "-2", "many"])
def test_two_threads_of_a_core_count_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 4, 5, 6})
    for number, siblings in ((0, "0,4"), (1, "1,5"), (4, "0,4"), (5, "1,5"), (6, "2,6")):
        topology = tmp_path / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    assert available(tmp_path) == 3
    assert available(tmp_path / "nothing") == 5


def test_decoding_on_kernels_leaves_the_threads_of_pytorch_alone(
    tiny_model: Path, sources: list[list[int]], kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(tiny_model, dtype="float32", threads=2, kernels=kernels)
    seen: dict[str, set[tuple[int, int]]] = {"new_state": set(), "encode": set()}

    def watch(name: str) -> None:
        method = getattr(model.verifier, name)

        def watched(*call: Any) -> Any:
            found = method(*call)
            seen[name].add((thread_count(), torch.get_num_threads()))
            return found

        monkeypatch.setattr(model.verifier, name, watched)

    # Caches, too: torch's threads would still be spinning when the kernels begin.
    for name in seen:
        watch(name)
    decode(model, sources[:3], DecodingOptions(block_size=2))
    assert all(counts == {(2, 1 if kernels else 2)} for counts in seen.values())


def test_pytorch_follows_where_threads_change_after_a_model_was_loaded(tiny_model: Path) -> None:
    model = load_model(tiny_model, dtype="float32", threads=2, kernels=False)
    use_threads(1)
    model.verifier.encode([[5, 6, 7]])
    assert torch.get_num_threads() == 1
