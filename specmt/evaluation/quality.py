"""Quality as sacreBLEU counts it, with intervals and paired tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specmt.errors import UsageError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.significance import Result

METRICS: Final = ("bleu", "chrf", "chrf++", "ter")

GRAM: Final = 4
REPEATS: Final = 3
"""A text that says so many words in a row more often than that has got caught in a loop."""


@dataclass(frozen=True)
class Score:
    """A score of a strategy on a test set."""

    value: float

    mean: float | None
    """The mean of bootstrap samples."""

    interval: float | None
    """Half of the width of their 95% interval."""

    p_value: float | None
    """How likely the difference to the baseline is chance, by a paired bootstrap; ``None`` for the baseline itself."""

    signature: str
    """That of sacreBLEU."""


def make_metric(name: str, references: Sequence[Sequence[str]], language: str) -> Metric:
    """Returns a metric with the defaults of the ``sacrebleu`` command.

    :param language: the target language, on which BLEU's tokenizer depends.
    :raises UsageError: the tokenizer for the language is not installed.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    makers: dict[str, Callable[[], Metric]] = {
        "bleu": lambda: BLEU(trg_lang=language, references=references),
        "chrf": lambda: CHRF(references=references),
        "chrf++": lambda: CHRF(word_order=2, references=references),
        "ter": lambda: TER(references=references),
    }
    try:
        return makers[name]()
    except (ImportError, RuntimeError) as error:
        raise UsageError(f"`metrics` cannot be {name} for the language {language}: {error}") from error


def score(
    name: str,
    hypotheses: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    language: str,
    samples: int,
) -> tuple[str, dict[str, Score]]:
    """Scores what several strategies made of the same lines, the first of them being the baseline.

    Space at the end of lines does not count, as for the ``sacrebleu`` command.

    :param samples: how many bootstrap samples to draw; with 0 there are neither intervals nor p-values.
    :returns: sacreBLEU's name of the metric, and a score for each strategy.
    """
    from sacrebleu.significance import PairedTest, Result

    # Equal translations are scored once: mostly they are equal, and TER is slow. Nor does sacreBLEU's test tell equal
    # systems from different ones: its p-value for them is the lowest there is.
    texts = {label: tuple(line.rstrip() for line in lines) for label, lines in hypotheses.items()}
    distinct = list(dict.fromkeys(texts.values()))
    metric = make_metric(name, [[line.rstrip() for line in reference] for reference in references], language)
    if samples:
        systems: list[tuple[str, Sequence[str]]] = [(str(number), own) for number, own in enumerate(distinct)]
        signatures, table = PairedTest(systems, {name: metric}, None, test_type="bs", n_samples=samples)()
        ((title, signature),) = signatures.items()
        results = [each for each in table[title] if isinstance(each, Result)]
    else:
        corpora = [metric.corpus_score(own, None) for own in distinct]
        title, signature = corpora[0].name, metric.get_signature()
        results = [Result(corpus.score) for corpus in corpora]
    found = dict(zip(distinct, results, strict=True))
    first, scores = next(iter(texts)), {}
    for label, own in texts.items():
        values = _values(found[own])
        is_same = samples > 0 and values == _values(results[0])
        p_value = None if label == first else 1.0 if is_same else found[own].p_value
        scores[label] = Score(*values, p_value, str(signature))
    return title, scores


def loops(text: str) -> bool:
    """Returns whether a text repeats itself: the same 4 words in a row more than 3 times."""
    words = text.split()
    counts = Counter(zip(*(words[start:] for start in range(GRAM)), strict=False))
    return max(counts.values(), default=0) > REPEATS


def _values(result: Result) -> tuple[float, float | None, float | None]:
    mean, interval = (None if each is None else float(each) for each in (result.mean, result.ci))  # not numpy's
    return float(result.score), mean, interval
