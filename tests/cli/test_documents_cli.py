"""`specmt translate` for documents, and `specmt memory`, in real processes and in this one."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from specmt.formats import suffixes
from specmt.text.memory import read_memory
from tests.commands import COMMAND, Execute, execute, model_options, specmt
from tests.documents import PO, SAMPLES, XLIFF

SAMPLE = {sample.format: sample for sample in SAMPLES}


def test_a_folder_becomes_a_folder(either_model: Path, tmp_path: Path, here: Execute) -> None:
    source, target, report = tmp_path / "in", tmp_path / "out", tmp_path / "report.html"
    (source / "sub").mkdir(parents=True)
    (source / ".git").mkdir()
    (source / "a.po").write_text(PO)
    (source / "sub" / "b.docx").write_bytes(SAMPLE["docx"].data)
    (source / "sub" / "c.md").write_text("# Titel\n\n- Ein **kurzer** Satz.\n- `code`\n")
    for path in (source / ".git" / "c.md", source / "d.bin"):
        path.write_bytes(b"Hallo\n")
    (tmp_path / "memory.tsv").write_text("unklar\tunclear\nDatei %s\tFile %s\n")
    memory = ["--memory", tmp_path / "memory.tsv"]
    command = ["translate", source, "-o", target, *model_options(either_model), *memory, "--report", report]
    result = here(*command, "--retranslate-fuzzy")
    assert result.returncode == 0, result.stderr.decode()
    written = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert written == ["a.po", "sub/b.docx", "sub/c.md"]
    assert re.fullmatch(r"# .+\n\n- .+\n- `code`\n", (target / "sub" / "c.md").read_text())
    text = (target / "a.po").read_text()
    assert 'msgstr "unclear"' in text and 'msgstr "File %s\\n"' in text and 'msgstr "done"' in text
    # The model says nonsense, some of which is known to be damaged and is not written.
    said = re.search(r"3 documents, 10 segments: (\d) translated, 2 from memory, (\d) kept", result.stderr.decode())
    assert said is not None and int(said[1]) + int(said[2]) == 8 and int(said[2]) >= 1
    page = report.read_text()
    assert f"{source}/a.po" in page and "<h2>Warnings</h2>" in page
    # Of what is there already nothing is left to do, in a process of its own.
    data = (target / "a.po").read_bytes()
    again = execute(*COMMAND, "translate", "--file-format", "po", *model_options(either_model), data=data)
    assert again.returncode == 0 and again.stdout == data


def test_a_damaged_document_leaves_no_output(tiny_model: Path, tmp_path: Path, here: Execute) -> None:
    good, bad, out = tmp_path / "a.xlf", tmp_path / "b.xlf", tmp_path / "out"
    good.write_text(XLIFF)
    bad.write_text(XLIFF[:200])
    result = here("translate", bad, "-o", tmp_path / "c.xlf", *model_options(tiny_model))
    assert result.returncode == 65
    error = result.stderr.decode()
    assert error.startswith(f"specmt: error: {bad}: line 4 is not well-formed XML") and error.count("\n") == 1
    assert result.stdout == b"" and not (tmp_path / "c.xlf").exists()
    result = here("translate", bad, good, "-o", out, *model_options(tiny_model), "-q")
    assert result.returncode == 65
    assert error in result.stderr.decode()
    assert result.stderr.decode().endswith("specmt: error: 1 document is left; the others are written.\n")
    assert {path.name for path in out.iterdir()} == {"a.xlf"}


_NO_PACKAGE = "line 1 is no package that can be read (File is not a zip file)"
CUT = {
    "android": "line 7 is not well-formed XML (no element found)",
    "docx": _NO_PACKAGE,
    "epub": _NO_PACKAGE,
    "json": "line 2 is not JSON: Unterminated string starting at",
    "odt": _NO_PACKAGE,
    "php": "line 4 is not PHP",
    "po": "line 23 ends the file within a message",
    "pptx": _NO_PACKAGE,
    "qt": "line 29 is not well-formed XML (unclosed token)",
    "resx": "line 15 is not well-formed XML (unclosed token)",
    "strings": 'line 5 is no "key" = "value";',
    "stringsdict": "line 19 is not well-formed XML (unclosed token)",
    "tmx": "line 8 is not well-formed XML (unclosed token)",
    "xcstrings": "line 20 is not JSON: Unterminated string starting at",
    "xliff": "line 1 is not well-formed XML (unclosed token)",
    "xlsx": _NO_PACKAGE,
    "xml": "line 6 is not well-formed XML (unclosed CDATA section)",
}
"""What is said of the samples without their last part; what is missing of other formats, nobody can know."""


@pytest.mark.parametrize("name", sorted(SAMPLE))
def test_a_truncated_document(name: str, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = SAMPLE[name].data
    end = -12
    if name == "po" or CUT.get(name) == _NO_PACKAGE:
        end = data.rindex(b'"Ein langer' if name == "po" else b"PK\5\6")
    suffix = next(iter(suffixes(name)), ".xml")
    path, out = tmp_path / f"a{suffix}", tmp_path / "out"
    path.write_bytes(data[:end])
    columns = ["--column", "1"] if name == "csv" else []
    code = specmt("translate", path, "-o", out, *model_options(tiny_model), "--file-format", name, *columns)
    error = capsys.readouterr().err
    if name in CUT:
        assert (code, out.exists()) == (65, False)
        assert error.startswith(f"specmt: error: {path}: {CUT[name]}") and error.count("\n") == 1
    else:
        assert (code, out.exists()) == (0, True)


def test_a_segment_that_fails_is_reported(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr("specmt.formats.properties._code", fail)
    path, out = tmp_path / "a.properties", tmp_path / "out.properties"
    path.write_text("a=der Hund\nb=die Katze\n")
    assert specmt("translate", path, "-o", out, *model_options(tiny_model)) == 65
    error = capsys.readouterr().err
    assert f"{path}:2 (b): kept as it was: it cannot be written (ValueError)" in error
    assert "error: segments that cannot be written stay as they were: 1; the rest is written." in error
    assert out.read_text() == path.read_text()


def test_text_that_stays_counts_and_what_is_no_text_does_not(tiny_model: Path, tmp_path: Path) -> None:
    cases = {
        "icu.yml": ("de:\n  a: '{n, plural, one {ein Hund} other {Hunde}}'\n", 65),
        "icu.arb": ('{"@@locale": "de", "a": "{n, plural, one {ein Hund}"}', 65),
        "code.md": ("`der Hund`\n\n    die Katze\n", 0),
    }
    for name, (text, code) in cases.items():
        path = tmp_path / name
        path.write_text(text)
        command = ["translate", path, "-o", tmp_path / f"out-{name}", *model_options(tiny_model)]
        assert specmt(*command, "--strict") == code, name
        assert specmt(*command) == 0


def test_a_document_that_changes_while_it_is_read(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "a.po", tmp_path / "out.po"
    path.write_text(PO)

    class Growing(io.FileIO):
        """A file to which another process adds while it is read."""

        def read(self, size: int | None = -1) -> bytes:
            with path.open("a") as other:
                other.write("# x\n")
            return super().read(size) or b""

    monkeypatch.setattr("specmt.cli.documents.open_input", lambda path: Growing(path))
    assert specmt("translate", path, "-o", out, *model_options(tiny_model)) == 65
    assert capsys.readouterr().err == f"specmt: error: {path}: changed while it was read.\n"
    assert not out.exists()


def test_a_document_that_is_too_large_is_not_read_whole(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "a.po", tmp_path / "out.po"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room
    assert specmt("translate", path, "-o", out, *model_options(tiny_model)) == 65
    assert capsys.readouterr().err == f"specmt: error: {path}: is larger than 128 MiB, the most that is read.\n"
    assert not out.exists()


def test_memory_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.po").write_text(PO)
    (tmp_path / "b.xlf").write_text(XLIFF)
    out = tmp_path / "out.tmx"
    assert specmt("memory", "export", tmp_path / "a.po", tmp_path / "b.xlf", "-o", out) == 0
    assert capsys.readouterr().err == "specmt: note: 1 pair\n"
    assert list(read_memory(out, "de", "en")) == [("fertig", "done")]
    assert specmt("memory", "export", out, "-o", out) == 2
    for languages, pair in (
        (["--from", "en"], ["en", "de"]),
        (["--to", "DE"], ["en", "de"]),
        (["--from", "EN-gb", "--to", "de"], ["EN-gb", "de"]),
        (["--from", "fr", "--to", "de"], ["fr", "de"]),
    ):
        assert specmt("memory", "export", tmp_path / "a.po", *languages, "-o", out) == 0
        assert re.findall('xml:lang="(.*?)"', out.read_text()) == pair
    assert specmt("memory", "export", tmp_path / "a.po", "--from", "fr") == 2
    assert "`from` and `to` must both be given." in capsys.readouterr().err
