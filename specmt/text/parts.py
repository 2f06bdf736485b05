"""The parts of a line on their way through a model: what it sees of each, what it said, and the line they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from specmt.text.placeholders import Chunk, Glue, chunks, touches
from specmt.text.required import Required
from specmt.types import Hypothesis, TermUse

if TYPE_CHECKING:
    from specmt.text.capitals import Lowered

ATTEMPTS: Final = ("freely", "numbers and what is copied held fast", "the texts between what is copied, each by itself")
"""How the model is asked, and again where what it said will not do."""

_ENDS: Final = ".!?…:;,"


@dataclass(slots=True)
class Copied:
    """What a stand-in stands for."""

    items: list[str | list[Part]]
    """What is copied and, in elements and links, at odd places, the parts of a text in turn."""

    form: str | None = None
    """How the translation writes it, where that is another way: a number, or a term."""

    glue: Glue = (False, False)

    @property
    def source(self) -> str:
        """What it is in the source."""
        return "".join(each if isinstance(each, str) else original(each) for each in self.items)

    @property
    def target(self) -> str:
        """What it is in the translation."""
        if self.form is not None:
            return self.form
        return "".join(each if isinstance(each, str) else join(each) for each in self.items)

    @property
    def parts(self) -> Iterator[Part]:
        """The parts of the texts in it."""
        return chain.from_iterable(each for each in self.items if not isinstance(each, str))


@dataclass(slots=True)
class Part:
    """A sentence of a line, or text between sentences that the model need not see."""

    text: str
    """With the stand-ins %1, %2, … in this order for what is copied."""

    separator: str = ""
    """What follows it and is copied."""

    ids: list[int] = field(default_factory=list)
    """The source pieces; none where the model need not see the text."""

    copied: list[Copied] = field(default_factory=list)
    """What the stand-ins stand for."""

    said: str = ""
    """What it is in a translation where the model does not see it."""

    lowered: Lowered | None = None
    """What the model sees of it where it is in capitals, or has words that are."""

    units: list[tuple[str, str, str]] = field(default_factory=list)
    """Numbers, the space that is no plain one between them and their units, and a regular expression for these."""

    attempt: int = 0
    """0: freely; 1: with numbers and everything copied held fast; 2: the texts between them, each by itself."""

    is_left: bool = False
    """Whether it stays in its language, since what the model said is known to be wrong."""

    is_cut: bool = False
    """Whether it is of a sentence too long to be translated whole."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    """What the model said, at last and before."""

    translation: str = ""
    """What it said at last."""

    required: list[Required] = field(default_factory=list)
    """Terms that its translation must contain."""

    free: str = ""
    """What the model said before it was asked for what must be there."""

    asked: int = 0
    """How often it was asked for what must be there."""

    fragments: list[list[Part]] = field(default_factory=list)
    """What is before, between and after the stand-ins, to be translated by itself."""

    @property
    def needs_alignment(self) -> bool:
        """Whether it takes an alignment of its words to write its translation."""
        return self.lowered is not None and bool(self.lowered.words)

    @property
    def source(self) -> str:
        """The text without stand-ins."""
        return "".join(chunk.text for chunk in self.source_chunks())

    @property
    def final(self) -> Iterator[Hypothesis]:
        """The hypotheses that its translation is made of."""
        if self.ids:
            yield self.hypotheses[0]
        for part in self.inside:
            yield from part.final

    @property
    def all(self) -> Iterator[Hypothesis]:
        """Every hypothesis that there was, for statistics."""
        yield from self.hypotheses
        for part in self.inside:
            yield from part.all

    @property
    def inside(self) -> Iterator[Part]:
        """The parts in it."""
        yield from chain.from_iterable(self.fragments)
        for copied in self.copied:
            yield from copied.parts

    def source_chunks(self) -> list[Chunk]:
        """Returns the runs of its text without stand-ins."""
        return list(chunks(self.text, [each.source for each in self.copied], glue=[each.glue for each in self.copied]))

    def chunks(self, said: str | None = None) -> list[Chunk]:
        """Returns the runs of its translation, but for one of fragments.

        :param said: what the model said instead of what it said at last
        """
        glue, targets = [each.glue for each in self.copied], [each.target for each in self.copied]
        if self.is_left:
            return self.source_chunks()
        if not self.ids:
            return list(chunks(self.said or self.text, targets, glue=glue))
        return list(chunks(self.translation if said is None else said, targets, self.text, glue))

    def render(self, said: str | None = None) -> str:
        """Returns the translation, with what is copied.

        :param said: what the model said instead of what it said at last
        """
        if not self.fragments:
            return "".join(chunk.text for chunk in self.chunks(said))
        text, *others = (_join_fragment(fragment) for fragment in self.fragments)
        for (before, after), each, other in zip(touches(self.text), self.copied, others, strict=True):
            left, right = each.glue
            text = text[:-1] if left and text[-1:] == " " else text + " " * (text[-1:].isalnum() > before)
            other = other[1:] if right and other[:1] == " " else " " * (other[:1].isalnum() > after) + other
            text += each.target + other
        return text


def sentences(parts: Iterable[Part]) -> Iterator[Part]:
    """Yields the parts that the model translates, those inside of others too."""
    for part in parts:
        if part.ids or part.fragments:
            yield part
        for copied in part.copied:
            yield from sentences(copied.parts)


def uses(part: Part) -> list[TermUse]:
    """Returns what became of the terms in a part."""
    found, said = [], part.render() if part.required else ""
    for each in part.required:
        form = each.found(said) or each._replace(forms=tuple(map(str.upper, each.forms))).found(said)
        how: Literal["freely", "by constraint", "not"] = "not"
        if form is not None:
            how = "by constraint" if part.attempt or each.found(part.free) is None else "freely"
        found.append(TermUse(each.source, each.forms, form, how))
    return found


def join(parts: Sequence[Part]) -> str:
    """Returns a line with its parts translated and everything else as it was."""
    return "".join(part.render() + part.separator for part in parts)


def original(parts: Iterable[Part]) -> str:
    """Returns a line as it was, but for what no model sees of it."""
    return "".join(part.source + part.separator for part in parts)


def _join_fragment(parts: Sequence[Part]) -> str:
    """Returns the translation of what is between stand-ins, without the mark that a model likes to end texts with."""
    text, last = join(parts), parts[-1]
    if last.ids and last.text[-1] not in _ENDS:
        text = text[: len(text) - len(last.separator)].rstrip(_ENDS) + last.separator
    return text
