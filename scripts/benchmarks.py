#!/usr/bin/env python3
"""Measures everything that docs/benchmarks.md and the README state, and writes both.

Run it on a quiet machine, with SPECMT_CORPORA naming the folder of the test sets, after pip install '.[peers]'; it
takes about 20 minutes on two cores. What was measured already, by the same command, is not measured again: the
figures wait in runs/benchmarks.

  python scripts/benchmarks.py             # measure what is missing, then write docs/benchmarks.{json,md}, README.md
  python scripts/benchmarks.py --fresh     # measure all
  python scripts/benchmarks.py --readme    # only write docs/benchmarks.md and README.md from docs/benchmarks.json

scripts/benchmark_sections.py says what is measured and how it is shown; another measurement is another Section there.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
from benchmark_docs import benchmarks_markdown, fill
from benchmark_sections import SECTIONS, Section

from specmt.evaluation.machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
JSON = ROOT / "docs" / "benchmarks.json"
README = ROOT / "README.md"

PROGRAMS = {"python": [sys.executable], "specmt": [sys.executable, "-m", "specmt"]}

PACKAGES = ("specmt", "torch", "fairseq2", "ctranslate2", "transformers", "numpy", "sentencepiece", "sacrebleu")


def commit() -> str:
    """Returns what is measured: the last commit, and whether the code differs from it; empty outside a repository."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + "+" * bool(git("status", "--porcelain", "--", "specmt", "scripts"))


def measure(section: Section, command: str, path: Path) -> dict[str, Any]:
    """Runs a command; returns the step that it makes, which is kept in a file.

    :raises ClickException: it fails.
    """
    output = path.resolve().with_suffix(".part")
    output.unlink(missing_ok=True)  # of one that failed
    program, *arguments = map(os.path.expandvars, shlex.split(command))
    full = [*PROGRAMS[program], *arguments, "--json", str(output)]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    found = {"command": command, "commit": commit(), "date": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"}
    started = time.perf_counter()
    process = subprocess.run(full, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, check=False)
    seconds = round(time.perf_counter() - started, 1)
    if process.returncode != 0 or not output.exists():
        raise click.ClickException(f"{section.name}: `{command}` failed with exit code {process.returncode}.")
    record = json.loads(output.read_text(encoding="utf-8"))
    step = {**found, "seconds": seconds, "machine": describe_machine(PACKAGES), "record": record}
    path.write_text(json.dumps(step, indent=1) + "\n", encoding="utf-8")
    output.unlink()
    return step


def write_pages(benchmarks: dict[str, Any]) -> None:
    """Writes docs/benchmarks.json and .md and the README's figures, or nothing.

    :raises ClickException: the README asks for figures that were not measured.
    """
    try:
        readme, page = fill(README.read_text(encoding="utf-8"), benchmarks), benchmarks_markdown(benchmarks)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    JSON.write_text(json.dumps(benchmarks, indent=1) + "\n", encoding="utf-8")
    JSON.with_suffix(".md").write_text(page, encoding="utf-8")
    README.write_text(readme, encoding="utf-8")
    click.echo("docs/benchmarks.json, docs/benchmarks.md and README.md are written.", err=True)


@click.command()
@click.option("--fresh", is_flag=True, help="Measure again what was measured.")
@click.option("--readme", is_flag=True, help="Measure nothing; write the pages from docs/benchmarks.json.")
@click.option("--only", default="", help=f"Measure only these: {','.join(each.name for each in SECTIONS)}.")
@click.option("--trial", is_flag=True, help="A few lines and rounds, to see that all of it works; the page says so.")
@click.option("--runs", type=click.Path(path_type=Path, file_okay=False), default=ROOT / "runs" / "benchmarks")
def main(fresh: bool, readme: bool, only: str, trial: bool, runs: Path) -> None:
    """Measures, and writes docs/benchmarks.json, docs/benchmarks.md and the README's figures."""
    names = [section.name for section in SECTIONS]
    wanted = list(filter(None, only.split(","))) or names
    if not set(wanted) <= set(names):
        raise click.UsageError(f"`--only` must be among {', '.join(names)}, but is {only} instead.")
    if readme:
        write_pages(json.loads(JSON.read_text(encoding="utf-8")))
        return
    runs.mkdir(parents=True, exist_ok=True)
    steps: dict[str, Any] = {}
    for number, section in enumerate(SECTIONS, start=1):
        said = f"[{number}/{len(SECTIONS)}] {section.name}"
        command = f"{section.command} {section.trial}" if trial else section.command
        path = runs / f"{section.name}.json"
        step = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        is_kept = step is not None and step["command"] == command
        if section.name in wanted and (fresh or not is_kept):
            click.echo(f"{said}: {command}", err=True)
            steps[section.name] = measure(section, command, path)
            click.echo(f"{said}: {steps[section.name]['seconds']:.0f} s", err=True)
        elif is_kept:
            click.echo(f"{said}: was measured on {step['date']}", err=True)
            steps[section.name] = step
    write_pages({"trial": trial, "steps": steps})


if __name__ == "__main__":
    main()
