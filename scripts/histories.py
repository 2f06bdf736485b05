"""Replays the histories of real repositories: after each commit some edits by a made-up person, then an update.

For each repository of histories.txt, and twice: with a translation that is made at the first commit, and with the
project's own one, adopted; beside what an update takes, what to translate the source anew would take::

    python scripts/histories.py --repositories DIR [--only contao/docs] [--files 5] [--commits 20] [--model de-en]
"""

from __future__ import annotations

import html
import random
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import click

from specmt.documents import TranslatesLines
from specmt.errors import DataError
from specmt.formats import format_of
from specmt.formats.blocks import text_of
from specmt.formats.document import FormatOptions, edited
from specmt.formats.known import BILINGUAL, CATALOGUES
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Line, Tagged, Translation
from specmt.update.plan import PlanOptions
from specmt.update.sides import Side
from specmt.update.store import Files, recall, record_beside, store
from specmt.update.update import Update, Updated, open_update, update_all

LIST = Path(__file__).with_suffix(".txt")
EDITS = 5


class Marking:
    """A translator that puts a letter behind each word, and counts."""

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        for line in lines:
            yield Translation(line, re.sub(r"([^\W\d_]{3,})(?=\s|$|[.,!?])", r"\1x", line.text))


def letters(text: str) -> str:
    """Returns what of a text is in its translation, too; what has a placeholder in it is not marked."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", html.unescape(text)).replace("x", "")))


@dataclass(frozen=True)
class History:
    """A source and its translation in a repository, over some commits."""

    git: tuple[str, ...]
    source: str
    target: str
    languages: tuple[str, str]
    commits: list[str]

    def show(self, commit: str, path: str) -> bytes | None:
        shown = subprocess.run([*self.git, "cat-file", "blob", f"{commit}:{path}"], capture_output=True)
        return None if shown.returncode else shown.stdout


def histories(line: str, repositories: Path, files: int, commits: int) -> Iterator[History]:
    """Yields the files of a repository whose sources changed most often."""
    name, source, ours, theirs = line.split()
    name, _, revision = name.partition("@")
    revision = revision or "HEAD"
    folder = repositories / name.replace("/", "+")
    git = ("git", "--git-dir", str(folder / "repo" if (folder / "repo").exists() else folder))
    tree = subprocess.run([*git, "ls-tree", "-r", "-z", "--name-only", revision], capture_output=True, check=True)
    paths = tree.stdout.decode().split("\0")
    pattern = re.compile(re.escape(ours).replace(r"\{\}", "(.*)"))
    found = [(path, theirs.replace("{}", match[1])) for path in paths if (match := pattern.fullmatch(path))]
    pairs = [(path, other) for path, other in found if other in paths] or found
    asked = [*git, "log", "--format=:%H", "--name-only", "--no-merges", revision, "--", *(path for path, _ in pairs)]
    changes: dict[str, list[str]] = {}
    commit = ""
    for each in subprocess.run(asked, capture_output=True, check=True).stdout.decode().splitlines():
        if each.startswith(":"):
            commit = each[1:]
        elif each:
            changes.setdefault(each, []).append(commit)
    languages = (source, "en" if source == "de" else "de")
    for path, other in sorted(pairs, key=lambda pair: -len(changes.get(pair[0], ())))[:files]:
        yield History(git, path, other, languages, changes.get(path, [])[:commits][::-1])


@dataclass
class Person:
    """Who edits translations, by a seed."""

    chance: random.Random
    words: list[str]

    def edit(self, files: Files, options: FormatOptions) -> None:
        """Changes some texts of a translation, each by a word that no one else writes."""
        side = Side(files.target.read_bytes(), str(files.target), files.file_format, options, is_source=False)
        numbers = [
            number
            for number, segment in enumerate(side.document.segments)
            if segment.state != "skipped" and not any(word in segment.source.text for word in self.words)
        ]
        said: dict[int, Tagged] = {}
        for number in self.chance.sample(numbers, min(EDITS, len(numbers))):
            word = f"Px{len(self.words)}y"
            segment = side.document.segments[number]
            said[number] = Tagged(f"{segment.source.text} {word}", segment.source.tags)
            self.words.append(word)
        files.target.write_bytes(_written(side, said, files.file_format))
        there = files.target.read_text(encoding="utf-8", errors="replace")
        self.words = [word for word in self.words if word in there]


def _written(side: Side, translations: dict[int, Tagged], file_format: str) -> bytes:
    """Returns a translation with other texts, and nothing else of another language."""
    inner = text_of(side.document)
    if inner is None or file_format in BILINGUAL:
        return side.document.write(translations, lambda *_: None)
    segments = side.document.segments
    edits = [edit for number, said in translations.items() for edit in segments[number].edits(said, lambda _: None)]
    return inner.encoding.encode(edited(inner.text, edits))


def texts(side: Side) -> Counter[str]:
    return Counter(segment.source.text for segment in side.document.segments if segment.state != "skipped")


def stale(files: Files, update: Update, options: FormatOptions) -> Iterator[str]:
    """Yields what is said to be the machine's, but is not what it makes of the source."""
    data = files.target.read_bytes()
    side = Side(data, str(files.target), files.file_format, options, is_source=False)
    places = {item.text: number for number, item in enumerate(side.items)}
    known = recall(files, data)
    for number, entry in enumerate(known.entries if known is not None else ()):
        if entry.origin == "m" and entry.translated and not any(text.tags for text in update.source.texts(number)):
            said = " ".join(text.text for text in side.texts(places[entry.target]))
            if letters(" ".join(text.text for text in update.source.texts(number))) != letters(said):
                yield f"not of its source: {said[:90]!r}"


