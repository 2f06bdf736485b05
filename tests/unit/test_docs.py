"""The README and docs/ say what is there: figures that were measured, commands, links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import click
import pytest
from benchmarks import fill, measure, summary
from compare_peers import speed_table

from specmt.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")

PEERS: dict[str, Any] = {
    "machine": {"processor": "EPYC", "cores": 2},
    "lines": 10,
    "results": [
        {"batch_size": size, "way": way, "setting": "x", "seconds": seconds, "bleu": 20.04, "identical": 0.95}
        for size, way, seconds in (
            (1, "specmt greedy", [1.0, 2.0, 4.0]),
            (1, "specmt auto", [2.0, 2.0, 2.0]),
            (1, "specmt autoregressive, 5 ahead", [1.0, 1.0, 8.0]),
            (1, "specmt auto, int8", [0.1, 0.1, 0.1]),
            (1, "CTranslate2 int8 greedy", [2.0, 8.0, 4.0]),
            (32, "specmt greedy", [0.5, 0.5, 0.5]),
        )
    ],
}


def commands(page: str) -> Iterator[list[str]]:
    """Yields the words of every `specmt` command in the code blocks of a page."""
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", page, re.DOTALL):
        for line in block.replace("\\\n", " ").split("\n"):
            for part in re.split(r" \| ", line.removeprefix("$ ")):
                if part.startswith("specmt "):
                    yield shlex.split(part.partition(" | ")[0], comments=True)[1:]


def options_of(words: list[str]) -> set[str]:
    """Returns the options of the command that words name."""
    command: click.Command = cli
    context = click.Context(cli)
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(context, word)
        assert found is not None, f"there is no {word!r} in `specmt {shlex.join(words)}`"
        command = found
    return {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_and_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for words in commands(text):
        given = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-z]", word)}
        assert given <= options_of(words) | {"--help", "-h"}, shlex.join(words)
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (path.parent / target).exists(), target
    for script in re.findall(r"scripts/[\w/]+\.(?:py|sh)", text):
        assert (ROOT / script).exists(), script


def test_the_readme_is_short_and_says_what_was_measured() -> None:
    assert len(README.split()) <= 1200
    table = re.search(r"<!-- speed -->\n\n(.*?)\n\n<!-- /speed -->", README, re.DOTALL)
    assert table is not None
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    medians = {f"{float(each):.0f}" for each in re.findall(r"\| ([\d.]+) \(", measured.partition("At other widths")[0])}
    assert set(re.findall(r"\| (\d+) (?=\|)", table[1])) <= medians, "they are those of docs/benchmarks.md"
    assert fill(README, table[1]) == README
    assert fill(README, "| new |").count("| new |") == 1
    with pytest.raises(ValueError, match="one `<!-- speed -->` block, but there are 0"):
        fill("# specmt", table[1])


def test_what_it_is_built_on() -> None:
    """README names it as the package's metadata do: four for everyone, two behind the extra `torch`."""
    needed = requires("specmt")
    assert needed is not None
    for name in ("click", "rich", "SentencePiece", "sacreBLEU", "PyTorch", "fairseq2"):
        assert name in README.partition("It is built on ")[2].partition("\n\n")[0]
        wanted = "torch" if name == "PyTorch" else name.lower()
        found = [each for each in needed if re.match(rf"{wanted}\b(?!\[)", each)]
        assert len(found) == 1, name
        assert ("extra ==" in found[0]) == (wanted in ("torch", "fairseq2")), name
        assert wanted not in ("torch", "fairseq2") or re.search(r"extra == ['\"]torch['\"]", found[0])


def test_the_table_of_the_readme_by_hand() -> None:
    found = summary(PEERS, "2026-11-22; commit 3f83263")
    rows = found.split("\n")
    assert rows[0] == "| sentences/s | batch 1 | batch 32 |"
    # Medians of 10, 5, 2.5; of 10, 10, 1.25, the best that drafts in the same type; and of 5, 1.25, 2.5.
    assert rows[2] == "| specmt greedy, bfloat16 | 5 | 20 |"
    assert rows[3].startswith("| specmt, best drafter, bfloat16 | 10 |")
    assert rows[5].startswith("| CTranslate2 greedy, int8 | 2 |")
    assert found.endswith("EPYC, 2 cores; 2026-11-22; commit 3f83263.")


def test_speeds_and_ratios_of_peers() -> None:
    table = speed_table(PEERS, 1)
    # Ratios are taken within a round: 1/2, 2/8 and 4/4.
    assert ("CTranslate2 int8 greedy", "x", "2.5 (1.2–5.0)", "0.50 (0.25–1.00)", "20.0", "95.0%") in table.rows
    assert table.rows[0][3] == "1"


def test_a_measurement_is_shown(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SPECMT_CORPORA", "/corpora")
    command = """python -c "import sys; print('found', sys.argv[1])" $SPECMT_CORPORA"""
    measure(command)
    assert {*capfd.readouterr().out.splitlines()} == {f"$ {command}", "found /corpora"}
    with pytest.raises(click.ClickException, match=r"`.*` failed with exit code 3"):
        measure("python -c 'raise SystemExit(3)'")
