"""The project file: what it says, which files are translated, and where that goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmt.errors import InputNotFoundError, UsageError
from specmt.formats.anchors import rebase
from specmt.project import Project, find_project

HEAD = 'version = 1\nfrom = "de"\nto = ["en", "pt-BR"]\n'
FILES = '[[files]]\nsource = "docs/**/*.md"\ntarget = "i18n/{to}/{path}"\n'


def project(folder: Path, text: str, *names: str) -> Project:
    (folder / "specmt.toml").write_text(HEAD + text)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("<resources/>" if name.endswith("xml") else "{}")
    found = find_project(folder / "a/b")
    assert found is not None
    return found


def targets(found: Project, *paths: Path) -> dict[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    for each in found.pairs(paths):
        name = each.source.relative_to(found.folder).as_posix()
        pairs.setdefault(name, []).append(each.target.relative_to(found.folder).as_posix())
    return pairs


@pytest.mark.parametrize(
    ("source", "target", "found", "others"),
    [
        ("docs/**/*.md", "i18n/{to}/{path}", {"docs/b/c.md": "i18n/en/b/c.md"}, "d.md docs/.e/f.md"),
        ("**/*.md", "{dir}/{stem}.{to}{ext}", {"a.md": "a.en.md", "b/c.md": "b/c.en.md"}, "a.en.md b/old.pt-BR.md"),
        ("**/*.{from}.md", "{dir}/{stem}.{to}{ext}", {"b/_index.de.md": "b/_index.en.md"}, "b/_index.en.md"),
        ("**/*.md", "{to}/{path}", {"a.md": "en/a.md"}, "en/a.md en/gone.md pt-BR/b/x.md"),
        ("**/values/*.xml", "{dir}-{android}/{stem}{ext}", {"app/values/strings.xml": "app/values-en/strings.xml"}, ""),
        ("locales/{from}.json", "locales/{to}.json", {"locales/de.json": "locales/en.json"}, "locales/en.json"),
        ("po/*.pot", "po/{posix}/{stem}.po", {"po/x.pot": "po/en/x.po"}, "po/b/y.pot"),
        ("content/{from}", "content/{to}/{path}", {"content/de/x/y.md": "content/en/x/y.md"}, "content/fr/x/y.md"),
    ],
)  # fmt: skip
def test_sources_are_mapped(source: str, target: str, found: dict[str, str], others: str, tmp_path: Path) -> None:
    made = project(tmp_path, f'[[files]]\nsource = "{source}"\ntarget = "{target}"\n', *found, *others.split())
    assert {name: each[0] for name, each in targets(made).items()} == found
    for name, each in found.items():
        pair = made.pair_of(tmp_path / each)
        assert pair is not None and (pair.source, pair.to) == (tmp_path / name, "en")
        assert targets(made, tmp_path / name)[name] == targets(made)[name]
        assert targets(made, tmp_path / each) == {name: [each]}


def test_the_first_rule_counts_and_what_it_says_goes_over_the_top(tmp_path: Path) -> None:
    text = 'ignore = ["**/old/"]\nkeys = ["title"]\nanchors = "keep"\n'
    text += '[languages]\npt-BR = {android = "pt", site = "br"}\n'
    text += FILES.replace("{to}", "{site}") + 'anchors = "explicit"\nelements = ["kbd"]\n'
    text += '[[files]]\nsource = "**/*.md"\ntarget = "{android}/{path}"\n'
    made = project(tmp_path, text, "docs/a.md", "docs/old/b.md", "b.md")
    assert targets(made) == {"b.md": ["en/b.md", "pt/b.md"], "docs/a.md": ["i18n/en/a.md", "i18n/br/a.md"]}
    one, other = (next(made.pairs([tmp_path / name])).settings for name in ("docs/a.md", "b.md"))
    assert (one.keys, one.anchors, one.elements) == (("title",), "explicit", ("kbd",))
    assert (other.keys, other.anchors, other.elements) == (("title",), "keep", ())
    with pytest.raises(InputNotFoundError, match=r"old: is no source or translation of .*specmt\.toml"):
        targets(made, tmp_path / "docs", tmp_path / "docs/old")


def test_many_stars_are_one_and_two_alone_are_any_folders(tmp_path: Path) -> None:
    text = f'ignore = ["{"*" * 40}x.md", "docs/**", "!**/a.md"]\n'
    text += '[[files]]\nsource = "**/*.md"\ntarget = "{to}/{path}"\n'
    made = project(tmp_path, text, f"{'b' * 40}.md", "bx.md", "a.md", "docs/b.md")
    assert list(targets(made)) == ["a.md", f"{'b' * 40}.md"]


def test_translations_may_be_outside_of_the_project(tmp_path: Path) -> None:
    made = project(tmp_path, "[[files]]\nsource = 'a.md'\ntarget = '../{to}/{path}'\n", "a.md")
    pair = made.pair_of(tmp_path.parent / "en/a.md")
    assert pair is not None and (pair.source, pair.to) == (tmp_path / "a.md", "en")


def test_links_follow_the_mapping(tmp_path: Path) -> None:
    names = ("docs/a.md", "docs/b/c.md", "docs/a.png", "README.md")
    made = project(tmp_path, FILES, *names)
    change = made.rebase(next(made.pairs([tmp_path / "docs/a.md"])))
    same = ["b/c.md#x", "./b/c.md", "gone.md", "https://a.de/b", "#x", "/docs/a.md"]
    assert [change(each) for each in same] == same
    assert change("a.png") == "../../docs/a.png"
    assert change("../README.md?x#y") == "../../README.md?x#y"
    assert change("../i18n/en/a.md") == "a.md", "a page that links its translation is a switch of languages"
    assert change("a.md") == "../../docs/a.md"
    assert rebase("../docs/a.png", "/docs", "/docs", str) == "../docs/a.png", "it leads there as it is written"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FILES + "dialekt = 'hugo'\n", "'dialekt' in `files` is not known; is 'dialect' meant?"),
        ("modle = 'x'\n" + FILES, "'modle' is not known; is 'model' meant?"),
        ("fuzzy_below = 'x'\n" + FILES, "`fuzzy_below` must be a number, but is 'x' instead."),
        ("keep = [1]\n" + FILES, "`keep` must be a text, but is 1 instead."),
        (FILES + "anchors = 'old'\n", "`anchors` must be auto or explicit or rewrite or keep, but is 'old' instead."),
        ("[[files]]\nsource = 'a'\n", "`target` in `files` must be given, but is not."),
        ("[[files]]\nsource = 'a'\ntarget = '{pth}'\n", "'pth' in `target` is not known; is 'path' meant?"),
        ("[[files]]\nsource = 'a'\ntarget = '{path}'\n", "`target` must have {to} in it, but is '{path}' instead."),
        (FILES + "format = 'mardown'\n", "'mardown' as `format` is not known; is 'markdown' meant?"),
        ("glossary = {fr = 'x'}\n" + FILES, "'fr' in `glossary` is not known"),
        ("x = \n", "is not TOML: Invalid value (at line 4, column 5)."),
        (f"x = {'9' * 5000}\n", "is not TOML: Exceeds the limit"),
        (f"x = {'[' * 5000}\n", "is not TOML: maximum recursion depth exceeded"),
        ("ignore = ['!']\n" + FILES, "'!' must be patterns of files: Invalid git pattern: '!'."),
        ("[[files]]\nsource = '[z-a]'\ntarget = '{to}/{path}'\n", "'/[z-a]' must be patterns of files"),
        ("ignore = ['*a*a*a*a*b']\n" + FILES, "'*a*a*a*a*b' must have at most 4 `*` in a name."),
        ("", "`files` must be given, but is not."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        project(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'specmt.toml'}: {said}")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("version = 1", "version = 2", "`version` must be 1, but is 2 instead."),
        ('"pt-BR"', '"de-AT"', "`to` must be other languages than `from`, de, but has 'de-AT'."),
        ('"pt-BR"', '"english"', "`to` must be the code of a language, as de, but is 'english' instead."),
        ('"pt-BR"', '"en"', "`to` must have each language once."),
    ],
)
def test_languages_are_checked(before: str, after: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "specmt.toml").write_text((HEAD + FILES).replace(before, after))
    with pytest.raises(UsageError) as caught:
        find_project(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'specmt.toml'}: {said}"


def test_there_is_none(tmp_path: Path) -> None:
    assert find_project(tmp_path) is None
