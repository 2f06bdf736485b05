"""The rules by which text goes into a model and comes out: what it sees of a line, and when it is asked again.

A line is seen as the model has learnt text (:mod:`specmt.text.view`), with stand-ins for what is copied, sentence by
sentence. What the model says of a sentence is judged: where a number or something copied is lost, changed or new, it is
asked once more with all of them as stand-ins, and where that fails, too, the texts between them are translated each by
itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from specmt.text.alignment import links
from specmt.text.capitals import lower_shouted, raise_again
from specmt.text.judge import judge, judge_signs
from specmt.text.layout import split_columns, split_prefix
from specmt.text.lexicon import Lexicon
from specmt.text.marks import match_ends, match_quotes
from specmt.text.numbers import TIME, convert_letterless, find_numbers, target_form
from specmt.text.parts import Copied, Part, sentences
from specmt.text.placeholders import (
    Literal,
    Masked,
    find_copied,
    find_tokens,
    in_order,
    mask,
    renumber,
    restore,
    split_stand_ins,
    stand_ins,
)
from specmt.text.required import are_met
from specmt.text.segment import (
    LAYOUT,
    MAX_CHARACTERS_PER_PIECE,
    MOST,
    Segment,
    in_pieces,
    segment,
    split_layout,
    split_sentences,
)
from specmt.text.view import ANSI, INVISIBLE, plain, view
from specmt.types import Found, Hypothesis

if TYPE_CHECKING:
    from specmt.text.pieces import PieceModel
    from specmt.text.required import Finder

VERSION: Final = 1
"""Of these rules: belongs to everything that tells whether two translations were made alike."""

_LETTER: Final = re.compile(r"[^\W\d_]")
_SUFFIX: Final = re.compile(r"(?:%[1-9]\d{0,5}|(?<![\d.,%])(?!\d*0s)\d{1,6})[A-Za-z](?![\w'’-])")
"""A letter at a stand-in or a number, as in 5s, which is the same in every language, but for decades."""

_ENDS: Final = re.compile(rf"(?:(?!{ANSI})[\s{INVISIBLE}])*")
_NOTHING: Final = re.compile(rf"[{INVISIBLE}]")
_PERCENT: Final = re.compile(r" ?%(?!\w)")
_CURRENCY: Final = re.compile(r"(?<=\d) ?[$£¥€]")
_CURRENCY_BEFORE: Final = re.compile(r"(?<!\w)[$£¥€] ?\Z")
_WORD_BEHIND: Final = re.compile(r" ?[^\W\d_]")
_MINUS: Final = re.compile(r"(?<![^\s(])[-−]\Z")
_ORDINAL: Final = re.compile(r"%([1-9][0-9]{0,5})(st|nd|rd|th)(?!\w)")
_NO_ORDINAL: Final = re.compile(r"(?<=[./:]\d)(?:st|nd|rd|th)(?!\w)|(?<=[./:]\d\d)(?:st|nd|rd|th)(?!\w)")
"""What a model may say behind a date or a time: 12.03th."""

_HALF: Final = re.compile(r"(?:%([1-9][0-9]{0,5})|(?<![\d.:%])(?:1[3-9]|2[0-3])[:.][0-5]\d)( ?[ap]\.?m\b)")
"""What models say behind a time, and nobody does behind one after 12 o'clock."""

_NAME: Final = re.compile(r"(?<!\w)(?=\w{0,100}[^\x00-\x7f])(?![a-zß-öø-ÿ])[^\W\d_]\w*")
_STAND_IN: Final = re.compile(r"%[1-9][0-9]{0,5}")
_LAST_STAND_IN: Final = re.compile(r"%[1-9][0-9]{0,5}\Z")
_CLOSING: Final = re.compile("[.!?…]%([1-9][0-9]{0,5})")
"""A stand-in right behind the end of a sentence: a mark of a footnote, or further marks."""

_HIDDEN: Final = "\ufffc"
"""What the judge sees instead of a stand-in."""

_UNIT: Final = re.compile(r"\d([\xa0\u2009\u202f])(?=([^\s\d]))")

Held = tuple[int, int, str | None]
"""Where something in a text is that gets a stand-in, and how the translation writes it if in another way."""


