"""Terms that a translation must contain, put where the model finds them likeliest.

A translation that lacks terms is gone through once more. Each term could stand before any word behind what must stay,
or at the end: considered are the places where the translation's attention to the term is highest, and the end. One
draft tree of all terms in all forms at all their places is scored in one pass, over the keys and values that the
translation left. A term's place is the one where its tokens are likeliest; the term that comes first goes in. Behind it
comes the likeliest token that does not go on with its word, and the rest is decoded as always.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import torch

from specmt.decoding.request import Constraint, Term
from specmt.engine.backend import Attention, State, Verifier, best_tokens
from specmt.engine.cache import round_up
from specmt.engine.window import Branches
from specmt.types import EOS

PLACES: Final = 4
"""How many places by attention are tried for a term, beside the end."""

MOST_NODES: Final = 256
"""As many terms are tried at a time as there is room for in a tree of that size; one always is."""


class Placed(NamedTuple):
    """A term that a translation must contain, and where."""

    place: int
    """How many tokens of the translation before stay."""

    tokens: list[int]
    """The term, and a token behind it, whose keys and values are not in the cache."""

    log_probs: list[float]
    """Of these tokens."""

    nodes: int
    """How many nodes were scored."""


class _Candidate(NamedTuple):
    """A term in a form at a place."""

    term: int
    place: int
    form: tuple[int, ...]


def places_of(attention: Attention, constraint: Constraint, term: Term, free: list[int], kept: int) -> list[int]:
    """Returns the places before which a term is tried, in ascending order.

    :param attention: (T, S) of the translation without it
    :param free: that translation
    :param kept: how much of it must stay
    """
    starts = [place for place in range(kept, len(free)) if constraint.begins[free[place]]]
    weights = attention[:, list(term.pieces)].sum(1)
    ends = [*starts[1:], len(free)][: len(starts)]
    totals = [float(weights[start:end].sum()) for start, end in zip(starts, ends, strict=True)]
    best = sorted(range(len(starts)), key=lambda number: -totals[number])[:PLACES]
    return sorted({*(starts[number] for number in best), len(free)})


def candidates_of(
    attention: Attention, constraint: Constraint, free: list[int], kept: int, room: int
) -> list[_Candidate]:
    """Returns the terms in all their forms at the places that are tried, if they fit.

    :param room: the most tokens up to a term
    """
    found: list[_Candidate] = []
    for number, term in enumerate(constraint.terms):
        new = [
            _Candidate(number, place, form)
            for place in places_of(attention, constraint, term, free, kept)
            for form in term.forms
            if place + len(form) <= room
        ]
        if found and sum(len(each.form) for each in (*found, *new)) > MOST_NODES:
            break
        found += new
    return found


def choose_candidate(candidates: list[_Candidate], scores: list[float]) -> int:
    """Returns the number of the candidate that goes in: of the best one of each term, the one that comes first.

    Among equals it is the earlier candidate.
    """
    best: dict[int, int] = {}
    for number, (candidate, score) in enumerate(zip(candidates, scores, strict=True)):
        if candidate.term not in best or score > scores[best[candidate.term]]:
            best[candidate.term] = number
    return min(best.values(), key=lambda number: candidates[number].place)


def place_term(
    verifier: Verifier, state: State, row: int, constraint: Constraint, free: list[int], kept: int, limit: int
) -> Placed | None:
    """Puts one more term into a translation that is in a row of the caches; ``None`` if there is no room for any.

    :param free: the translation; all its keys and values are there
    :param kept: how many tokens of it must stay
    :param limit: the most tokens of a translation, EOS included
    """
    (attention,) = verifier.attention(state, [row], [free], constraint.heads)
    candidates = candidates_of(attention, constraint, free, kept, limit - 2)  # a token behind it, and EOS
    if not candidates:
        return None
    opening, device = verifier.prefixes.start, verifier.device
    # The token before each place once more, for what may follow it, then the terms; places count from the root.
    first, root = len(free) + 1, [opening[-1], *free]
    nodes = sorted({each.place for each in candidates})
    again = {place: number for number, place in enumerate(nodes)}
    tokens, paths = [root[place] for place in nodes], [[*range(place), first + again[place]] for place in nodes]
    parents, ends = list[int](), list[int]()
    for _, place, form in candidates:
        parents += [again[place], *range(len(tokens), len(tokens) + len(form) - 1)]
        path = [*range(place + 1)]
        for token in form:
            path = [*path, first + len(tokens)]
            tokens.append(token)
            paths.append(path)
        ends.append(len(tokens))
    longest = max(map(len, paths))
    laid = torch.tensor([[path + [0] * (longest - len(path)) for path in paths]], device=device)
    depths = torch.tensor([[len(path) - 1 for path in paths]], device=device)
    starts = torch.tensor([len(opening) - 1], device=device)
    window = torch.tensor([tokens], device=device)
    state.cache.reserve(round_up(len(opening) + first + len(tokens)))
    view = state.row(row)
    logits = verifier.score(window, starts, view, Branches(depths, laid, first))  # (1, N, V)
    said = verifier.log_probs(logits[:, parents].contiguous(), window[:, len(nodes) :].contiguous())[0].tolist()
    begins = [end - len(each.form) for each, end in zip(candidates, ends, strict=True)]
    spans = [slice(begin - len(nodes), end - len(nodes)) for begin, end in zip(begins, ends, strict=True)]
    number = choose_candidate(candidates, [sum(said[span]) for span in spans])
    _, place, form = candidates[number]
    allowed = constraint.begins.copy()
    allowed[EOS] = True
    last = logits[:, ends[number] - 1, None]  # (1, 1, V)
    behind = best_tokens(last.index_fill(2, torch.from_numpy(np.flatnonzero(~allowed)).to(device), -torch.inf))
    path = [*range(1, place + 1), *range(first + begins[number], first + ends[number])]
    view.cache.compact(starts, torch.tensor([path], device=device))
    log_probs = [*said[spans[number]], *verifier.log_probs(last.contiguous(), behind)[0].tolist()]
    return Placed(place, [*form, int(behind)], log_probs, len(tokens))
