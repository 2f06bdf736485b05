"""Terms in translations: what a slow decoder of the same rule says, step by step (issue 19)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from specmt.decoding.constraints import PLACES
from specmt.decoding.request import Constraint, Request, Term
from specmt.decoding.rows import target_limit
from specmt.decoding.session import Session, decode
from specmt.engine.arrays import Floats
from specmt.engine.protocols import Logits
from specmt.engine.window import Window
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, Hypothesis
from tests.decoding_helpers import BACKENDS, GREEDY, Hypotheses, Sources, load_on, sources_for
from tests.networks import opened, zeros

Ids = tuple[int, ...]
WAYS = {
    "greedy": replace(GREEDY, batch_size=7, scores=True),
    "masked": DecodingOptions(drafter="masked", block_size=4, batch_size=3, scores=True),
    "tree": DecodingOptions(drafter="masked", tree="best-first", nodes=6, block_size=4, batch_size=40, scores=True),
    "autoregressive": DecodingOptions(drafter="autoregressive", block_size=3, batch_size=5, scores=True),
    "lookup": DecodingOptions(drafter="lookup", batch_size=4, scores=True),
}


@pytest.fixture(scope="module", params=[*BACKENDS, "kernels-int8"])
def model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    return load_on(request.param, tiny_model, request)


@pytest.fixture(scope="module")
def begins() -> np.ndarray:
    """Two of three tokens begin words."""
    flags = np.arange(400) % 3 > 0
    flags[EOS] = False
    return flags


@pytest.fixture(scope="module")
def terms(sources: Sources) -> list[list[Term]]:
    """None to three terms a sentence, of one to three forms, of one to four tokens, which begin words."""
    generator = random.Random(5)
    found = []
    for source in sources:
        each = []
        for _ in range(generator.randint(0, 3)):
            start = generator.randrange(len(source))
            forms = [
                (3 * generator.randint(2, 130) + 1, *(generator.randrange(4, 400) for _ in range(more)))
                for more in (generator.randint(0, 3) for _ in range(generator.randint(1, 3)))
            ]
            each.append(Term(tuple(range(start, min(len(source), start + 2))), tuple(forms)))
        found.append(each)
    return found


class Wanted:
    """Says which of a sentence's terms are missing, as often as there are terms."""

    def __init__(self, terms: list[Term], model: Model, begins: np.ndarray) -> None:
        self.terms, self.model, self.begins = terms, model, begins
        self.asked = 0

    def __call__(self, tokens: list[int], given: int) -> Constraint | None:
        missing = [term for term in self.terms if not any(has(tokens, form) for form in term.forms)]
        if not missing or self.asked == len(self.terms):
            return None
        self.asked += 1
        return Constraint(tuple(missing), self.model.alignment_heads, self.begins)


def has(tokens: list[int], form: Ids) -> bool:
    return any(tuple(tokens[place : place + len(form)]) == form for place in range(len(tokens)))


def constrained(
    model: Model, sources: Sources, terms: list[list[Term]], begins: np.ndarray, options: DecodingOptions
) -> Hypotheses:
    session = Session(model)
    for number, source in enumerate(sources):
        missing = Wanted(terms[number], model, begins)
        session.submit(Request(number, source, number, options=options, missing=missing))
    found: dict[int, Hypothesis] = {}
    while len(session):
        found |= session.step()
    return [found[number] for number in range(len(sources))]


