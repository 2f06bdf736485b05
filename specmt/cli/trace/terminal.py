"""A trace on a terminal, of any width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from specmt.cli.trace.view import MARKS, chance, figures, legend, percent, rounds
from specmt.decoding.record import Choice, Committed, Draft, Record, Step, Token
from specmt.options import DecodingOptions

_LABELS: Final = 15
"""The width of the labels' column."""

_NARROW: Final = 60
"""Below this width, labels stand above what they label."""


_STYLES: Final = {
    "accepted": "green",
    "rejected": "strike red",
    "unseen": "dim",
    "corrected": "bold cyan",
    "added": "bold cyan",
}


@final
class Drawing:
    """The whole trace; it fits itself to the console."""

    def __init__(self, record: Record, options: DecodingOptions) -> None:
        self._record = record
        self._options = options

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        room = width if width < _NARROW else width - _LABELS
        yield _legend(self._record, width)
        for number, step, after in rounds(self._record):
            yield Text()
            count = len(step.emitted)
            yield _heading(f"Iteration {number} · {count} token{'s' * (count != 1)}")
            yield from _rows([("Source", Text(self._record.source.text)), *_step(step, after, room)], width)
        yield Text()
        yield _heading("Result")
        values = [(name, Text(value)) for name, value in figures(self._record, self._options)]
        yield from _rows([("Translation", Text(self._record.translation.text, "bold")), *values], width)


def _heading(text: str) -> Rule:
    return Rule(text, align="left", characters="━", style="dim")


def _rows(rows: Sequence[tuple[str, RenderableType]], width: int) -> Iterator[RenderableType]:
    if width < _NARROW:
        for label, content in rows:
            yield Text(f"{label}:", style="bold")
            yield content
        return
    table = Table.grid()
    table.add_column(width=_LABELS, style="bold")
    table.add_column(width=width - _LABELS)
    for label, content in rows:
        table.add_row(label, content)
    yield table


def _step(step: Step, after: Step | None, width: int) -> Iterator[tuple[str, RenderableType]]:
    yield "Decoder input", _input(step)
    if step.why:
        yield "Choice", Text(step.why, "dim")
    if step.is_tree:
        yield "Draft", Group(Text(step.prefix[-1].alone), *_tree(step, width))
    elif step.nodes:
        yield "Draft", _running(step.nodes)
    yield "Verify", _cards(step, width)
    yield "Output", _running(step.emitted, [_STYLES[token.origin] for token in step.emitted])
    yield "Next input", Text("none: the translation is complete", "dim") if after is None else _input(after)


def _legend(record: Record, width: int) -> Text:
    words = [Text(f"{sign} {meaning}", _STYLES.get(kind, "dim")) for sign, meaning, kind in legend(record.iterations)]
    return Text("\n").join(_flow(words, width, joint=Text("   ")))


def _input(step: Step) -> Text:
    text = _running(step.prefix)
    for _ in range(step.mask_slots):
        text.append(" ")
        text.append("[MASK]", "dim")
    return text


def _running(tokens: Iterable[Token], styles: Sequence[str] = ()) -> Text:
    """Returns tokens as text: a space before a word, a dot before what continues it."""
    text = Text(overflow="fold")
    for number, token in enumerate(tokens):
        if number > 0:
            text.append("·" if token.joined else " ", "dim")
        text.append(token.text, styles[number] if styles else "")
    return text


def _tree(step: Step, width: int) -> list[Text]:
    """Returns the lines of a draft tree: one child stays on the line, several get lines of their own."""
    return _branches(step, 0, "", 3 if 3 * _forks(step, 0) + 16 <= width else 1, width)


def _forks(step: Step, place: int) -> int:
    """Returns how often a path forks at most behind a place."""
    drafts = step.children(place)
    forks = max((_forks(step, draft.place) for draft in drafts), default=0)
    return forks + 1 if len(drafts) > 1 else forks


def _branches(step: Step, place: int, lead: str, indent: int, width: int) -> list[Text]:
    lines = []
    drafts = step.children(place)
    for draft in drafts:
        fork, trunk = ("└", " ") if draft is drafts[-1] else ("├", "│")
        run = step.run(draft)
        first = Text(lead + fork + "─ "[: indent - 1], "dim")
        below = lead + trunk.ljust(indent)
        shown = [_draft(step, each) for each in run]
        lines += _flow(shown, width, Text(" ─ ", "dim"), first, Text(f"{below}  ─ ", "dim"))
        lines += _branches(step, run[-1].place, below, indent, width)
    return lines


def _flow(
    entries: Sequence[Text], width: int, joint: Text, first: Text | None = None, others: Text | None = None
) -> list[Text]:
    """Returns entries in lines, none of them broken that fits one.

    :param first: what the first line starts with, and others the other lines.
    """
    lines = [Text.assemble(first or "", *entries[:1])]
    for entry in entries[1:]:
        if lines[-1].cell_len + joint.cell_len + entry.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], joint, entry)
        else:
            lines.append(Text.assemble(others or "", entry))
    return lines


def _draft(step: Step, draft: Draft) -> Text:
    style = _STYLES[draft.verdict]
    text = Text.assemble((MARKS[draft.verdict], style.removeprefix("strike ")), " ", (draft.alone, style))
    trial = step.trial(draft.place)
    if number := percent(math.exp(draft.log_prob) if trial is None else trial.draft):
        text.append(f" {number}", "dim")
    return text


Line = tuple[str, Text, str]
"""Mark, token, number."""


def _cards(step: Step, width: int) -> RenderableType:
    """Returns the positions side by side, on as many lines as it takes."""
    cards = [(position, list(_card(step, place, token))) for position, place, token in step.checks]
    _, texts, numbers = zip(*[line for _, lines in cards for line in lines], strict=True)
    # With the space behind it, a card fits the terminal.
    size = min(2 + max(text.cell_len for text in texts) + 1 + max(map(len, numbers)), width - 2)
    columns = Columns([_framed(*card, size) for card in cards], padding=(0, 2, 0, 0), width=size)
    return Group(columns, Text(f"– {step.unseen} more dropped", "dim")) if step.unseen else columns


def _framed(position: int, lines: Sequence[Line], size: int) -> RenderableType:
    table = Table.grid()
    table.add_column(width=2)
    table.add_column(overflow="fold", ratio=1)
    table.add_column(justify="right", style="dim")
    for line in lines:
        table.add_row(*line)
    table.width = size
    return Group(Text(f"{position} ".ljust(size, "─"), "dim"), table)


def _card(step: Step, place: int, token: Committed) -> Iterator[Line]:
    for draft in step.children(place):
        trial = step.trial(draft.place)
        yield MARKS[draft.verdict], _styled(draft, draft.verdict), chance(draft, trial)
        for left in [] if trial is None else trial.residual:
            yield "r", Text(left.alone, "dim"), percent(math.exp(left.log_prob))
    if token.origin != "accepted":
        yield MARKS[token.origin], _styled(token, token.origin), ""
    for rank, choice in enumerate(step.verified[place], start=1):
        yield str(rank), _choice(choice, token), percent(math.exp(choice.log_prob))


def _styled(token: Token, kind: str) -> Text:
    # Assembled, for a style of the whole would be that of the space behind it, too: a line through nothing.
    return Text.assemble((token.alone, _STYLES[kind]))


def _choice(choice: Choice, chosen: Token) -> Text:
    if choice.ruled_out:
        return Text("[BLANK]", "dim")
    return Text(choice.alone, "bold" if choice.id == chosen.id else "")
