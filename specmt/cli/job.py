"""What `specmt translate --resume`, `--shard` and `--processes` do: a job beside the output, worked on and merged."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from specmt.cli.console import note
from specmt.cli.progress import rate_bar
from specmt.errors import UsageError
from specmt.options import DecodingOptions
from specmt.text.lines import Errors, read_lines
from specmt.types import Stats, Translation

if TYPE_CHECKING:
    from specmt.jobs.folder import JobFolder
    from specmt.translator import Translator

_MACHINE: Final = ("threads", "batch_size", "device", "kernels")
"""Parts of a signature that no output depends on."""

_ADDED: Final = ("scores", "alignments", "n_best", "keep_numbers")
"""Options that say what is written, or asked of a translation."""


def check_job(
    source: Path | None, output: Path | None, processes: int, shard: tuple[int, int] | None, ray: str | None
) -> None:
    """
    :raises UsageError: there is no input or output that a job can be resumed with, or two ways to share the work.
    """
    if source is None or output is None or (output.exists() and not output.is_file()):
        raise UsageError("`--resume`, `--shard`, `--processes` and `--ray` need an input and an output that are files.")
    if processes < 1:
        raise UsageError(f"`processes` must be at least 1, but is {processes} instead.")
    if (shard is not None) + (processes > 1) + (ray is not None) > 1:
        raise UsageError("`--shard`, `--processes` and `--ray` exclude each other.")


def parse_shard(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Returns the numbers of ``I/N``."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"must be I/N with I from 1 to N, but is {value!r} instead.")
    return int(found[1]), int(found[2])


class Run(NamedTuple):
    """How lines become output."""

    translator: Translator
    options: DecodingOptions
    render: Callable[[Translation], str]
    errors: Errors
    warn: Callable[[str, Translation], None] | None
    """Tells what the user should know of a line of the named input; ``None`` where nothing is to be told."""

    def settings(self) -> dict[str, Any]:
        """Returns all that output depends on beside the input and its form."""
        from specmt.models.folder import file_sha256

        signature = self.translator.signature(self.options)
        if not str(signature["numerics"]).startswith("torch"):
            del signature["torch"]
        kept = {name: value for name, value in signature.items() if name not in _MACHINE}
        if self.options.glossary is not None:
            kept["glossary"] = file_sha256(self.options.glossary)
        return kept | {name: getattr(self.options, name) for name in _ADDED} | {"errors": self.errors}


class Cluster(NamedTuple):
    """A Ray cluster, and how its actors load the model."""

    address: str
    model: str | None
    loading: dict[str, Any]


def run_job(
    run: Run,
    source: Path,
    output: Path,
    form: dict[str, Any],
    *,
    shard: tuple[int, int] | None,
    processes: int,
    threads: int,
    cluster: Cluster | None,
) -> Stats | None:
    """Does what is missing of a job, or of one part of it; returns the counts of a whole job, which is then merged.

    :param form: the form of the output
    :param shard: the number of a part, from 1, and how many parts there are
    :param threads: of each process, where there are several
    :param cluster: where to work instead of here
    """
    from specmt.jobs import processes as forked
    from specmt.jobs.folder import JobFolder
    from specmt.jobs.manifest import survey
    from specmt.jobs.worker import work

    job = JobFolder.begin(output, survey(source, run.settings() | form))
    manifest = job.manifest
    part = range(manifest.shards) if shard is None else manifest.part(*shard)

    def translate(shards: Collection[int], advance: Callable[[int], None]) -> None:
        lines = read_lines(source, errors=run.errors)
        for translation in work(job, shards, lines, run.translator, run.options, run.render):
            if run.warn is not None:
                run.warn(lines.name, translation)
            advance(1)

    with job.locked(None if shard is None else f"{shard[0]}-of-{shard[1]}"):
        done = job.done()
        left = [number for number in part if number not in done]
        if run.warn is not None and len(left) < len(part):
            note(f"{len(part) - len(left)} of {len(part)} shards were done before.")
        total = sum(len(manifest.span(number)) for number in left)
        with rate_bar(total, quiet=run.warn is None) as advance:
            if cluster is not None:
                _run_on(cluster, run, job, left, source, advance)
            elif processes == 1 or len(left) < 2:
                translate(left, advance)
            else:
                count = min(processes, len(left))

                def watch() -> None:
                    new = job.done() - done
                    done.update(new)
                    advance(sum(len(manifest.span(number)) for number in new))

                def child(number: int) -> None:
                    import torch

                    torch.set_num_threads(threads)
                    translate(left[number - 1 :: count], lambda _: None)

                list(run.translator.translate(["."], run.options))  # what is loaded late is shared, too
                forked.run(count, child, watch)
        return None if shard is not None else job.merge(output)


def _run_on(
    cluster: Cluster,
    run: Run,
    job: JobFolder,
    shards: Collection[int],
    source: Path,
    advance: Callable[[int], None],
) -> None:
    """Has shards of a job translated on a Ray cluster."""
    try:
        from specmt.jobs import ray
    except ImportError as error:
        raise UsageError(f"`--ray` needs `pip install 'specmt[ray]'` ({error}).") from error
    threads = cluster.loading["threads"] or 1
    numerics = run.settings()["numerics"]
    recipe = ray.Recipe(cluster.model, cluster.loading | {"threads": threads}, run.options, run.render, numerics)
    lines = read_lines(source, errors=run.errors)
    with ray.connected(cluster.address) as processors:
        actors = max(1, min(processors // threads, len(shards)))
        for shard, warned in ray.work(job, shards, lines, recipe, actors=actors, threads=threads):
            if run.warn is not None:
                for translation in warned:
                    run.warn(lines.name, translation)
            advance(len(job.manifest.span(shard)))
