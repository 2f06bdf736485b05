"""Packed weights, kept in the user's cache folder and mapped into memory from there.

To read, check and pack 600 million weights takes seconds and as much memory again; mapping them takes no time, and all
processes share the pages. Memory of one's own would first have to be found, which takes longer than reading where
machines share theirs; large pages of it gain nothing that could be measured. A kept file holds nothing that is
interpreted: where which array lies follows from the shapes of the weights alone. It counts as what was written only as
long as neither it nor the weights' files were touched: the record beside it has their sizes, inodes and times of
change, which the system sets, and no user can.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from specmt.engine.arrays import ALIGNMENT, Array, empty, zeros
from specmt.engine.kernels.packing import LAYOUT, Given, Part, Parts
from specmt.engine.protocols import Kept
from specmt.engine.threads import processor
from specmt.engine.weights import StoredWeights, Weights
from specmt.files import cache_folder, lock, whole, write_whole

LEAST: Final = 1_000_000
"""From how many weights on packed ones are kept: so many are read, checked and packed in 5 ms."""

MOST: Final = 32 << 30
"""The most bytes that are kept; what was not used for longest goes first."""

PATIENCE: Final = 300.0
"""For how many seconds to wait while another process packs."""

PAGE: Final = 4096
"""Bytes that the system gives at a time, at least."""

_UNREADABLE: Final = (OSError, ValueError, TypeError, KeyError, RecursionError)
"""What comes of a file that is missing, or a record that is none."""

logger: Final = logging.getLogger(__name__)

_told: Final[set[Path]] = set()
"""Folders of which was said that nothing can be kept there."""

Pack: TypeAlias = Callable[[Mapping[str, Given]], Parts]


def pack_or_map(weights: Weights, purpose: str, pack: Pack) -> dict[str, Array]:
    """Returns packed weights, from a kept file where that pays and there is one, which is made where there is none.

    A file that cannot be read or written is done without. What comes from one cannot be written to.

    :param purpose: what else than the weights decides what they are packed to
    :raises ModelError: the weights have to be read, and are damaged.
    """
    if not isinstance(weights, StoredWeights) or weights.count < LEAST:
        return _filled([*pack(weights)])
    file = _File(weights, purpose, pack)
    found = file.map()
    if found is None:
        reason: object = "there is no room for them"
        try:
            found = file.make()
        except OSError as error:
            reason = error
        if found is None and file.folder not in _told:
            _told.add(file.folder)
            logger.warning("packed weights cannot be kept in %s (%s): each start packs them anew", file.folder, reason)
    return _filled([*pack(weights)]) if found is None else found


def kept(weights: Weights, purpose: str, pack: Pack) -> Kept | None:
    """Returns what is known of the kept file of what `pack_or_map` is asked for, if there is one."""
    if not isinstance(weights, StoredWeights) or weights.count < LEAST:
        return None
    return _File(weights, purpose, pack).kept()


class _Extent(NamedTuple):
    """Where an array lies in memory or in a file."""

    begin: int
    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    def of(self, data: Array) -> Array:
        """Returns the array in bytes."""
        return data[self.begin : self.begin + self.size].view(self.dtype).reshape(self.shape)


def _lay_out(parts: Iterable[Part]) -> tuple[dict[str, _Extent], int]:
    """Returns where parts lie, one behind the other, and how many bytes they take."""
    extents, end = {}, 0
    for part in parts:
        size = prod(part.shape) * part.dtype.itemsize
        extents[part.name] = _Extent(end, size, part.shape, part.dtype)
        end += size + -size % ALIGNMENT
    return extents, end


def _filled(parts: Sequence[Part]) -> dict[str, Array]:
    """Returns parts in one piece of memory."""
    extents, size = _lay_out(parts)
    data = zeros([size], np.uint8)
    data[::PAGE] = 0  # by this thread, which knows on which nodes they are to be (specmt.engine.kernels.numa)
    arrays = {name: extent.of(data) for name, extent in extents.items()}
    for part in parts:
        part.fill(arrays[part.name])
    return arrays


class _File:
    """A file of packed weights, and the record that says when it counts."""

    def __init__(self, weights: StoredWeights, purpose: str, pack: Pack) -> None:
        self._weights = weights
        self._pack = pack
        self._key = f"layout {LAYOUT}, {sys.byteorder}-endian, {processor()}; {purpose}; {weights.identity}"
        self.folder: Final = cache_folder() / "packed"
        self._path = self.folder / f"{hashlib.sha256(self._key.encode()).hexdigest()[:24]}.weights"
        self._record = self._path.with_suffix(".json")

    @cached_property
    def _laid_out(self) -> tuple[dict[str, _Extent], int]:
        return _lay_out(self._pack(self._weights.outline))

    def map(self) -> dict[str, Array] | None:
        """Returns the arrays, mapped, if they are there and count."""
        with suppress(*_UNREADABLE), self._path.open("rb") as stream:
            extents, size = self._laid_out
            status = os.fstat(stream.fileno())
            if self._kept(status) is None or status.st_size != size:
                return None
            data = np.frombuffer(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ), dtype=np.uint8)
            with suppress(OSError):
                os.utime(self._record)  # it was used
            return {name: extent.of(data) for name, extent in extents.items()}
        return None

    def kept(self) -> Kept | None:
        """Returns what is known of the file, if it is there and counts."""
        with suppress(*_UNREADABLE):
            return self._kept(self._path.stat())
        return None

    def _kept(self, status: os.stat_result) -> Kept | None:
        record = json.loads(self._record.read_text(encoding="utf-8"))
        seconds = float(record.pop("seconds"))
        counts = record == self._describe(status) and status.st_uid in (os.geteuid(), 0)
        return Kept(seconds, status.st_size) if counts else None

    def make(self) -> dict[str, Array] | None:
        """Packs the weights into a file and returns the arrays, mapped; one process does so at a time.

        :returns: ``None`` where there is no room, others take too long, or the weights changed meanwhile
        :raises OSError: the file cannot be written.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._path.parent / "lock").open("wb") as guard:
            is_ours = lock(guard, patience=PATIENCE)
            found = self.map()  # another may just have made it
            if found is not None or not is_ours or not self._make_room():
                return found
            extents, size = self._laid_out
            before, started = _stamps(self._weights.files), time.perf_counter()
            self._record.unlink(missing_ok=True)
            with whole(self._path) as temporary, temporary.open("wb") as stream:
                for part in self._pack(self._weights):
                    extent = extents[part.name]
                    if (part.shape, part.dtype) != (extent.shape, extent.dtype):
                        raise OSError("The weights changed before they were read.")
                    stream.write(bytes(extent.begin - stream.tell()))
                    array = empty(part.shape, part.dtype)
                    part.fill(array)
                    stream.write(array.data)
                stream.write(bytes(size - stream.tell()))
                stream.flush()
                os.fsync(stream.fileno())
            record = self._describe(self._path.stat())
            if record["weights"] == before:
                write_whole(self._record, json.dumps(record | {"seconds": time.perf_counter() - started}))
            found = self.map()
            if found is None:
                _remove(self._path)  # it will be of no use
            return found

    def _describe(self, status: os.stat_result) -> dict[str, Any]:
        files = [str(path) for path in self._weights.files]
        return {"key": self._key, "files": files, "weights": _stamps(self._weights.files), "packed": _stamp(status)}

    def _make_room(self) -> bool:
        """Removes what can no longer be used, then what was used longest ago; returns whether there is room."""
        kept = []
        for path in self._path.parent.glob("*.weights"):
            record = path.with_suffix(".json")
            with suppress(*_UNREADABLE):
                files = json.loads(record.read_text(encoding="utf-8"))["files"]
                if path != self._path and all(map(os.path.exists, files)):
                    kept.append((record.stat().st_mtime, path.stat().st_size, path))
                    continue
            if path != self._path:
                _remove(path)
        wanted = self._laid_out[1]
        while kept and sum(size for _, size, _ in kept) + wanted > MOST:
            _remove(kept.pop(kept.index(min(kept)))[2])
        # As much again stays free for others.
        return wanted <= MOST and shutil.disk_usage(self._path.parent).free >= 2 * wanted


def _stamps(paths: Iterable[Path]) -> list[list[int]]:
    return [_stamp(path.stat()) for path in paths]


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _remove(path: Path) -> None:
    for each in (path.with_suffix(".json"), path):
        with suppress(OSError):
            each.unlink()
