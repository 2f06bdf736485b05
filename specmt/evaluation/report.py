"""An evaluation as tables, for terminals, Markdown and spreadsheets."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from specmt.evaluation.machine import format_signature
from specmt.evaluation.quality import GRAM, REPEATS
from specmt.evaluation.results import Evaluation, Measured, Result, Speed
from specmt.evaluation.spread import Spread
from specmt.evaluation.tables import Table

POSITIONS: Final = 5
"""How many positions the table of acceptance shows."""

_SIGNIFICANT: Final = 0.05
_SPREADS: Final = ("sentences_per_second", "tokens_per_second", "words_per_second", "speed_up")


def tables(evaluation: Evaluation) -> list[Table]:
    """Returns the tables of all test sets."""
    return [table for results in by_set(evaluation) for table in _tables(evaluation, results)]


def notes(evaluation: Evaluation) -> list[str]:
    """Returns what a reader of the tables must know, a sentence or two each."""
    against = evaluation.baseline
    said = [
        f"Scores are sacreBLEU's, ± half of the bootstrap's 95% interval; * differs from {against} (paired bootstrap, "
        f"p < {_SIGNIFICANT}); same: lines whose translation is that of {against}; loops: lines whose translation has "
        f"the same {GRAM} words more than {REPEATS} times.",
        "Times are those of the translation alone, strategies in turn; rates and ratios "
        f"(× {against}) are medians over the repeats, with the least and the greatest, ratios taken within a repeat.",
        "Calls are verifier calls a line; 1, 2, …: of those that drafted so far ahead, the share that accepted it.",
        "MiB: the most memory that the process held, the model included.",
        f"Loading the model took {evaluation.load_seconds:.1f} s.",
    ]
    if evaluation.partial:
        said.insert(0, "Interrupted: the figures are of the lines and repeats that every strategy was done with.")
    return said


def signatures(evaluation: Evaluation, *, short: bool = False) -> dict[str, str]:
    """Returns the signature that all strategies share, as ``all``, and what each has besides.

    :param short: whether to cut hashes off.
    """
    everything = list(evaluation.signatures.values())
    shared = {key: value for key, value in everything[0].items() if all(_has(own, key, value) for own in everything)}
    parts: dict[str, dict[str, object]] = {"all": shared}
    for label, own in evaluation.signatures.items():
        parts[label] = {key: value for key, value in own.items() if key not in shared}
    return {label: format_signature(_cut(part) if short else part) for label, part in parts.items() if part}


def metric_signatures(evaluation: Evaluation) -> dict[str, str]:
    """Returns sacreBLEU's signatures of the metrics; those of sets with more references than others come apart."""
    found: dict[str, list[str]] = {}
    for result in evaluation.results:
        for title, score in result.scores.items():
            if score.signature not in found.setdefault(title, []):
                found[title].append(score.signature)
    return {title: "; ".join(values) for title, values in found.items()}


def as_csv(evaluation: Evaluation) -> str:
    """Returns a row for each test set and strategy, with all digits."""
    rows = [_row(evaluation, result) for result in evaluation.results]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def markdown(
    evaluation: Evaluation, files: Mapping[str, Files], *, command: str, picture: str | None, languages: str
) -> str:
    """Returns the report.

    :param files: where the texts of each test set are.
    :param picture: the file name of the plot.
    :param languages: the pair, as in ``de-en``.
    """
    parts = ["# Evaluation" + (" (partial)" if evaluation.partial else ""), f"`{command}`"]
    for results in by_set(evaluation):
        parts.append(f"## {results[0].test_set}")
        parts += [table.markdown().rstrip("\n") for table in _tables(evaluation, results)]
        if any(score.p_value is not None for result in results for score in result.scores.values()):
            parts.append(_p_values(evaluation, results).markdown().rstrip("\n"))
    if picture is not None:
        parts.append(f"![Speed-up against BLEU, acceptance by position, latencies]({picture})")
    parts += ["## How it was measured", "\n".join(f"- {note}" for note in notes(evaluation))]
    parts.append(_items(metric_signatures(evaluation)))
    parts.append(_items(signatures(evaluation)))
    commands = [line for each in files.values() for line in each.commands(languages)]
    parts += ["Scores again, with sacreBLEU's own command, in this folder:", "```sh\n" + "\n".join(commands) + "\n```"]
    return "\n\n".join(parts) + "\n"


class Files:
    """The names of the files that the texts of one test set are written to."""

    def __init__(self, measured: Measured) -> None:
        name = _plain(measured.test_set.name)
        count = len(measured.references)
        self.references = [f"{name}.reference{number if count > 1 else ''}.txt" for number in range(1, count + 1)]
        self.hypotheses: dict[str, str] = {}
        for strategy in measured.batched.strategies:
            file = f"{name}.{_plain(strategy.label)}.txt"
            while file in self.hypotheses.values():  # of labels that differ in odd characters alone
                file = f"{file.removesuffix('.txt')}-.txt"
            self.hypotheses[strategy.label] = file

    def commands(self, languages: str) -> Iterable[str]:
        """Yields how to score every file with sacreBLEU's command, chrF++ apart."""
        for file in self.hypotheses.values():
            score = ["sacrebleu", *self.references, "-i", file, "-l", languages, "-w", "2", "--confidence"]
            yield shlex.join([*score, "-m", "bleu", "chrf", "ter"])
            yield shlex.join([*score, "-m", "chrf", "--chrf-word-order", "2"])


