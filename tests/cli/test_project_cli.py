"""`specmt translate` of files that are a project's: what specmt.toml says holds, the command line goes over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specmt.options import DecodingOptions
from specmt.types import Line, Translation
from tests.commands import fails, specmt
from tests.documents import Shouting

TOML = """version = 1
from = "de"
to = ["en"]
model = "mine"
memory = ["a.tsv", "b.tsv"]
glossary = { en = "terms.tsv" }
keep = ["Kassenzettel"]
skip_keys = ["id"]
fuzzy_below = 0.5
[[files]]
source = "docs/**/*.md"
target = "i18n/{to}/{path}"
keys = ["note"]
[[files]]
source = "docs/**/*.txt"
target = "i18n/{to}/{path}"
format = "html"
elements = ["b"]
[[files]]
source = "docs/**/*.json"
target = "i18n/{to}/{path}"
"""


class Loaded(Shouting):
    """A translator that knows what it was loaded for, and with which options it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.model = SimpleNamespace(languages=("de", "en"), confidence=lambda *_: 0.7)
        self.loaded: list[tuple[Any, ...]] = []
        self.options = DecodingOptions()

    def load(self, model: str | None, *, source: str | None, target: str | None, **_: Any) -> Loaded:
        self.loaded.append((model, source, target))
        return self

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        self.options = options
        return super().translate(lines, options)

    def drafts_are_fixed(self, _: DecodingOptions) -> bool:
        return True

    def remember(self, *_: object) -> None:
        pass


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    made = Loaded()
    monkeypatch.setattr("specmt.models.hub.load_model", made.load)
    monkeypatch.setattr("specmt.translator.Translator", lambda model, **_: model)
    languages = SimpleNamespace(source="de", target="en")
    monkeypatch.setattr("specmt.models.folder.find", lambda *_, **__: languages)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specmt.toml").write_text(TOML)
    for name, text in {
        "a.tsv": "Sechs.\tSix.\n",
        "b.tsv": "Neun.\tNine.\n",
        "terms.tsv": "Haus\thouse\n",
        "docs/a.md": "---\nnote: eins\ntitle: zwei\n---\nDrei und [vier](b.md).\n\nNeun.\n\n![Bild](x.png)\n",
        "docs/b.md": "Fünf.\n",
        "docs/x.png": "",
        "docs/page.txt": "<p>Eins <b>zwei</b></p>\n",
        "docs/words.json": '{"id": "eins", "sagt": "zwei drei"}\n',
        "other.md": "---\nnote: eins\ntitle: zwei\n---\nNeun.\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return made


def written(*arguments: str) -> str:
    assert specmt("translate", *arguments, "-q") == 0
    return Path(arguments[arguments.index("-o") + 1]).read_text()


def test_what_a_project_says_holds(loaded: Loaded) -> None:
    page = "---\nnote: EINS\ntitle: zwei\n---\nDREI UND [VIER](b.md).\n\nNine.\n\n![BILD](../../docs/x.png)\n"
    assert written("docs/a.md", "-o", "i18n/en/a.md") == page
    assert loaded.loaded == [("mine", "de", "en")]
    options, folder = loaded.options, Path.cwd()
    assert (options.keep, options.glossary) == (("Kassenzettel",), folder / "terms.tsv")
    assert (options.memory, options.scores) == (folder / "a.tsv", True)
    assert written("docs/page.txt", "-o", "page") == "<p>EINS <b>zwei</b></p>\n"
    assert written("docs/words.json", "-o", "en.json") == '{"id": "eins", "sagt": "ZWEI DREI"}\n'
    assert specmt("translate", "docs", "-o", "i18n/en", "-q") == 0
    assert Path("i18n/en/a.md").read_text() == page, "a folder, as its files"


def test_the_command_line_goes_over_it(loaded: Loaded) -> None:
    page = written("docs/a.md", "--key", "title", "--memory", "a.tsv", "--glossary", "b.tsv", "-o", "out.md")
    assert page.startswith("---\nnote: eins\ntitle: ZWEI\n---\n") and "NEUN." in page
    assert (loaded.options.memory, loaded.options.glossary) == (Path("a.tsv"), Path("b.tsv"))
    assert written("docs/page.txt", "--keep", "i", "-o", "page") == "<p>EINS <b>ZWEI</b></p>\n"
    written("docs/a.md", "--model", "other", "--to", "fr", "-o", "out.md")
    assert loaded.loaded[-1] == ("other", "de", "fr") and loaded.options.glossary is None
    # Sources are in another language: none of it is meant.
    written("docs/a.md", "--from", "fr", "--to", "de", "-o", "out.md")
    assert loaded.loaded[-1] == (None, "fr", "de") and loaded.options == DecodingOptions(alignments=True)


def test_other_files_are_as_without_a_project(loaded: Loaded) -> None:
    assert written("other.md", "-o", "out.md") == "---\nnote: eins\ntitle: ZWEI\n---\nNEUN.\n"
    assert loaded.loaded == [(None, None, None)]
    assert loaded.options == DecodingOptions(alignments=True)


def test_what_is_not_clear_is_asked(loaded: Loaded, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("specmt.toml")
    path.write_text(TOML.replace('["en"]', '["en", "fr"]'))
    fails(capsys, ["translate", "docs/b.md", "-o", "out.md"], 2, "`to` must be given, as ")
    assert written("docs/b.md", "-o", "i18n/fr/b.md") == "FÜNF.\n"
    assert loaded.loaded == [("mine", "de", "fr")]
    Path("more/docs").mkdir(parents=True)
    Path("more/specmt.toml").write_text(TOML)
    Path("more/docs/c.md").write_text("Eins.\n")
    fails(capsys, ["translate", "docs/b.md", "more/docs/c.md", "-o", "out"], 2, "of several projects, ")
    path.write_text(TOML.replace("model =", "modle ="))
    fails(capsys, ["translate", "docs/b.md", "-o", "out.md"], 2, "is 'model' meant?")
