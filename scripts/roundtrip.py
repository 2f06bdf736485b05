"""Checks formats over the documents that a machine has: `python scripts/roundtrip.py [FOLDER…] [--most N]`.

Of each document: what is written without a translation is what was read, byte for byte; what is written where every
segment is replaced by itself has the same segments again, and other parsers read it (lxml, json, msgfmt --check).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml
from lxml import etree, html

from specmt.errors import DataError
from specmt.formats import find_format, format_of, names
from specmt.formats.document import FormatOptions
from specmt.formats.known import HEAD

OPTIONS = FormatOptions(source="en", target="en", columns=("1",))


def documents(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Returns the documents in folders, by format."""
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        for place, _, files in os.walk(folder):
            for name in files:
                path = Path(place, name)
                if name.endswith(".gz") or not path.is_file() or path.is_symlink():
                    continue
                known = format_of(str(path), head_of(path))
                if known is not None:
                    found[known].append(path)
    return found


def head_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(HEAD)


def xml(data: bytes) -> object:
    return etree.fromstring(data, etree.XMLParser(huge_tree=True, resolve_entities=False))


def packed(data: bytes) -> object:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [xml(archive.read(name)) for name in archive.namelist() if name.endswith(".xml")]


def msgfmt(data: bytes) -> None:
    if shutil.which("msgfmt") is not None:
        command = ["msgfmt", "--check-format", "--check-domain", "-o", os.devnull, "-"]
        subprocess.run(command, input=data, check=True, capture_output=True)


PARSERS: dict[str, Callable[[bytes], object]] = {
    "android": xml, "docx": packed, "epub": packed, "html": html.document_fromstring, "json": json.loads, "odt": packed,
    "po": msgfmt, "pptx": packed, "qt": xml, "resx": xml, "stringsdict": xml, "tmx": xml, "xcstrings": json.loads,
    "xliff": xml, "xlsx": packed, "yaml": yaml.safe_load,
}  # fmt: skip


def faults(name: str, data: bytes) -> Iterator[str]:
    """Yields what is wrong with how a document is read and written.

    :raises DataError: it is refused.
    """
    document = find_format(name).read(data, OPTIONS)
    COUNTS[name]["segments"] += len(document.segments)
    if document.write({}, lambda *_: None) != data:
        yield "is not the same without translations"
    told: list[str] = []
    same = {n: segment.source for n, segment in enumerate(document.segments) if segment.state != "skipped"}
    written = document.write(same, lambda _, what: told.append(what))
    COUNTS[name]["identical"] += written == data
    COUNTS[name]["kept"] += sum(what.startswith("kept") for what in told)
    again = find_format(name).read(written, OPTIONS)
    if [segment.source.text.strip() for segment in again.segments] != [
        segment.source.text.strip() for segment in document.segments
    ]:
        yield "has other segments where each is replaced by itself"
    if name in PARSERS:
        try:
            PARSERS[name](data)
        except Exception:
            return  # nor do others read the original
        try:
            PARSERS[name](written)
        except Exception as error:
            yield f"is read by others no more: {getattr(error, 'stderr', None) or error}"


COUNTS: dict[str, Counter[str]] = defaultdict(Counter)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("/usr"), Path(sys.prefix)])
    parser.add_argument("--most", type=int, default=400, help="documents of a format")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = documents(arguments.folders)
    bad = 0
    for name in names():
        paths = sorted(found[name])
        random.Random(arguments.seed).shuffle(paths)
        started = time.perf_counter()
        for path in paths:
            if COUNTS[name]["documents"] == arguments.most or path.stat().st_size > 4 << 20:
                continue
            try:
                for fault in faults(name, path.read_bytes()):
                    bad += 1
                    print(f"{path}: {fault}")
            except DataError as error:
                COUNTS[name]["refused"] += 1
                if "resources" not in str(error):
                    print(f"refused: {path}: {error}")
                continue
            COUNTS[name]["documents"] += 1
        seconds = time.perf_counter() - started
        counts = [f"{COUNTS[name][key]} {key}" for key in ("documents", "refused", "segments", "identical", "kept")]
        print(name, *counts, f"{seconds:.1f} s", sep="  ", flush=True)
    print(f"{bad} faults")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
