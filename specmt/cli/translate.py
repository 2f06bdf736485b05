"""`specmt translate`: lines in, lines out; documents as documents."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specmt.cli.console import check_warnings, load, note, show_warnings, warn
from specmt.cli.job import (
    WAYS,
    Cluster,
    documents_run,
    is_parquet,
    job_place,
    parse_shard,
    run_job,
    run_parquet,
    text_run,
)
from specmt.cli.options import (
    PATH,
    DocumentOptions,
    check_documents,
    choice_option,
    decoding_option,
    decoding_options,
    document_options,
    given_options,
    model_options,
)
from specmt.cli.progress import line_bar
from specmt.cli.render import renderer, statistics, summary
from specmt.cli.tasks import find_tasks, in_languages, is_in_project, say_left
from specmt.errors import DataError, ModelError, UsageError
from specmt.options import DecodingOptions, check_effects
from specmt.text.lines import Lines, Output, open_input, read_lines
from specmt.text.wrapped import WrapCounter, join_lines
from specmt.types import Line, Stats, Translation

if TYPE_CHECKING:
    from specmt.translator import Translator


@click.command()
@click.argument("files", type=PATH, nargs=-1, metavar="[FILE]...")
@click.option("-i", "--input", "input_", type=PATH, metavar="FILE", help="Read this file; the same as FILE.")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    help="Write to this file, which appears when complete; or to this folder, for several files.",
)
@document_options
@model_options
@decoding_options(block_sizes="auto: chosen by speed; with --tolerance, the model's own number.")
@decoding_option("beam_size", "Beams.", "N")
@decoding_option("length_penalty", "Exponent of the length normalisation of beam search.", "A")
@decoding_option("n_best", "Translations of a line by beam search, at most as many as beams; tsv and jsonl.", "N")
@click.option(
    "--deterministic/--no-deterministic",
    default=True,
    show_default=True,
    help="Bit-identical output in any batch; on the C++ kernels it always is.",
)
@decoding_option("batch_size", "Most sentences decoded side by side; the output does not depend on it.", "N")
@decoding_option("batch_tokens", "Most source pieces decoded side by side.", "N")
@decoding_option("split", "Cut lines into sentences, which are translated each by itself.", flag="--split/--no-split")
@decoding_option(
    "keep_numbers",
    "Ask again, with numbers held fast, where a sentence lost or changed one. Samples are fair with --no-keep-numbers "
    "--no-protect alone.",
    flag="--keep-numbers/--no-keep-numbers",
)
@decoding_option(
    "protect",
    "Copy URLs, placeholders, code, paths and emoji. With --protect every model sees %1, %2, … instead, else those "
    "that were made for it; others are asked again where they lost one.  [default: protect]",
    flag="--protect/--no-protect",
)
@choice_option(
    "format_",
    ("text", "tsv", "jsonl"),
    r"text: the translation. tsv: source, translation (tab as \t, backslash as \\), then what is asked for. "
    "jsonl: an object a line.",
    flag="--format",
)
@decoding_option(
    "glossary",
    "Terms that must be used, TBX or TSV: term, translation, or several with | between. Not for beams, samples.",
    "FILE",
    type=PATH,
)
@click.option(
    "--wrapped",
    is_flag=True,
    help="Sentences are broken over lines: translate paragraphs, and deal them out over as many lines.",
)
@decoding_option(
    "check",
    "Warn where numbers, placeholders, addresses, tags, the mark at the end or the length do not fit.",
    is_flag=True,
)
@click.option("--strict", is_flag=True, help="As --check, and exit with 65 where it warns; the output is written.")
@decoding_option("scores", "Add log-probabilities, to tsv and jsonl.", is_flag=True)
@decoding_option(
    "alignments",
    "Add which words come from which, as SOURCE-TARGET pairs counted from 0, to tsv and jsonl.",
    is_flag=True,
)
@click.option("--stats", type=PATH, metavar="FILE", help="Write counts, speed and settings as JSON.")
@choice_option("errors", ("strict", "replace"), "Bytes that are not UTF-8: stop with the line number, or put U+FFFD.")
@click.option(
    "--resume",
    is_flag=True,
    help="Keep what is done in OUTPUT.job, and go on from there when the same command runs again.",
)
@click.option(
    "--processes",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Share the work among N processes, which share the model's memory. As with --resume.",
)
@click.option(
    "--shard",
    callback=parse_shard,
    metavar="I/N",
    help="Do the I-th part of N, on any machine that sees the same files; `specmt jobs merge` puts them together.",
)
@click.option(
    "--ray",
    metavar="ADDRESS|auto|local",
    help="Do the work on a Ray cluster, in actors of --threads threads. As with --resume.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, notes and warnings.")
@click.option("-v", "--verbose", is_flag=True, help="A summary at the end, on standard error.")
def translate(
    files: tuple[Path, ...],
    input_: Path | None,
    output: Path | None,
    model: str | None,
    loading: dict[str, Any],
    format_: str,
    wrapped: bool,
    strict: bool,
    stats: Path | None,
    errors: Any,
    resume: bool,
    processes: int,
    shard: tuple[int, int] | None,
    ray: str | None,
    quiet: bool,
    verbose: bool,
    documents: DocumentOptions,
    **decoding: Any,
) -> None:
    """Translate FILE line by line: as many lines out as in, in the same order.

    Documents (PO, XLIFF, HTML, Markdown, JSON, subtitles, DOCX, …) are known by their suffix, or by --file-format:
    what is text in them is translated, everything else stays as it is. Of a folder every document is translated. With
    --ray, FILE may be rows of parquet files, local or a URL, with the columns `id` and `source`.

    Without FILE, or with -, it reads standard input and answers each line as it comes. Files ending in .gz are
    decompressed and compressed. Blank lines, line endings and the space around a line stay as they are.

    \b
    Examples:
      specmt translate letter.de -o letter.en
      specmt translate letter2.de --memory letter.tsv --format tsv -o letter2.tsv
      zcat corpus.de.gz | specmt translate --format tsv --scores > corpus.tsv
      specmt translate mail.txt --wrapped --strict -o mail.en.txt
      specmt translate --from en --to de messages.po -o messages.de.po
      specmt translate handbuch/ -o manual/ --report report.html
      specmt translate news.de --strategy speculative --beta 3 --tolerance 1 --stats stats.json
    """
    options = DecodingOptions(**decoding | {"check": strict or decoding["check"]})
    given = given_options()
    check_effects(options, given)
    show_warnings(quiet=quiet)
    if files and input_ is not None:
        raise UsageError("FILE and `--input` name the input twice; leave one out.")
    if quiet and verbose:
        raise UsageError("`--quiet` and `--verbose` exclude each other.")
    sources, output = [_path(path) for path in files or (input_,)], _path(output)
    source = sources[0]
    if is_parquet(sources):
        cluster = None if ray is None else Cluster(ray, model, loading)
        run_parquet(source, output, options, cluster, given, quiet=quiet)
        return
    project, said = None, None
    if is_in_project(filter(None, sources)):
        from specmt.cli import projects  # late: most files are in none

        if (project := projects.find_for(sources, loading)) is not None:
            said = partial(projects.format_in, project)
    tasks, left = find_tasks(
        sources,
        output,
        documents.file_format,
        language=loading["source"],
        columns=documents.column,
        said=said,
    )
    check_documents(tasks, given, format_)
    if left and not quiet:
        note(say_left(left))
    damaged: list[str] = []
    if documents.fuzzy_below is not None and not (documents.fuzzy and options.is_greedy):
        raise UsageError(
            "`fuzzy_below` does not go together with `no-fuzzy`, beams, samples, a shortlist or a tolerance."
        )
    places = [(task.source, task.target) for task in tasks] or [(source, output)]
    if project is not None:
        loading["target"] = to = loading["target"] or projects.language_into(project, places)
        tasks = [projects.in_its_project(project, task, documents, given, to) for task in tasks]
        model = model or project.model
        options, documents = projects.with_project(project, options, documents, to)
    if tasks and options.is_greedy and (documents.report is not None or documents.fuzzy_below is not None):
        options = replace(options, scores=True)
    if tasks:
        tasks = in_languages(tasks, model, loading, damaged, is_sure="source" in given)
    more = {"--scores": decoding["scores"], "--alignments": options.alignments, "--n-best": options.n_best > 1}
    for name, wanted in more.items():
        if wanted and format_ == "text":
            raise UsageError(f"`{name}` needs `--format tsv` or `--format jsonl`.")
    if wrapped and format_ != "text":
        raise UsageError("`--wrapped` needs `--format text`.")
    if wrapped and WAYS & given:
        raise UsageError(f"`--wrapped` does not go together with `--{min(WAYS & given)}`; leave one out.")
    place = job_place(tasks, sources, output, given, processes) if WAYS & given else None
    for read, written in places:
        _check_files(read, options.memory, options.glossary, written, stats)

    from specmt.translator import Translator

    with ExitStack() as stack:
        # Whatever can go wrong with files does so before the model is loaded.
        for task in tasks:
            if task.source is None or not task.source.is_fifo():
                open_input(task.source).close()
        lines = None if tasks else read_lines(source, errors=errors, through=_joining(model, loading, wrapped=wrapped))
        out = None if tasks or place is not None else stack.enter_context(Output(output))
        report_out = None if documents.report is None else stack.enter_context(Output(documents.report))
        stats_out = None if stats is None else stack.enter_context(Output(stats))
        for path in (options.memory, options.glossary):
            if path is not None and not path.is_fifo():  # which can be opened only once
                open_input(path).close()
        if not (options.lossless or quiet):
            note(f"beta {options.beta} with tolerance {options.tolerance:g} is lossy: output may differ from greedy.")
        if options.shortlist and not quiet:
            note("with a shortlist, output may differ from that of the whole vocabulary.")
        started = time.perf_counter()
        # With one thread where the process is to be forked: others, of OpenMP, would be missing in the forks.
        how = loading | ({"threads": 1} if processes > 1 else {})
        translator = Translator(load(model, quiet=quiet, **how), **how)
        if tasks and documents.fuzzy_below is not None and translator.model.confidence is None:
            raise ModelError(f"{translator.model.path}: the model has no confidence, which `fuzzy_below` needs.")
        translator.translate([], options)  # reads the translation memory, before the first line comes
        load_seconds = time.perf_counter() - started
        languages = translator.model.languages
        render = renderer(
            format_, counts=translator.drafts_are_fixed(options), n_best=options.n_best, language=languages[0]
        )
        total: Stats | None
        if place is not None:
            if tasks:
                run = documents_run(translator, options, tasks, documents, report_out, damaged=damaged, quiet=quiet)
            else:
                assert source is not None  # job_place
                run = text_run(translator, options, source, place, render, format_=format_, errors=errors, quiet=quiet)
            threads = loading["threads"] or max(1, (os.cpu_count() or 1) // processes)
            cluster = None if ray is None else Cluster(ray, model, loading)
            total = run_job(run, place, shard=shard, processes=processes, threads=threads, cluster=cluster)
        elif lines is None:
            from specmt.cli.documents import translate_tasks

            total = translate_tasks(
                translator,
                languages,
                tasks,
                options,
                documents,
                report_out,
                damaged=damaged,
                remember=translator.remember,
                quiet=quiet,
            )
        else:
            assert out is not None
            counter = None if wrapped or quiet or format_ != "text" else WrapCounter()
            total = _run(translator, lines, out, options, render, counter, quiet=quiet, to_stdout=output is None)
        if total is None:
            return
        if stats_out is not None:
            context = {"load_seconds": load_seconds, "signature": translator.signature(options)}
            report = statistics(total, options, translator.session.tally) | context
            stats_out.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    if verbose:
        note(summary(total, options))
    if damaged:
        many = len(damaged) > 1
        raise DataError(f"{len(damaged)} document{'s' * many} {'are' if many else 'is'} left; the others are written.")
    if total.failed:
        raise DataError(f"segments that cannot be written stay as they were: {total.failed}; the rest is written.")
    if strict:
        check_warnings(total)


def _joining(
    model: str | None, loading: dict[str, Any], *, wrapped: bool
) -> Callable[[Iterator[Line]], Iterator[Line]]:
    """Returns what becomes of lines before they are translated."""
    if not wrapped:
        return lambda lines: lines
    from specmt.models.folder import find

    return partial(join_lines, language=find(model, source=loading["source"], target=loading["target"]).source)


def _run(
    translator: Translator,
    lines: Lines,
    out: Output,
    options: DecodingOptions,
    render: Callable[[Translation], str],
    counter: WrapCounter | None,
    *,
    quiet: bool,
    to_stdout: bool,
) -> Stats:
    """Translates all lines, each written as soon as it is there; returns the totals.

    :param counter: finds out whether sentences are broken over lines
    """
    total = Stats()
    seconds = 0.0
    is_terminal = sys.stderr is not None and sys.stderr.isatty() and not (to_stdout and sys.stdout.isatty())
    with line_bar(lines, enabled=is_terminal and not quiet) as show:
        translations = translator.translate(lines, options)
        while True:
            started = time.perf_counter()
            translation = next(translations, None)
            seconds += time.perf_counter() - started
            if translation is None:
                break
            out.write(render(translation))
            total += translation.stats
            for warning in translation.warnings if not quiet else ():
                warn(lines.name, translation.line.index, warning)
            if counter is not None:
                counter.observe(translation.line.text)
            show(total.lines)
    total.seconds = seconds - lines.waited
    if counter is not None and counter.is_wrapped:
        note("many lines end in the middle of a sentence; `--wrapped` translates paragraphs.")
    return total


def _check_files(
    source: Path | None, memory: Path | None, glossary: Path | None, output: Path | None, stats: Path | None
) -> None:
    """
    :raises UsageError: a file that is read or written would be written over; links and redirections are followed.
    """
    used = [("the input", 0 if source is None else source), ("`--memory`", memory), ("`--glossary`", glossary)]
    for name, path in (("`--output`", output), ("`--stats`", stats)):
        if path is not None and (place := _place(path)) is not None:
            for other, each in used:
                if each is not None and _place(each) == place:
                    raise UsageError(f"{name} and {other} are the same file, {path}.")
        used.append((name, 1 if path is None else path))


def _place(path: Path | int) -> object:
    """Returns what tells a file from others, ``None`` for pipes, devices and what cannot be told."""
    try:
        status = os.stat(path)
    except OSError:
        return None if isinstance(path, int) else os.path.realpath(path)
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _path(path: Path | None) -> Path | None:
    return None if path is None or str(path) == "-" else path
