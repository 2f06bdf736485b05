"""Who works on a job: the lines of some shards through a translator, one stream without a stop between shards."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator

from specmt.errors import DataError
from specmt.jobs.folder import JobFolder, Shard
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Line, Translation


def work(
    job: JobFolder,
    shards: Collection[int],
    lines: Iterable[Line],
    translator: Translator,
    options: DecodingOptions,
    render: Callable[[Translation], str],
) -> Iterator[Line]:
    """Translates shards of a job, writes each as soon as its last line is there, and yields the lines that are done.

    :param lines: all lines of the input; those of other shards are passed over
    :raises DataError: the input has other lines than the manifest says, or cannot be read; or the glossary changed.
    :raises OutputError: a shard cannot be written.
    """
    manifest = job.manifest
    wanted = frozenset(shards)
    mine = (line for line in lines if manifest.shard_of(line.index) in wanted)
    left = sum(len(manifest.span(shard)) for shard in wanted)
    part = Shard()
    started = time.perf_counter()
    for translation in translator.translate(mine, options):
        part.add(translation, render)
        left -= 1
        shard = manifest.shard_of(translation.line.index)
        if translation.line.index == manifest.span(shard)[-1]:
            now = time.perf_counter()
            part.stats.seconds = now - started
            check_glossary(translator, options, manifest.settings.get("glossary"))
            job.write(shard, part)
            part, started = Shard(), now
        yield translation.line
    if left:
        raise DataError(f"{manifest.input}: has changed while it was read: {left} lines of the job are missing.")


def check_glossary(translator: Translator, options: DecodingOptions, begun: object) -> None:
    """
    :param begun: the digest of the glossary that a job began with
    :raises DataError: the file has others by now.
    """
    if translator.signature(options).get("glossary") != begun:
        raise DataError(f"{options.glossary}: has changed since the job began.")
