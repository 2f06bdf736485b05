"""What the bundled models get right of names, numbers, negation and the like: no less than before."""

from __future__ import annotations

from collections import Counter

import pytest

from specmt.models.folder import ASSETS
from specmt.translator import Translator
from tests.golden.phenomena import Line, count, read_lines, translate

FLOORS = {
    "de-en": {
        **{"name": 21, "number": 28, "date": 28, "price": 27, "time": 22},
        **{"negation": 27, "separable": 22, "compound": 22, "interface": 28, "long": 14},
    },
    "en-de": {
        **{"name": 28, "number": 29, "date": 29, "price": 29, "time": 26},
        **{"negation": 28, "separable": 23, "compound": 25, "interface": 28, "long": 28},
    },
}
"""How many of 30 lines hold with the bundled models; better models raise it."""

SLACK = 2
"""Lines of a kind that may differ between number formats and backends."""


@pytest.mark.parametrize("direction", FLOORS)
def test_no_kind_of_line_gets_worse(direction: str) -> None:
    lines = read_lines(direction)
    assert Counter(line.kind for line in lines) == dict.fromkeys(FLOORS[direction], 30)
    assert len({line.source for line in lines}) == len(lines)
    counts = count(lines, translate(Translator.from_pretrained(ASSETS / direction), lines))
    assert all(counts[kind] >= floor - SLACK for kind, floor in FLOORS[direction].items()), counts
    assert sum(counts.values()) >= sum(FLOORS[direction].values()) - 2 * SLACK, counts


def test_a_line_holds_with_all_that_it_must_have_and_nothing_that_it_must_not() -> None:
    line = Line("time", "Um 2:30 Uhr am Montag.", r"2[:.]30 && [Mm]onday", r"\bUhr\b")
    assert line.holds("At 2:30 on Monday.")
    assert not line.holds("At 9:30 on Monday.")
    assert not line.holds("At 2:30.")
    assert not line.holds("At 2:30 Uhr on Monday.")
    assert not any(line.holds(line.source) for direction in FLOORS for line in read_lines(direction))
