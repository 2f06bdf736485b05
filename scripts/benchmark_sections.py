"""What is measured for docs/benchmarks.md, and the tables that are made of it: pure functions of JSON records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from peers import tables as peers_tables

from specmt.evaluation.machine import format_signature
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


# What `specmt evaluate` writes


def score(result: Record, metric: str) -> str:
    """Returns a score with half of its interval, and a star where it differs from the first strategy's."""
    found = result["scores"][metric]
    differs = found["p_value"] is not None and found["p_value"] < 0.05
    return f"{found['value']:.1f} ±{found['interval']:.1f}{'*' * differs}"


def accepted_length(result: Record) -> str:
    return f"{result['batched']['mean_accepted_length']:.2f}"


def quality_tables(record: Record) -> list[Table]:
    columns = ("test set, strategy", "lines", "BLEU", "chrF2", "tokens per verifier call", "lines as greedy", "loops")
    rows = [
        (
            f"{row['test_set']}, {row['strategy']}",
            f"{row['batched']['lines']:,}",
            score(row, "BLEU"),
            score(row, "chrF2"),
            accepted_length(row),
            percent(row["same"]),
            f"{row['loops']:.2%}",
        )
        for row in record["results"]
    ]
    return [Table("", columns, rows)]


def quality_readme(record: Record) -> Table:
    rows = [
        (
            row["test_set"],
            f"{row['batched']['lines']:,}",
            score(row, "BLEU"),
            accepted_length(row),
            percent(row["same"]),
        )
        for row in record["results"]
        if row["strategy"] != record["baseline"]
    ]
    columns = ("test set", "lines", "BLEU", "tokens per verifier call (10 drafted)", "lines as greedy")
    return Table("", columns, rows)


def quality_notes(record: Record) -> list[str]:
    signatures = {metric: each["signature"] for metric, each in record["results"][0]["scores"].items()}
    return [
        "± is half of the bootstrap's 95% interval; * differs from greedy (paired bootstrap, p < 0.05).",
        *(f"{metric}: `{signature}`" for metric, signature in signatures.items()),
        *(f"{strategy}: `{format_signature(each)}`" for strategy, each in record["signatures"].items()),
    ]


def strategies_tables(record: Record) -> list[Table]:
    columns = ("strategy", "BLEU", "chrF2", "TER", "lines as greedy", "tokens per verifier call")
    speeds = ("strategy", "sentences/s", "times greedy", "one line: p50, p95, p99 ms", "one line: times greedy")
    tables = []
    for name in dict.fromkeys(row["test_set"] for row in record["results"]):
        rows = [row for row in record["results"] if row["test_set"] == name]
        quality = [
            (
                row["strategy"],
                *(score(row, metric) for metric in ("BLEU", "chrF2", "TER")),
                percent(row["same"]),
                accepted_length(row),
            )
            for row in rows
        ]
        speed = [
            (
                row["strategy"],
                f"{row['batched']['sentences_per_second']['median']:.1f}",
                ratio(row["batched"]["speed_up"]),
                ", ".join(f"{1000 * row['latency'][f'p{point}']:.1f}" for point in (50, 95, 99)),
                ratio(row["single"]["speed_up"]),
            )
            for row in rows
        ]
        batch, single = rows[0]["batched"], rows[0]["single"]
        title = f"{name}, {batch['lines']} lines in batches of {batch['batch_size']}, {single['lines']} one at a time"
        tables += [Table(f"{name}, {batch['lines']} lines", columns, quality), Table(title, speeds, speed)]
    return tables


def strategies_readme(record: Record) -> Table:
    first = record["results"][0]["test_set"]
    rows = [
        (
            row["strategy"],
            score(row, "BLEU"),
            percent(row["same"]),
            accepted_length(row),
            ratio(row["single"]["speed_up"]),
        )
        for row in record["results"]
        if row["test_set"] == first
    ]
    columns = (
        "strategy",
        f"BLEU {first}",
        "lines as greedy",
        "tokens per verifier call",
        "times greedy, one line at a time",
    )
    return Table("", columns, rows)


