"""`specmt trace`: the loop step by step, for one sentence."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import click

from specmt.cli.console import load, printed
from specmt.cli.options import PATH, decoding_options, given_options, model_options
from specmt.errors import DataError, UsageError
from specmt.options import DecodingOptions, check_effects
from specmt.text.lines import STDIN, Output, open_input, read_lines


@click.command()
@click.argument("text", nargs=-1)
@model_options
@decoding_options(
    strategies=("speculative", "greedy"),
    block_size="own",
    block_sizes="own: as many as the model was trained for. auto: as many as yield most on this machine, maybe none.",
)
@click.option("--html", type=PATH, metavar="FILE", help="Write one self-contained page.")
@click.option(
    "--as-run",
    is_flag=True,
    help="Show what `specmt translate` does, whose drafters take turns, and why; else one of them drafts every time.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; its keys: `pydoc specmt.decoding.record`.")
def trace(
    text: tuple[str, ...],
    model: str | None,
    loading: dict[str, Any],
    html: Path | None,
    as_run: bool,
    as_json: bool,
    block_size: int | str | None,
    **decoding: Any,
) -> None:
    """Show how TEXT, one sentence, is translated: what is drafted, what the model makes of it, what comes next.

    Without TEXT, or with -, it reads one line of standard input.

    \b
    Examples:
      specmt trace Wo ist der Bahnhof?
      specmt trace "Der Hund schläft." --tolerance 1 --html trace.html
      specmt trace "Der Hund schläft." --json | jq .stats
    """
    options = DecodingOptions(block_size=block_size if isinstance(block_size, int) else None, **decoding)
    check_effects(options, given_options() - {"beta"})  # which says how many candidates are shown
    if as_json and html is not None and str(html) == "-":
        raise UsageError("`--json` and `--html -` both write to standard output; leave one out, or name a file.")
    sentence = _sentence(text)

    from specmt.cli.trace.page import page
    from specmt.decoding.drafters import one_drafter
    from specmt.decoding.record import record
    from specmt.translator import Translator

    with ExitStack() as stack:
        # Whatever can go wrong with files does so before the model is loaded.
        out = stack.enter_context(Output(None if html is None or as_json or str(html) == "-" else html))
        page_out = stack.enter_context(Output(html)) if as_json and html is not None else out
        if options.memory is not None and not options.memory.is_fifo():  # which can be opened only once
            open_input(options.memory).close()
        loaded = load(model, **loading)
        if not as_run:
            options = one_drafter(options, loaded, own_size=block_size == "own")
        told = record(Translator(loaded).trace(sentence, options, as_run=as_run), loaded.pieces, options)
        if html is not None:
            languages = {"source": loaded.folder.source, "target": loaded.folder.target}
            page_out.write(page(told, options, **languages))
        if as_json:
            out.write(json.dumps(told.as_json(), ensure_ascii=False) + "\n")
        elif html is None:
            from specmt.cli.trace.terminal import Drawing

            out.write(printed(lambda console: console.print(Drawing(told, options)), width=None))


def _sentence(words: tuple[str, ...]) -> str:
    """Returns the sentence that is given, or the first line of standard input.

    :raises UsageError: it is blank.
    :raises DataError: it is not UTF-8, or the line is blank.
    """
    if not words or words == ("-",):
        text = "".join(line.text for line in islice(read_lines(None), 1)).strip()
        if not text:
            raise DataError(f"{STDIN}: line 1 must be a sentence, but is blank instead.")
        return text
    text = " ".join(words).strip()
    if not text:
        raise UsageError("`TEXT` must be a sentence, but is blank instead.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError("`TEXT` is not valid UTF-8.") from error
    return text
