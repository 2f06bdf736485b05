"""What of files and folders is read as documents, what is left and named, and the languages that files say."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from specmt.cli.tasks import Task, find_tasks, in_languages, say_left
from specmt.errors import InputNotFoundError, UsageError
from specmt.formats import format_of
from specmt.formats.known import said_languages

TS = b'<?xml version="1.0"?><!DOCTYPE TS><TS version="2.1"></TS>'
XLIFF = b'<xliff version="1.2"><file source-language="en-GB" target-language="de"><body/></file></xliff>'


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    "name", ["a", "a.txt", "a.de", "a.en-GB", "a.pt_BR", "a.deu_Latn", "a.src", "a.ref", "a.hyp", "newstest2013.de"]
)
def test_lines_are_known_by_their_names(name: str, tmp_path: Path) -> None:
    put(tmp_path, {name: b"Haus\n", f"{name}.gz": gzip.compress(b"Haus\n")})
    for each in (name, f"{name}.gz"):
        assert find_tasks([tmp_path / each], None, None).tasks == []
    assert find_tasks([None], None, None).tasks == []
    put(tmp_path, {"a.cs": b"Dum\n"})
    assert find_tasks([tmp_path / "a.cs"], None, None, language="cs").tasks == []


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("mkdocs.yml", b"site_name: Haus\nnav:\n  - a: b\n", "YAML"),
        ("docker-compose.yml", b"services:\n  de:\n    image: a\n", "YAML"),
        ("app.ts", b"import { a } from 'b'\nconst c = <TS>d\n", "TypeScript"),
        ("a.tex", b"Haus\n", "LaTeX"),
        ("a.cs", b"class Haus {}\n", ".cs"),
        ("de.yml.bak", b"de:\n  a: Haus\n", ".bak"),
        ("a.php", b"<?php\nreturn ['a' => 'Haus'];", "PHP"),
        ("a.xml", b'<?xml version="1.0"?>\n<!-- <resources> -->\n<project><name>Haus</name></project>', "XML"),
        ("a.unknown", b"Haus", ".unknown"),
        ("a", b"%PDF-1.4", "PDF"),
        ("a.de", b"\x89PNG\r\n\x1a\n", "a PNG image"),
        ("a.txt", b"\x89PNG\r\n\x1a\n", "a PNG image"),
        ("a.dat", b"\x00\x01", "binary data"),
    ],
)
def test_what_no_format_reads_is_refused(name: str, data: bytes, kind: str, tmp_path: Path) -> None:
    put(tmp_path, {name: data})
    with pytest.raises(UsageError) as error:
        find_tasks([tmp_path / name], tmp_path / "out", None)
    assert f"{name}: has a format that is not read ({kind})" in str(error.value)
    assert ("--file-format text" in str(error.value)) is (kind not in ("PDF", "a PNG image", "binary data"))
    advised = re.findall(r"`--file-format (\w+)`", str(error.value))
    assert advised[:-1] == [name for name in ("php", "xml", "yaml") if name.upper() == kind]
    for file_format in advised or ["text"]:
        (task,) = find_tasks([tmp_path / name], tmp_path / "out", file_format).tasks
        assert task.file_format == file_format


def test_what_was_made_below_a_folder_is_no_source_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, {"a.md": b"Haus\n", "en/a.md": b"House\n", "de/en/b.md": b"Haus\n"})
    monkeypatch.chdir(tmp_path)
    found = find_tasks([tmp_path], Path("en"), None).tasks
    assert [task.target for task in found] == [Path("en/a.md"), Path("en/de/en/b.md")]


def test_of_a_folder_only_what_says_so_is_a_document(tmp_path: Path) -> None:
    read = {
        "a.md": b"Haus", "app.xml": b"<resources/>", "units.xml": XLIFF, "b.arb": b"{}", "de.json": b'{"a": "Haus"}',
        "locales/de/common.json": b"{}", "messages_de.json": b"{}", "all.json": b'{"de": {"a": "Haus"}}',
        "one.json": b'{"@@locale": "de"}', "rails.yml": b"# a\n---\nde:\n  a: Haus\n", "i18n/de.yaml": b"a: Haus\n",
        "lang/de/auth.php": b"<?php\nreturn ['a' => 'b'];", "lang/de/a.php": b"<?php return ['a' => 'b'];",
        "app_en.ts": TS,
        "messages.de.yaml": b"a: Haus\n", "locales/de/a.yml": b"a: Haus\n", "i18n/de/theme/footer.json": b"{}",
    }  # fmt: skip
    left = {
        "package.json": b'{"name": "paket"}', "src/en.json": b"{}", "pom.xml": b"<project/>", "mkdocs.yml": b"nav: []",
        "docker-compose.yml": b"services: {}", "en.yml": b"a: house",
        "config.yml": b"de:\n  a: b\nhost: c", "de/mkdocs.yml": b"a: b",
        "de/view.php": b"<h1>x</h1><?php echo 1;", "config.php": b"<?php\nreturn ['a' => 'b'];",
        "de/a.php": b"<?php\nclass A {\n}\nreturn [];", "app.ts": b"export const a = 1",
        "t.csv": b"a;b\n", "de/a/b.json": b"{}", "i18n/en/de.d/b.json": b"{}", "i.png": b"\x89PNG",
    }  # fmt: skip
    put(tmp_path, read | left)
    (tmp_path / "gone.md").symlink_to("nowhere.md")
    found = find_tasks([tmp_path], tmp_path / "out", None, language="de")
    assert {str(task.source.relative_to(tmp_path)) for task in found.tasks if task.source} == set(read)
    assert {str(path.relative_to(tmp_path)) for path, _ in found.left} == {*left, "gone.md"}
    said = say_left(found.left)
    assert (
        "pom.xml (XML)" in said
        and "mkdocs.yml (YAML)" in said
        and said.endswith("1 of a PNG image, 1 of a pipe or broken link")
    )
    assert "src/en.json" in {
        str(t.name)[len(str(tmp_path)) + 1 :] for t in find_tasks([tmp_path], Path("o"), None).tasks
    }
    for folder in ("lang/de", "i18n/de/theme"):
        assert find_tasks([tmp_path / folder], tmp_path / "out", None, language="de").tasks
    (tmp_path / "linked.json").symlink_to(tmp_path / "i.png")
    (task,) = find_tasks([tmp_path / "linked.json"], tmp_path / "out", None).tasks
    assert task.file_format == "json"
    (tmp_path / "no").mkdir()
    put(tmp_path / "no", {"package.json": b"{}"})
    with pytest.raises(InputNotFoundError):
        find_tasks([tmp_path / "no"], tmp_path / "out", None)


@pytest.mark.parametrize(
    ("file_format", "head", "said"),
    [
        ("xliff", XLIFF, ("en-GB", "de")),
        ("xliff", b'<xliff srcLang="de" trgLang="en">', ("de", "en")),
        ("xliff", b'<file source-language="" target-language="">', (None, None)),
        ("po", b'msgid ""\nmsgstr ""\n"Language: fr\\n"\n', (None, "fr")),
        ("po", b'msgid ""\nmsgstr "Project: a\\nLanguage: fr\\nTeam: b\\n"\n', (None, "fr")),
        ("po", b'"Language: \\n"\n"X-Source-Language: de\\n"', ("de", None)),
        ("html", b"<!DOCTYPE html><HTML class=a lang=de-AT>", ("de-AT", None)),
        ("html", b"<html hreflang=en>", (None, None)),
        ("html", b'<html xmlns="a" xml:lang="de">', ("de", None)),
        ("xml", b'<?xml version="1.0"?><!-- a --><topic id="a" xml:lang="de"><p xml:lang="en">', ("de", None)),
        ("xml", b'<topic><p xml:lang="en">', (None, None)),
        ("asciidoc", b"= Haus\n:lang: de\n", ("de", None)),
        ("xliff", '<xliff srcLang="de" trgLang="en">'.encode("utf-16"), ("de", "en")),
        ("json", b'{"@@locale": "de", "a": ""}', ("de", None)),
        ("json", b'{"a": "", "@@locale": "de"}', ("de", None)),
        ("qt", b'<!DOCTYPE TS>\n<TS version="2.1" language="pt_BR" sourcelanguage="de">', ("de", "pt_BR")),
        ("yaml", b"# a\n---\npt-BR: # b\n  a: b\n", ("pt-BR", None)),
        ("yaml", b"a:\n  b: c\n", (None, None)),
        ("tmx", b'<header srclang="*all*"/>', (None, None)),
        ("markdown", b"lang: de", (None, None)),
        ("markdown", b"---\na: b\nlang: 'de-AT'\n---\n", ("de-AT", None)),
        ("markdown", b'+++\r\nlocale = "de"\r\n+++\r\n', ("de", None)),
        ("markdown", b"---\na: b\n---\nlang: de\n", (None, None)),
        ("markdown", b"---\nlanguage: python\n---\n", (None, None)),
    ],
)
def test_languages_that_documents_say(file_format: str, head: bytes, said: tuple[str | None, str | None]) -> None:
    assert said_languages(file_format, head) == said


def test_the_languages_of_a_document_count() -> None:
    def task(*said: str | None, name: str = "a.xlf", file_format: str = "xliff") -> Task:
        return Task(Path(name), None, file_format, (said[0], said[1]))

    def kept(tasks: list[Task], source: str | None = None, target: str | None = None) -> tuple[object, ...]:
        loading, damaged = {"source": source, "target": target}, list[str]()
        found = in_languages(tasks, None, loading, damaged, is_sure=source is not None)
        return [int(each.insists) for each in found], loading["source"], loading["target"], len(damaged)

    english, german, fields = task("en", "de"), task("de-DE", None), task(None, None)
    assert kept([english]) == ([0], "en", "de", 0)
    assert kept([fields]) == ([0], None, None, 0)
    assert kept([english, fields]) == ([0, 0], "en", "de", 0)
    assert kept([english, german], "en", "de") == ([0], "en", "de", 1)
    with pytest.raises(UsageError, match="`from` must be given, as the documents say de, en"):
        kept([english, german])
    with pytest.raises(UsageError, match=r"a\.xlf: says that it is en to de, not de to en"):
        kept([english], "de", "en")
    page = task("en", None, name="a.html", file_format="html")
    assert kept([page], "de") == ([1], "de", None, 0)  # themes say en on German pages
    with pytest.raises(UsageError, match=r"a\.html: says that it is en, not de to en"):
        kept([page], None, "en")


def test_xml_is_known_by_its_root() -> None:
    assert (
        format_of("a.xml", b"\xef\xbb\xbf<?xml version='1.0'?><!DOCTYPE r [<!ENTITY a 'b'>]><resources>") == "android"
    )
    assert format_of("a.xml", b"<x:xliff>") == "xliff"
    assert format_of("a.xml", b"  <a/>") is None
    assert format_of("a.xml", b" " * 20_000 + b"x") is None