class Slow:
    """Decodes one sentence token by token, reading everything anew each time, in one window."""

    def __init__(self, model: Model, source: list[int]) -> None:
        self.verifier, self.source = model.verifier, source
        self.encoded = self.verifier.encode([source])
        self.heads = model.alignment_heads

    def after(self, tokens: list[int]) -> Logits:
        """Returns the logits (1, T + 1, V) after BOS and each of the tokens."""
        return self.verifier.score(Window(np.array([[BOS, *tokens]]), zeros(1)), opened(self.verifier, self.encoded))

    def log_prob(self, tokens: list[int], form: Ids) -> float:
        places = len(tokens) + np.arange(len(form))
        found: list[float] = self.after([*tokens, *form]).log_probs(np.array([form]), places[None])[0].tolist()
        return sum(found)

    def attention(self, tokens: list[int]) -> Floats:
        return self.verifier.attention(opened(self.verifier, self.encoded), [0], [tokens], self.heads)[0]

    def go_on(self, tokens: list[int], limit: int) -> list[int]:
        while len(tokens) < limit and tokens[-1:] != [EOS]:
            tokens = [*tokens, int(self.after(tokens).best()[0, -1])]
        return tokens

    def decode(self, wanted: Wanted) -> list[int]:
        limit = target_limit(len(self.source) + 1, self.verifier.sizes.max_length)
        tokens, given = self.go_on([], limit), 0
        while True:
            said = tokens[:-1] if tokens[-1] == EOS else tokens
            constraint = wanted(said, given)
            if constraint is None:
                return said
            free = said[: len(tokens) - 1]
            attention = self.attention(free)
            best: list[tuple[int, int, Ids]] = []
            for number, term in enumerate(constraint.terms):
                scored = [
                    (self.log_prob(free[:place], form), place, form)
                    for place in self.places(attention, free, given, term, wanted.begins)
                    for form in term.forms
                    if place + len(form) <= limit - 2
                ]
                if scored:
                    top = max(score for score, _, _ in scored)
                    _, place, form = next(each for each in scored if each[0] == top)
                    best.append((place, number, form))
            if not best:
                return said
            place, _, form = min(best, key=lambda each: each[:2])
            prefix = [*free[:place], *form]
            logits = self.after(prefix).row(0, len(prefix)).copy()
            logits[[not (flag or token == EOS) for token, flag in enumerate(wanted.begins)]] = -math.inf
            given = len(prefix)
            tokens = self.go_on([*prefix, int(logits.argmax())], limit)

    @staticmethod
    def places(attention: Floats, free: list[int], given: int, term: Term, begins: np.ndarray) -> list[int]:
        words = [place for place in range(given, len(free)) if begins[free[place]]]
        totals = {}
        for number, place in enumerate(words):
            end = words[number + 1] if number + 1 < len(words) else len(free)
            totals[place] = float(attention[:, list(term.pieces)].sum(1)[place:end].sum())
        return sorted({*sorted(words, key=lambda place: -totals[place])[:PLACES], len(free)})


@pytest.fixture(scope="module")
def slow(model: Model, sources: Sources, terms: list[list[Term]], begins: np.ndarray) -> list[list[int]]:
    pairs = zip(sources_for(model, sources)[:14], sources_for(model, terms), strict=False)
    return [Slow(model, source).decode(Wanted(each, model, begins)) for source, each in pairs]


@pytest.fixture(scope="module")
def found(model: Model, sources: Sources, terms: list[list[Term]], begins: np.ndarray) -> Callable[[str], Hypotheses]:
    """Returns what is said in a way."""
    sources, terms = sources_for(model, sources), sources_for(model, terms)
    return cache(lambda way: constrained(model, sources, terms, begins, WAYS[way]))


@pytest.mark.crossed("model", "way")
@pytest.mark.parametrize("way", WAYS)
def test_translations_are_those_of_the_slow_decoder(
    model: Model,
    found: Callable[[str], Hypotheses],
    terms: list[list[Term]],
    begins: np.ndarray,
    slow: list[list[int]],
    way: str,
) -> None:
    got, terms = found(way), sources_for(model, terms)
    assert [each.tokens for each in got[: len(slow)]] == slow
    assert sum(each.given > 0 for each in got) > 0.3 * len(got)
    met = 0
    for hypothesis, wanted in zip(got, terms, strict=True):
        if hypothesis.given:
            met += all(any(has(hypothesis.tokens, form) for form in term.forms) for term in wanted)
            assert all(begins[token] for token in hypothesis.tokens[hypothesis.given :][:1])
        assert math.isfinite(hypothesis.score)
    assert met > 0.3 * len(got)


def test_nothing_changes_where_nothing_is_missing(model: Model, sources: Sources, begins: np.ndarray) -> None:
    sources = sources_for(model, sources)
    free = decode(model, sources, GREEDY)
    terms = [[Term((0,), (tuple(each.tokens[-2:]),))] if len(each.tokens) > 1 else [] for each in free]
    got = constrained(model, sources, terms, begins, GREEDY)
    assert [(each.tokens, each.stats, each.given) for each in got] == [(each.tokens, each.stats, 0) for each in free]


def test_scores_are_of_what_is_said(found: Callable[[str], Hypotheses]) -> None:
    for one, other in zip(found("greedy"), found("masked"), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-3)


def test_a_term_that_does_not_fit_is_left_out(model: Model, sources: Sources, begins: np.ndarray) -> None:
    long = Term((0,), (tuple(range(4, 124)),))
    (free,) = decode(model, sources[5:6], GREEDY)
    (got,) = constrained(model, sources[5:6], [[long]], begins, GREEDY)
    assert (got.tokens, got.given) == (free.tokens, 0)
