"""The values that travel through the program: lines, hypotheses, translations and their statistics."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Final

PAD: Final = 0
UNK: Final = 1
BOS: Final = 2
EOS: Final = 3
"""The ids of the special pieces, the same in every model of ours."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of input text, without its ending."""

    index: int
    """The position in the input, from 0."""

    text: str
    """The text, without line ending."""

    ending: str = "\n"
    r"""What ended the line: ``"\n"``, ``"\r\n"``, or ``""`` at the end of a file without a final newline."""


@dataclass(slots=True)
class Stats:
    """Counts of one decoding run; two of them add up."""

    lines: int = 0
    """Lines of input, blank ones included."""

    sentences: int = 0
    """Sentences that went through the model."""

    source_tokens: int = 0
    """Source pieces read, end-of-sentence included."""

    tokens: int = 0
    """Target pieces committed, end-of-sentence included."""

    verifier_calls: int = 0
    """Verifier calls, counted per sentence: one batched call over B sentences counts B."""

    drafted: int = 0
    """Tokens that the drafter proposed."""

    accepted: int = 0
    """Proposed tokens that the verifier accepted and that were committed."""

    accepted_counts: list[int] = field(default_factory=list)
    """How many verifier calls accepted 0, 1, 2, … tokens."""

    seconds: float = 0.0
    """Wall time of the decoding."""

    @property
    def mean_accepted_length(self) -> float:
        """Tokens committed per verifier call, the verifier's own token included."""
        return self.tokens / self.verifier_calls if self.verifier_calls else 0.0

    def count_call(self, accepted: int) -> None:
        """Counts a verifier call that accepted so many tokens."""
        self.verifier_calls += 1
        self.accepted += accepted
        self.accepted_counts += [0] * (accepted + 1 - len(self.accepted_counts))
        self.accepted_counts[accepted] += 1

    def __add__(self, other: Stats) -> Stats:
        values = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.type != "list[int]"}
        counts = [sum(pair) for pair in zip_longest(self.accepted_counts, other.accepted_counts, fillvalue=0)]
        return Stats(**values, accepted_counts=counts)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The decoded pieces of one sentence."""

    tokens: list[int]
    """Target piece ids, without BOS and without EOS."""

    score: float
    """The sum of the verifier's log-probabilities over the tokens and EOS; NaN where it was not asked for."""

    stats: Stats = field(default_factory=Stats)


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of one line."""

    line: Line
    """The input line."""

    text: str
    """The translated text, without line ending."""

    tokens: list[str] = field(default_factory=list)
    """The target pieces."""

    score: float = 0.0
    """The sum of log-probabilities over the line's sentences; NaN where it was not asked for."""

    stats: Stats = field(default_factory=Stats)

    lossless: bool = True
    """Whether the text is what the strategy stands for: what greedy decoding or beam search would have said, or, where
    there is a temperature, a fair sample of the model."""

    warnings: list[str] = field(default_factory=list)
    """What the user should be told about this line, without the line number."""
