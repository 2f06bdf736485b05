"""What a job is: its input, its shards, and everything that its output depends on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from specmt.errors import DataError, InputNotFoundError, UsageError
from specmt.files import check_unchanged, stamp
from specmt.models.folder import file_sha256
from specmt.text.lines import open_input, reading

FORMAT: Final = 1

SHARD_LINES = 1000
"""Lines of a shard: some seconds of work, which is what a death costs at most."""

_CHUNK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


@final
@dataclass(frozen=True)
class Manifest:
    """What two runs must agree on to work on the same output."""

    input: str
    """The name of the input file, without its folder."""

    input_bytes: int
    input_sha256: str

    lines: int
    """The lines of the input."""

    settings: dict[str, Any]
    """Model, options and numerics: all that output depends on beside the input."""

    shard_lines: int
    format: int = FORMAT

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return -(-self.lines // self.shard_lines)

    def shard_of(self, line: int) -> int:
        """Returns the shard of a line, both counted from 0."""
        return line // self.shard_lines

    def span(self, shard: int) -> range:
        """Returns the lines of a shard."""
        begin = shard * self.shard_lines
        return range(begin, min(begin + self.shard_lines, self.lines))

    def part(self, number: int, count: int) -> range:
        """Returns the shards of one of so many workers, which are counted from 1: every ``count``-th shard."""
        return range(number - 1, self.shards, count)

    def to_json(self) -> str:
        """Returns it as text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> Manifest:
        """Reads what :meth:`to_json` wrote.

        :param name: how messages name it
        :raises DataError: it is damaged, or of another version of the program.
        """
        try:
            values = json.loads(text)
            manifest = cls(**values)
            sizes = manifest.input_bytes, manifest.lines, manifest.shard_lines - 1, manifest.format
            if not (all(isinstance(size, int) and size >= 0 for size in sizes) and isinstance(manifest.settings, dict)):
                raise TypeError
        except (ValueError, TypeError, RecursionError):
            raise DataError(f"{name}: is damaged; remove its folder to begin anew.") from None
        if manifest.format != FORMAT:
            raise DataError(f"{name}: `format` must be {FORMAT}, but is {manifest.format} instead.")
        return manifest

    def check_same(self, other: Manifest, name: str) -> None:
        """Checks that another run would write the same output.

        :param name: how messages name the job's folder
        :raises DataError: its input is another.
        :raises UsageError: it has other settings.
        """
        if (self.input_bytes, self.input_sha256) != (other.input_bytes, other.input_sha256):
            raise DataError(f"{name}: is a job over other text; {other.input} is not, or no longer, what it was.")
        for key in self.settings | other.settings:
            begun, now = self.settings.get(key), other.settings.get(key)
            if begun != now:
                raise UsageError(
                    f"{name}: the job began with `{key}` {begun}, but it is {now} now; go on with what it began with, "
                    "or remove the folder to begin anew."
                )


def survey(path: Path, settings: dict[str, Any]) -> Manifest:
    """Reads an input once and returns the manifest of a job over it.

    :raises InputNotFoundError: it cannot be read, or is no regular file.
    :raises DataError: it is damaged gzip.
    """
    if path.exists() and not path.is_file():
        raise InputNotFoundError(f"{path}: must be a regular file for a job that can be resumed.")
    before = stamp(path)
    lines, last = 0, b""
    stream = open_input(path)
    with reading(stream, str(path)):
        while chunk := stream.read(_CHUNK):
            lines += chunk.count(b"\n")
            last = (last + chunk)[-len(_BOM) :]
    # A file that holds a BOM and nothing else has no line.
    lines += not last.endswith(b"\n") and not (lines == 0 and last in (b"", _BOM))
    manifest = Manifest(path.name, before[0], file_sha256(path), lines, settings, SHARD_LINES)
    check_unchanged(path, before)
    return manifest
