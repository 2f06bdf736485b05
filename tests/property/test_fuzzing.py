"""Nothing that is almost a document, a glossary, a memory, a request or a configuration breaks what reads it."""

from __future__ import annotations

import pytest

from tests.fuzzing import KINDS, check

INPUTS, SLOW = 500, {"asciidoc": 150, "markdown": 100, "rst": 150}
"""Of a kind; those take over 8 ms each. scripts/fuzz.py reads more of them."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_almost_right_is_read_or_refused(kind: str) -> None:
    read, inputs = 0, SLOW.get(kind, INPUTS)
    for seed in range(inputs):
        try:
            read += check(kind, seed)
        except Exception as error:
            raise AssertionError(f"scripts/fuzz.py {kind} --first {seed} --count 1") from error
    assert inputs / 10 < read < inputs
