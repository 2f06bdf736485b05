"""Documents as a job: their sentences are its lines, and its shards hold what the documents are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, final

from specmt.documents import TranslatesLines
from specmt.errors import DataError
from specmt.jobs import manifest
from specmt.jobs.folder import JobFolder
from specmt.jobs.manifest import Manifest
from specmt.options import DecodingOptions
from specmt.types import Line, Stats, Translation

FORM: Final = "sentences"
"""The `format` of such a job, by which `specmt jobs merge` knows that it cannot write the documents."""


def survey_sentences(name: str, sentences: Iterable[Line], settings: dict[str, Any]) -> Manifest:
    """Reads the sentences once and returns the manifest of a job over them.

    :param name: how messages name the documents
    """
    digest, size, count = hashlib.sha256(), 0, 0
    for sentence in sentences:
        data = _json([sentence.text, sentence.aligned])
        digest.update(data)
        size, count = size + len(data), count + 1
    return Manifest(name, size, digest.hexdigest(), count, settings, manifest.SHARD_LINES)


def render(translation: Translation) -> str:
    """Returns what is kept of a sentence."""
    stats = translation.stats
    return _json(
        [translation.text, translation.alignment, translation.warnings, stats.left, translation.confidence]
    ).decode()


@final
class Recorded:
    """Says of each sentence what a finished job has for it, instead of a translator; notes the counts of all."""

    def __init__(self, job: JobFolder, translator: TranslatesLines) -> None:
        """
        :param translator: translates what is no sentence of the job: parts of damaged ones, asked for after these
        """
        self.stats = Stats()
        self._job = job
        self._translator = translator
        self._is_asked = False

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        """
        :raises DataError: a shard is missing or damaged, or there are other sentences now.
        """
        if self._is_asked:
            yield from self._translator.translate(lines, options)
            return
        self._is_asked = True
        try:
            for line, record in zip(lines, self._records(), strict=True):
                text, alignment, warnings, left, sure = json.loads(record)
                pairs = None if alignment is None else [(source, target) for source, target in alignment]
                yield Translation(
                    line, text, confidence=sure, stats=Stats(left=left), alignment=pairs, warnings=warnings
                )
        except ValueError as error:
            raise DataError(f"{self._job.manifest.input}: has changed while it was translated.") from error

    def _records(self) -> Iterator[bytearray]:
        for shard in range(self._job.manifest.shards):
            part = self._job.read(shard)
            self.stats += part.stats
            yield from part.output.splitlines()


def _json(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