def ratio(spread: Record | None) -> str:
    """Returns a ratio with its ends over the repeats, or nothing for that of a strategy to itself."""
    return "" if spread is None else f"{spread['median']:.2f} [{spread['low']:.2f}, {spread['high']:.2f}]"


# What `specmt bench` writes


def bench_tables(record: Record) -> list[Table]:
    batches = [row["batch_size"] for row in record["measured"]]
    columns = tuple(f"batch {batch}" for batch in batches)
    calls = {(row["batch_size"], row["rows"]): row["ms"] for row in record["verify"]}
    drafts = {(row["batch_size"], row["block_size"]): row["ms"] for row in record["draft"]}

    def grid(title: str, first: str, cells: Mapping[tuple[int, int], float]) -> Table:
        sizes = sorted({size for _, size in cells})
        rows = [(str(size), *(f"{cells[batch, size]:.2f}" for batch in batches)) for size in sizes]
        return Table(title, (first, *columns), rows)

    speeds = {row["batch_size"]: row["ways"] for row in record["measured"]}
    greedy, *ways = speeds[batches[0]]
    rows = [(greedy, *(f"{median(speeds[batch][greedy]['sentences_per_second']):.1f}" for batch in batches))]
    rows += [(way, *(f"{speeds[batch][way]['speed_up']:.2f}" for batch in batches)) for way in ways]
    rows.append(("best predicted", *(f"{max(row['speed_up']):.2f}" for row in record["predicted"])))
    return [
        grid("Verifying, ms, by rows a sentence", "rows", calls),
        grid("Drafting, ms, by block size", "block size", drafts),
        Table("Speed: greedy in sentences/s, others times greedy", ("way", *columns), rows),
    ]


def bench_notes(record: Record) -> list[str]:
    accepted = ", ".join(f"{share:.2f}" for share in record["acceptance"]["measured"])
    even = record["break_even"]
    points = ", ".join(f"{way} {'never' if size is None else format(size, '.1f')}" for way, size in even.items())
    return [
        f"How often the first 1, 2, … drafts of a block are all accepted: {accepted}.",
        f"Greedy decoding is faster from these batch sizes on: {points}.",
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


SETS = ("docs-test", "everyday-test", "multi30k.test_2016_flickr", "newstest2014.de-en", "flores200-devtest")


def sets(*names: str) -> str:
    """Returns options that name test sets."""
    tests = "$SPECMT_CORPORA/tests"
    return " ".join(f"--set {name}={tests}/{name}.de:{tests}/{name}.en" for name in names)


SECTIONS = (
    Section(
        name="peers",
        title="Beside other programs",
        command="python scripts/compare_peers.py",
        trial="--lines 4 --rounds 2 --threads 1",
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
        command=f"specmt evaluate {sets(*SETS)} --strategies greedy,speculative:10 --repeats 0 --latency-lines 0 "
        "--metrics bleu,chrf",
        trial="--limit 10",
        tables=quality_tables,
        notes=quality_notes,
        readme=quality_readme,
    ),
    Section(
        name="strategies",
        title="Strategies",
        command=f"specmt evaluate {sets('docs-test', 'newstest2014.de-en')} --limit 120 --latency-lines 30 --repeats 2 "
        "--strategies greedy,speculative,ar=speculative:5:drafter=autoregressive,tolerant:3:1,tolerant:5:3,beam:5",
        trial="--limit 10 --latency-lines 2 --repeats 1",
        tables=strategies_tables,
        notes=quality_notes,
        readme=strategies_readme,
    ),
    Section(
        name="bench",
        title="What calls cost",
        command="specmt bench --batch-sizes 1,4,16,64 --block-sizes 2,5,8 --rows 1,2,4,8,16,32,64",
        trial="--quick",
        tables=bench_tables,
        notes=bench_notes,
    ),
    Section(
        name="methods",
        title="Drafters and trees",
        command="python scripts/methods.py --lines 300 --sets docs-test --only exact",
        trial="--lines 10",
        tables=methods_tables,
        notes=methods_notes,
        numbers=methods_numbers,
        readme=methods_readme,
    ),
    Section(
        name="formats",
        title="Number formats",
        command="python scripts/measure.py formats --lines 500",
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
