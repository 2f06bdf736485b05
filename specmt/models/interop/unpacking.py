"""Files as others publish them: as they are, or packed by gzip or zstd, which their first bytes tell."""

from __future__ import annotations

import gzip
import sys
import zlib
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.reading import read_bytes

PACKED: Final = (".gz", ".zst")
"""What the names of packed files end in."""

ZSTD: Final = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
"""Python's own module of zstd, or the package that has it for earlier versions."""

MOST: Final = 1 << 31
"""The most bytes of a file, packed or not; a model of Firefox's has 44 million."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_POINTER: Final = b"version https://git-lfs"


def read_unpacked(path: Path) -> bytes:
    """Returns what is in a regular file, or in what it packs."""
    data = read_bytes(path, most=MOST)
    if data.startswith(_POINTER):
        raise ModelError(f"{path}: is what Git has in place of the file; fetch that with `git lfs pull`.")
    if data.startswith(_GZIP):
        packed, broken = gzip.GzipFile(fileobj=BytesIO(data)), zlib.error
    elif data.startswith(_ZSTD):
        zstd = _zstd(path)
        packed, broken = zstd.ZstdFile(BytesIO(data)), zstd.ZstdError
    else:
        return data
    try:
        data = packed.read(MOST + 1)
    except (OSError, EOFError, broken) as error:
        raise ModelError(f"{path}: is damaged and cannot be unpacked ({error}); fetch it again.") from error
    if len(data) > MOST:
        raise ModelError(f"{path}: must have at most {MOST:,} bytes when it is unpacked, but has more.")
    return data


def _zstd(path: Path) -> Any:
    try:
        return import_module(ZSTD)
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{path}: is packed by zstd, and to unpack it takes `pip install 'specmt[zstd]'`; or use `zstd -d`."
        ) from error
