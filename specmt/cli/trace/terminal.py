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

from specmt.cli.trace.view import MARKS, Check, Choice, Draft, Input, Step, Token, View, percent

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

    def __init__(self, view: View) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield _legend(self._view, width)
        for step in self._view.steps:
            yield Text()
            count = len(step.checks)
            yield _heading(f"Iteration {step.number} · {count} token{'s' * (count != 1)}")
            yield from _rows(list(_step(step, self._view, width if width < _NARROW else width - _LABELS)), width)
        yield Text()
        yield _heading("Result")
        yield from _rows(list(_result(self._view)), width)


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


def _step(step: Step, view: View, width: int) -> Iterator[tuple[str, RenderableType]]:
    yield "Source", Text(view.source)
    yield "Decoder input", _input(step.input)
    if step.is_tree:
        yield "Draft", Group(Text(step.input.prefix[-1].alone), *_tree(step.drafts, width))
    elif step.drafts:
        yield "Draft", _running([draft.token for draft in step.drafts[0].run])
    yield "Verify", _cards(step, width)
    yield "Output", _running([check.token for check in step.checks], [_STYLES[check.origin] for check in step.checks])
    yield "Next input", Text("none: the translation is complete", "dim") if step.next is None else _input(step.next)


def _result(view: View) -> Iterator[tuple[str, RenderableType]]:
    yield "Translation", Text(view.translation, "bold")
    for name, value in view.figures:
        yield name, Text(value)


def _legend(view: View, width: int) -> Text:
    words = [Text(f"{sign} {meaning}", _STYLES.get(kind, "dim")) for sign, meaning, kind in view.legend]
    return Text("\n").join(_flow(words, width, joint=Text("   ")))


def _input(before: Input) -> Text:
    text = _running(before.prefix)
    for _ in range(before.slots):
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


def _tree(drafts: Sequence[Draft], width: int) -> list[Text]:
    """Returns the lines of a draft tree: one child stays on the line, several get lines of their own."""
    return _branches(drafts, "", 3 if 3 * _forks(drafts) + 16 <= width else 1, width)


def _forks(drafts: Sequence[Draft]) -> int:
    """Returns how often a path forks at most."""
    while len(drafts) == 1:
        drafts = drafts[0].children
    return max((1 + _forks(draft.children) for draft in drafts), default=0)


def _branches(drafts: Sequence[Draft], lead: str, indent: int, width: int) -> list[Text]:
    lines = []
    for draft in drafts:
        fork, trunk = ("└", " ") if draft is drafts[-1] else ("├", "│")
        run = draft.run
        first = Text(lead + fork + "─ "[: indent - 1], "dim")
        below = lead + trunk.ljust(indent)
        lines += _flow(list(map(_draft, run)), width, Text(" ─ ", "dim"), first, Text(f"{below}  ─ ", "dim"))
        lines += _branches(run[-1].children, below, indent, width)
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


def _draft(draft: Draft) -> Text:
    style = _STYLES[draft.verdict]
    text = Text.assemble((MARKS[draft.verdict], style.removeprefix("strike ")), " ", (draft.token.alone, style))
    if not math.isnan(draft.probability):
        text.append(f" {percent(draft.probability)}", "dim")
    return text


Line = tuple[str, Text, str]
"""Mark, token, number."""


def _cards(step: Step, width: int) -> RenderableType:
    """Returns the positions side by side, on as many lines as it takes."""
    cards = [(check.position, list(_card(check))) for check in step.checks]
    _, texts, numbers = zip(*[line for _, lines in cards for line in lines], strict=True)
    size = min(2 + max(text.cell_len for text in texts) + 1 + max(map(len, numbers)), width)
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


def _card(check: Check) -> Iterator[Line]:
    for draft in check.drafts:
        number = percent(draft.probability)
        if draft.verifier is not None:
            number = f"p {number} q {percent(draft.verifier)}"
        yield MARKS[draft.verdict], _styled(draft.token, draft.verdict), number
        for choice in draft.residual:
            yield "r", Text(choice.token.alone, "dim"), percent(choice.probability)
    if check.origin != "accepted":
        yield MARKS[check.origin], _styled(check.token, check.origin), ""
    for rank, choice in enumerate(check.choices, start=1):
        yield str(rank), _choice(choice, check.token), percent(choice.probability)


def _styled(token: Token, kind: str) -> Text:
    # Assembled, for a style of the whole would be that of the space behind it, too: a line through nothing.
    return Text.assemble((token.alone, _STYLES[kind]))


def _choice(choice: Choice, chosen: Token) -> Text:
    if choice.blank:
        return Text("[BLANK]", "dim")
    return Text(choice.token.alone, "bold" if choice.token.id == chosen.id else "")
