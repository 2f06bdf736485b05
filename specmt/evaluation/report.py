"""An evaluation as tables, for terminals and for Markdown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from specmt.evaluation.machine import format_signature
from specmt.evaluation.quality import GRAM, REPEATS
from specmt.evaluation.results import Evaluation, Measured, Result, Speed
from specmt.evaluation.tables import Table
from specmt.evaluation.timing import Spread

POSITIONS: Final = 5
"""How many positions the table of acceptance shows at most."""

_SIGNIFICANT: Final = 0.05


def tables(evaluation: Evaluation) -> list[Table]:
    """Returns the tables of all test sets."""
    return [table for results in evaluation.sets for table in _tables(evaluation, results)]


def notes(evaluation: Evaluation) -> list[str]:
    """Returns what a reader of the tables must know, a sentence or two each."""
    against = evaluation.baseline
    said = [
        f"Scores are sacreBLEU's, ± half of the bootstrap's 95% interval; * differs from {against} (paired bootstrap, "
        f"p < {_SIGNIFICANT}); same: lines whose translation is that of {against}; loops: lines whose translation has "
        f"the same {GRAM} words more than {REPEATS} times.",
        "Times are those of the translation alone, strategies in turn; rates and ratios "
        f"(× {against}) are medians over the repeats, with the least and the greatest, ratios taken within a repeat.",
        "calls: verifier calls a line; ≥1, ≥2, …: the share of calls that accepted at least so many drafted tokens.",
        f"Loading the model took {evaluation.load_seconds:.1f} s.",
    ]
    if evaluation.partial:
        said.insert(0, "Interrupted: the figures are of the lines and repeats that every strategy was done with.")
    return said


def signatures(evaluation: Evaluation, *, short: bool = False) -> dict[str, str]:
    """Returns sacreBLEU's signatures of the metrics, what the strategies share, as ``all``, and what each has besides.

    :param short: whether to cut hashes off.
    """
    metrics: dict[str, list[str]] = {}  # those of sets with more references than others come apart
    for result in evaluation.results:
        for title, score in result.scores.items():
            metrics.setdefault(title, []).append(score.signature)
    everything = list(evaluation.signatures.values())
    shared = {item for item in everything[0].items() if all(item in own.items() for own in everything)}
    parts = {"all": dict(item for item in everything[0].items() if item in shared)}
    for label, own in evaluation.signatures.items():
        parts[label] = dict(item for item in own.items() if item not in shared)
    if short:
        parts = {label: {key: _cut(key, value) for key, value in part.items()} for label, part in parts.items()}
    found = {title: "; ".join(dict.fromkeys(each)) for title, each in metrics.items()}
    return found | {label: format_signature(part) for label, part in parts.items() if part}


def markdown(
    evaluation: Evaluation, files: Mapping[str, Files], *, command: str, picture: str | None, languages: str
) -> str:
    """Returns the report.

    :param files: where the texts of each test set are.
    :param picture: the file name of the plot.
    :param languages: the pair, as in ``de-en``.
    """
    parts = ["# Evaluation" + (" (partial)" if evaluation.partial else ""), f"`{command}`"]
    for results in evaluation.sets:
        parts.append(f"## {results[0].test_set}")
        parts += [table.markdown().rstrip("\n") for table in _tables(evaluation, results)]
    if picture is not None:
        parts.append(f"![Speed-up against BLEU, acceptance by position, latencies]({picture})")
    parts += ["## How it was measured", "\n".join(f"- {note}" for note in notes(evaluation))]
    parts.append("\n".join(f"- {label}: `{signature}`" for label, signature in signatures(evaluation).items()))
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


def _tables(evaluation: Evaluation, results: Sequence[Result]) -> Iterable[Table]:
    first = results[0]
    end = ", partial" if evaluation.partial else ""
    titles = list(first.scores)
    quality = [(result.strategy, *_scores(result), f"{result.same:.1%}", f"{result.loops:.1%}") for result in results]
    yield Table(f"{first.test_set}: quality ({_lines(first.batched)}{end})", ("", *titles, "same", "loops"), quality)

    ratio = f"× {evaluation.baseline}"
    if first.batched.seconds:
        sizes = ", ".join(str(size) for size in sorted({result.batched.batch_size for result in results}))
        columns: tuple[str, ...] = ("", "sentences/s", "tokens/s", ratio)
        rows: list[tuple[str, ...]] = [(result.strategy, *_rates(result.batched)) for result in results]
        yield Table(f"{first.test_set}: speed, batches of {sizes}{end}", columns, rows)

    if first.single is not None and first.latencies:
        columns = ("", "p50 ms", "p95 ms", "p99 ms", "sentences/s", ratio)
        rows = [
            (
                result.strategy,
                *(f"{1e3 * seconds:.1f}" for seconds in result.latency.values()),
                _median(result.single.sentences_per_second, 1),
                _ratio(result.single),
            )
            for result in results
            if result.single is not None
        ]
        yield Table(f"{first.test_set}: latency, one at a time ({_lines(first.single)}{end})", columns, rows)

    speeds = [(result.strategy, each) for result in results for each in (result.batched, result.single) if each]
    most = min(POSITIONS, max(len(each.acceptance) for _, each in speeds))
    columns = ("", "batch", "calls", "tokens/call", *(f"≥{position}" for position in range(1, most + 1)))
    rows = [(label, *_drafts(each, most)) for label, each in speeds]
    yield Table(f"{first.test_set}: accepted drafts{end}", columns, rows)


def _scores(result: Result) -> Iterable[str]:
    for score in result.scores.values():
        star = "*" if score.p_value is not None and score.p_value < _SIGNIFICANT else ""
        yield f"{score.value:.1f}" + (f" ±{score.interval:.1f}" if score.interval is not None else "") + star


def _rates(speed: Speed) -> tuple[str, ...]:
    return _median(speed.sentences_per_second, 1), _median(speed.tokens_per_second, 0), _ratio(speed)


def _drafts(speed: Speed, positions: int) -> tuple[str, ...]:
    shares = [f"{share:.0%}" for share in speed.acceptance[:positions]]
    calls = (f"{speed.verifier_calls / speed.lines:.2f}", f"{speed.mean_accepted_length:.2f}")
    return (str(speed.batch_size), *calls, *shares, *[""] * (positions - len(shares)))


def _median(spread: Spread | None, digits: int) -> str:
    return "" if spread is None else f"{spread.median:.{digits}f}"


def _ratio(speed: Speed) -> str:
    ratio = speed.speed_up
    return "" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def _lines(speed: Speed) -> str:
    return f"{speed.lines} line" + ("s" if speed.lines > 1 else "")


def _cut(key: str, value: object) -> object:
    return str(value)[:12] if key.endswith("sha256") else value


def _plain(name: str) -> str:
    """Returns a name that any file system and shell takes."""
    return re.sub(r"[^\w.+=-]+", "-", name)
