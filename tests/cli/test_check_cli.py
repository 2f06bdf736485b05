"""`specmt check`: two files, and those of a project."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.commands import ROOT, specmt


@pytest.mark.parametrize(
    ("name", "source", "target", "said"),
    [
        ("a.md", "# Das *Haus*\n\n- [x](y)\n", "# The *house*\n\n- [z](y)\n", []),
        ("a.md", "# Das\n\nEin [Haus](a) `b`\n", "# The\n\nA [house](c) `b`\n", [":3: block: in a paragraph, 'link"]),
        ("a.md", "- a\n- b\n\nc\n", "- a b\n\nc\n", [":1: block: item would be read as paragraph"]),
        ("a.mdx", "<A>\n    Haus\n</A>\n", "<A>\n    house\n</A>\n", []),
        ("a.mdx", "<A>\n    Haus\n</A>\n", "<B>\n    house\n</B>\n", [":1: block: in a paragraph"]),
    ],
)  # fmt: skip
def test_what_differs_is_told(
    name: str, source: str, target: str, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(source)
    (tmp_path / "other").write_text(target)
    assert specmt("check", tmp_path / name, tmp_path / "other") == (65 if said else 0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(f"{tmp_path / name}{each}") for line, each in zip(lines, said, strict=True))


def test_a_baseline_goes_by_what_is_said_and_not_by_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = _, target, baseline = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "known"
    command = ["check", *paths[:2], "--baseline", baseline]
    said = (
        "<p>Das Haus von 1981.</p>\n{}<p>Der Baum von 1999.</p>\n",
        "<p>The house of 1981.</p>\n<p>The tree of 1999.</p>\n",
    )
    for name, text in zip(paths, said, strict=False):
        name.write_text(text.format("<p>Und ein Satz, den keiner übersetzt hat.</p>\n"))
    assert specmt(*command, "--write-baseline") == 0
    assert "block" in baseline.read_text()
    for path in paths[:2]:
        path.write_text("<br>\n" + path.read_text())
    assert specmt(*command) == 0
    target.write_text(target.read_text().replace("1981", "1975"))
    assert specmt(*command) == 65
    assert ": number: the number 1975 is in the translation only" in capsys.readouterr().out


def test_the_dialect_of_a_page(tmp_path: Path) -> None:
    for name, said in ("a.md", "Das Haus ist groß."), ("b.md", "The house is big."):
        (tmp_path / name).write_text(f"# A\n\n% Das ist ein Kommentar, der bleibt\n\n{said}\n")
    command = ["check", tmp_path / "a.md", tmp_path / "b.md"]
    assert specmt(*command) == 65
    assert specmt(*command, "--dialect", "myst") == 0


def test_columns_of_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.de.csv").write_text("de,x\nDas Haus {name},nein {a}\n")
    (tmp_path / "a.en.csv").write_text("de,x\nThe house,no {b}\n")
    assert specmt("check", tmp_path / "a.de.csv", tmp_path / "a.en.csv", "--column", "de") == 65
    files = 'source = "a.de.csv"\ntarget = "a.{to}.csv"\ncolumns = ["1"]\n'
    (tmp_path / "specmt.toml").write_text(f'version = 1\nfrom = "de"\nto = ["en"]\n[[files]]\n{files}')
    monkeypatch.chdir(tmp_path)
    assert specmt("check") == 65
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("csv")[2] for line in lines] == [":2: placeholder: '{name}' is not in the translation"] * 2


def test_what_cannot_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.bin", "a.md"):
        (tmp_path / name).write_bytes(b"\xff")
    assert specmt("check", tmp_path / "a.bin", tmp_path / "a.md") == 2
    assert "has a format that is not read" in capsys.readouterr().err
    assert specmt("check", tmp_path / "a.md", tmp_path / "b.md") == 66
    assert "b.md: no such file" in capsys.readouterr().err
    assert specmt("check", tmp_path / "a.md") == 2
    assert "or a project (specmt.toml)." in capsys.readouterr().err
    assert specmt("check", tmp_path / "a.md", tmp_path / "a.md") == 65
    assert "a.md: line 1 is not valid utf-8 at byte offset 0" in capsys.readouterr().out


def test_what_is_damaged_keeps_nothing_else_from_being_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = 'version = 1\nfrom = "de"\nto = ["en"]\nfiles = [{source = "*.de.md", target = "{stem}.{to}.md"}]\n'
    (tmp_path / "specmt.toml").write_text(project)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.de.md").write_text("Am 3. Mai\n" if name != "b" else "\udcff", errors="surrogateescape")
        (tmp_path / f"{name}.en.md").write_text("On 5 May\n")
    record = tmp_path / ".specmt/record/en/a.de.md.rec"
    record.parent.mkdir(parents=True)
    record.write_text("none\n")
    monkeypatch.chdir(tmp_path)
    assert specmt("check") == 65
    said = capsys.readouterr().out
    assert f"a.en.md:1: parse: {record}: line 1 is not that of a record." in said
    assert f"b.en.md:1: parse: {tmp_path / 'b.de.md'}: line 1 is not valid utf-8" in said
    assert "c.en.md:1: number: the number 5 is in the translation only" in said


def test_the_hook_and_the_workflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]
    *_, page = (ROOT / "docs/check.md").read_text().partition("# .github/workflows/")
    workflow = yaml.safe_load(page.partition("```")[0].partition("\n")[2])
    commands = hook["entry"], workflow["jobs"]["check"]["steps"][-1]["run"]
    (tmp_path / "de.md").write_text("Am 3. Mai.\n\n`ls`\n")
    (tmp_path / "specmt.toml").write_text(
        'version = 1\nfrom = "de"\nto = ["en"]\n[[files]]\nsource = "de.md"\ntarget = "{to}.md"\n'
    )
    monkeypatch.chdir(tmp_path)
    for target, codes in (("On May 3.\n\n`ls`\n", (0, 0)), ("On May.\n\n`ls`\n", (65, 0)), ("On May 3.\n", (65, 65))):
        (tmp_path / "en.md").write_text(target)
        assert tuple(specmt(*command.split()[1:]) for command in commands) == codes, capsys.readouterr().out
