"""What is proposed for a project, by the names of its files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specmt.errors import UsageError
from specmt.project import read_project
from specmt.proposal import propose
from tests.commands import execute_here

TS = '<TS version="2.1"/>'
CROWDIN = """files:
  - source: /web/src/**/texts.json
    translation: /web/out/%two_letters_code%/**/%original_file_name%
"""
PAGES = "i18n/de/docusaurus-plugin-content-"
KINDS = {
    "Docusaurus": (
        {"docusaurus.config.js": "i18n: { defaultLocale: 'en', locales: ['en', 'de'] }"},
        {"docs/a/b.md": f"{PAGES}docs/current/a/b.md", "blog/c.mdx": f"{PAGES}blog/c.mdx"},
    ),
    "MkDocs": (
        {"mkdocs.yml": "plugins:\n  - i18n:\n      languages:\n        - locale: en\n          default: true\n"},
        {"docs/a.md": "docs/a.de.md", "docs/b/c.md": "docs/b/c.de.md"},
    ),
    "MkDocs in folders": ({"mkdocs.yml": ""}, {"docs/en/a/b.md": "docs/de/a/b.md"}),
    "Hugo": ({"site/hugo.toml": "[languages.de]"}, {"site/content/en/a.md": "site/content/de/a.md"}),
    "Hugo by suffix": ({"config.toml": ""}, {"content/a/_index.md": "content/a/_index.de.md"}),
    "Sphinx": ({"doc/conf.py": ""}, {"doc/_build/gettext/a/b.pot": "doc/locale/de/LC_MESSAGES/a/b.po"}),
    "Sphinx in source": ({"docs/source/conf.py": ""}, {"docs/build/gettext/a.pot": "docs/locale/de/LC_MESSAGES/a.po"}),
    "VitePress": (
        {"docs/.vitepress/config.mts": "locales: {\n root: { label: 'English', lang: 'en' },\n de: { lang: 'de' } }"},
        {"docs/index.md": "docs/de/index.md", "docs/a/b.md": "docs/de/a/b.md"},
    ),
    "Rails": (
        {},
        {"config/locales/en.yml": "config/locales/de.yml", "config/locales/a/b.en.yml": "config/locales/a/b.de.yml"},
    ),
    "Android": ({}, {"app/res/values/strings.xml": "app/res/values-de/strings.xml"}),
    "Qt": ({"src/tool_fr.ts": TS}, {"src/app_en.ts": "src/app_de.ts"}),
    "Qt without a language": ({"src/index.ts": "export {}"}, {"src/app.ts": "src/app_de.ts"}),
    "gettext": ({}, {"po/app.pot": "po/de.po"}),
    "gettext in folders": ({}, {"locale/app.pot": "locale/de/LC_MESSAGES/app.po"}),
    "Apple": ({}, {"App/en.lproj/Info.strings": "App/de.lproj/Info.strings"}),
    "crowdin.yml": ({"crowdin.yml": CROWDIN}, {"web/src/en/texts.json": "web/out/de/en/texts.json"}),
    "names of files": ({}, {"i18n/en.json": "i18n/de.json"}),
    "names of files of Angular": ({}, {"src/messages.xlf": "src/messages.de.xlf"}),
    "folders": ({}, {"locales/en/app.json": "locales/de/app.json"}),
}  # fmt: skip
"""Other files, and sources with their translations."""


def write(folder: Path, *names: str, **texts: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        xml = TS if path.suffix == ".ts" else "<resources/>"
        path.write_text(texts.get(name, "{}" if path.suffix == ".json" else xml))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_new", [False, True])
def test_a_proposal_fits_what_is_there(kind: str, is_new: bool, tmp_path: Path) -> None:
    others, files = KINDS[kind]
    if is_new and kind in ("Qt without a language", "gettext in folders", "names of files of Angular"):
        pytest.skip("nothing says so")
    write(tmp_path, *others, **others)
    write(tmp_path, *files, *(() if is_new else files.values()), "node_modules/x/en.json", "node_modules/x/de.json")
    proposal = propose(tmp_path, languages=["de"] if is_new else [])
    assert (proposal.source, proposal.languages) == ("en", ["de"])
    (tmp_path / "specmt.toml").write_text(str(proposal))
    pairs = list(read_project(tmp_path / "specmt.toml").pairs())
    assert {str(each.source.relative_to(tmp_path)): str(each.target.relative_to(tmp_path)) for each in pairs} == files
    kinds = {rule.kind for rule in proposal.rules}
    said = "Qt" if kind.startswith("Qt") else re.split(" in | by ", kind)[0]
    assert kinds == {said} or kind.startswith(("folders", "names of files"))


def test_languages_are_those_of_the_site(tmp_path: Path) -> None:
    others, files = KINDS["VitePress"]
    write(tmp_path, *others, *files, **others)
    proposal = propose(tmp_path)
    assert (proposal.source, proposal.languages) == ("en", ["de"])


def test_languages_are_those_that_are_there(tmp_path: Path) -> None:
    write(tmp_path, *(f"i18n/{name}.json" for name in ("en", "en_GB", "de", "pt_BR", "zh_Hans")), "i18n/as/readme.md")
    proposal = propose(tmp_path)
    assert (proposal.languages, proposal.rules[0].target) == (["de", "pt-BR", "zh-Hans"], "i18n/{dir}/{posix}{ext}")
    assert propose(tmp_path, "de").languages == ["en", "en-GB", "pt-BR", "zh-Hans"]
    assert propose(tmp_path, languages=["fr"]).languages == ["fr"]


def test_the_source_is_what_the_site_says_or_has_much_more(tmp_path: Path) -> None:
    write(tmp_path, *(f"content/{name}.de.md" for name in "abcdef"), "content/a.en.md", "hugo.toml")
    assert propose(tmp_path).source == "de"
    (tmp_path / "content/b.en.md").touch()
    assert propose(tmp_path).source == "en"
    for key in ("defaultContentLanguage", "DefaultContentLanguage"):  # Hugo does not tell them apart
        (tmp_path / "hugo.toml").write_text(f'# defaultContentLanguage = "fr"\n{key} = "de"\n')
        assert propose(tmp_path).source == "de"


def test_german_is_the_source_where_english_is_all_there_is(tmp_path: Path) -> None:
    write(tmp_path, "docs/a/b.md", "i18n/en/a/b.md")
    assert (propose(tmp_path).source, propose(tmp_path).rules[0].target) == ("de", "i18n/{to}/{path}")


def test_what_sphinx_makes_need_not_be_there(tmp_path: Path) -> None:
    write(tmp_path, "docs/conf.py", "docs/locale/pt_BR/LC_MESSAGES/a.po")
    proposal = propose(tmp_path)
    assert proposal.languages == ["pt-BR"]
    assert proposal.rules[0].target == "docs/locale/{posix}/LC_MESSAGES/{dir}/{stem}.po"
    write(tmp_path, "docs/source/conf.py")
    [rule] = propose(tmp_path).rules
    assert rule.maker == "sphinx-build -b gettext docs/source/ docs/build/gettext"


def test_what_sphinx_is_to_make_is_told(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write(tmp_path, "docs/conf.py", "docs/index.rst", "conf.py")
    shown = execute_here(capfdbinary, "init", tmp_path, "--to", "de")
    assert b'source = "docs/_build/gettext/**/*.pot"\n' in shown.stdout
    assert b"specmt: note: `sphinx-build -b gettext docs/ docs/_build/gettext` makes them\n" in shown.stderr


def test_a_language_that_is_called_by_its_region_too_is_one(tmp_path: Path) -> None:
    names = ("web/{}/a.json", "app/{}/b.json")
    files = [
        f"  - source: {name.format('en')}\n    translation: {name.format(placeholder)}\n"
        for name, placeholder in zip(names, ("%locale%", "%two_letters_code%"), strict=True)
    ]
    crowdin = "".join(["files:\n", *files])
    said = ["app/de/b.json", "app/fr/b.json", "app/ja/b.json", "web/de-DE/a.json", "web/fr-FR/a.json", "web/ja/a.json"]
    write(tmp_path, *said, *(name.format("en") for name in names), "crowdin.yml", **{"crowdin.yml": crowdin})
    proposal = propose(tmp_path)
    assert proposal.languages == ["de", "fr", "ja"]
    (tmp_path / "specmt.toml").write_text(str(proposal))
    pairs = read_project(tmp_path / "specmt.toml").pairs()
    assert sorted(str(each.target.relative_to(tmp_path)) for each in pairs) == said


def test_one_translation_has_one_source(tmp_path: Path) -> None:
    write(tmp_path, *(f"App/{name}.lproj/a.strings" for name in ("Base", "en", "de")))
    assert [rule.source for rule in propose(tmp_path).rules] == ["App/en.lproj/**"]


def test_what_is_not_translated_beside_what_is_is_named(tmp_path: Path) -> None:
    write(tmp_path, "app/res/values/strings.xml", "app/res/values-de/strings.xml", "app/res/values/arrays.xml")
    proposal = propose(tmp_path)
    assert [each.source for each in proposal.rules] == ["app/res/**/values/*strings*.xml"]
    assert [(each.source, each.sources) for each in proposal.others] == [
        ("app/res/**/values/arrays.xml", {"app/res/values/arrays.xml"})
    ]


def test_what_is_not_found_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing is found that is translated"):
        propose(tmp_path)
    write(tmp_path, "i18n/en.json")
    with pytest.raises(UsageError, match="`to` must be given, for there is no translation"):
        propose(tmp_path)
    (tmp_path / "crowdin.yml").write_text("files: [")
    with pytest.raises(UsageError, match=r"crowdin\.yml: is not YAML"):
        propose(tmp_path)


def test_the_file_is_shown_and_written_when_it_is_asked_for(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(tmp_path, "i18n/en.json", "i18n/de.json")
    path = tmp_path / "specmt.toml"
    shown = execute_here(capfdbinary, "init", tmp_path)
    assert shown.returncode == 0 and not path.exists()
    assert b'target = "i18n/{dir}/{to}{ext}"\n' in shown.stdout
    assert b"i18n/**/en.*: 1 file; translated: de 1\n" in shown.stderr
    assert execute_here(capfdbinary, "init", tmp_path, "--write").stdout == path.read_bytes()
    path.write_text("")
    assert execute_here(capfdbinary, "init", tmp_path).returncode == 0
    refused = execute_here(capfdbinary, "init", tmp_path, "--write")
    assert (refused.returncode, path.read_text()) == (2, "")
    assert refused.stderr.endswith(b"specmt.toml: is there already; --force replaces it.\n")
    execute_here(capfdbinary, "init", tmp_path, "--write", "--force")
    assert path.read_text().startswith("version = 1\n")