@dataclass(frozen=True)
class Rules:
    """How lines go into one model and come out."""

    pieces: PieceModel

    limit: int
    """The most pieces of a sentence, without EOS."""

    languages: tuple[str, str] = ("", "")
    """Of source and target."""

    protects: bool = True
    """Whether addresses, placeholders, code and the like are copied."""

    keeps_numbers: bool = True
    """Whether every number must be in the translation."""

    stands_in: bool = True
    """Whether the model was made for stand-ins."""

    splits: bool = True
    """Whether lines are cut into sentences."""

    lexicon: Lexicon = field(default_factory=Lexicon)
    """What the model has learnt."""

    terms: Finder | None = None
    """Finds terms whose translation is given."""

    def split(self, line: str, depth: int = 0) -> list[Part]:
        """Returns the parts of a line.

        :param depth: how many elements it is in
        """
        return [*chain.from_iterable(self.parts(line, depth))]

    def parts(self, line: str, depth: int = 0) -> Iterator[list[Part]]:
        """Yields the parts of a line piece by piece: mostly it is one."""
        for piece, separator in in_pieces(line, self.languages[0]):
            # What is so long and has no space is an address, or data.
            parts = self._split(piece, depth) if len(piece) <= MOST else [Part("", piece)]
            parts[-1].separator += separator
            yield parts
            depth = max(depth, 1)  # prefixes are those of lines

    def _split(self, line: str, depth: int) -> list[Part]:
        head, core, tail = _parted(line)
        if not _LETTER.search(core):
            converted = convert_letterless(core, *self.languages) if self.keeps_numbers else core
            return [Part("", f"{head}{converted}{tail}")]
        prefix, core = split_prefix(core, self.languages[0]) if self.splits and not depth else ("", core)
        parts = [Part("", head + prefix)] if head or prefix else []
        for cell, separator in split_layout(core):
            if _LETTER.search(cell):
                for masked in self._masked(cell, depth):
                    parts += self._parts(masked, depth)
            else:
                parts += self._split(cell, depth)
            parts[-1].separator += separator
        parts[-1].separator += tail
        return parts

    def split_pair(self, source: str, target: str, depth: int = 0) -> list[tuple[str, str]]:
        """Returns the parts of a pair between which there is the same layout, as a model sees and says them."""
        one, other = self._layout(source, depth), self._layout(target, depth)
        if [masked.separator for masked in one] != [masked.separator for masked in other]:
            return [(source, target)]
        pairs: list[tuple[str, str]] = []
        for left, right in zip(one, other, strict=True):
            free: dict[tuple[str, ...], list[tuple[int, Literal]]] = {}
            for number, literal in reversed(list(enumerate(left.literals, 1))):
                free.setdefault(tuple(literal[::2]), []).append((number, literal))
            # What the target alone has stays as it is there.
            meant = ["".join(literal) for literal in right.literals]
            for place, literal in enumerate(right.literals):
                if same := free.get(tuple(literal[::2])):
                    number, found = same.pop()
                    meant[place] = f"%{number}"
                    for inner in zip(found[1::2], literal[1::2], strict=True):
                        pairs += self.split_pair(*inner, depth=depth + 1)
            pairs.append((plain(left.text), plain(restore(right.text, meant))))
        return pairs

    def is_short(self, text: str) -> bool:
        """Whether a text need not have too many pieces for its length alone."""
        return len(text) <= MAX_CHARACTERS_PER_PIECE * self.limit

    def take(self, part: Part, hypothesis: Hypothesis) -> list[Part]:
        """Takes what the model said of a part; returns what it is to be asked next, mostly nothing."""
        said = self.read(hypothesis)
        is_accepted = self.accepts(part, said)
        if not is_accepted and (other := self._best_accepted(part, hypothesis)) is not None:
            hypothesis, said, is_accepted = other, self.read(other), True
        part.hypotheses.insert(0, hypothesis)
        part.translation = self.written(part, said, hypothesis)
        return [] if is_accepted else self._again(part, said)

    def read(self, hypothesis: Hypothesis | Found) -> str:
        """Returns what a model said without layout: it sees none, but may say it, byte by byte."""
        return LAYOUT.sub(" ", self.pieces.decode(hypothesis.tokens)).strip()

    def accepts(self, part: Part, said: str) -> bool:
        """Returns whether what the model said has what it must have, and nothing of the kind beside it."""
        if part.copied and stand_ins(said) != sorted(f"%{number}" for number in range(1, len(part.copied) + 1)):
            return False
        # Placeholders without a number stand for what comes next, whatever that is.
        has_order = sum(each.source.startswith("%") for each in part.copied) > 1
        if has_order and in_order("".join(chunk.text for chunk in part.chunks(said))) != in_order(part.source):
            return False
        # Beside a term that was put in there may be what the model would have said itself.
        is_free = not part.asked and all(each.found(said) for each in part.required)
        if self.stands_in and not (part.attempt or is_free or are_met(part.required, said)):
            return False
        return not self._problems(part, said, numbers=self.keeps_numbers)

    def written(self, part: Part, said: str, hypothesis: Hypothesis | None = None) -> str:
        """Returns what the model said with the marks, capitals and spaces that the source has.

        :param hypothesis: what it said, with the attention that tells which words it has in capitals
        """
        said = match_ends(part.text, match_quotes(part.text, said, self.languages[1]))
        said = _ORDINAL.sub(lambda match: f"%{match[1]}{_ordinal(part.copied, int(match[1]), match[2])}", said)
        said = _HALF.sub(partial(_without_half, part.copied), said)
        said = _NO_ORDINAL.sub("", said)
        if len(part.text) == 1 and said.lower() == part.text.lower():  # a variable, a unit
            said = part.text
        for form, space, unit in part.units:
            said = re.sub(rf"(?<![\d.,]){re.escape(form)} (?={unit})", form + space, said, count=1)
        for number in _CLOSING.findall(part.text) if part.copied else ():
            said = re.sub(rf"(?<=[.!?…]) (?=%{number}(?![0-9]))", "", said)
        if part.lowered is None:
            return said
        return raise_again(said, part.lowered, links(part, hypothesis, said, self.pieces) if hypothesis else ())

    def _layout(self, text: str, depth: int) -> list[Masked]:
        """Returns a text in parts at layout and at the tags of blocks."""
        parts: list[Masked] = []
        for cell, separator in split_layout(_parted(text)[1]):
            parts += self._masked(cell, depth)
            parts[-1].separator += separator
        return parts

    def _masked(self, text: str, depth: int) -> list[Masked]:
        """Returns a text, cut at the tags of blocks, as the model sees it."""
        seen = view(text, self.languages[0])
        if self.protects and self.stands_in:
            return mask(seen, depth, self.lexicon.unlearnt)
        return [Masked(seen.text)]

    def _parts(self, masked: Masked, depth: int) -> Iterator[Part]:
        """Yields the sentences of a text."""
        copied = []
        for literal, glue in zip(masked.literals, masked.glue, strict=True):
            items = [self.split(each, depth + 1) if place % 2 else each for place, each in enumerate(literal)]
            copied.append(Copied(items, glue=glue))
        cut = list(self._cut(masked.text)) if self.splits else [(masked.text, "")]
        done = 0
        for number, (text, space) in enumerate(cut, 1):
            own = copied[done : done + len(stand_ins(text))] if copied else []
            yield from self._sentence(renumber(text, -done), own, space + masked.separator * (number == len(cut)))
            done += len(own)

    def _cut(self, text: str) -> Iterator[Segment]:
        """Yields the sentences of the columns of a text."""
        for cell, gap in split_columns(text):
            *others, (last, space) = split_sentences(cell, self.languages[0])
            yield from others
            yield last, space + gap

    def _sentence(self, text: str, copied: list[Copied], separator: str) -> Iterator[Part]:
        """Yields a sentence, in windows if it is too long."""
        if not _LETTER.search(_SUFFIX.sub("", text)):
            said = text
            if self.keeps_numbers:
                said = self._in_form(text) if copied else convert_letterless(text, *self.languages)
            yield Part(text, separator, copied=copied, said=said)
            return
        part = Part(plain(text), separator, copied=copied, units=list(self._units(text)))
        # Text that is surely too long is cut before it is encoded.
        if self.is_short(text):
            self._show(part)
            if len(part.ids) <= self.limit:
                yield part
                return
        cut = segment(part.text, self.limit, lambda t: len(self.pieces.encode(t)))
        if sum(len(stand_ins(window)) for window, _ in cut) != len(copied):  # only where a window holds a few letters
            cut, copied = segment(part.source, self.limit, lambda t: len(self.pieces.encode(t))), []
        done = 0
        for number, (window, space) in enumerate(cut, 1):
            own = copied[done : done + len(stand_ins(window))] if copied else []
            after, rest = cut[number : number + 1], copied[done + len(own) :]
            # Spaces that a stand-in alone has around it are no text's.
            if (own and own[-1].glue[1] and _LAST_STAND_IN.search(window)) or (
                after and rest and rest[0].glue[0] and _STAND_IN.match(after[0][0])
            ):
                space = space.removesuffix(" ")
            each = Part(renumber(window, -done), space + separator * (number == len(cut)), copied=own, is_cut=True)
            if _LETTER.search(_STAND_IN.sub("", each.text)):
                self._show(each)
            done += len(own)
            yield each

    def _show(self, part: Part) -> None:
        """Sets what the model sees of a part."""
        lowered = lower_shouted(part.text, self.lexicon)
        part.lowered = lowered if lowered.text != part.text else None
        shown = lowered.text
        if not part.attempt:
            part.required = [] if self.terms is None else list(self.terms(shown))
        part.ids = self.pieces.encode(shown)

    def _again(self, part: Part, said: str) -> list[Part]:
        """Returns what to ask the model next, since what it said will not do."""
        if part.attempt == 2:  # a text between what is copied
            part.is_left = True
            return []
        is_held = part.attempt == 0 and self._hold(part, self._all_spans(part, said))
        if is_held and self.stands_in:
            part.attempt = 1
            self._show(part)
            if len(part.ids) <= self.limit:
                return [part]
        part.attempt = 2
        if not part.copied:
            part.is_left = bool(self._problems(part, said, numbers=False))
            return []
        inner = replace(self, protects=False, keeps_numbers=False, splits=False, terms=None)
        part.fragments = [inner.split(text) for text in split_stand_ins(part.text)]
        part.ids = []
        found = list(sentences(chain.from_iterable(part.fragments)))
        for each in found:
            each.attempt = 2
        return found

    def _problems(self, part: Part, said: str, *, numbers: bool) -> list[str]:
        if not (self.protects or self.keeps_numbers):
            return []
        source, text = (_hidden(part.text), _hidden(said)) if part.copied else (part.text, said)
        copied = unlearnt = None
        if self.protects:  # where there are stand-ins, nothing else is to be copied
            copied, unlearnt = [] if self.stands_in else find_copied(source), self.lexicon.unlearnt
        return judge(source, text, self.languages, numbers=numbers, copied=copied, unlearnt=unlearnt)

    def _all_spans(self, part: Part, said: str) -> list[Held]:
        """Returns where in a part the terms, numbers and other things are that are to have stand-ins."""
        hidden = _hidden(part.text) if part.copied else part.text
        spans: list[Held] = []
        if self.terms is not None:
            spans += [(*each.span, each.found(said) or each.forms[0]) for each in self.terms(part.text)]
        if self.protects and not self.stands_in:
            spans += [(token.start, token.end, None) for token in find_tokens(hidden, self.lexicon.unlearnt)]
        if self.keeps_numbers:
            spans += self._numbers(hidden, with_signs=any(judge_signs(hidden, _hidden(said))))
        if "\ufffd" in said:  # names that the model has no letters for
            spans += [(*match.span(), None) for match in _NAME.finditer(hidden)]
        return spans

    def _numbers(self, text: str, *, with_signs: bool = False) -> Iterator[Held]:
        """Yields the numbers of a text, percent signs included, and how the translation writes them.

        :param with_signs: whether currencies and minus signs are parts of them, as where they were lost
        """
        for number in find_numbers(text, self.languages[0]):
            (start, end), form = number.span, target_form(number, *self.languages)
            if percent := _PERCENT.match(text, end):
                end, form = percent.end(), form + ("%" if self.languages[1].startswith("en") else percent[0])
            elif with_signs and (currency := _currency(text, start, end)):
                start, end = min(start, currency.start()), max(end, currency.end())
                form = convert_letterless(text[start:end], *self.languages)
            if with_signs and _MINUS.search(text, max(start - 2, 0), start):
                start, form = start - 1, text[start - 1] + form
            yield start, end, form

    def _units(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Yields the numbers before a space that is no plain one, as translations write them, the space, and a unit.

        A unit in letters may be others in the translation.
        """
        if self.keeps_numbers and _UNIT.search(text):
            for number in find_numbers(text, self.languages[0]):
                if space := _UNIT.match(text, number.span[1] - 1):
                    unit = r"\w" if space[2].isalpha() else re.escape(space[2])
                    yield target_form(number, *self.languages), space[1], unit

    def _in_form(self, text: str) -> str:
        """Returns a text of numbers and stand-ins with the numbers as translations write them."""
        said, done = "", 0
        for start, end, form in self._numbers(_hidden(text)):
            said, done = said + text[done:start] + (form or ""), end
        return said + text[done:]

    def _hold(self, part: Part, spans: list[Held]) -> bool:
        """Gives parts of a text stand-ins; returns whether there are any new ones."""
        known = [(*match.span(), each) for match, each in zip(_STAND_IN.finditer(part.text), part.copied, strict=False)]
        new = [(start, end, Copied([part.text[start:end]], form)) for start, end, form in spans]
        text, copied, done = "", list[Copied](), 0
        for start, end, each in sorted([*known, *new], key=lambda held: held[:2]):
            if start < done:  # of what overlaps the first counts
                continue
            copied.append(each)
            text += f"{part.text[done:start]}%{len(copied)}"
            done = end
        is_new = len(copied) > len(part.copied)
        part.text, part.copied = text + part.text[done:], copied
        return is_new

    def _best_accepted(self, part: Part, hypothesis: Hypothesis) -> Hypothesis | None:
        """Returns the best of the further hypotheses of an n-best list that will do, if there is any."""
        for number, found in enumerate(hypothesis.alternatives, 1):
            if self.accepts(part, self.read(found)):
                rest = tuple(each._replace(loss=each.loss - found.loss) for each in hypothesis.alternatives[number:])
                best = replace(hypothesis, tokens=found.tokens, score=found.score)
                return replace(best, attention=None, alternatives=rest)
        return None


def _parted(line: str) -> tuple[str, str, str]:
    """Returns the white space and what is invisible at both ends of a line, and what is between."""
    start = _ENDS.match(line).end()  # type: ignore[union-attr]
    end = len(line)
    while end > start and (line[end - 1].isspace() or _NOTHING.match(line, end - 1)):
        end -= 1
    return line[:start], line[start:end], line[end:]


def _currency(text: str, start: int, end: int) -> re.Match[str] | None:
    """Returns the currency at a number, if it has no word behind it as $5 million."""
    before = None if _WORD_BEHIND.match(text, end) else _CURRENCY_BEFORE.search(text, max(start - 2, 0), start)
    return before or _CURRENCY.match(text, end)


def _ordinal(copied: list[Copied], number: int, ending: str) -> str:
    """Returns the ending of an English ordinal whose digits have a stand-in, for which a model has to guess it."""
    digits = copied[number - 1].target if number <= len(copied) else ""
    if _NO_ORDINAL.search(f"{digits}th"):
        return ""
    if not digits[-1:].isdigit():
        return ending
    return "th" if digits[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")


def _without_half(copied: list[Copied], match: re.Match[str]) -> str:
    """Returns a time with the half of the day that it is in, but where it has more than 12 hours: 14:30."""
    held = int(match[1]) if match[1] else 0
    time = TIME.fullmatch(copied[held - 1].target) if 0 < held <= len(copied) else None
    return match[0].removesuffix(match[2]) if not held or (time and int(time[1]) > 12) else match[0]


def _hidden(text: str) -> str:
    """Returns a text with its stand-ins as characters that say nothing."""
    return _STAND_IN.sub(lambda match: _HIDDEN * len(match[0]), text)