def by_set(evaluation: Evaluation) -> list[list[Result]]:
    """Returns the results of each test set."""
    sets: dict[str, list[Result]] = {}
    for result in evaluation.results:
        sets.setdefault(result.test_set, []).append(result)
    return list(sets.values())


def _tables(evaluation: Evaluation, results: Sequence[Result]) -> Iterable[Table]:
    first = results[0]
    end = ", partial" if evaluation.partial else ""
    titles = list(first.scores)
    quality = [(result.strategy, *_scores(result), f"{result.same:.1%}", f"{result.loops:.1%}") for result in results]
    yield Table(f"{first.test_set}: quality ({_lines(first.batched)}{end})", ("", *titles, "same", "loops"), quality)

    ratio = f"× {evaluation.baseline}"
    batches = sorted({result.batched.batch_size for result in results})
    columns: tuple[str, ...] = ("", "sentences/s", "tokens/s", "words/s", ratio, "MiB")
    rows: list[tuple[str, ...]] = [(result.strategy, *_rates(result.batched)) for result in results]
    yield Table(f"{first.test_set}: speed, batches of {', '.join(map(str, batches))}{end}", columns, rows)

    if first.single is not None:
        columns = ("", "p50 ms", "p95 ms", "p99 ms", "sentences/s", ratio)
        rows = [(result.strategy, *_latencies(result)) for result in results]
        yield Table(f"{first.test_set}: latency, one at a time ({_lines(first.single)}{end})", columns, rows)

    columns = ("", "batch", "calls", "tokens/call", *map(str, range(1, POSITIONS + 1)))
    rows = [
        (result.strategy, *_drafts(speed)) for result in results for speed in (result.batched, result.single) if speed
    ]
    yield Table(f"{first.test_set}: drafts, by how far ahead they are{end}", columns, rows)


def _scores(result: Result) -> Iterable[str]:
    for score in result.scores.values():
        star = "*" if score.p_value is not None and score.p_value < _SIGNIFICANT else ""
        yield f"{score.value:.1f}" + (f" ±{score.interval:.1f}" if score.interval is not None else "") + star


def _p_values(evaluation: Evaluation, results: Sequence[Result]) -> Table:
    rows = [
        (
            result.strategy,
            *("" if score.p_value is None else f"{score.p_value:.3f}" for score in result.scores.values()),
        )
        for result in results
    ]
    return Table(f"p-values of the differences to {evaluation.baseline}", ("", *results[0].scores), rows)


def _rates(speed: Speed) -> tuple[str, ...]:
    rates = (speed.sentences_per_second, speed.tokens_per_second, speed.words_per_second)
    return (
        _rate(rates[0], 1),
        _rate(rates[1], 0),
        _rate(rates[2], 0),
        _ratio(speed),
        f"{speed.peak_bytes / 2**20:.0f}",
    )


def _latencies(result: Result) -> tuple[str, ...]:
    seconds = [result.latency(percent) for percent in (50, 95, 99)]
    assert result.single is not None
    rate = _rate(result.single.sentences_per_second, 1)
    return (*("" if each is None else f"{1e3 * each:.1f}" for each in seconds), rate, _ratio(result.single))


def _drafts(speed: Speed) -> tuple[str, ...]:
    shares = [f"{share:.0%}" for share in speed.acceptance[:POSITIONS]]
    calls = (f"{speed.verifier_calls / speed.lines:.2f}", f"{speed.mean_accepted_length:.2f}")
    return (str(speed.batch_size), *calls, *shares, *[""] * (POSITIONS - len(shares)))


def _rate(spread: Spread | None, digits: int) -> str:
    return "" if spread is None else f"{spread.median:.{digits}f}"


def _ratio(speed: Speed) -> str:
    ratio = speed.speed_up
    return "" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def _lines(speed: Speed) -> str:
    return f"{speed.lines} line" + ("s" if speed.lines > 1 else "")


def _row(evaluation: Evaluation, result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {"set": result.test_set, "strategy": result.strategy, "partial": evaluation.partial}
    for title, score in result.scores.items():
        row[title] = score.value
        row |= {f"{title}.{key}": getattr(score, key) for key in ("mean", "interval", "p_value", "signature")}
    row |= {"baseline": evaluation.baseline, "same": result.same, "loops": result.loops}
    for way, speed in (("batched", result.batched), ("single", result.single)):
        row |= {f"{way}.{key}": value for key, value in _flat(speed)} if speed else {}
    row |= {f"latency.p{percent}": result.latency(percent) for percent in (50, 95, 99)}
    row |= {"load_seconds": evaluation.load_seconds}
    return row | {"signature": format_signature(evaluation.signatures[result.strategy])}


def _flat(speed: Speed) -> Iterable[tuple[str, object]]:
    for key, value in vars(speed).items():
        if key in _SPREADS:
            yield from ((f"{key}.{part}", getattr(value, part, None)) for part in ("median", "low", "high"))
        else:
            yield key, " ".join(map(str, value)) if isinstance(value, list) else value


def _items(signatures: Mapping[str, str]) -> str:
    return "\n".join(f"- {label}: `{signature}`" for label, signature in signatures.items())


def _has(signature: Mapping[str, object], key: str, value: object) -> bool:
    return key in signature and signature[key] == value


def _cut(signature: Mapping[str, object]) -> dict[str, object]:
    return {key: str(value)[:12] if key.endswith("sha256") else value for key, value in signature.items()}


def _plain(name: str) -> str:
    """Returns a name that any file system and shell takes."""
    return re.sub(r"[^\w.+=-]+", "-", name)
