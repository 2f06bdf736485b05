"""Says how many blocks of pages and their translations are paired surely, and how many of those rightly.

A line of the verdicts is of a page: the repository and commit, the paths of the source and of its translation, and what
a person found, the line on which a block of the source begins and that of its translation, 0 where there is none::

    python scripts/pairing.py data/paired.tsv --repositories DIR
    python scripts/pairing.py --read contao/docs@COMMIT docs/manual/a.de.md docs/manual/a.en.md --repositories DIR

The second one shows some blocks in a row and what they are paired with, to be judged.
"""

from __future__ import annotations

import random
import subprocess
from functools import partial
from pathlib import Path

import click

from specmt.formats import format_of
from specmt.formats.document import FormatOptions
from specmt.update.plan import partners
from specmt.update.sides import Side

BLOCKS = 25


def read(repositories: Path, name: str, source: str, target: str) -> tuple[Side, Side]:
    """Returns a page and its translation."""
    repository, commit = name.split("@")
    git = ("git", "--git-dir", str(repositories / repository.replace("/", "+") / "repo"))
    languages = ("de", "en") if ".de." in source or "/de/" in source else ("en", "de")
    options = FormatOptions(source=languages[0], target=languages[1])

    def side(path: str, *, is_source: bool) -> Side:
        asked = [*git, "cat-file", "blob", f"{commit}:{path}"]
        data = subprocess.run(asked, capture_output=True, check=True).stdout
        return Side(data, path, format_of(path) or "text", options, is_source=is_source)

    return side(source, is_source=True), side(target, is_source=False)


def pairs(source: Side, target: Side) -> dict[int, tuple[int, bool]]:
    """Returns the lines of partners, 0 for none, and whether they are sure, by those of blocks of the source."""
    found = {source.line(number): (0, False) for number, said in enumerate(source.contents) if said.texts}
    line = 0
    for each in partners(source.items, target.items, partial(source.paired, target)):
        line = line if each.target is None else target.line(each.target)
        if (place := source.line(each.source)) in found:
            found[place] = line, each.is_sure
    return found


def show(source: Side, target: Side) -> None:
    """Shows some blocks and their partners."""
    ours, theirs = (
        {side.line(number): " ".join(side.text(number).split()) for number in range(len(side.blocks))}
        for side in (source, target)
    )
    found = [*pairs(source, target).items()]
    start = random.Random(len(found)).randrange(max(1, len(found) - BLOCKS))
    for line, (other, is_sure) in found[start : start + BLOCKS]:
        click.echo(f"{line}:{other}\t{'sure' if is_sure else ''}\t{ours[line]}\t{theirs.get(other, '')}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("verdicts", type=click.Path(path_type=Path, exists=True), required=False)
@click.option("--repositories", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--read", "page", nargs=3, metavar="NAME@COMMIT SOURCE TARGET", help="Show blocks of this page.")
def main(verdicts: Path | None, repositories: Path, page: tuple[str, str, str] | None) -> None:
    """Say how many blocks are paired surely and rightly, by VERDICTS."""
    if page is not None:
        show(*read(repositories, *page))
    count = sure = right = 0
    for line in verdicts.read_text(encoding="utf-8").splitlines() if verdicts is not None else ():
        *named, judged = line.split("\t")
        found = pairs(*read(repositories, *named))
        for ours, truth in (map(int, each.split(":")) for each in judged.split()):
            other, is_sure = found[ours]
            count, sure, right = count + (truth > 0), sure + is_sure, right + (is_sure and other == truth)
            if other != truth:
                click.echo(f"{named[1]}:{ours}: {other} instead of {truth}{', surely' * is_sure}")
    if count:
        click.echo(f"{count} blocks have a translation: {sure / count:.1%} sure, {right / sure:.1%} of these right")


if __name__ == "__main__":
    main()
