"""What `specmt translate --resume`, `--shard` and `--processes` do: a job beside the output, worked on and merged."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from specmt.cli.console import note, warn
from specmt.cli.options import DOCUMENT_NAMES, DocumentOptions
from specmt.cli.progress import rate_bar
from specmt.cli.tasks import Task
from specmt.errors import UsageError
from specmt.options import DecodingOptions
from specmt.text.lines import Errors, Output, read_lines
from specmt.types import Line, Stats, Translation

if TYPE_CHECKING:
    from specmt.jobs.folder import JobFolder
    from specmt.jobs.manifest import Manifest
    from specmt.translator import Translator

_MACHINE: Final = ("threads", "batch_size", "device", "kernels")
"""Parts of a signature that no output depends on."""

_ADDED: Final = ("scores", "alignments", "n_best", "check")
"""Options that say what is written, or told of a translation."""

WAYS: Final = frozenset(("resume", "shard", "processes", "ray"))
"""Options that make a job."""

_OF_FILES: Final = frozenset(
    ("format_", "errors", "wrapped", "check", "strict", "stats", "shard", "processes", "verbose", *DOCUMENT_NAMES)
)
"""Options that rows of parquet files have no use for."""


def job_place(
    tasks: Sequence[Task], files: Sequence[Path | None], output: Path | None, given: frozenset[str], processes: int
) -> Path:
    """Returns the output that the job is kept beside: that of the one file, or the folder that several go to.

    :param tasks: the documents, if any
    :param given: the names of the options that the user gave a value
    :raises UsageError: there is no input or output that a job can be resumed with, or two ways to share the work.
    """
    if processes < 1:
        raise UsageError(f"`processes` must be at least 1, but is {processes} instead.")
    if ("shard" in given) + ("ray" in given) + (processes > 1) > 1:
        raise UsageError("`--shard`, `--processes` and `--ray` exclude each other.")
    if "shard" in given and (whole := {"stats", "report", "strict"} & given):
        raise UsageError(f"`{min(whole)}` is of the whole, but `shard` does a part; leave it out.")
    is_many = len(files) > 1 or any(path is not None and path.is_dir() for path in files)
    place = tasks[0].target if tasks and not is_many else output
    paths = [path for path in (*files, place) if path is not None]
    is_regular = all(not path.exists() or path.is_file() or (is_many and path.is_dir()) for path in paths)
    if place is None or None in files or not is_regular:
        raise UsageError("`--resume`, `--shard`, `--processes` and `--ray` need an input and an output that are files.")
    for path in paths[:-1]:
        if path.is_dir() and place.resolve().is_relative_to(path.resolve()):
            raise UsageError(f"`output` must not be in the input, but {place} is in {path}; its job would be, too.")
    return place


def parse_shard(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Returns the numbers of ``I/N``."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"must be I/N with I from 1 to N, but is {value!r} instead.")
    return int(found[1]), int(found[2])


class Run(NamedTuple):
    """What a job is over, and how it becomes output."""

    translator: Translator
    options: DecodingOptions
    form: dict[str, Any]
    """The form of the output."""

    survey: Callable[[dict[str, Any]], Manifest]
    """Returns the manifest of a job with such settings."""

    lines: Callable[[], Iterable[Line]]
    render: Callable[[Translation], str]
    finish: Callable[[JobFolder], Stats]
    """Makes the output of a finished job, whose folder goes, tells of warnings, and returns the counts."""

    quiet: bool

    def settings(self) -> dict[str, Any]:
        """Returns all that output depends on beside the input."""
        return settings_of(self.translator, self.options) | self.form


def settings_of(translator: Translator, options: DecodingOptions) -> dict[str, Any]:
    """Returns all that translations depend on beside the text."""
    kept = {name: value for name, value in translator.signature(options).items() if name not in _MACHINE}
    return kept | {name: getattr(options, name) for name in _ADDED}


def text_run(
    translator: Translator,
    options: DecodingOptions,
    source: Path,
    output: Path,
    render: Callable[[Translation], str],
    *,
    format_: str,
    errors: Errors,
    quiet: bool,
) -> Run:
    """Returns the job over a file of lines."""
    from specmt.jobs.manifest import survey

    return Run(
        translator,
        options,
        {"format": format_, "errors": errors},
        lambda settings: survey(source, settings),
        lambda: read_lines(source, errors=errors),
        render,
        lambda job: job.merge(output, lambda index, warning: None if quiet else warn(str(source), index, warning)),
        quiet,
    )


def documents_run(
    translator: Translator,
    options: DecodingOptions,
    tasks: Sequence[Task],
    documents: DocumentOptions,
    report: Output | None,
    *,
    damaged: list[str],
    quiet: bool,
) -> Run:
    """Returns the job over the sentences of documents, which are all written in the end.

    :param damaged: takes what is wrong with those of several that cannot be read
    """
    from specmt.cli.documents import tasks_sentences, translate_tasks
    from specmt.jobs.documents import FORM, Recorded, render, survey_sentences

    languages = translator.model.languages

    def sentences() -> Iterable[Line]:
        return tasks_sentences(languages, tasks, options, documents)

    def finish(job: JobFolder) -> Stats:
        recorded = Recorded(job, translator)
        written = translate_tasks(recorded, languages, tasks, options, documents, report, damaged=damaged, quiet=quiet)
        recorded.stats.warnings, recorded.stats.failed = recorded.stats.warnings + written.warnings, written.failed
        job.remove([task.target for task in tasks if task.target is not None])
        return recorded.stats

    name = tasks[0].name if len(tasks) == 1 else f"one of {len(tasks)} documents"
    return Run(
        translator,
        replace(options, alignments=True),
        {"format": FORM},
        lambda settings: survey_sentences(name, sentences(), settings),
        sentences,
        render,
        finish,
        quiet,
    )


class Cluster(NamedTuple):
    """A Ray cluster, and how its actors load the model."""

    address: str
    model: str | None
    loading: dict[str, Any]


def run_job(
    run: Run,
    place: Path,
    *,
    shard: tuple[int, int] | None,
    processes: int,
    threads: int,
    cluster: Cluster | None,
) -> Stats | None:
    """Does what is missing of a job, or of one part of it; returns the counts of a whole job, which is then finished.

    :param place: the output, or the folder of all
    :param shard: the number of a part, from 1, and how many parts there are
    :param threads: of each process, where there are several
    :param cluster: where to work instead of here
    """
    from specmt.engine.threads import use_threads
    from specmt.jobs import processes as forked
    from specmt.jobs.folder import JobFolder
    from specmt.jobs.worker import work

    job = JobFolder.begin(place, run.survey(run.settings()))
    manifest = job.manifest
    part = range(manifest.shards) if shard is None else manifest.part(*shard)

    def translate(shards: Collection[int], advance: Callable[[int], None]) -> None:
        for _ in work(job, shards, run.lines(), run.translator, run.options, run.render):
            advance(1)

    with job.locked(None if shard is None else f"{shard[0]}-of-{shard[1]}"):
        done = job.done()
        left = [number for number in part if number not in done]
        if not run.quiet and len(left) < len(part):
            note(f"{len(part) - len(left)} of {len(part)} shards were done before.")
        total, missing = (sum(len(manifest.span(number)) for number in shards) for shards in (part, left))
        with rate_bar(total, before=total - missing, quiet=run.quiet) as advance:
            if cluster is not None:
                _run_on(cluster, run, job, left, advance)
            elif processes == 1 or len(left) < 2:
                translate(left, advance)
            else:
                count = min(processes, len(left))

                def watch() -> None:
                    new = job.written() - done
                    done.update(new)
                    advance(sum(len(manifest.span(number)) for number in new))

                def child(number: int) -> None:
                    use_threads(threads)
                    translate(left[number - 1 :: count], lambda _: None)

                list(run.translator.translate(["."], run.options))  # what is loaded late is shared, too
                forked.run(count, child, watch)
        return None if shard is not None else run.finish(job)


def _run_on(
    cluster: Cluster, run: Run, job: JobFolder, shards: Collection[int], advance: Callable[[int], None]
) -> None:
    """Has shards of a job translated on a Ray cluster."""
    ray = ray_adapter()
    threads = cluster.loading["threads"] or 1
    settings, loading = run.settings(), cluster.loading | {"threads": threads}
    expected = settings["numerics"], settings.get("glossary")
    recipe = ray.Recipe(cluster.model, loading, run.options, run.render, *expected)
    with ray.connected(cluster.address) as processors:
        actors = max(1, min(processors // threads, len(shards)))
        for shard in ray.work(job, shards, run.lines(), recipe, actors=actors, threads=threads):
            advance(len(job.manifest.span(shard)))


def is_parquet(files: Sequence[Path | None]) -> bool:
    """Whether the input is rows of parquet files: a file or folder of that name."""
    return len(files) == 1 and files[0] is not None and files[0].suffix == ".parquet"


def run_parquet(
    source: Path | None,
    output: Path | None,
    options: DecodingOptions,
    cluster: Cluster | None,
    given: Collection[str],
    *,
    quiet: bool,
) -> None:
    """Translates rows of parquet files on a Ray cluster.

    :param given: the names of the options that the user gave a value
    :raises UsageError: options are missing, or mean nothing for rows.
    """
    if cluster is None or source is None or output is None:
        raise UsageError("parquet files need `--ray` and an `--output`, a folder of parquet files.")
    if unused := sorted(_OF_FILES.intersection(given)):
        raise UsageError(f"`{unused[0].strip('_')}` has no effect with parquet files; leave it out.")
    adapter = ray_adapter()
    from specmt.jobs.parquet import translate_parquet
    from specmt.translator import Translator

    translator = Translator.from_pretrained(cluster.model, **cluster.loading)
    settings = settings_of(translator, options)
    threads = cluster.loading["threads"] or 1
    loading = {name: value for name, value in cluster.loading.items() if name != "threads"}
    with adapter.connected(cluster.address) as processors:
        count, failed = translate_parquet(
            _url(source),
            _url(output),
            cluster.model,
            options,
            settings,
            processors=processors,
            threads=threads,
            loading=loading,
        )
    if not quiet:
        note(f"{count} rows, {failed} of them with an error.")


def _url(path: Path) -> str:
    """Returns a local path, or a URL, whose two slashes are one in a path."""
    return re.sub(r"^(\w{2,}):/(?!/)", r"\1://", str(path))


def ray_adapter() -> Any:
    """Returns the module that works with Ray.

    :raises UsageError: Ray is not installed.
    """
    try:
        from specmt.jobs import ray
    except ImportError as error:
        raise UsageError(f"`--ray` needs `pip install 'specmt[ray]'` ({error}).") from error
    return ray
