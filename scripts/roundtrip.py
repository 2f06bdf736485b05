#!/usr/bin/env python3
"""Checks formats over real documents: those of a list of public repositories, or those in folders.

  PYTHONPATH=. python scripts/roundtrip.py                          # the repositories of scripts/roundtrip.txt
  PYTHONPATH=. python scripts/roundtrip.py --folder /usr --most 400  # what a machine has
  PYTHONPATH=. python scripts/roundtrip.py --format markdown --way model
  PYTHONPATH=. python scripts/roundtrip.py --examples spec.txt --most 999   # each example of CommonMark's a page

A line of the list is a repository, `@`, a commit, and how the paths begin that count; repositories are fetched
into --repositories, by name, without the files that are not asked for. Of each document: what is written without a
translation is what was read, byte for byte; and however it is translated, other parsers read it (lxml, json, msgfmt),
and `specmt check` finds the same structure, in Markdown as cmark has it. Translators are made up (`itself`,
`reversed`, `doubled`, `dropped`, `escaped` words) or the model. Counts are printed, and the exit code is 1 where a
document has a fault.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

import click
import yaml
from lxml import etree, html

from specmt.check.checker import Pair, check_pair
from specmt.check.rules import Rules
from specmt.documents import Selection, TranslatesLines, translate_documents
from specmt.errors import DataError
from specmt.formats import format_in_folder, names, read_document
from specmt.formats.document import FormatOptions
from specmt.formats.known import HEAD
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.project import Settings
from specmt.translator import Translator
from specmt.types import Line, Translation

LIST = Path(__file__).with_suffix(".txt")
MOST_BYTES = 4 << 20
IN_THEM = (".xml", ".json", ".yml", ".yaml", ".ts", ".php", ".xlf", ".xliff", ".resx", ".tmx", ".stringsdict")
"""Where these end a name, the format is found by what is in a file."""

RULES = Rules(languages=("en", "de"))
STRUCTURE = ("parse", "block", "branch", "placeholder", "tag", "code", "link")
"""Kinds of what `specmt check` finds that no translator, however bad, may be the cause of."""

ESCAPED = ("*{}*", "<{}>", "[{}]", "`{}", "{}|", "# {}", "\\{}", "_{}", "&{};", "{}\t")
WAYS: dict[str, Callable[[list[str]], list[str]]] = {
    "itself": lambda words: words,
    "reversed": lambda words: words[::-1],
    "doubled": lambda words: [each for word in words for each in (word, word)],
    "dropped": lambda words: words[::2],
    "escaped": lambda words: [ESCAPED[n % len(ESCAPED)].format(word) for n, word in enumerate(words)],
}

Found = tuple[str, Callable[[], bytes]]


class MadeUp:
    """A translator that does the same with the words of every line, unless no word would be left of it."""

    def __init__(self, way: str) -> None:
        self.way = WAYS[way]

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        for line in lines:
            said = " ".join(self.way(line.text.split()))
            yield Translation(line, said if re.search(r"[^\W\d_]", re.sub(r"\{\w+\}", "", said)) else line.text)


def in_folder(folder: Path) -> Iterator[Found]:
    """Yields the files in a folder."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield str(path), path.read_bytes


def examples(spec: Path) -> Iterator[Found]:
    """Yields the examples of CommonMark's specification."""
    found = re.finditer(r"^`{32} example\n(.*?)^\.\n", spec.read_text(), re.DOTALL | re.MULTILINE)
    for number, match in enumerate(found, 1):
        yield f"{spec}/{number}.md", match[1].replace("→", "\t").encode


def listed(lines: Iterable[str], repositories: Path) -> Iterator[Found]:
    """Yields the files of the repositories of a list."""
    for line in lines:
        where, *begins = line.split()
        name, _, commit = where.partition("@")
        folder = repositories / name.replace("/", "+")
        if not folder.exists():
            url = f"https://github.com/{name}"
            subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", url, folder], check=True)
        git = ["git", "--git-dir", str(folder)]
        tree = subprocess.run([*git, "ls-tree", "-r", "-z", "--name-only", commit], capture_output=True, check=True)
        for path in tree.stdout.decode().split("\0")[:-1]:
            if path.startswith(tuple(begins)):
                blob = [*git, "cat-file", "blob", f"{commit}:{path}"]
                yield f"{name}/{path}", lambda blob=blob: subprocess.run(blob, capture_output=True, check=True).stdout


