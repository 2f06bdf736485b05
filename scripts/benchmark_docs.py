"""docs/benchmarks.md and the README's figures, made of docs/benchmarks.json alone: pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from benchmark_sections import SECTIONS, Record

from specmt.evaluation.machine import format_signature
from specmt.evaluation.tables import Table

TRIAL = "**This was a trial on a few lines: the figures mean nothing.**"


def benchmarks_markdown(benchmarks: Record) -> str:
    """Returns docs/benchmarks.md.

    :param benchmarks: docs/benchmarks.json: whether it was a ``trial``, and under ``steps`` what was measured, by
        section; sections that were not measured are left out.
    """
    steps = benchmarks["steps"]
    found = [(section, steps[section.name]) for section in SECTIONS if section.name in steps]
    parts = [
        "# Benchmarks",
        "Made by `python scripts/benchmarks.py`, which runs the commands below and writes this page and the figures of "
        "the README from what they found (docs/benchmarks.json). Do not edit it by hand. The commands take the test "
        "sets from `$SPECMT_CORPORA`, and `--json FILE` to write the figures down.",
    ]
    if benchmarks["trial"]:
        parts.append(TRIAL)
    parts += [f"Machine: {machine}" for machine in dict.fromkeys(format_signature(s["machine"]) for _, s in found)]
    for section, step in found:
        parts += [f"## {section.title}", f"```sh\n{step['command']}\n```"]
        parts += [table.markdown().rstrip("\n") for table in section.tables(step["record"])]
        parts += section.notes(step["record"])
        if "signature" in step["record"]:
            parts.append(f"`{format_signature(step['record']['signature'])}`")
    minutes = sum(step["seconds"] for _, step in found) / 60
    rows = [(s.title, f"{step['seconds']:.0f}", step["date"], step["commit"]) for s, step in found]
    parts += [
        "## When",
        Table("", ("measurement", "seconds", "date", "commit"), rows).markdown().rstrip("\n"),
        f"{minutes:.0f} minutes in all.",
    ]
    return "\n\n".join(parts) + "\n"


def readme_parts(benchmarks: Record) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the blocks of the README that are generated, and the single figures in its prose, by name."""
    blocks = {"source": _source(benchmarks)}
    numbers: dict[str, str] = {}
    for section in SECTIONS:
        if section.name in benchmarks["steps"]:
            record = benchmarks["steps"][section.name]["record"]
            numbers |= section.numbers(record)
            if section.readme is not None:
                blocks[section.name] = section.readme(record).markdown()
    return blocks, numbers


def _source(benchmarks: Record) -> str:
    """Returns where and when it was measured, as a paragraph."""
    steps = benchmarks["steps"].values()
    machines = dict.fromkeys(f"{step['machine']['processor']}, {step['machine']['cores']} cores" for step in steps)
    dates = sorted({step["date"][:10] for step in steps})
    commits = dict.fromkeys(step["commit"] for step in steps)
    said = f"{' and '.join(machines)}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {', '.join(commits)}."
    return f"{TRIAL} {said}\n" if benchmarks["trial"] else f"{said}\n"


_BLOCK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- /numbers -->)", re.DOTALL)
_NUMBER = re.compile(r"(<!--n:([\w-]+)-->)[^<]*(<!--/n-->)")


def fill(readme: str, benchmarks: Record) -> str:
    """Returns the README with every marked block and figure as the benchmarks say.

    Blocks stand between ``<!-- numbers: NAME -->`` and ``<!-- /numbers -->`` on lines of their own, figures in prose
    between ``<!--n:NAME-->`` and ``<!--/n-->``.

    :raises ValueError: a name is not known, or what is marked is not what the markers can hold.
    """
    blocks, numbers = readme_parts(benchmarks)
    for marker, pattern, known in (("<!-- numbers: ", _BLOCK, blocks), ("<!--n:", _NUMBER, numbers)):
        names = [match[2] for match in pattern.finditer(readme)]
        if len(names) != readme.count(marker):
            unclosed = readme.count(marker) - len(names)
            raise ValueError(f"README.md: every {marker}… must be closed, but {unclosed} are not.")
        _check_known(names, known)
    readme = _BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match[2]]}\n{match[3]}", readme)
    return _NUMBER.sub(lambda match: f"{match[1]}{numbers[match[2]]}{match[3]}", readme)


def _check_known(names: Iterable[str], known: Iterable[str]) -> None:
    unknown = set(names).difference(known)
    if unknown:
        raise ValueError(f"README.md: {', '.join(sorted(unknown))} must be among what was measured, but is not.")
