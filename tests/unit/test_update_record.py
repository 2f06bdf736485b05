"""Records of translations: their form, and that no kill loses anything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.errors import DataError
from specmt.update.record import Entry, Record, blob_id, digest, parse, written
from specmt.update.store import Locks
from tests.commands import specmt
from tests.updating import Pair

hashes = st.one_of(st.just("-"), st.integers(0, 2**64 - 1).map("{:016x}".format))
short = st.integers(0, 2**32 - 1).map("{:08x}".format)
entries = st.builds(
    Entry,
    st.sampled_from(["paragraph", "list item", "a:b"]),
    st.text(max_size=8),
    hashes,
    hashes,
    hashes,
    st.sampled_from("mhc-!o"),
    st.lists(short, max_size=3).map(tuple),
    st.lists(st.one_of(short, short.map("{}h".format)), max_size=3).map(tuple),
)


@settings(max_examples=30)
@given(st.lists(entries, max_size=3))
def test_what_is_written_is_read(lines: list[Entry]) -> None:
    record = Record("markdown", "de", "en", blob_id(b"a"), blob_id(b"b"), lines)
    assert parse(written(record)) == record
    assert parse(written(record).replace("\n", "\r\n")) == record


def test_the_ids_of_files_are_those_of_git() -> None:
    data = "Über\n".encode()
    asked = subprocess.run(["git", "hash-object", "--stdin"], input=data, capture_output=True, check=True)
    assert blob_id(data) == asked.stdout.decode().strip()


def test_layout_is_no_part_of_a_hash() -> None:
    assert digest(["a\r\n  b", "c"]) == digest(["a b c"])
    assert digest(["u\N{COMBINING DIAERESIS}"]) == digest(["ü"])
    assert digest(["a"]) != digest(["b"])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "line 1 is not"),
        ("specmt-record 2 text de en - -\n", "line 1 is of version 2"),
        ("specmt-record 1 text de en - -\nwords\n", "line 2 is not"),
        ("specmt-record 1 text de en - -\n- - - x text /\n", "line 2 is not"),
    ],
)
def test_what_is_no_record_is_said_so(text: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        parse(text)


def line(target: str) -> str:
    return f"{'a' * 16} - {target * 16} m text /\n"


@pytest.mark.parametrize("base", ["", "||||||| base\nanything\n"])
def test_of_two_lines_in_a_conflict_the_one_that_fits_wins(base: str) -> None:
    head = f"specmt-record 1 text de en {'a' * 40} {'b' * 40}\n"
    text = f"{head}<<<<<<< ours\n{line('1')}{base}=======\n{line('2')}>>>>>>> theirs\n{line('3')}"
    for present, kept in (("1", "1"), ("2", "2"), ("", "")):
        record = parse(text, [present * 16])
        assert [each.target[0] for each in record.entries] == [*kept, "3"]
        assert record.source_blob == "-"


def test_one_update_at_a_time(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "page.md")
    pair.update("Eins.\n")
    with Locks() as ours, Locks() as theirs:
        ours.hold(pair.files)
        ours.hold(pair.files)
        with pytest.raises(DataError, match="another update is at work"):
            theirs.hold(pair.files)
    with Locks() as others:
        others.hold(pair.files)


EVENTS = frozenset(("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"))


def killed_before(number: int, folder: Path, work: Callable[[], object]) -> bool:
    """Does something in a process that is killed before its n-th operation on files; whether that came."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        count = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            if event in EVENTS and str(folder) in os.fsdecode(cast(str, arguments[0] or "")):
                count += 1
                if count > number:
                    os._exit(9)

        try:
            sys.addaudithook(hook)
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.mark.parametrize(("what", "least"), [("make", 10), ("update", 10), ("accept", 4), ("init", 3)])
def test_a_kill_at_any_operation_loses_nothing(what: str, least: int, tmp_path: Path) -> None:
    def prepared(name: str) -> tuple[Path, Callable[[], object]]:
        pair = Pair(tmp_path / name, "page.md")
        pair.folder.mkdir()
        if what in ("update", "accept"):
            pair.update("# Titel\n\nEin Satz.\n\nNoch einer.\n")
            pair.edit("EIN SATZ", "My own words")
        pair.source.write_text("# Titel\n\nEin Satz.\n\nEtwas anderes.\n\nNeues.\n")
        if what == "accept":
            pair.update()
            return pair.folder, lambda: specmt("accept", f"{pair.target}:3")
        if what == "init":
            for language in ("de", "en"):
                (pair.folder / f"{language}.json").write_text('{"a": "Eins"}')
            return pair.folder, lambda: specmt("init", pair.folder, "--from", "de", "--to", "en", "--write", "--force")
        return pair.folder, pair.update

    whole, work = prepared("whole")
    work()
    expected = state(whole)
    for number in range(100):
        folder, work = prepared(str(number))
        was_killed = killed_before(number, folder, work)
        work()
        assert state(folder) == expected, number
        if not was_killed:
            break
    assert number > least
