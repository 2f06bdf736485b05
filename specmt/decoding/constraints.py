"""Terms that a translation must contain, put where the model finds them likeliest.

A translation that lacks terms is gone through once more. Each term could stand before any word behind what must stay,
or at the end: considered are the places where the translation's attention to the term is highest, and the end. A term
goes where its tokens are likeliest, in whatever form; of several terms, the one that comes first goes in. Behind it
comes the likeliest token that does not go on with its word, and the rest is decoded as always.

Draft trees over the keys and values that translations left are scored for that, those of all rows that lack something
side by side. They grow best first: what may follow each place, then how the likeliest candidates of each term go on,
until no other can be likelier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Final, NamedTuple, final

import numpy as np

from specmt.decoding.request import Constraint, Term
from specmt.engine.arrays import Floats
from specmt.engine.cache import State
from specmt.engine.protocols import Verifier
from specmt.engine.window import Branches, Window
from specmt.types import EOS

PLACES: Final = 4
"""How many places by attention are tried for a term, beside the end."""

MOST_TOKENS: Final = 256
"""As many terms are tried at a time as have candidates of so many tokens in all; one always is."""

MARGIN: Final = 4.0
"""Candidates are read along with the likeliest that are so little below it in log-probability: a pass costs more."""


class Lacking(NamedTuple):
    """A translation that lacks terms."""

    row: int
    """Of the caches, which have all keys and values of the translation."""

    constraint: Constraint

    free: list[int]
    """The translation."""

    given: int
    """How many tokens of it must stay."""

    limit: int
    """The most tokens that it may have, EOS included."""


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


def places_of(attention: Floats, constraint: Constraint, term: Term, free: list[int], given: int) -> list[int]:
    """Returns the places before which a term is tried, in ascending order.

    :param attention: (T, S) of the translation without it
    :param free: that translation
    :param given: how much of it must stay
    """
    starts = [place for place in range(given, len(free)) if constraint.begins[free[place]]]
    weights = attention[:, list(term.pieces)].sum(1)
    ends = [*starts[1:], len(free)][: len(starts)]
    totals = [float(weights[start:end].sum()) for start, end in zip(starts, ends, strict=True)]
    best = sorted(range(len(starts)), key=lambda number: -totals[number])[:PLACES]
    return sorted({*(starts[number] for number in best), len(free)})


def candidates_of(
    attention: Floats, constraint: Constraint, free: list[int], given: int, room: int
) -> list[_Candidate]:
    """Returns the terms in all their forms at the places that are tried, if they fit.

    :param room: the most tokens up to a term
    """
    found: list[_Candidate] = []
    for number, term in enumerate(constraint.terms):
        new = [
            _Candidate(number, place, form)
            for place in places_of(attention, constraint, term, free, given)
            for form in term.forms
            if place + len(form) <= room
        ]
        if found and sum(len(each.form) for each in (*found, *new)) > MOST_TOKENS:
            break
        found += new
    return found


@final
class _Node:
    """A token of a draft tree: one of a term, or the one before a place once more, for what may follow it."""

    def __init__(self, token: int, parent: _Node | None, before: list[int]) -> None:
        """
        :param before: where the tokens before a place are, counted from the first place
        """
        self.token = token
        self.parent = parent
        self.before = before
        self.children: dict[int, _Node] = {}
        self.log_prob = 0.0
        self.total = 0.0 if parent is None else None  # log-probability of the path from its place on, once it is known
        self.path: list[int] = []  # where the tokens up to this one are, once it was read

    def child(self, token: int) -> _Node:
        """Returns the node of a token behind this one."""
        if token not in self.children:
            self.children[token] = _Node(token, self, [])
        return self.children[token]

    def branch(self) -> list[_Node]:
        """Returns the nodes behind the place, up to this one."""
        return [] if self.parent is None else [*self.parent.branch(), self]

    def most(self) -> float:
        """Returns how likely the path is, as far as that is known: the most that all of it can be."""
        if self.total is not None or self.parent is None:
            return self.total or 0.0
        return self.parent.most()


@final
class _Search:
    """Looks for the likeliest candidate for a translation, reading as few nodes as will do."""

    def __init__(self, lacking: Lacking, candidates: list[_Candidate], before: int) -> None:
        """
        :param before: the token before the translation
        """
        self.lacking = lacking
        self.candidates = candidates
        tokens, places = [before, *lacking.free], sorted({each.place for each in candidates})
        self.first = places[0]
        starts = {place: _Node(tokens[place], None, [*range(place - self.first)]) for place in places}
        self.ends: list[_Node] = []
        for _, place, form in candidates:
            node = starts[place]
            for token in form:
                node = node.child(token)
            self.ends.append(node)
        self.fresh = list(starts.values())  # what to read next, parents first
        self.allowed = lacking.constraint.begins.copy()  # (V) whether a token may stand behind a term
        self.allowed[EOS] = True
        self.behind: dict[_Node, tuple[int, float]] = {}  # what follows ends that were read, and its log-probability
        self.count = 0  # of the nodes that were read
        self.best = 0  # the number of the candidate that goes in, as far as is known

    def grow(self) -> bool:
        """Decides what to read next; returns whether there is anything."""
        mosts = [end.most() for end in self.ends]
        best: dict[int, int] = {}
        for number, candidate in enumerate(self.candidates):
            if candidate.term not in best or mosts[number] > mosts[best[candidate.term]]:  # else it is the earlier one
                best[candidate.term] = number
        self.best = min(best.values(), key=lambda number: self.candidates[number].place)
        if all(self.ends[number].total is not None for number in best.values()) and self.ends[self.best].path:
            return False
        likely = [
            end
            for candidate, end, most in zip(self.candidates, self.ends, mosts, strict=True)
            if most >= mosts[best[candidate.term]] - MARGIN
        ]
        self.fresh = list(dict.fromkeys(node for end in likely for node in end.branch() if not node.path))
        return True

    def place(self, verifier: Verifier, state: State) -> Placed:
        """Puts the best candidate behind what stays."""
        (_, place, form), end, row = self.candidates[self.best], self.ends[self.best], self.lacking.row
        branch, stays = end.branch(), place - self.first
        # Other rows stay as they are.
        places = np.tile(np.arange(1, len(branch) + 1), (row + 1, 1))
        places[row] = [node.path[-1] - stays for node in branch]
        starts = np.full(row + 1, len(verifier.prefixes.start) - 1 + place)
        state.compact(starts, places)
        token, log_prob = self.behind[end]
        return Placed(place, [*form, token], [*(node.log_prob for node in branch), log_prob], self.count)


def place_terms(verifier: Verifier, state: State, lacking: Sequence[Lacking]) -> list[Placed | None]:
    """Puts one more term into each of some translations; ``None`` where there is no room for any."""
    searches: list[_Search | None] = []
    for one, attention in zip(lacking, _attention(verifier, state, lacking), strict=True):
        # A token behind it, and EOS.
        candidates = candidates_of(attention, one.constraint, one.free, one.given, one.limit - 2)
        searches.append(_Search(one, candidates, verifier.prefixes.start[-1]) if candidates else None)
    growing = [search for search in searches if search is not None]
    # Nodes lie behind the longest translation.
    begin = max((len(search.lacking.free) + 1 - search.first for search in growing), default=0)
    while growing:
        _read(verifier, state, growing, begin)
        begin += max(len(search.fresh) for search in growing)
        growing = [search for search in growing if search.grow()]
    return [None if search is None else search.place(verifier, state) for search in searches]


def _attention(verifier: Verifier, state: State, lacking: Sequence[Lacking]) -> Iterator[Floats]:
    for heads, group in groupby(lacking, lambda one: one.constraint.heads):
        some = list(group)
        yield from verifier.attention(state, [one.row for one in some], [one.free for one in some], heads)


def _read(verifier: Verifier, state: State, searches: Sequence[_Search], begin: int) -> None:
    """Reads the fresh nodes of searches.

    :param begin: where their keys and values go, counted from the first place
    """
    rows = [search.fresh for search in searches]
    for search in searches:
        for slot, node in enumerate(search.fresh, begin):
            node.path = [*(node.before if node.parent is None else node.parent.path), slot]
    shape = len(rows), max(map(len, rows))
    tokens, depths = np.zeros((2, *shape), dtype=np.int64)
    paths = np.zeros((*shape, max(len(node.path) for node in chain(*rows))), dtype=np.int64)
    for row, nodes in enumerate(rows):
        for column, node in enumerate(nodes):
            tokens[row, column], depths[row, column] = node.token, len(node.path) - 1
            paths[row, column, : len(node.path)] = node.path
    opening = len(verifier.prefixes.start) - 1
    windows = [(search.lacking.row, opening + search.first, len(search.fresh)) for search in searches]
    numbers, starts, counts = np.array(windows, dtype=np.int64).T
    logits = verifier.score(Window(tokens, starts, counts, numbers, Branches(depths, paths, begin)), state)
    # What goes on with terms, and what the likeliest word behind each is.
    asked: list[list[tuple[int, int, _Node | None]]] = []  # token, place and the node that it is, if it is one
    for row, (search, nodes) in enumerate(zip(searches, rows, strict=True)):
        search.count += len(nodes)
        said: list[tuple[int, int, _Node | None]] = []
        for column, node in enumerate(nodes):
            said += [(child.token, column, child) for child in node.children.values()]
            if node in search.ends:
                behind = int(np.where(search.allowed, logits.row(row, column), -np.inf).argmax())
                said.append((behind, column, None))
        asked.append(said)
    ids, places = np.zeros((2, len(rows), max(map(len, asked))), dtype=np.int64)
    for row, said in enumerate(asked):
        ids[row, : len(said)], places[row, : len(said)] = [each[0] for each in said], [each[1] for each in said]
    for search, nodes, said, found in zip(searches, rows, asked, logits.log_probs(ids, places).tolist(), strict=True):
        for (token, column, child), log_prob in zip(said, found, strict=False):
            if child is None:
                search.behind[nodes[column]] = token, log_prob
            else:
                child.log_prob, child.total = log_prob, nodes[column].most() + log_prob
