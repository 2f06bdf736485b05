"""`specmt jobs`: what has become of translations that are made in parts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from specmt.cli.console import check_warnings, warn
from specmt.cli.options import PATH
from specmt.errors import DataError, UsageError

_output = click.argument("output", type=PATH)


@click.group()
def jobs() -> None:
    """Look at jobs of `specmt translate --resume`, `--shard` and `--processes`, and put their parts together.

    A job is named by the OUTPUT that it makes; it is kept in the folder OUTPUT.job.
    """


@jobs.command()
@_output
def status(output: Path) -> None:
    """Say how much is done."""
    from specmt.jobs.folder import JobFolder

    job = JobFolder.open(output)
    done = job.done()
    lines = sum(len(job.manifest.span(shard)) for shard in done)
    click.echo(f"{lines} of {job.manifest.lines} lines, {len(done)} of {job.manifest.shards} shards are done.")


@jobs.command()
@_output
def verify(output: Path) -> None:
    """Check that all shards are there and undamaged."""
    from specmt.jobs.folder import JobFolder

    job = JobFolder.open(output)
    faults = []
    for shard in range(job.manifest.shards):
        try:
            job.read(shard)
        except DataError as error:
            faults.append(str(error))
    for fault in faults[1:]:
        click.echo(fault, err=True)
    if faults:
        raise DataError(faults[0])
    click.echo(f"{job.manifest.shards} shards are there and undamaged.")


@jobs.command()
@_output
@click.option("--strict", is_flag=True, help="Exit with 65 where --check warned; OUTPUT is written.")
def merge(output: Path, strict: bool) -> None:
    """Put the shards together: OUTPUT appears, its folder goes."""
    from specmt.jobs.documents import FORM
    from specmt.jobs.folder import JobFolder

    job = JobFolder.open(output)
    if job.manifest.settings.get("format") == FORM:
        raise UsageError(f"{job.path}: is a job over documents; `specmt translate … --resume` writes them.")
    with job.locked():
        total = job.merge(output, partial(warn, job.manifest.input))
    click.echo(f"{total.lines} lines, {total.sentences} sentences, {total.tokens} tokens.", err=True)
    if strict:
        check_warnings(total)
