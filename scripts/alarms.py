"""Draws what `specmt check` finds on both sides of real repositories, to be read: what of it is a false alarm?

For each repository of alarms.txt; data/alarms.tsv has the verdicts on a draw: seed, repository, path, line, kind::

    python scripts/alarms.py --repositories DIR [--only contao/docs] [--seed 3011] [--count 100]
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from specmt.check.checker import Pair, check_pair
from specmt.check.findings import Finding
from specmt.check.rules import Rules
from specmt.project import project_of

LIST = Path(__file__).with_suffix(".txt")


def check_out(git: Path, folder: Path) -> None:
    """Writes the files of a repository's last commit that are there, but pictures."""
    command = ("git", "--git-dir", str(git))
    tree = subprocess.run([*command, "ls-tree", "-r", "-z", "HEAD"], capture_output=True, check=True).stdout
    blobs = [entry.partition(b"\t")[::2] for entry in tree.split(b"\0") if entry]
    ids = b"\n".join(about.split()[2] for about, _ in blobs)
    check = [*command, "cat-file", "--batch-check"]
    known = subprocess.run(check, input=ids, capture_output=True, check=True).stdout.splitlines()
    there = (name for (_, name), said in zip(blobs, known, strict=True) if not said.endswith(b" missing"))
    pictures = (b".png", b".jpg", b".gif", b".svg", b".pdf", b".mp4")
    names = b"\0".join(name for name in there if not name.lower().endswith(pictures))
    more = ("--work-tree", str(folder), "checkout", "-q", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul")
    index = os.environ | {"GIT_INDEX_FILE": str(folder / ".index")}
    subprocess.run([*command, *more], input=names, env=index, check=True)


def findings(folder: Path, source: str, target: str, files: list[str]) -> Iterator[Finding]:
    """Yields what is found in the translations of a repository that are there."""
    rules = [{"source": one, "target": other} for one, other in zip(files[::2], files[1::2], strict=True)]
    project = project_of(folder, {"version": 1, "from": source, "to": [target], "files": rules})
    for each in project.pairs():
        if each.target.is_file():
            asked = Rules(languages=(source, target), mapped=project.rebase(each))
            yield from check_pair(Pair(each.source, each.target, each.file_format, each.settings, asked))


@click.command()
@click.option("--repositories", type=click.Path(path_type=Path, exists=True, resolve_path=True), required=True)
@click.option("--only", multiple=True, help="Names of repositories.")
@click.option("--seed", default=3011, show_default=True)
@click.option("--count", default=100, show_default=True)
def main(repositories: Path, only: tuple[str, ...], seed: int, count: int) -> None:
    """Write findings that are drawn by a seed, with both texts."""
    found: list[tuple[str, Finding]] = []
    for line in LIST.read_text().splitlines():
        name, *rest = line.split()
        if name != "#" and (not only or name in only):
            git = repositories / name.replace("/", "+")
            with tempfile.TemporaryDirectory() as folder:
                check_out(git / "repo" if (git / "repo").exists() else git, Path(folder))
                os.chdir(folder)
                found += [(name, each) for each in findings(Path(folder).resolve(), rest[0], rest[1], rest[2:])]
                os.chdir(LIST.parent)
    found.sort(key=lambda each: (each[0].replace("/", "+"), each[1].path, each[1].line, each[1].kind, each[1].text))
    for name, each in random.Random(seed).sample(found, min(count, len(found))):
        print(name, f"{each.path}:{each.line}", each.kind, each.text, sep="\t")
        print("", " ".join(each.source.split()), " ".join(each.target.split()), sep="\n\t")


if __name__ == "__main__":
    main()
