"""`specmt update` and `specmt accept`, mostly as far as they need no model."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from specmt.update.store import Locks
from tests.commands import fails, specmt
from tests.documents import Shouting
from tests.updating import Pair


def test_what_would_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair(tmp_path, "page.md")
    pair.update("Eins.\n\nZwei.\n")
    command = ["update", pair.source, "--into", pair.target]
    assert specmt(*command) == 0
    assert capsys.readouterr().err == "specmt: note: 1 document, 1 of them as before\n"
    pair.edit("ZWEI", "Two")
    pair.source.write_text("Eins und mehr.\n\nZwei und mehr.\n")
    before = pair.target.read_bytes(), pair.files.record.read_bytes()
    assert specmt(*command, "--dry-run") == 0
    assert capsys.readouterr().err == (
        f"specmt: warning: {pair.target}:3: source and translation were changed together\n"
        "specmt: note: 1 document, 0 of them as before: would be 1 translated\n"
    )
    assert before == (pair.target.read_bytes(), pair.files.record.read_bytes())


def test_what_is_outdated_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair(tmp_path, "page.md")
    pair.update("Eins.\n\nZwei.\n\nDrei.\n")
    pair.revise("ZWEI", "Two")
    pair.update("Eins.\n\nZwei und mehr.\n\nDrei.\n")
    assert pair.origins() == "mom"
    assert specmt("accept", pair.target) == 0
    assert pair.origins() == "mhm"
    assert specmt("accept", f"{pair.target}:5") == 0
    assert pair.origins() == "mhh"
    assert capsys.readouterr().err == "specmt: note: 1 block accepted\n" * 2
    pair.edit("Two", "2")
    fails(capsys, ["accept", pair.target], 65, "has changed since the last `specmt update`")
    fails(capsys, ["accept", pair.source], 66, "has no record")


def test_how_translations_of_others_are_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair(tmp_path, "page.md")
    pair.target.parent.mkdir()
    pair.source.write_text("Eins.\n\nZwei.\n")
    pair.target.write_text("One.\n\nTwo.\n")
    command = ["update", pair.source, "--into", pair.target]
    said = "1 document, 0 of them as before"
    assert specmt(*command) == specmt(*command, "--adopt") == specmt(*command) == 0
    assert capsys.readouterr().err == (
        f"specmt: note: {said}: 2 outdated; 1 without a record: `--adopt` takes them as up to date\n"
        f"specmt: note: {said}\nspecmt: note: 1 document, 1 of them as before\n"
    )
    assert pair.origins() == "hh"


def test_terms_that_a_project_keeps_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "specmt.toml").write_text(
        'version = 1\nfrom = "de"\nto=["en"]\nkeep = ["Bahnhof"]\n[[files]]\nsource = "*.md"\ntarget = "{to}/{path}"\n'
    )
    (tmp_path / "page.md").write_text("Wo ist der Bahnhof?\n")
    for command in (["update"], ["translate", "-o", tmp_path / "en" / "page.md"]):
        assert specmt(*command, tmp_path / "page.md", "--quiet") == 0
        assert "Bahnhof?" in (tmp_path / "en" / "page.md").read_text()
        (tmp_path / "en" / "page.md").unlink()


def test_the_source_of_a_translation_in_git(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair(tmp_path, "page.md")
    pair.target.parent.mkdir()
    pair.source.write_text("Eins.\n\nZwei.\n")
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b.de commit -qm a"):
        subprocess.run(["git", "-C", tmp_path, *command.split()], check=True)
    pair.target.write_text("One.\n\nTwo.\n")
    pair.source.write_text("Eins.\n\nZwei und mehr.\n")
    command = ["update", pair.source, "--into", pair.target, "--dry-run", "--was"]
    assert specmt(*command, "git:HEAD") == 0
    assert "page.md:3: outdated: the source has changed" in capsys.readouterr().err
    fails(capsys, [*command, "git:v1"], 66, "git does not have it as of v1")
    fails(capsys, [*command, tmp_path / "none"], 66, "none: no such file")
    pair.update(adopt=True)
    assert specmt(*command, "git:HEAD") == 0
    assert "`--was` has no effect on 1 of 1 documents, which have a record." in capsys.readouterr().err


def test_a_page_on_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmt.cli.updating._load", lambda *_, **__: Shouting())
    pair, report = Pair(tmp_path, "page.md"), tmp_path / "report.html"
    (tmp_path / "memory.tsv").write_text("Das ist ein kurzer Satz.\tThis is a short sentence.\n")
    pair.update("Eins.\n\nZwei.\n")
    pair.revise("ZWEI", "Two")
    pair.source.write_text("Das ist ein langer Satz.\n\nEins.\n\nZwei und mehr.\n")
    command = ["update", pair.source, "--into", pair.target, "--report", report]
    fails(capsys, [*command, "--dry-run"], 2, "`--report` does not go together with `--dry-run`")
    assert specmt(*command, "--memory", tmp_path / "memory.tsv") == 0
    page = report.read_text()
    assert "draft: ZWEI UND MEHR." in page
    assert "Das ist ein langer Satz. ≈ Das ist ein kurzer Satz. → This is a short sentence." in page


def test_what_one_of_several_documents_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    for name, text in (("a.md", "Eins.\n"), ("b.md", "<<<<<<< a\nEins\n=======\nZwei\n>>>>>>> b\n")):
        (tmp_path / "in" / name).write_text(text)
    assert specmt("update", tmp_path / "in", "--into", tmp_path / "out", "--dry-run") == 65
    error = capsys.readouterr().err
    assert "b.md: has a conflict that is not resolved, up to line 5." in error
    assert error.endswith("specmt: error: 1 document is left; the others are up to date.\n")
    assert not (tmp_path / "out").exists()


def test_one_update_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair(tmp_path, "page.md")
    pair.update("Eins.\n")
    pair.source.write_text("Zwei.\n")
    with Locks() as locks:
        locks.hold(pair.files)
        fails(capsys, ["update", pair.source, "--into", pair.target], 65, "another update is at work in")
    assert pair.target.read_text() == "EINS.\n"


def test_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    project = 'version = 1\nfrom = "de"\nto = ["en"]\nmemory = ["a.tsv", "b.tsv"]\n[[files]]\n'
    project += 'source = "docs/**/*.md"\ntarget = "{to}/{path}"\n'
    (tmp_path / "specmt.toml").write_text(project)
    for name, pair in (("a.tsv", "Sechs.\tSix.\n"), ("b.tsv", "Neun.\tNine.\n")):
        (tmp_path / name).write_text(pair)
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    monkeypatch.setattr("specmt.cli.updating._load", lambda *_, **__: Shouting())
    Path("a.md").write_text("Eins und [zwei](b.md).\n")
    Path("b.md").write_text("Zwei.\n")
    assert specmt("update", "--dry-run") == 0
    assert f"specmt: note: {tmp_path}/en/b.md: would be 1 translated\n" in capsys.readouterr().err
    assert specmt("update") == 0
    assert capsys.readouterr().err == "specmt: note: 2 documents, 0 of them as before: 2 translated\n"
    assert (tmp_path / "en" / "a.md").read_text() == "EINS UND [ZWEI](b.md).\n"
    assert (tmp_path / ".specmt" / "record" / "en" / "docs" / "a.md.rec").exists()
    Path("b.md").write_text("Drei.\n")
    assert specmt("update", "b.md") == 0
    assert capsys.readouterr().err == "specmt: note: 1 document, 0 of them as before: 1 translated\n"
    assert specmt("accept", tmp_path / "en" / "b.md:1") == 0
    capsys.readouterr()
    # What people approved in pages that are not named, and all memories, are known, too.
    Path("d.md").write_text("Drei.\n\nSechs.\n\nNeun.\n")
    (tmp_path / "en" / "b.md").write_text("Three.\n")
    assert specmt("update", "b.md") == specmt("update", "d.md") == 0
    assert (tmp_path / "en" / "d.md").read_text() == "Three.\n\nSix.\n\nNine.\n"
    capsys.readouterr()
    Path("b.md").rename("c.md")
    assert specmt("update", "--dry-run") == 0
    told = capsys.readouterr().err
    assert "b.md would become " in told and "translated" not in told
    assert specmt("update") == 0
    assert "b.md is now " in capsys.readouterr().err
    assert not (tmp_path / "en" / "b.md").exists()
    assert (tmp_path / "en" / "c.md").read_text() == "Three.\n"
    # A run that was ended when only the translation had been moved.
    record = tmp_path / ".specmt" / "record" / "en" / "docs" / "c.md.rec"
    record.rename(record.with_name("b.md.rec"))
    assert specmt("update") == 0
    assert " h " in record.read_text()
    Path("c.md").rename("b.md")
    assert specmt("update") == 0
    assert specmt("update", "--quiet") == 0
    assert (tmp_path / "en" / "b.md").read_text() == "Three.\n"
    Path("b.md").unlink()
    capsys.readouterr()
    assert specmt("update") == 0
    gone = f"specmt: note: {tmp_path}/en/b.md: its source, b.md, is gone\n"
    assert capsys.readouterr().err == f"{gone}specmt: note: 2 documents, 2 of them as before\n"
    monkeypatch.chdir("/")
    capsys.readouterr()
    fails(capsys, ["update"], 2, "SOURCE and `into` must be given where there is no specmt.toml")


def test_one_of_a_projects_languages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = '[[files]]\nsource = "*.md"\ntarget = "{to}/{path}"\n'
    (tmp_path / "specmt.toml").write_text(f'version = 1\nfrom = "de"\nto = ["en", "fr"]\n{rule}')
    (tmp_path / "a.md").write_text("Eins.\n")
    monkeypatch.chdir(tmp_path)
    loaded: list[str] = []
    monkeypatch.setattr(
        "specmt.cli.updating._load", lambda _, loading, **__: (loaded.append(loading["target"]), Shouting())[1]
    )
    assert specmt("update", "--to", "fr", "--quiet") == 0
    assert loaded == ["fr"] and (tmp_path / "fr" / "a.md").exists() and not (tmp_path / "en").exists()
    fails(capsys, ["update", "--to", "es"], 2, "`to` must be one of en, fr, but is 'es' instead.")


def test_what_a_project_names_is_translated_or_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (
        ("app/*.json", "{to}/{path}"), ("app/*.yml", "{to}/{path}"), ("web/**", "{to}/web/{path}"), ("a/*", "{to}/a"),
    )  # fmt: skip
    files = "\n".join(f'[[files]]\nsource = "{source}"\ntarget = "{target}"' for source, target in rules)
    (tmp_path / "specmt.toml").write_text(f'version = 1\nfrom = "de"\nto = ["en"]\n{files}\n')
    for name, text in {
        "app/labels.json": '{"a": "Das Haus"}\n',
        "app/labels.yml": "a: Das Haus\n",
        "web/de.json": '{"a": "Der Baum"}\n',
        "web/site.json": '{"a": "Der Baum"}\n',
        "web/main.ts": "let a = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specmt.cli.updating._load", lambda *_, **__: Shouting())
    left = "specmt: note: left as they are: web/main.ts (TypeScript), web/site.json (JSON)\n"
    left += "specmt: note: no file fits a/*\n"
    assert specmt("update") == 0
    assert capsys.readouterr().err == f"{left}specmt: note: 3 documents, 0 of them as before: 3 translated\n"
    assert (tmp_path / "en/labels.json").read_text() == '{"a": "DAS HAUS"}\n'
    assert (tmp_path / "en/labels.yml").read_text() == "a: DAS HAUS\n"
    assert specmt("update", "app") == specmt("check") == 0
    assert capsys.readouterr().err == f"specmt: note: 2 documents, 2 of them as before\n{left}"


def test_a_source_that_moved_without_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmt.cli.updating._load", lambda *_, **__: Shouting())
    (tmp_path / "in" / "sub").mkdir(parents=True)
    source, command = tmp_path / "in" / "a.md", ["update", tmp_path / "in", "--into", tmp_path / "out"]
    source.write_text("Eins.\n\nZwei.\n")
    assert specmt(*command) == 0
    (tmp_path / "out" / "a.md").write_text("EINS.\n\nTwo.\n")
    source.rename(tmp_path / "in" / "sub" / "b.md")
    assert specmt(*command) == 0
    assert (tmp_path / "out" / "sub" / "b.md").read_text() == "EINS.\n\nTwo.\n"
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["b.md", "b.md.rec"]
    assert "2 translated" not in capsys.readouterr().err.splitlines()[-1]
    source.write_text("Drei.\n")
    (tmp_path / "in" / "sub" / "b.md").unlink()
    assert specmt(*command) == 0
    gone = f"{tmp_path}/out/sub/b.md: its source, {tmp_path}/in/sub/b.md, is gone"
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"specmt: note: {gone}", "specmt: note: 1 document, 0 of them as before: 1 translated"
    ]  # fmt: skip
