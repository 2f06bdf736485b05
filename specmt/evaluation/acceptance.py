"""How many drafts are accepted, by how far ahead they are."""

from __future__ import annotations

from collections import Counter

from torch import Tensor
from typing_extensions import override

from specmt.decoding.request import Request
from specmt.decoding.trace import Recorder, Trial
from specmt.decoding.tree import Node


class Tally(Recorder):
    """Counts drafted and accepted nodes by their depth, from 1; two of them add up."""

    def __init__(self) -> None:
        super().__init__(beta=0)
        self.calls = 0
        """Verifier calls, counted per sentence."""

        self.reached: Counter[int] = Counter()
        """Calls that had a draft of that depth."""

        self.drafted: Counter[int] = Counter()
        self.accepted: Counter[int] = Counter()

    @override
    def record(
        self,
        request: Request,
        prefix: list[int],
        nodes: list[Node],
        logits: Tensor,
        accepted: list[int],
        emitted: list[int],
        trials: list[Trial],
    ) -> None:
        """Counts a pass over a sentence."""
        depths = [0]
        for node in nodes:
            depths.append(depths[node.parent] + 1)
        self.calls += 1
        self.drafted.update(depths[1:])
        self.reached.update(set(depths[1:]))
        # What was accepted behind the end of the sentence was not committed.
        self.accepted.update(depths[place] for place in accepted[: len(emitted)])

    def add(self, other: Tally) -> None:
        """Adds what another one counted."""
        self.calls += other.calls
        self.reached += other.reached
        self.drafted += other.drafted
        self.accepted += other.accepted

    def rates(self) -> list[float]:
        """Returns for each depth the share of calls with a draft of that depth in which one was accepted."""
        return [self.accepted[depth] / self.reached[depth] for depth in sorted(self.reached)]
