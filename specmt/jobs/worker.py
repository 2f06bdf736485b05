"""Who works on a job: the lines of some shards through a translator, one stream without a stop between shards."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from specmt.errors import DataError
from specmt.jobs.folder import JobFolder
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Line, Stats, Translation


def work(
    job: JobFolder,
    shards: Collection[int],
    lines: Iterable[Line],
    translator: Translator,
    options: DecodingOptions,
    render: Callable[[Translation], str],
) -> Iterator[Translation]:
    """Translates shards of a job, writes each as soon as its last line is there, and yields the translations.

    :param lines: all lines of the input; those of other shards are passed over
    :raises DataError: the input has other lines than the manifest says, or cannot be read.
    :raises OutputError: a shard cannot be written.
    """
    manifest = job.manifest
    wanted = frozenset(shards)
    mine = (line for line in lines if manifest.shard_of(line.index) in wanted)
    left = sum(len(manifest.span(shard)) for shard in wanted)
    output, total = bytearray(), Stats()
    started = time.perf_counter()
    for translation in translator.translate(mine, options):
        output += render(translation).encode()
        total += translation.stats
        left -= 1
        shard = manifest.shard_of(translation.line.index)
        if translation.line.index == manifest.span(shard)[-1]:
            now = time.perf_counter()
            job.write(shard, bytes(output), replace(total, seconds=now - started))
            output, total, started = bytearray(), Stats(), now
        yield translation
    if left:
        raise DataError(f"{manifest.input}: has changed while it was read: {left} lines of the job are missing.")
