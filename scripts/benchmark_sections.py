"""What is measured for docs/benchmarks.md, and the tables that are made of it: pure functions of JSON records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from peers import tables as peers_tables

from specmt.evaluation.tables import Table

Record = Mapping[str, Any]
"""What a measurement wrote as JSON."""


@dataclass(frozen=True)
class Section:
    """A measurement: the command that makes it, which takes ``--json FILE``, and what is said of it."""

    name: str
    """In docs/benchmarks.json, and of the file that the command writes."""

    title: str
    command: str
    """A command line that begins with ``python`` or ``specmt``; it may name ``$SPECMT_CORPORA``."""

    trial: str
    """What is added for a trial: few lines and rounds."""

    tables: Callable[[Record], Sequence[Table]]
    notes: Callable[[Record], Sequence[str]]
    numbers: Callable[[Record], Mapping[str, str]] = lambda record: {}
    """The figures that the README quotes one by one, by name."""

    readme: Callable[[Record], Table] | None = None
    """The table that the README shows."""


def percent(share: float) -> str:
    return "100%" if share == 1 else f"{share:.1%}"


# Quality


def quality_tables(record: Record) -> list[Table]:
    columns = ("test set", "lines", "BLEU", "chrF2", "verifier calls", "tokens per verifier call")
    rows = [
        (
            row["set"],
            f"{row['lines']:,}",
            f"{row['bleu']:.1f}",
            f"{row['chrf']:.1f}",
            f"{row['verifier_calls']:,}",
            f"{row['mean_accepted_length']:.2f}",
        )
        for row in record["rows"]
    ]
    return [Table("", columns, rows)]


def quality_readme(record: Record) -> Table:
    ahead = f"tokens per verifier call ({record['block_size']} drafted)"
    rows = [
        (row["set"], f"{row['lines']:,}", f"{row['bleu']:.1f}", f"{row['mean_accepted_length']:.2f}")
        for row in record["rows"]
    ]
    return Table("", ("test set", "lines", "BLEU (greedy = speculative)", ahead), rows)


def quality_notes(record: Record) -> list[str]:
    return [
        f"Speculative decoding with the masked drafter, {record['block_size']} tokens drafted, in {record['dtype']}; "
        f"greedy decoding says the same. {record['metric']}"
    ]


# Drafters and trees


def methods_tables(record: Record) -> list[Table]:
    columns = ("drafter and tree", "tokens per verifier call", "verifier calls a line", "lines unlike greedy", "BLEU")
    return [
        Table(
            name,
            columns,
            [
                (
                    row["way"],
                    f"{row['mean_accepted_length']:.2f}",
                    f"{row['calls_per_sentence']:.2f}",
                    f"{round(row['changed'] * row['lines'])} of {row['lines']:,}",
                    f"{row['bleu']:.1f}",
                )
                for row in record["rows"]
                if row["set"] == name
            ],
        )
        for name in dict.fromkeys(row["set"] for row in record["rows"])
    ]


def methods_readme(record: Record) -> Table:
    """Returns what drafters bring with each tree, on the first of the sets."""
    first = record["rows"][0]["set"]
    lengths: dict[str, dict[str, str]] = {}
    for row in record["rows"]:
        drafter, _, tree = row["way"].partition(", ")
        if row["set"] == first and drafter != "none":
            lengths.setdefault(drafter, {})[tree or "chain"] = f"{row['mean_accepted_length']:.2f}"
    trees = list(dict.fromkeys(tree for found in lengths.values() for tree in found))
    rows = [(drafter, *(found.get(tree, "") for tree in trees)) for drafter, found in lengths.items()]
    return Table("", ("tokens per verifier call", *trees), rows)


def methods_notes(record: Record) -> list[str]:
    return [
        f"In {record['rows'][0]['dtype']}. The masked drafter looks 10 tokens ahead, the autoregressive one 7, as do "
        "both together, and the verifier itself 16."
    ]


def methods_numbers(record: Record) -> dict[str, str]:
    rows = record["rows"]
    changed = sum(round(row["changed"] * row["lines"]) for row in rows)
    return {
        "methods-lines": f"{rows[0]['lines']:,}",
        "methods-changed": f"{changed:,}",
        "methods-dtype": rows[0]["dtype"],
    }


# Number formats


def formats_tables(record: Record) -> list[Table]:
    columns = ("test set", "type", "lines", "BLEU", "chrF2", "as in float32")
    rows = [
        (
            row["set"],
            row["dtype"],
            f"{row['lines']:,}",
            f"{row['bleu']:.1f}",
            f"{row['chrf']:.1f}",
            percent(row["identical"]),
        )
        for row in record["rows"]
    ]
    return [Table("", columns, rows)]


def formats_readme(record: Record) -> Table:
    """Returns the same with a column for each type, sets side by side in the cells."""
    types, sets = (list(dict.fromkeys(row[key] for row in record["rows"])) for key in ("dtype", "set"))
    found = {(row["dtype"], row["set"]): row for row in record["rows"]}

    def cells(say: Callable[[Record], str]) -> list[str]:
        return [" / ".join(say(found[kind, name]) for name in sets) for kind in types]

    rows = [
        (f"BLEU {' / '.join(sets)}", *cells(lambda row: f"{row['bleu']:.1f}")),
        ("lines as in float32", *cells(lambda row: percent(row["identical"]))),
    ]
    return Table("", ("", *types), rows)


# The same output in any company


def identical_tables(record: Record) -> list[Table]:
    rows = [
        (row["run"], row["dtype"], f"{row['lines']:,}", "yes" if row["identical"] else "no") for row in record["rows"]
    ]
    return [Table("", ("run", "type", "lines", "byte for byte the same"), rows)]


def identical_numbers(record: Record) -> dict[str, str]:
    rows = record["rows"]
    same = sum(row["identical"] for row in rows)
    return {
        "identical-lines": f"{rows[0]['lines']:,}",
        "identical-runs": str(same),
        "identical-all": str(len(rows)),
        "identical-dtypes": " and ".join(dict.fromkeys(row["dtype"] for row in rows)),
    }


# Memory and start


def memory_tables(record: Record) -> list[Table]:
    rows = [
        (f"{row['lines']:,}", f"{row['mebibytes']:.0f}", f"{row['seconds']:.0f}", "yes" if row["in_order"] else "no")
        for row in record["rows"]
    ]
    return [Table("", ("short lines through a pipe", "peak MiB", "seconds", "all there, in order"), rows)]


def memory_numbers(record: Record) -> dict[str, str]:
    first, last = record["rows"][0], record["rows"][-1]
    return {
        "memory-few": f"{first['lines']:,}",
        "memory-many": f"{last['lines']:,}",
        "memory-few-mebibytes": f"{first['mebibytes']:.0f}",
        "memory-many-mebibytes": f"{last['mebibytes']:.0f}",
    }


def start_tables(record: Record) -> list[Table]:
    rows = [(row["what"], peers_tables.interval(row["seconds"], 2)) for row in record["rows"]]
    return [Table("", ("a fresh process", "seconds, median [lowest, highest]"), rows)]


def start_numbers(record: Record) -> dict[str, str]:
    seconds = {row["what"]: median(row["seconds"]) for row in record["rows"]}
    return {
        "start-line": f"{seconds['specmt translate, one line']:.1f}",
        "start-torch": f"{seconds['and import torch']:.1f}",
    }


def nothing(record: Record) -> list[str]:
    return []


SECTIONS = (
    Section(
        name="peers",
        title="Beside other programs",
        command="python scripts/compare_peers.py",
        trial="--lines 4 --rounds 2 --slow-rounds 1 --threads 1",
        tables=peers_tables.speed_tables,
        notes=peers_tables.notes,
        numbers=peers_tables.numbers,
        readme=peers_tables.summary,
    ),
    Section(
        name="domain",
        title="Drafting on software documentation, one sentence at a time",
        command="python scripts/compare_peers.py --only specmt --sets docs-test --lines 150 --batch-sizes 1",
        trial="--lines 10 --rounds 2 --threads 1",
        tables=peers_tables.speed_tables,
        notes=peers_tables.notes,
        readme=peers_tables.against_greedy,
    ),
    Section(
        name="quality",
        title="Quality",
        command="python scripts/measure.py --dtype auto quality --no-beam",
        trial="--lines 10",
        tables=quality_tables,
        notes=quality_notes,
        readme=quality_readme,
    ),
    Section(
        name="methods",
        title="Drafters and trees",
        command="python scripts/methods.py --lines 500 --sets docs-test --only exact",
        trial="--lines 10",
        tables=methods_tables,
        notes=methods_notes,
        numbers=methods_numbers,
        readme=methods_readme,
    ),
    Section(
        name="formats",
        title="Number formats",
        command="python scripts/measure.py formats --lines 1000",
        trial="--lines 10",
        tables=formats_tables,
        notes=nothing,
        readme=formats_readme,
    ),
    Section(
        name="identical",
        title="The same output in any company",
        command="python scripts/measure.py identical --lines 300 --dtypes bfloat16",
        trial="--lines 10",
        tables=identical_tables,
        notes=nothing,
        numbers=identical_numbers,
    ),
    Section(
        name="memory",
        title="Memory",
        command="python scripts/measure.py memory --counts 1000,10000",
        trial="--counts 10,100",
        tables=memory_tables,
        notes=nothing,
        numbers=memory_numbers,
    ),
    Section(
        name="start",
        title="From a fresh process to one line",
        command="python scripts/measure.py start",
        trial="--repeats 1",
        tables=start_tables,
        notes=nothing,
        numbers=start_numbers,
    ),
)
