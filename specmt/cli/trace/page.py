"""A trace as one HTML page that needs nothing else: no script, no network, no colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import resources
from typing import Final

from specmt.cli.trace.view import MARKS, Check, Choice, Draft, Input, Step, Token, Trial, View, percent

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
{_figures(view)}
{_history(view)}
{_legend(view)}
</header>
<main>
{_joined(_section(step, view, source, target) for step in view.steps)}
</main>
</body>
</html>
"""


def _figures(view: View) -> str:
    entries = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in view.figures)
    return f'<dl class="figures">{_joined(entries)}</dl>'


def _history(view: View) -> str:
    """Returns the translation in the parts that each iteration gave, with links to these."""
    links = (
        f'<li><a href="#i{step.number}"><small>{step.number}</small> {_output(step)}</a></li>' for step in view.steps
    )
    return f'<nav aria-label="Iterations"><ol class="history">{_joined(links)}</ol></nav>'


def _legend(view: View) -> str:
    entries = (
        f'<li><b class="{kind}">{escape(sign)}</b> {escape(meaning)}</li>' for sign, meaning, kind in view.legend
    )
    return f'<ul class="legend" aria-label="Legend">{_joined(entries)}</ul>'


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
    return f"{_marked(draft.verdict, draft.token)} {_percent(draft.probability)}"


def _marked(kind: str, token: Token) -> str:
    """Returns a token with the mark of its verdict or origin, struck out if it was rejected."""
    text = escape(token.alone)
    mark = f'<span class="m" role="img" aria-label="{_SPOKEN[kind]}">{MARKS[kind]}</span>'
    return f"{mark}<s>{text}</s>" if kind == "rejected" else f"{mark}<span>{text}</span>"


def _percent(probability: float) -> str:
    return f'<span class="p">{escape(percent(probability))}</span>'


def _checks(step: Step) -> str:
    tried = " tried" * any(check.trials for check in step.checks)
    dropped = f'<p class="dropped">– {step.unseen} more dropped</p>' if step.unseen else ""
    return f'<ol class="checks{tried}">{_joined(map(_check, step.checks))}</ol>{dropped}'


def _check(check: Check) -> str:
    lines = [_trial(trial) for trial in check.trials]
    if not check.trials:
        lines += [f'<p class="line {draft.verdict}">{_draft(draft)}</p>' for draft in check.drafts]
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
        f'<span class="m">{rank}</span>{shown}{_percent(choice.probability)}</li>'
    )


def _trial(trial: Trial) -> str:
    verdict = "accepted" if trial.accepted else "rejected"
    bars = [_bar("p", "", trial.draft), _bar("q", "", trial.verifier)]
    bars += [_bar("r", choice.token.alone, choice.probability) for choice in trial.residual]
    return f'<div class="trial"><p class="line {verdict}">{_marked(verdict, trial.token)}</p>{_joined(bars)}</div>'


def _bar(name: str, token: str, share: float) -> str:
    label = f'<span class="name">{escape(token)}</span>' if token else ""
    return (
        f'<p class="line"><span class="m">{name}</span>{label}'
        f'<span class="bar"><i style="width:{share:.1%}"></i></span>{_percent(share)}</p>'
    )


def _lang(code: str) -> str:
    return f' lang="{escape(code)}"' if code else ""


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)