def replay(
    history: History, translator: TranslatesLines, folder: Path, seed: int, *, adopts: bool, counts: Counter[str]
) -> Iterator[str]:
    """Yields what is wrong."""
    source = folder / "source" / Path(history.source).name
    target = folder / "target" / Path(history.source).name
    for path in (source, target):
        path.parent.mkdir(parents=True)
    files = Files(source, target, record_beside(target), format_of(source.name) or "text")
    options = FormatOptions(source=history.languages[0], target=history.languages[1])
    plans = PlanOptions(obsolete="keep" if files.file_format in CATALOGUES else None)
    person = Person(random.Random(seed), [])

    def brought(update: Update) -> list[Updated]:
        errors: list[DataError] = []
        done = [*update_all([update], translator, DecodingOptions(), language=options.source, fail=errors.append)]
        if errors:
            raise errors[0]
        return done

    def run(options_: PlanOptions, before: bytes | None) -> Iterator[str]:
        started = time.process_time()
        update = open_update(files, options, options_)
        if update is None:
            return
        kept = [] if update.target is None else kept_texts(update)
        for updated in brought(update):
            if updated.record is not None:
                store(files, updated.data, updated.record)
        if before is not None:
            counts["milliseconds"] += round(1000 * (time.process_time() - started))
            old = Side(before, "old", files.file_format, options, is_source=True)
            counts["changed"] += sum((texts(update.source) - texts(old)).values())
            counts["asked"] += len(update.asked)
            started = time.process_time()
            anew = Update(files, update.source.data, None, lambda _: None, options, plans)
            brought(anew)
            counts["milliseconds anew"] += round(1000 * (time.process_time() - started))
            counts["asked anew"] += len(anew.asked)
        text = target.read_text(encoding="utf-8", errors="replace")
        place = 0
        for each in kept:
            if (found := find_kept(each, text, place)) < 0:
                yield f"lost or moved: {each[:60]!r}"
            place = max(place, found)
        if lost := [word for word in person.words if word not in text]:
            yield f"edits lost: {lost}"
        if isinstance(translator, Marking):
            yield from stale(files, update, options)
        if open_update(files, options, plans) is not None:
            yield "a second update has something to do"

    before: bytes | None = None
    for commit in history.commits:
        is_adopted = before is None and adopts
        if (data := history.show(commit, history.source)) is None:
            continue
        if is_adopted:
            if (own := history.show(commit, history.target)) is None:
                continue
            target.write_bytes(own)
        source.write_bytes(data)
        if before is not None:
            person.edit(files, options)
        try:
            first = replace(plans, adopt=is_adopted)
            yield from (f"{history.source}@{commit[:10]}: {fault}" for fault in run(first, before))
        except DataError as error:
            counts["refused"] += 1
            yield f"refused: {history.source}@{commit[:10]}: {error}"
            if is_adopted:
                target.unlink()
            continue
        before = data
        counts["commits"] += 1


