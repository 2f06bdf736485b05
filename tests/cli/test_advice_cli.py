"""What messages advise: options that the command takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from specmt.cli.main import cli
from tests.commands import ROOT

SHOWN_BY = {
    "check/findings.py": ["check"],
    "cli/bench.py": ["bench"],
    "cli/documents.py": ["translate"],
    "cli/evaluate.py": ["evaluate"],
    "cli/init.py": ["init"],
    "cli/job.py": ["translate"],
    "cli/memory.py": ["memory export"],
    "cli/models.py": ["translate"],  # it says how placeholders are translated
    "cli/serve.py": ["serve"],
    "cli/shortlist.py": ["shortlist"],
    "cli/trace/command.py": ["trace"],
    "cli/tasks.py": ["translate"],
    "cli/train.py": ["train drafter"],
    "cli/train_from_corpus.py": ["train drafter"],
    "cli/translate.py": ["translate"],
    "cli/update.py": ["update"],
    "decoding/drafters/__init__.py": ["train drafter"],  # it says so
    "evaluation/payoff.py": ["translate"],  # it says so
    "jobs/ray.py": ["translate"],
    "models/interop/languages.py": ["import marian"],
    "models/interop/marian.py": ["import marian"],
    "text/lines.py": ["translate"],
    "training/corpus.py": ["train drafter"],
    "update/belongs.py": ["update"],
    "update/update.py": ["update"],
}
"""By module, the commands that show its messages with options; all other modules have none."""

DEFINING = ("check/reports.py", "cli/options.py", "cli/updating.py", "evaluation/report.py")
"""What defines options, and what writes commands of git and sacreBLEU."""


def texts_of(path: Path) -> Iterator[str]:
    """Yields what may be shown: strings that are no docstrings and no arguments of decorators."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        decorators = getattr(node, "decorator_list", [])
        skipped |= {id(part) for decorator in decorators for part in ast.walk(decorator)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def command_of(names: str) -> click.Command:
    command: click.Command = cli
    for name in names.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def test_messages_name_options_of_the_command_that_shows_them() -> None:
    seen = set()
    for path in sorted((ROOT / "specmt").rglob("*.py")):
        module = path.relative_to(ROOT / "specmt").as_posix()
        for text in texts_of(path) if module not in DEFINING else ():
            own = re.sub(r"`(?:specmt|sacrebleu|hf) [^`]*`", "", text)
            for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", own)) - {"--help"}:
                assert module in SHOWN_BY, f"{module}: {text}"
                seen.add(module)
                for name in SHOWN_BY[module]:
                    known = {
                        each for option in command_of(name).params for each in (*option.opts, *option.secondary_opts)
                    }
                    assert option in known, f"{module}: {text}"
    assert {"text/lines.py", "cli/bench.py"} <= seen <= set(SHOWN_BY)
