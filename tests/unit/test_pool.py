"""While the kernels compute, torch's own threads sleep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from specmt.decoding.session import decode
from specmt.engine.pool import only_kernels, thread_count
from specmt.models.hub import load_model
from specmt.options import DecodingOptions


def test_torch_gets_its_threads_back() -> None:
    torch.set_num_threads(3)
    with only_kernels():
        assert (thread_count(), torch.get_num_threads()) == (3, 1)
        with only_kernels():
            assert (thread_count(), torch.get_num_threads()) == (3, 1)
        assert (thread_count(), torch.get_num_threads()) == (3, 1)
    assert (thread_count(), torch.get_num_threads()) == (3, 3)
    with pytest.raises(ValueError, match="x"), only_kernels():
        raise ValueError("x")
    assert (thread_count(), torch.get_num_threads()) == (3, 3)


def test_decoding_on_kernels_leaves_torch_one_thread(
    tiny_model: Path, sources: list[list[int]], kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(tiny_model, dtype="float32", threads=2, kernels=kernels)
    seen: dict[str, set[tuple[int, int]]] = {"new_state": set(), "encode": set()}

    def watch(name: str) -> None:
        method = getattr(model.verifier, name)

        def watched(*call: Any) -> Any:
            seen[name].add((thread_count(), torch.get_num_threads()))
            return method(*call)

        monkeypatch.setattr(model.verifier, name, watched)

    # Caches, too: torch's threads would still be spinning when the kernels begin.
    for name in seen:
        watch(name)
    decode(model, sources[:3], DecodingOptions(block_size=2))
    assert all(counts == {(2, 1 if kernels else 2)} for counts in seen.values())
    assert torch.get_num_threads() == 2