def content(name: str, read: Callable[[], bytes]) -> bytes | None:
    """Returns what is in a file; nothing, and says so, where the copy of a repository lacks it."""
    try:
        return read()
    except subprocess.CalledProcessError as error:
        print(f"left out: {name}: {error.stderr.decode().strip()}")
        return None


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
    "xliff": xml, "xlsx": packed, "xml": xml, "yaml": yaml.safe_load,
}  # fmt: skip


def faults(
    kind: str, name: str, data: bytes, translators: dict[str, TranslatesLines], counts: Counter[str]
) -> Iterator[str]:
    """Yields what is wrong with how a document is read and written.

    :raises DataError: it is refused.
    """
    languages = FormatOptions(source="en", target="de", columns=("1",), anchors="keep")
    document = read_document(data, name, kind, languages)
    counts["segments"] += len(document.segments)
    if document.write({}, lambda *_: None) != data:
        yield "is not the same without translations"
    parse = PARSERS.get(kind, len)
    try:
        parse(data)
    except Exception:
        return  # nor do others read the original
    for way, translator in translators.items():
        (done,) = translate_documents(
            translator, [(name, document)], DecodingOptions(), Selection(translated=True), language="en"
        )
        counts[f"kept {way}"] += done.summary.kept
        try:
            parse(done.data)
        except Exception as error:
            yield f"{way}: is read by others no more: {getattr(error, 'stderr', None) or error}"
        with TemporaryDirectory() as folder:
            files = [Path(folder) / f"{side}{PurePath(name).suffix}" for side in ("source", "target")]
            for file, each in zip(files, (data, done.data), strict=True):
                file.write_bytes(each)
            before, after = (
                [*check_pair(Pair(files[0], file, kind, Settings(columns=languages.columns), RULES, is_strict=True))]
                for file in files
            )
            known = {each.text for each in before}  # in translations that were there
            yield from (
                f"{way}: line {each.line}: {each.text}"
                for each in after
                if each.kind in STRUCTURE and each.text not in known
            )


@click.command(help=__doc__)
@click.option("--folder", "folders", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--examples", "spec", type=click.Path(exists=True, path_type=Path), help="Those of a specification.")
@click.option("--list", "path", default=LIST, type=click.Path(exists=True, path_type=Path), help="Of repositories.")
@click.option("--repositories", default=Path("runs/repositories"), type=Path, help="Where they are, or will be.")
@click.option("--format", "formats", multiple=True, help="Only these.")
@click.option("--way", "ways", multiple=True, type=click.Choice([*WAYS, "model"]), default=list(WAYS))
@click.option("--model", default="en-de", show_default=True, help="What `--way model` translates by.")
@click.option("--most", default=400, show_default=True, help="Documents of a format.")
@click.option("--seed", default=1, show_default=True)
def main(
    folders: tuple[Path, ...],
    spec: Path | None,
    path: Path,
    repositories: Path,
    formats: tuple[str, ...],
    ways: tuple[str, ...],
    model: str,
    most: int,
    seed: int,
) -> None:
    found: dict[str, list[Found]] = defaultdict(list)
    here = [*(each for folder in folders for each in in_folder(folder)), *(examples(spec) if spec else ())]
    for each in here if folders or spec else [*listed(path.read_text().splitlines(), repositories)]:
        head = content(*each) if each[0].lower().endswith(IN_THEM) else b""
        kind = None if head is None else format_in_folder(Path(each[0]), head[:HEAD], None)
        if kind in (formats or names()):
            found[str(kind)].append(each)
    translators: dict[str, TranslatesLines] = {
        way: Translator(load_model(model)) if way == "model" else MadeUp(way) for way in ways
    }
    bad = 0
    for kind in sorted(found):
        counts: Counter[str] = Counter()
        random.Random(seed).shuffle(found[kind])
        for name, read in found[kind][:most]:
            if (data := content(name, read)) is None or len(data) > MOST_BYTES:
                continue
            try:
                for fault in faults(kind, name, data, translators, counts):
                    bad += 1
                    print(f"{name}: {fault}")
            except DataError as error:
                counts["refused"] += 1
                print(f"refused: {error}")
            counts["documents"] += 1
        print(kind, *(f"{count} {what}" for what, count in sorted(counts.items())), sep="  ", flush=True)
    print(f"{bad} faults")
    sys.exit(min(bad, 1))


if __name__ == "__main__":
    main()
