"""`specmt bench`: what verifying costs on this machine, and what drafting brings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specmt import signals
from specmt.cli.console import load, note, printed
from specmt.cli.options import PATH, F, choice_option, model_options, value_option
from specmt.cli.progress import share_bar
from specmt.errors import DataError, ModelError, SpecmtError, UsageError, is_out_of_memory
from specmt.evaluation.bench import DRAFTERS, QUICK, Bench, BenchOptions
from specmt.options import DecodingOptions
from specmt.text.lines import Output, read_lines

if TYPE_CHECKING:
    from rich.console import Console

    from specmt.models.hub import Model

ASSETS: Final = Path(__file__).resolve().parent.parent / "assets"
_PICTURES: Final = (".png", ".svg", ".pdf")
_SENTENCES: Final = 128
_BUSY: Final = 0.5
_DEFAULTS: Final = BenchOptions()


def _numbers(_: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    numbers = {int(part) for part in value.split(",")} if re.fullmatch(r"\d+(,\d+)*", value) else {0}
    if min(numbers) < 1:
        raise UsageError(f"`{option.name}` must be whole numbers from 1 on, such as 1,8, but is {value!r} instead.")
    return tuple(sorted(numbers | {1} if option.name == "rows" else numbers))  # ratios are to one row


def _listed(name: str, text: str) -> Callable[[F], F]:
    """Returns the decorator that adds an option with several whole numbers."""
    default = ",".join(map(str, getattr(_DEFAULTS, name)))
    return value_option(name, None, f"{text}  [default: {default}]", callback=_numbers, metavar="N,…")


@click.command()
@click.argument("file", type=PATH, required=False)
@model_options
@choice_option("drafter", DRAFTERS, "Who proposes tokens.")
@_listed("rows", "Rows a sentence of verifier calls.")
@_listed("batch_sizes", "Sentences side by side.")
@_listed("block_sizes", "Tokens drafted ahead, where the speed of decoding is measured.")
@click.option("--repeats", type=click.IntRange(1), metavar="N", help="How often speeds are measured.  [default: 5]")
@click.option("--quick", is_flag=True, help="Fewer of each, unless said otherwise: done in half a minute.")
@click.option("--json", "json_", type=PATH, metavar="FILE", help="Write all figures as JSON.")
@click.option("--plot", "picture", type=PATH, metavar="FILE.png", help="Draw them (or .svg, .pdf).")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no notes.")
def bench(
    file: Path | None,
    model: str | None,
    loading: dict[str, Any],
    quick: bool,
    json_: Path | None,
    picture: Path | None,
    quiet: bool,
    **chosen: Any,
) -> None:
    """Measure what a verifier call costs on this machine by rows and batch size, and how fast greedy decoding, drafts
    of several block sizes and trees are.

    The text, FILE or a small sample, German or English, decides how many drafts are accepted; its first 128 lines are
    used. Run it on a quiet machine. Ctrl-C stops it and shows what is there.

    \b
    Examples:
      specmt bench --quick
      specmt bench manual.de --json bench.json --plot bench.png
      specmt bench --drafter autoregressive --batch-sizes 1,8 --block-sizes 3,5,7
    """
    values = (QUICK if quick else {}) | {name: value for name, value in chosen.items() if value is not None}
    options = BenchOptions(**values)
    if picture is not None:
        if picture.suffix not in _PICTURES:
            raise UsageError(f"`plot` must end in {', '.join(_PICTURES)}, but is {str(picture)!r} instead.")
        from specmt.evaluation.plot import check_matplotlib

        check_matplotlib()
    with ExitStack() as stack:
        # Whatever can go wrong with files does so before the model is loaded.
        out = stack.enter_context(Output(None))
        json_out = None if json_ is None else stack.enter_context(Output(json_))
        plot_out = None if picture is None else stack.enter_context(Output(picture))
        loaded, texts, name = _load(file, model, options, loading, quiet=quiet)

        from specmt.evaluation.bench_report import draw
        from specmt.evaluation.machine import describe_machine
        from specmt.translator import Translator

        signature = Translator(loaded).signature(DecodingOptions(split=False, batch_size=1)) | describe_machine()
        found = Bench(options, signature, text=name, sentences=len(texts))
        if found.load_average > _BUSY and not quiet:
            note(f"other work keeps {found.load_average:.1f} processors busy; times will be too long, and ratios off.")
        stopped = _run(found, loaded, texts, quiet=quiet)
        if stopped is not None and not quiet:
            note("stopped; the figures are partial.")
        out.write(_shown(found))
        if json_out is not None:
            json_out.write(json.dumps(found.record(), indent=2, ensure_ascii=False) + "\n")
        if picture is not None and plot_out is not None:
            plot_out.write_bytes(draw(found, picture.suffix[1:]))
    if stopped is not None:
        raise stopped


def _load(
    file: Path | None, name: str | None, options: BenchOptions, loading: dict[str, Any], *, quiet: bool
) -> tuple[Model, list[str], str]:
    """Returns the model, lines, and the name of the text that they are from."""
    from specmt.models.folder import find

    folder = find(name, source=loading["source"], target=loading["target"])
    if options.drafter not in (*folder.drafters, "self"):
        raise ModelError(
            f"{folder.path}: the model has no {options.drafter} drafter; train one with `specmt train drafter`, "
            "or name another with --drafter."
        )
    path = file or ASSETS / f"sample.{folder.source}"
    if file is None and not path.exists():
        raise UsageError(f"There is no sample in {folder.source}, which the model translates from; name a FILE.")
    text = path.name if file is None else str(file)
    texts = (line.text.strip() for line in read_lines(None if str(path) == "-" else path))
    lines = list(islice(filter(None, texts), _SENTENCES))
    if not lines:
        raise DataError(f"{text}: has no line of text.")

    model = load(name, quiet=quiet, **loading)
    most = model.max_source_length - 1  # EOS
    lengths = map(len, model.pieces.encode_batch(lines))
    fitting = [line for line, length in zip(lines, lengths, strict=True) if 1 <= length <= most]
    if not fitting:
        raise DataError(f"{text}: has no line of at most {most} pieces.")
    return model, fitting, text


def _run(found: Bench, model: Model, texts: list[str], *, quiet: bool) -> BaseException | None:
    """Measures; returns what stopped it before the end, an interrupt or a lack of memory."""
    from specmt.evaluation.bench import measure

    try:
        with signals.interruptible(), share_bar(quiet=quiet) as report:
            measure(found, model, texts, report=report)
    except KeyboardInterrupt as interrupt:
        return interrupt
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return SpecmtError("out of memory; name fewer --rows or smaller --batch-sizes.")
    return None


def _shown(found: Bench) -> str:
    """Returns tables and signature for standard output."""
    from specmt.evaluation.bench_report import tables
    from specmt.evaluation.machine import format_signature

    def write(console: Console) -> None:
        if found.partial:
            console.print("Partial: stopped before the end.\n")
        for table in tables(found):
            console.print(table.rich())
            console.print()
        console.print(format_signature(found.signature), markup=False, soft_wrap=True)

    return printed(write)
