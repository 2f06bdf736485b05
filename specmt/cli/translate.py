"""`specmt translate`: lines in, lines out."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, final

import click

from specmt.config import DRAFTERS, DTYPES, STRATEGIES, DecodingOptions
from specmt.errors import UsageError
from specmt.text.lines import Output, Windows, read_windows
from specmt.types import Stats, Translation

if TYPE_CHECKING:
    from specmt.translator import Translator

_DEFAULTS: Final = DecodingOptions()
_PROGRESS_AFTER: Final = 1.0
_TSV_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\r": "\\r"})
_LINE_STATS: Final = ("sentences", "source_tokens", "tokens")
_DRAFT_STATS: Final = ("verifier_calls", "drafted", "accepted", "mean_accepted_length")
"""What is known of each line. The same input gives the same output, always: a block size that is chosen by what calls
cost leaves these to ``--stats``."""

_file = click.Path(path_type=Path, allow_dash=True)


def _block_size(_: click.Context, __: click.Parameter, value: str) -> int | None:
    """Returns the number that an option names, ``None`` for ``auto``."""
    if value == "auto":
        return None
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"must be a whole number or auto, but is {value!r} instead.") from None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=_file, required=False)
@click.option("-i", "--input", "input_", type=_file, metavar="FILE", help="Read this file; the same as FILE.")
@click.option("-o", "--output", type=_file, metavar="FILE", help="Write to this file; it appears when complete.")
@click.option("--model", metavar="NAME|DIR", help="Model name or folder.  [default: bundled, for --from and --to]")
@click.option("--from", "source", default="de", show_default=True, metavar="LANG", help="Source language.")
@click.option("--to", "target", default="en", show_default=True, metavar="LANG", help="Target language.")
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default=_DEFAULTS.strategy,
    show_default=True,
    help="speculative: draft and verify. greedy: token by token, the same output. beam: beam search, for comparison.",
)
@click.option(
    "--drafter",
    type=click.Choice(DRAFTERS),
    default=_DEFAULTS.drafter,
    show_default=True,
    help="Who proposes tokens in the speculative strategy. self: the model itself, in its fastest number format.",
)
@click.option(
    "--block-size",
    callback=_block_size,
    metavar="K|auto",
    default="auto",
    show_default=True,
    help="Tokens drafted ahead. auto: as many as yield most on this machine; with --tolerance, the model's own number.",
)
@click.option(
    "--beta",
    type=int,
    default=_DEFAULTS.beta,
    show_default=True,
    metavar="B",
    help="Accept a drafted token among the B best of the model, if --tolerance allows.",
)
@click.option(
    "--tolerance",
    type=float,
    default=_DEFAULTS.tolerance,
    show_default=True,
    metavar="T",
    help="How far a drafted token's log-probability may lie below the best. 0: the output is exactly that of greedy.",
)
@click.option("--beam-size", type=int, default=_DEFAULTS.beam_size, show_default=True, metavar="N", help="Beams.")
@click.option(
    "--length-penalty",
    type=float,
    default=_DEFAULTS.length_penalty,
    show_default=True,
    metavar="A",
    help="Exponent of the length normalisation of beam search.",
)
@click.option("--device", default="auto", show_default=True, metavar="auto|cpu|cuda[:N]", help="Where to compute.")
@click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    default="auto",
    show_default=True,
    help="Number format. auto: bfloat16 where the processor computes in it, else float32.",
)
@click.option("--threads", type=int, metavar="N", help="CPU threads.  [default: all cores]")
@click.option(
    "--deterministic/--no-deterministic",
    default=True,
    show_default=True,
    help="The same translation to the last bit in any batch; on the C++ kernels it always is.",
)
@click.option(
    "--batch-size",
    type=int,
    default=_DEFAULTS.batch_size,
    show_default=True,
    metavar="N",
    help="Most sentences decoded side by side; the output does not depend on it.",
)
@click.option(
    "--batch-tokens",
    type=int,
    default=_DEFAULTS.batch_tokens,
    show_default=True,
    metavar="N",
    help="Most source pieces decoded side by side.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("text", "tsv", "jsonl")),
    default="text",
    show_default=True,
    help=r"text: the translation. tsv: source, translation (tab as \t, backslash as \\). jsonl: an object a line.",
)
@click.option("--scores", is_flag=True, help="Add log-probabilities, to tsv and jsonl.")
@click.option(
    "--stats",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write counts, speed and settings as JSON.",
)
@click.option(
    "--errors",
    type=click.Choice(("strict", "replace")),
    default="strict",
    show_default=True,
    help="Bytes that are not UTF-8: stop with the line number, or put U+FFFD.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, notes and warnings.")
@click.option("-v", "--verbose", is_flag=True, help="A summary at the end, on standard error.")
def translate(
    file: Path | None,
    input_: Path | None,
    output: Path | None,
    model: str | None,
    source: str,
    target: str,
    device: str,
    dtype: str,
    threads: int | None,
    deterministic: bool,
    format_: str,
    stats: Path | None,
    errors: Any,
    quiet: bool,
    verbose: bool,
    **decoding: Any,
) -> None:
    """Translate FILE line by line: as many lines out as in, in the same order.

    Without FILE, or with -, it reads standard input and answers each line as it comes. Files ending in .gz are
    decompressed and compressed. Blank lines, line endings and the space around a line stay as they are.

    \b
    Examples:
      specmt translate letter.de -o letter.en
      zcat corpus.de.gz | specmt translate --format tsv --scores > corpus.tsv
      specmt translate news.de --strategy speculative --beta 3 --tolerance 1 --stats stats.json
    """
    options = DecodingOptions(**decoding)
    if file is not None and input_ is not None:
        raise UsageError("FILE and `--input` name the input twice; leave one out.")
    if options.scores and format_ == "text":
        raise UsageError("`--scores` needs `--format tsv` or `--format jsonl`.")
    if quiet and verbose:
        raise UsageError("`--quiet` and `--verbose` exclude each other.")
    if threads is not None and threads < 1:
        raise UsageError(f"`threads` must be at least 1, but is {threads} instead.")
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?", device) is None:
        raise UsageError(f"`device` must be auto, cpu, cuda or cuda:N, but is {device!r} instead.")
    output = _path(output)
    if stats is not None and output is not None and stats.resolve() == output.resolve():
        raise UsageError(f"`--output` and `--stats` are the same file, {stats}.")

    from specmt.translator import Translator, default_window

    with ExitStack() as stack:
        # Whatever can go wrong with files does so before the model is loaded.
        lines = read_windows(_path(file or input_), window=default_window(options), errors=errors)
        out = stack.enter_context(Output(output))
        stats_out = None if stats is None else stack.enter_context(Output(stats))
        if not (options.lossless or quiet):
            _note(f"beta {options.beta} with tolerance {options.tolerance:g} is lossy: output may differ from greedy.")
        started = time.perf_counter()
        translator = Translator.from_pretrained(
            model,
            source=source,
            target=target,
            device=device,
            dtype=dtype,
            threads=threads,
            deterministic=deterministic,
        )
        load_seconds = time.perf_counter() - started
        render = _renderer(format_, counts=translator.drafts_are_fixed(options))
        total = _run(translator, lines, out, options, render, quiet=quiet, to_stdout=output is None)
        if stats_out is not None:
            report = _report(total, options) | {
                "load_seconds": load_seconds,
                "signature": translator.signature(options),
            }
            stats_out.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    if verbose:
        _note(_summary(total, options))


def _run(
    translator: Translator,
    windows: Windows,
    out: Output,
    options: DecodingOptions,
    render: Callable[[Translation], str],
    *,
    quiet: bool,
    to_stdout: bool,
) -> Stats:
    """Translates all windows; returns the totals."""
    total = Stats()
    seconds = 0.0
    is_terminal = sys.stderr is not None and sys.stderr.isatty() and not (to_stdout and sys.stdout.isatty())
    with _Progress(windows, enabled=is_terminal and not quiet) as progress:
        for window in windows:
            started = time.perf_counter()
            translations = list(translator.translate(window, options, window=len(window)))
            seconds += time.perf_counter() - started
            out.write("".join(map(render, translations)))
            total = sum((each.stats for each in translations), total)
            if not quiet:
                _warn(windows.name, translations)
            progress.update(total.lines)
    total.seconds = seconds
    return total


def _warn(name: str, translations: Iterable[Translation]) -> None:
    for translation in translations:
        for warning in translation.warnings:
            click.echo(f"specmt: warning: {name}:{translation.line.index + 1}: {warning}", err=True)


def _note(message: str) -> None:
    click.echo(f"specmt: note: {message}", err=True)


def _path(path: Path | None) -> Path | None:
    return None if path is None or str(path) == "-" else path


def _text(translation: Translation) -> str:
    return translation.text + translation.line.ending


def _tsv(translation: Translation) -> str:
    fields = [translation.line.text.translate(_TSV_ESCAPES), translation.text.translate(_TSV_ESCAPES)]
    if not math.isnan(translation.score):
        fields.append(f"{translation.score:.6f}")
    return "\t".join(fields) + "\n"


def _jsonl(translation: Translation, names: tuple[str, ...]) -> str:
    record = {
        "index": translation.line.index,
        "source": translation.line.text,
        "translation": translation.text,
        "tokens": translation.tokens,
        "score": None if math.isnan(translation.score) else translation.score,
        "stats": {name: getattr(translation.stats, name) for name in names},
        "lossless": translation.lossless,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _renderer(format_: str, *, counts: bool) -> Callable[[Translation], str]:
    """
    :param counts: whether a line's drafts depend on the line alone.
    """
    if format_ == "jsonl":
        return partial(_jsonl, names=_LINE_STATS + (_DRAFT_STATS if counts else ()))
    return _tsv if format_ == "tsv" else _text


def _report(total: Stats, options: DecodingOptions) -> dict[str, object]:
    seconds = max(total.seconds, 1e-9)
    replay: dict[str, object] = {}
    if options.strategy == "speculative" and options.drafter == "self":
        recomputed = total.drafted - total.accepted
        replay = {"replayed": total.drafted, "matched": total.accepted, "recomputed": recomputed}
    return (
        asdict(total)
        | replay
        | {
            "mean_accepted_length": total.mean_accepted_length,
            "sentences_per_second": total.sentences / seconds,
            "tokens_per_second": total.tokens / seconds,
        }
    )


def _summary(total: Stats, options: DecodingOptions) -> str:
    return (
        f"{options.strategy}: {total.lines} lines, {total.sentences} sentences, {total.tokens} tokens "
        f"in {total.seconds:.2f} s, {total.verifier_calls} verifier calls, "
        f"{total.mean_accepted_length:.2f} tokens a call"
    )


@final
class _Progress:
    """A bar on standard error that shows up once the work has taken a second."""

    def __init__(self, windows: Windows, *, enabled: bool) -> None:
        self._windows = windows
        self._enabled = enabled
        self._show_at = time.perf_counter() + _PROGRESS_AFTER
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, lines: int) -> None:
        """Shows how many lines are done, and how much of a file was read."""
        if not self._enabled or time.perf_counter() < self._show_at:
            return
        if self._bar is None:
            self._start()
        self._bar.update(self._task, completed=self._windows.position, lines=lines)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.fields[lines]} lines"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._windows.size, lines=0)
        self._bar.start()
