"""A trace as one HTML page that needs nothing else: no script, no network, no colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import resources
from typing import Final

from specmt.cli.trace.view import MARKS, Check, Choice, Draft, Input, Step, Token, View, percent

_SPOKEN: Final = {
    "accepted": "accepted draft",
    "rejected": "rejected draft",
    "unseen": "draft not looked at",
    "corrected": "the model's own token instead",
    "added": "the model's own token",
}


def page(view: View, *, source: str = "", target: str = "") -> str:
    """Returns the page.

    :param source: the code of the source language, and target that of the target language, if they are known.
    """
    figures = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in view.figures)
    # The translation in the parts that each iteration gave, with links to these.
    links = (
        f'<li><a href="#i{step.number}"><small>{step.number}</small> {_output(step)}</a></li>' for step in view.steps
    )
    legend = (f'<li><b class="{kind}">{escape(sign)}</b> {escape(meaning)}</li>' for sign, meaning, kind in view.legend)
    style = resources.files("specmt").joinpath("assets/trace.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="specmt trace">
<title>{escape(view.source)} – specmt trace</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1{_lang(source)}>{escape(view.source)}</h1>
<p class="translation"{_lang(target)}>{escape(view.translation)}</p>
<dl class="figures">{_joined(figures)}</dl>
<nav aria-label="Iterations"><ol class="history">{_joined(links)}</ol></nav>
<ul class="legend" aria-label="Legend">{_joined(legend)}</ul>
</header>
<main>
{_joined(_section(step, view, source, target) for step in view.steps)}
</main>
</body>
</html>
"""


def _section(step: Step, view: View, source: str, target: str) -> str:
    count = len(step.checks)
    rows = (
        f"<div><dt>{label}</dt><dd{_lang(language)}>{content}</dd></div>"
        for label, language, content in _rows(step, view, source, target)
    )
    return f"""<section id="i{step.number}">
<h2>Iteration {step.number} <small>{count} token{"s" * (count > 1)}</small></h2>
<dl class="rows">
{_joined(rows)}
</dl>
</section>"""


def _rows(step: Step, view: View, source: str, target: str) -> Iterator[tuple[str, str, str]]:
    yield "Source", source, _running(view.source_tokens)
    yield "Decoder input", target, _input(step.input)
    if step.is_tree:
        yield "Draft", target, f'<div class="tree">{_token(step.input.prefix[-1])}{_tree(step.drafts)}</div>'
    elif step.drafts:
        yield "Draft", target, _running(draft.token for draft in step.drafts[0].run)
    yield "Verify", target, _checks(step)
    yield "Output", target, _output(step)
    none = "<small>none: the translation is complete</small>"
    yield "Next input", target, none if step.next is None else _input(step.next)


def _input(before: Input) -> str:
    return " ".join([_running(before.prefix), *['<span class="t mask">[MASK]</span>'] * before.slots])


def _output(step: Step) -> str:
    return _running([check.token for check in step.checks], [check.origin for check in step.checks])


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


def _tree(drafts: Sequence[Draft]) -> str:
    branches = []
    for draft in drafts:
        run = draft.run
        path = _joined(f'<span class="node {each.verdict}">{_draft(each)}</span>' for each in run)
        branches.append(f'<li><p class="path">{path}</p>{_tree(run[-1].children)}</li>')
    return f"<ul>{_joined(branches)}</ul>" if branches else ""


def _draft(draft: Draft) -> str:
    numbers = percent(draft.probability)
    if draft.verifier is not None:
        numbers = f"p {numbers} q {percent(draft.verifier)}"
    return f"{_marked(draft.verdict, draft.token)} {_small(numbers)}"


def _marked(kind: str, token: Token) -> str:
    """Returns a token with the mark of its verdict or origin, struck out if it was rejected."""
    text = escape(token.alone)
    mark = f'<span class="m" role="img" aria-label="{_SPOKEN[kind]}">{MARKS[kind]}</span>'
    return f"{mark}<s>{text}</s>" if kind == "rejected" else f"{mark}<span>{text}</span>"


def _small(numbers: str) -> str:
    return f'<span class="p">{escape(numbers)}</span>'


def _checks(step: Step) -> str:
    tried = " tried" * any(draft.verifier is not None for check in step.checks for draft in check.drafts)
    dropped = f'<p class="dropped">– {step.unseen} more dropped</p>' if step.unseen else ""
    return f'<ol class="checks{tried}">{_joined(map(_check, step.checks))}</ol>{dropped}'


def _check(check: Check) -> str:
    lines = []
    for draft in check.drafts:
        lines.append(f'<p class="line {draft.verdict}">{_draft(draft)}</p>')
        for choice in draft.residual:
            text = f'<span class="m">r</span><span>{escape(choice.token.alone)}</span>'
            lines.append(f'<p class="line unseen">{text}{_small(percent(choice.probability))}</p>')
    if check.origin != "accepted":
        lines.append(f'<p class="line {check.origin}">{_marked(check.origin, check.token)}</p>')
    choices = (_choice(rank, choice, check.token) for rank, choice in enumerate(check.choices, start=1))
    return f"""<li>
<h3>position {check.position}</h3>
{_joined(lines)}
<ol class="choices">{_joined(choices)}</ol>
</li>"""


def _choice(rank: int, choice: Choice, chosen: Token) -> str:
    names = "line" + " chosen" * (choice.token.id == chosen.id) + " blank" * choice.blank
    text = escape(choice.token.alone)
    shown = f'<span title="ruled out by τ: {text}">[BLANK]</span>' if choice.blank else f"<span>{text}</span>"
    return (
        f'<li class="{names}"><span class="fill" style="width:{choice.probability:.1%}"></span>'
        f'<span class="m">{rank}</span>{shown}{_small(percent(choice.probability))}</li>'
    )


def _lang(code: str) -> str:
    return f' lang="{escape(code)}"' if code else ""


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)
