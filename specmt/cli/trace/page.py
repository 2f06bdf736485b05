"""A trace as one HTML page that needs nothing else: no script, no network, no colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Final

import specmt
from specmt.cli.trace.view import MARKS, chance, figures, legend, percent, rounds
from specmt.decoding.record import Choice, Committed, Draft, Record, Step, Token
from specmt.options import DecodingOptions

_SPOKEN: Final = {
    "accepted": "accepted draft",
    "rejected": "rejected draft",
    "unseen": "draft not looked at",
    "corrected": "the model's own token instead",
    "added": "the model's own token",
}


def page(record: Record, options: DecodingOptions, *, source: str = "", target: str = "") -> str:
    """Returns the page.

    :param source: the code of the source language, and target that of the target language, if they are known.
    """
    values = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures(record, options))
    # The translation in the parts that each iteration gave, with links to these.
    links = (
        f'<li><a href="#i{number}"><small>{number}</small> {_output(step)}</a></li>'
        for number, step, _ in rounds(record)
    )
    signs = (
        f'<li><b class="{kind}">{escape(sign)}</b> {escape(meaning)}</li>'
        for sign, meaning, kind in legend(record.iterations)
    )
    before = _row("Source", _lang(source), _running(record.source.tokens))
    sections = (_section(*each, before, _lang(target)) for each in rounds(record))
    template = Path(specmt.__file__).with_name("assets") / "trace.html"
    return Template(template.read_text(encoding="utf-8")).substitute(
        source=escape(record.source.text),
        source_lang=_lang(source),
        target_lang=_lang(target),
        translation=escape(record.translation.text),
        figures=_joined(values),
        history=_joined(links),
        legend=_joined(signs),
        sections=_joined(sections),
    )


def _section(number: int, step: Step, after: Step | None, before: str, lang: str) -> str:
    """Returns a section.

    :param before: the first of its rows, and lang what says the language of the others.
    """
    count = len(step.emitted)
    rows = [before, *(_row(label, lang, content) for label, content in _rows(step, after))]
    return f"""<section id="i{number}">
<h2>Iteration {number} <small>{count} token{"s" * (count > 1)}</small></h2>
<dl class="rows">
{_joined(rows)}
</dl>
</section>"""


def _row(label: str, lang: str, content: str) -> str:
    return f"<div><dt>{label}</dt><dd{lang}>{content}</dd></div>"


def _rows(step: Step, after: Step | None) -> Iterator[tuple[str, str]]:
    yield "Decoder input", _input(step)
    if step.why:
        yield "Choice", f"<small>{escape(step.why)}</small>"
    if step.is_tree:
        yield "Draft", f'<div class="tree">{_token(step.prefix[-1])}{_tree(step, 0)}</div>'
    elif step.nodes:
        yield "Draft", _running(step.nodes)
    yield "Verify", _checks(step)
    yield "Output", _output(step)
    yield "Next input", "<small>none: the translation is complete</small>" if after is None else _input(after)


def _input(step: Step) -> str:
    return " ".join([_running(step.prefix), *['<span class="t mask">[MASK]</span>'] * step.mask_slots])


def _output(step: Step) -> str:
    return _running(step.emitted, [token.origin for token in step.emitted])


def _running(tokens: Iterable[Token], kinds: Sequence[str] = ()) -> str:
    """Returns tokens as text, with spaces before words only."""
    parts = []
    for number, token in enumerate(tokens):
        space = " " if number > 0 and not token.joined else ""
        parts.append(space + _token(token, kinds[number] if kinds else ""))
    return "".join(parts)


def _token(token: Token, kind: str = "") -> str:
    names = " ".join(["t", *["j"] * token.joined, *filter(None, [kind])])
    title = f' title="{_SPOKEN[kind]}"' if kind else ""
    return f'<span class="{names}"{title}>{escape(token.text)}</span>'


def _tree(step: Step, place: int) -> str:
    branches = []
    for draft in step.children(place):
        run = step.run(draft)
        path = _joined(f'<span class="node {each.verdict}">{_draft(step, each)}</span>' for each in run)
        branches.append(f'<li><p class="path">{path}</p>{_tree(step, run[-1].place)}</li>')
    return f"<ul>{_joined(branches)}</ul>" if branches else ""


def _draft(step: Step, draft: Draft) -> str:
    return f"{_marked(draft.verdict, draft)} {_small(chance(draft, step.trial(draft.place)))}"


def _marked(kind: str, token: Token) -> str:
    """Returns a token with the mark of its verdict or origin, struck out if it was rejected."""
    text = escape(token.alone)
    mark = f'<span class="m" role="img" aria-label="{_SPOKEN[kind]}">{MARKS[kind]}</span>'
    return f"{mark}<s>{text}</s>" if kind == "rejected" else f"{mark}<span>{text}</span>"


def _small(numbers: str) -> str:
    return f'<span class="p">{escape(numbers)}</span>'


def _checks(step: Step) -> str:
    tried = " tried" * bool(step.trials)
    dropped = f'<p class="dropped">– {step.unseen} more dropped</p>' if step.unseen else ""
    return f'<ol class="checks{tried}">{_joined(_check(step, *check) for check in step.checks)}</ol>{dropped}'


def _check(step: Step, position: int, place: int, token: Committed) -> str:
    lines = []
    for draft in step.children(place):
        lines.append(f'<p class="line {draft.verdict}">{_draft(step, draft)}</p>')
        trial = step.trial(draft.place)
        for left in [] if trial is None else trial.residual:
            text = f'<span class="m">r</span><span>{escape(left.alone)}</span>'
            lines.append(f'<p class="line unseen">{text}{_small(percent(math.exp(left.log_prob)))}</p>')
    if token.origin != "accepted":
        lines.append(f'<p class="line {token.origin}">{_marked(token.origin, token)}</p>')
    choices = (_choice(rank, choice, token) for rank, choice in enumerate(step.verified[place], start=1))
    return f"""<li>
<h3>position {position}</h3>
{_joined(lines)}
<ol class="choices">{_joined(choices)}</ol>
</li>"""


def _choice(rank: int, choice: Choice, chosen: Token) -> str:
    names = "line" + " chosen" * (choice.id == chosen.id) + " blank" * choice.ruled_out
    text, probability = escape(choice.alone), math.exp(choice.log_prob)
    shown = f'<span title="ruled out by τ: {text}">[BLANK]</span>' if choice.ruled_out else f"<span>{text}</span>"
    return (
        f'<li class="{names}"><span class="fill" style="width:{probability:.1%}"></span>'
        f'<span class="m">{rank}</span>{shown}{_small(percent(probability))}</li>'
    )


def _lang(code: str) -> str:
    return f' lang="{escape(code)}"' if code else ""


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)
