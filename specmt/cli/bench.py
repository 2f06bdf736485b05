"""`specmt bench`: what drafting and verifying cost on this machine, and what they bring."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specmt.cli.console import printed
from specmt.cli.options import model_options
from specmt.cli.progress import share_bar
from specmt.errors import DataError, ModelError, OutputError, SpecmtError, UsageError
from specmt.evaluation.bench_results import DRAFTERS, QUICK, Bench, BenchOptions, record
from specmt.text.lines import Output, read_windows

if TYPE_CHECKING:
    from rich.console import Console

    from specmt.evaluation.bench import Stage
    from specmt.models.folder import ModelFolder

ASSETS: Final = Path(__file__).resolve().parent.parent / "assets"
_PICTURES: Final = (".png", ".svg", ".pdf")
_SENTENCES: Final = 128
_BUSY: Final = 0.5
_DEFAULTS: Final = BenchOptions()


def _numbers(_: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    try:
        return tuple(int(part) for part in value.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(f"must be whole numbers with commas between, but is {value!r} instead.") from None


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), required=False)
@model_options
@click.option(
    "--drafter",
    type=click.Choice(DRAFTERS),
    default=_DEFAULTS.drafter,
    show_default=True,
    help="Who proposes tokens.",
)
@click.option(
    "--rows",
    callback=_numbers,
    metavar="N,…",
    help=f"Rows a sentence of verifier calls.  [default: {_listed(_DEFAULTS.rows)}]",
)
@click.option(
    "--batch-sizes",
    callback=_numbers,
    metavar="N,…",
    help=f"Sentences side by side.  [default: {_listed(_DEFAULTS.batch_sizes)}]",
)
@click.option(
    "--block-sizes",
    callback=_numbers,
    metavar="K,…",
    help="Tokens drafted ahead, where the speed of decoding is measured.  [default: a few up to the drafter's own]",
)
@click.option(
    "--repeats",
    type=int,
    metavar="N",
    help=f"How often speeds are measured, after once to warm up.  [default: {_DEFAULTS.repeats}]",
)
@click.option("--quick", is_flag=True, help="Fewer of each, unless said otherwise: done in half a minute.")
@click.option(
    "--arch",
    metavar="small|base",
    help="Time the verifier calls of an architecture with random weights, and nothing else.",
)
@click.option("--json", "json_", type=click.Path(path_type=Path), metavar="FILE", help="Write all figures as JSON.")
@click.option(
    "--plot", "picture", type=click.Path(path_type=Path), metavar="FILE.png", help="Draw them (or .svg, .pdf)."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no notes.")
def bench(
    file: Path | None,
    model: str | None,
    loading: dict[str, Any],
    quick: bool,
    arch: str | None,
    json_: Path | None,
    picture: Path | None,
    quiet: bool,
    **chosen: Any,
) -> None:
    """Measure what a row, a draft and a verifier call cost on this machine, and from which batch size on greedy
    decoding is faster than drafting.

    The text, FILE or a small sample, German or English, decides how many drafts are accepted; its first 128 lines are
    used. Run it on a quiet machine. Ctrl-C stops it and shows what is there.

    \b
    Examples:
      specmt bench --quick
      specmt bench manual.de --json bench.json --plot bench.png
      specmt bench --drafter autoregressive --batch-sizes 1,8 --block-sizes 3,5,7
      specmt bench --arch base --dtype float32
    """
    values = (QUICK if quick else {}) | {name: value for name, value in chosen.items() if value is not None}
    options = BenchOptions(**values)
    if arch is not None and (file is not None or model is not None):
        raise UsageError("`--arch` has random weights, for which FILE and `--model` are of no use; leave them out.")
    _check_files(json_, picture)
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        # Whatever can go wrong with files does so before the model is loaded.
        out = stack.enter_context(Output(None))
        json_out = None if json_ is None else stack.enter_context(Output(json_))
        if arch is not None:
            found, stages = _of_architecture(arch, options, loading)
        else:
            found, stages = _of_model(file, model, options, loading)
        found.load = load
        if load > _BUSY and not quiet:
            _note(f"other work keeps {load:.1f} processors busy; times will be too long, and ratios off.")
        stopped = _run(found, stages, quiet=quiet)
        if stopped is not None and not quiet:
            _note("stopped; the figures are partial.")
        out.write(_report(found))
        if json_out is not None:
            json_out.write(json.dumps(record(found), indent=2, ensure_ascii=False) + "\n")
        if picture is not None:
            _draw(found, picture)
    if stopped is not None:
        raise stopped


def _note(message: str) -> None:
    click.echo(f"specmt: note: {message}", err=True)


def _check_files(json_: Path | None, picture: Path | None) -> None:
    if picture is None:
        return
    if picture.suffix not in _PICTURES:
        raise UsageError(f"`plot` must end in {', '.join(_PICTURES)}, but is {str(picture)!r} instead.")
    if json_ is not None and json_.resolve() == picture.resolve():
        raise UsageError(f"`--json` and `--plot` are the same file, {picture}.")
    if picture.is_dir() or not picture.parent.is_dir():
        problem = "is a directory, not a file" if picture.is_dir() else "cannot be written (No such file or directory)"
        raise OutputError(f"{picture}: {problem}.")


def _of_architecture(arch: str, options: BenchOptions, loading: dict[str, Any]) -> tuple[Bench, list[Stage]]:
    from specmt.evaluation.bench import random_verifier, signature_of, stages_of_calls

    computing = {name: loading[name] for name in ("device", "dtype", "threads")}
    verifier = random_verifier(arch, **computing)
    found = Bench(options, signature_of(verifier, model=f"{arch} (random weights)"))
    return found, stages_of_calls(found, verifier)


def _of_model(
    file: Path | None, model: str | None, options: BenchOptions, loading: dict[str, Any]
) -> tuple[Bench, list[Stage]]:
    from specmt.models.folder import find

    folder = find(model, source=loading["source"], target=loading["target"])
    _check_drafter(folder, options)
    sample = ASSETS / f"sample.{folder.source}"
    if file is None and not sample.exists():
        raise UsageError(f"There is no sample in {folder.source}, which the model translates from; name a FILE.")
    name = sample.name if file is None else str(file)
    lines = _read(sample if file is None else None if name == "-" else file, name)

    from specmt.evaluation.bench import signature_of, stages_of_calls, stages_of_drafting
    from specmt.models.hub import load_model

    loaded = load_model(model, **loading)
    most = loaded.max_source_length - 1  # EOS
    sources = [ids for ids in loaded.pieces.encode_batch(lines) if 1 <= len(ids) <= most]
    if not sources:
        raise DataError(f"{name}: has no line of at most {most} pieces.")
    facts = {"model": loaded.path.name, "model_sha256": loaded.sha256, "drafter": options.drafter}
    found = Bench(options, signature_of(loaded.verifier, **facts), text=name, sentences=len(sources))
    stages = stages_of_calls(found, loaded.verifier)
    return found, stages + stages_of_drafting(found, loaded, sources)


def _check_drafter(folder: ModelFolder, options: BenchOptions) -> None:
    there = {"masked": folder.drafter, "autoregressive": folder.autoregressive, "self": folder.verifier}
    if there[options.drafter] is None:
        raise ModelError(
            f"{folder.path}: the model has no {options.drafter} drafter; train one with `specmt train drafter`, "
            "or name another with --drafter."
        )


def _read(path: Path | None, name: str) -> list[str]:
    """Returns the first lines that are not blank."""
    lines: list[str] = []
    for window in read_windows(path, window=_SENTENCES):
        lines += [line.text.strip() for line in window if line.text.strip()]
        if len(lines) >= _SENTENCES:
            break
    if not lines:
        raise DataError(f"{name}: has no line of text.")
    return lines[:_SENTENCES]


def _run(found: Bench, stages: list[Stage], *, quiet: bool) -> BaseException | None:
    """Measures; returns what stopped it before the end, an interrupt or a lack of memory."""
    from specmt.decoding.batch import is_out_of_memory
    from specmt.evaluation.bench import run

    try:
        with share_bar(enabled=not quiet and sys.stderr is not None and sys.stderr.isatty()) as report:
            run(found, stages, report)
    except KeyboardInterrupt as interrupt:
        return interrupt
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return SpecmtError("out of memory; name fewer --rows or smaller --batch-sizes.")
    return None


def _report(found: Bench) -> str:
    """Returns tables and signature for standard output."""
    from specmt.evaluation.bench_tables import tables
    from specmt.evaluation.machine import format_signature

    def write(console: Console) -> None:
        if not found.complete:
            console.print("Partial: stopped before the end.\n")
        for table in tables(found):
            console.print(table.rich())
            console.print()
        console.print(format_signature(found.signature), markup=False, soft_wrap=True)

    return printed(write)


def _draw(found: Bench, picture: Path) -> None:
    from specmt.evaluation.bench_plot import plot

    try:
        plot(found, picture)
    except OSError as error:
        raise OutputError(f"{picture}: cannot be written ({error.strerror or error}).") from error
