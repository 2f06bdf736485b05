"""Parquet to parquet on a Ray cluster, by Ray Data: what was done before the cluster was lost is not done again.

Paths are local, or URLs that pyarrow has a file system for (``s3://…``), which all nodes must see.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

import pyarrow.compute
import pyarrow.parquet
import ray.data
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem
from ray.data.checkpoint import CheckpointConfig
from ray.exceptions import RayError

from specmt import errors
from specmt.errors import DataError, InputNotFoundError, OutputError, SpecmtError, UsageError
from specmt.jobs import manifest
from specmt.jobs.folder import MANIFEST, SUFFIX
from specmt.jobs.manifest import Manifest
from specmt.jobs.ray import translate_dataset
from specmt.options import DecodingOptions

COLUMNS: Final = ("id", "source")
"""What the input must have: whole numbers or texts that tell rows apart, and text."""

_WRITING: Final = "writing"
"""A folder in that of a job: what is at the output is of the job."""

_FILE_ROWS: Final = 100_000
"""Rows of an output file."""


@final
class Place(NamedTuple):
    """A file or folder of some file system."""

    system: FileSystem
    path: str

    @classmethod
    def of(cls, path: str) -> Place:
        """
        :param path: of a local file, or a URL
        :raises UsageError: pyarrow has no file system for it.
        """
        if "://" not in path:
            return cls(LocalFileSystem(), os.path.abspath(path))
        try:
            return cls(*FileSystem.from_uri(path))
        except (ValueError, OSError) as error:
            raise UsageError(f"{path}: cannot be reached ({_first_line(error)}).") from error

    def __truediv__(self, name: str) -> Place:
        return Place(self.system, f"{self.path}/{name}")

    def exists(self) -> bool:
        """Whether there is a file or folder of that name."""
        return bool(self.system.get_file_info(self.path).type != FileType.NotFound)

    def remove(self) -> None:
        """Removes a folder, if it is there."""
        if self.exists():
            self.system.delete_dir(self.path)

    def files(self) -> list[tuple[str, int, int]]:
        """Returns name, size and time of the parquet files: itself, or those in it."""
        found = [self.system.get_file_info(self.path)]
        if found[0].type == FileType.Directory:
            found = self.system.get_file_info(FileSelector(self.path, recursive=True))
        found = [each for each in found if each.type == FileType.File and each.path.endswith(".parquet")]
        return sorted((each.path, each.size, each.mtime_ns or 0) for each in found)

    def rows(self, path: str) -> int:
        """Returns how many rows one of the files has."""
        return int(pyarrow.parquet.read_metadata(path, filesystem=self.system).num_rows)


def translate_parquet(
    source: str,
    output: str,
    model: str | None,
    options: DecodingOptions,
    settings: dict[str, Any],
    *,
    processors: int,
    threads: int,
    loading: Mapping[str, Any],
) -> tuple[int, int]:
    """Translates the rows of parquet files into a folder of parquet files, in the order of their ids.

    What is done is kept in ``OUTPUT.job``, and the same call goes on from there.

    :param settings: all that output depends on beside the input
    :param processors: how many the cluster has
    :param threads: of each actor
    :returns: how many rows there are, and how many of them have an error instead of a translation
    :raises UsageError: the job began with other settings, or there is an output that is not of this job.
    :raises DataError: the input lacks a column, has an id twice, or has changed.
    """
    read, written, job = Place.of(source), Place.of(output), Place.of(output + SUFFIX)
    # Ray starts 32 processes that look into files, each time it reads, however few processors and files there are.
    os.environ.setdefault("RAY_DATA_PARQUET_FOOTER_NUM_ACTORS", str(min(32, processors)))
    try:
        _begin(read, written, job, source, settings)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        parts = job / "rows"
        if not (job / "translated").exists():
            actors = max(1, processors // threads)
            files = [path for path, _, _ in read.files()]
            rows = ray.data.read_parquet(files, filesystem=read.system)
            rows = rows.repartition(target_num_rows_per_block=manifest.SHARD_LINES)  # what a death costs
            made = translate_dataset(
                rows, model, options, actors=actors, threads=threads, numerics=settings["numerics"], **loading
            )
            made.context.checkpoint_config = CheckpointConfig(
                id_column="id",
                checkpoint_path=(job / "checkpoint").path,
                override_filesystem=job.system,
                delete_checkpoint_on_success=False,
            )
            made.context.checkpoint_config.checkpoint_actor_memory_bytes = 0  # else a GiB, which small nodes lack
            made.write_parquet(parts.path, filesystem=parts.system)
            (job / "translated").system.create_dir((job / "translated").path)
        written.remove()  # of a process that died while it wrote
        writing = job / _WRITING
        writing.system.create_dir(writing.path)
        files = [path for path, _, _ in parts.files()]
        count = sum(read.rows(path) for path, _, _ in read.files())
        rows, outputs = ray.data.read_parquet(files, filesystem=parts.system), -(-count // _FILE_ROWS) or 1
        rows.context.default_hash_shuffle_parallelism = outputs  # else it sorts into 200 parts, however few rows
        rows = rows.sort("id").repartition(outputs)
        rows.context.execution_options.preserve_order = True
        rows.write_parquet(written.path, filesystem=written.system)
        done, failed = _check(written)
        if done != count:
            raise DataError(f"{source}: `id` must tell rows apart, but {count - done} of {count} rows have one twice.")
        job.remove()
    except OSError as error:
        raise OutputError(f"{output}: cannot be written ({_first_line(error)}).") from error
    except RayError as error:
        raise _cause(error) from error
    return count, failed


def _begin(read: Place, written: Place, job: Place, source: str, settings: dict[str, Any]) -> None:
    """Makes the folder of a job, or checks that it is one of the same work."""
    files = read.files()
    if not files:
        raise InputNotFoundError(f"{source}: no such file, or a folder without parquet files.")
    names = pyarrow.parquet.read_schema(files[0][0], filesystem=read.system).names
    for column in COLUMNS:
        if column not in names:
            raise DataError(f"{source}: must have a column `{column}`, but has {', '.join(names)} instead.")
    digest = hashlib.sha256(repr(files).encode()).hexdigest()
    size = sum(size for _, size, _ in files)
    new = Manifest(source, size, digest, 0, settings, manifest.SHARD_LINES)
    kept = job / MANIFEST
    is_begun = kept.exists()
    is_foreign = not is_begun and job.system.get_file_info(FileSelector(job.path, allow_not_found=True)) != []
    if is_foreign or (written.exists() and not (job / _WRITING).exists()):
        place = job if is_foreign else written
        raise UsageError(f"{place.path}: is there already; remove it, or name another output.")
    if not is_begun:
        job.system.create_dir(job.path)
        with kept.system.open_output_stream(kept.path) as file:
            file.write(new.to_json().encode())
    with kept.system.open_input_stream(kept.path) as file:
        Manifest.from_json(file.read().decode(errors="replace"), kept.path).check_same(new, job.path)


def _check(place: Place) -> tuple[int, int]:
    """Returns how many rows a folder has, each id counted once, and how many have an error."""
    count = failed = 0
    last = None
    for path, _, _ in place.files():
        table = pyarrow.parquet.read_table(path, columns=["id", "error"], filesystem=place.system)
        ids = table["id"].combine_chunks()
        same = pyarrow.compute.equal(ids[1:], ids[:-1])
        count += len(ids) - (pyarrow.compute.sum(same).as_py() or 0) - (len(ids) > 0 and ids[0].as_py() == last)
        last = ids[-1].as_py() if len(ids) else last
        failed += pyarrow.compute.sum(pyarrow.compute.not_equal(table["error"], "")).as_py() or 0
    return count, failed


def _cause(error: RayError) -> SpecmtError:
    """Returns what an actor failed of, which Ray has as text only."""
    found = re.findall(r"specmt\.errors\.(\w+): (.+)", str(error))
    if found and isinstance(kind := getattr(errors, found[-1][0], None), type) and issubclass(kind, SpecmtError):
        return kind(found[-1][1])
    return SpecmtError(f"on the cluster: {_first_line(error)}; the same command goes on.")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
