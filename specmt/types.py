"""The values that travel through the program: lines, hypotheses, translations and their statistics."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PAD: Final = 0
UNK: Final = 1
BOS: Final = 2
EOS: Final = 3
"""The ids of the special pieces, the same in every model of ours."""


Span = tuple[int, int]
"""The start and the end of a part of a text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of input text, without its ending."""

    index: int
    """The position in the input, from 0."""

    text: str
    """The text, without line ending."""

    ending: str = "\n"
    r"""What ended the line: ``"\n"``, ``"\r\n"``, or ``""`` at the end of a file without a final newline."""

    aligned: bool = True
    """Whether its words are aligned, where that is asked for at all."""

    @property
    def count(self) -> int:
        """How many lines of the input it is."""
        return 1


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

    attempts: list[int] = field(default_factory=list)
    """How many sentences stood as the model said them freely (0), with numbers and what is copied held fast (1), and
    with the texts between those translated by themselves (2)."""

    left: int = 0
    """Sentences and texts between what is copied that stay in their language, since what the model said is damaged."""

    failed: int = 0
    """Segments of documents that stay in their language, since the program fails to write them."""

    warnings: int = 0
    """What the check warned of."""

    seconds: float = 0.0
    """Wall time of the decoding."""

    @property
    def mean_accepted_length(self) -> float:
        """Tokens committed per verifier call, the verifier's own token included."""
        return self.tokens / self.verifier_calls if self.verifier_calls else 0.0

    def count_call(self, accepted: int) -> None:
        """Counts a verifier call that accepted so many tokens."""
        self.count_calls([0] * accepted + [1])

    def count_calls(self, counts: list[int]) -> None:
        """Counts verifier calls.

        :param counts: how many accepted 0, 1, 2, … tokens
        """
        self.verifier_calls += sum(counts)
        self.accepted += sum(accepted * count for accepted, count in enumerate(counts))
        self.accepted_counts = _added(self.accepted_counts, counts)

    def __add__(self, other: Stats) -> Stats:
        pairs = zip(_counts(self), _counts(other), strict=True)
        values: list[Any] = [_added(a, b) if isinstance(a, list) else a + b for a, b in pairs]
        return Stats(*values)


_counts: Final = attrgetter(*(each.name for each in fields(Stats)))


def _added(one: list[int], other: list[int]) -> list[int]:
    return [sum(pair) for pair in zip_longest(one, other, fillvalue=0)]


@dataclass(slots=True)
class Tally:
    """What came of a way to draft."""

    turns: int = 0
    """How often it was chosen."""

    tokens: int = 0
    """Target pieces committed, of all sentences."""

    seconds: float = 0.0

    worth: float | None = None
    """Tokens a second that were last expected of it; ``None`` where there was no choice."""

    def count(self, tokens: int, seconds: float, worth: float | None) -> None:
        """Adds a turn."""
        self.turns, self.tokens, self.seconds = self.turns + 1, self.tokens + tokens, self.seconds + seconds
        self.worth = self.worth if worth is None else worth


class Found(NamedTuple):
    """A translation of a sentence that beam search found."""

    tokens: list[int]
    """Target piece ids, without BOS and without EOS."""

    score: float
    """As that of a hypothesis."""

    loss: float = 0.0
    """How far it lies below the best one in what they are compared by."""


class TermUse(NamedTuple):
    """What became of something that a translation must contain."""

    source: str
    """What it is in the source."""

    forms: tuple[str, ...]
    """What it may be in the translation."""

    found: str | None
    """Which of those is there."""

    met: Literal["freely", "by constraint", "not"]
    """Whether the model said it by itself."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The decoded pieces of one sentence."""

    tokens: list[int]
    """Target piece ids, without BOS and without EOS."""

    score: float
    """The sum of the verifier's log-probabilities over the tokens and EOS; NaN where it was not asked for."""

    stats: Stats = field(default_factory=Stats)

    attention: npt.NDArray[np.float32] | None = field(default=None, compare=False)
    """(T, S) the attention that each token has to each id of its source, where alignments were asked for."""

    log_probs: tuple[float, ...] = ()
    """The log-probabilities of the tokens and EOS, whose sum the score is; none where they were not asked for, and of
    beam search."""

    given: int = 0
    """How many of the tokens were not the model's choice: those up to the last term that had to be there."""

    alternatives: tuple[Found, ...] = ()
    """The further ones of an n-best list, the best first."""


class Alternative(NamedTuple):
    """Another translation of a line."""

    text: str

    score: float
    """As that of a translation."""


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

    log_probs: tuple[float, ...] = ()
    """Those of the pieces, which with those of the ends of sentences make up the score."""

    confidence: float | None = None
    """The probability that it is acceptable; ``None`` where scores were not asked for or the model was not fitted."""

    stats: Stats = field(default_factory=Stats)

    lossless: bool = True
    """Whether the text is that of the same options without a drafter."""

    alternatives: list[Alternative] = field(default_factory=list)
    """The further ones of an n-best list, the best first."""

    alignment: list[tuple[int, int]] | None = None
    """Pairs of a source word and a word of the translation that comes from it, sorted, words being what white space
    separates, counted from 0; ``None`` where it was not asked for."""

    terms: list[TermUse] = field(default_factory=list)
    """What the glossary, or the numbers of the line, asked for."""

    warnings: list[str] = field(default_factory=list)
    """What the user should be told about this line, without the line number."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Inline markup in the text of a segment: a pair around some of it, a point in it, or a placeholder in it."""

    start: int
    """Where in the text it starts."""

    end: int
    """Where in the text it ends. Without ``close``: where it starts, for a point; else the end of its stand-in."""

    open: Span
    """Where in the document the markup is that opens it, or all of it."""

    close: Span | None = None
    """Where in the document the markup is that closes a pair."""

    children: tuple[Tag, ...] = ()
    """The tags in a pair, in order."""

    @property
    def is_placeholder(self) -> bool:
        """Whether it is a stand-in in the text."""
        return self.close is None and self.start < self.end


@dataclass(frozen=True, slots=True)
class Tagged:
    """A text and its inline tags, well nested and in order."""

    text: str
    tags: tuple[Tag, ...] = ()

    confidence: float | None = None
    """Of a translation, the probability that it is acceptable, where that is known; 0 where a sentence of it is left in
    the language of the source."""

    @property
    def is_whole(self) -> bool:
        """Whether, of a translation, no sentence is left in the language of the source."""
        return self.confidence != 0.0