def find_kept(said: str, text: str, place: int) -> int:
    """Returns where a block is that stays, or −1; its lines may be further in or out, all alike, as in the source."""
    if (found := text.find(said, place)) >= 0:
        return found
    first, *rest = said.split("\n")
    pattern, by = re.escape(first), "(?P<by>[ \t]*)"
    for line in dedent("\n".join(rest)).split("\n") if rest else ():
        pattern += "\n" + (by + re.escape(line) if line.strip() else "[ \t\r]*")
        by = "(?P=by)" if line.strip() else by
    match = re.compile(pattern).search(text, place)
    return -1 if match is None else match.start()


def kept_texts(update: Update) -> list[str]:
    """Returns the blocks of a translation that stay as they are, in their new order."""
    assert update.target is not None
    if update.target.is_package:
        return []
    return [
        staying(update, other).strip().rstrip(",")
        for number, other in update.plan.order
        if other is not None
        and (
            update.files.file_format != "po"
            if number is None
            else update.plan.steps[number].action in ("keep", "draft")
        )
    ]


def staying(update: Update, number: int) -> str:
    """Returns what of a block is not its source's: places, notes, a date are in PO, text and places in Qt and XLIFF."""
    assert update.target is not None
    text = update.target.text(number)
    if not update.target.blocks[number].segments and update.files.file_format != "po":
        return text
    if update.files.file_format in ("qt", "xliff"):
        found = re.search(r"<(translation|target)\b[^>]*>.*</\1>", text, re.DOTALL)
        return "" if found is None else found[0].partition(">")[2]
    told = r'\A[\s\S]*^"POT-Creation.*\n|^#(?:[.:,]|(?=[\r\n])).*\n' if update.files.file_format == "po" else r"(?!)"
    return re.sub(told, "", text, flags=re.MULTILINE)


@click.command()
@click.option("--repositories", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--only", multiple=True, help="Names of repositories.")
@click.option("--files", default=5, show_default=True)
@click.option("--commits", default=20, show_default=True)
@click.option("--model", help="A model, instead of a made-up translator.")
@click.option("--seed", default=1, show_default=True)
def main(repositories: Path, only: tuple[str, ...], files: int, commits: int, model: str | None, seed: int) -> None:
    """Replay the histories of histories.txt, and say what is wrong, and how much was translated again."""
    translator: TranslatesLines = Marking() if model is None else Translator(load_model(model))
    bad = 0
    for line in LIST.read_text().splitlines():
        name = line.split()[0].partition("@")[0]
        if line.startswith("#") or (only and name not in only):
            continue
        for adopts in (False, True):
            counts: Counter[str] = Counter()
            for history in histories(line, repositories, files, commits):
                with tempfile.TemporaryDirectory() as folder:
                    for fault in replay(history, translator, Path(folder), seed, adopts=adopts, counts=counts):
                        bad += not fault.startswith("refused")
                        print(f"  {fault}")
            share = counts["asked"] / max(1, counts["changed"])
            print(name, "adopted" if adopts else "made", f"{share:.2f}", dict(counts), flush=True)
    sys.exit(min(bad, 1))


if __name__ == "__main__":
    main()
