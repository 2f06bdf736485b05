"""What the loop does with 20 sentences and the bundled model, token by token: no change alters it unnoticed.

Stored are ids only, from PyTorch in float32, so that rounding elsewhere hardly tells. After a change that is meant to
alter drafts (never the translations), write them anew and look at the difference::

    python tests/golden/test_traces.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specmt.decoding.trace import Trace
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.translator import Translator
from tests.bare import compact

SAMPLE = Path(__file__).parents[2] / "data" / "sample.de"
GOLDEN = Path(__file__).with_name("traces.json")
SENTENCES = 20
OPTIONS = DecodingOptions(drafter="masked", block_size=10)


def traces(*, kernels: bool) -> list[Trace]:
    translator = Translator(load_model(device="cpu", dtype="float32", kernels=kernels))
    lines = [line for line in SAMPLE.read_text(encoding="utf-8").split("\n") if line]
    return [translator.trace(line, OPTIONS) for line in lines[:SENTENCES]]


@pytest.fixture(scope="module")
def golden() -> list[dict[str, Any]]:
    stored: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(stored) == SENTENCES
    return stored


def test_traces_are_the_stored_ones(golden: list[dict[str, Any]]) -> None:
    for found, stored in zip(map(compact, traces(kernels=False)), golden, strict=True):
        assert found == stored


def test_the_kernels_say_the_same(golden: list[dict[str, Any]], needs_kernels: None) -> None:
    """Their drafter computes in int8 and may draft otherwise, but what is said is the verifier's."""
    assert [trace.tokens for trace in traces(kernels=True)] == [stored["tokens"] for stored in golden]


def write() -> None:
    lines = (json.dumps(compact(trace), separators=(",", ":")) for trace in traces(kernels=False))
    GOLDEN.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    write()
