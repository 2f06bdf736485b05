"""What a project file may say of a folder: how its files are named in other languages, by those that are there."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from specmt.errors import UsageError
from specmt.languages import is_code, primary
from specmt.project import project_of, walk

_OTHERS: Final = 6
_MUCH_MORE: Final = 5
"""So many times as many sources another language must have than the one that is likely; and how many are tried."""

_IGNORED: Final = ("node_modules/",)


class _Layout(NamedTuple):
    """How a kind of project names its sources and their translations, in the folder of a file that it has."""

    kind: str
    marker: str
    """Globs of names that are in the folder; one that ends in / is that of a folder."""

    source: str
    target: str


_DOCUSAURUS: Final = "docusaurus.config.*"
_PAGES: Final = "i18n/{to}/docusaurus-plugin-content-"
_HUGO: Final = "hugo.toml hugo.yaml hugo.json config.toml config.yaml config/_default/"
_MADE: Final = "build/gettext/**/*.pot"
"""What Sphinx makes, and nobody commits."""
_SPHINX: Final = (("source/conf.py", _MADE), ("conf.py", f"_{_MADE}"))
_LOCALE: Final = ("locale", "locales", "source/locale", "source/locales", "../locale", "../locales", "../po")

_LAYOUTS: Final = tuple(_Layout(*row) for row in (
    ("Docusaurus", _DOCUSAURUS, "docs/**/*.md*", f"{_PAGES}docs/current/{{path}}"),
    ("Docusaurus", _DOCUSAURUS, "versioned_docs/**/*.md*", f"{_PAGES}docs/{{path}}"),
    ("Docusaurus", _DOCUSAURUS, "blog/**/*.md*", f"{_PAGES}blog/{{path}}"),
    ("Docusaurus", _DOCUSAURUS, "src/pages/**/*.md*", f"{_PAGES}pages/{{path}}"),
    ("Docusaurus", _DOCUSAURUS, "i18n/{from}/**/*.json", "i18n/{to}/{path}"),
    ("MkDocs", "mkdocs.y*ml", "docs/{from}/**/*.md", "docs/{to}/{path}"),
    ("MkDocs", "mkdocs.y*ml", "docs/**/*.{from}.md", "docs/{dir}/{stem}.{to}{ext}"),
    ("MkDocs", "mkdocs.y*ml", "docs/**/*.md", "docs/{dir}/{stem}.{to}{ext}"),
    ("Hugo", _HUGO, "content/{from}/**/*.md", "content/{to}/{path}"),
    ("Hugo", _HUGO, "content/**/*.{from}.md", "content/{dir}/{stem}.{to}{ext}"),
    ("Hugo", _HUGO, "content/**/*.md", "content/{dir}/{stem}.{to}{ext}"),
    ("Hugo", _HUGO, "i18n/{from}.y*ml", "i18n/{to}{ext}"),
    *(("Sphinx", *m, f"{each}/{{to}}/LC_MESSAGES/{{dir}}/{{stem}}.po") for m in _SPHINX for each in _LOCALE),
    ("VitePress", ".vitepress/", "{from}/**/*.md", "{to}/{path}"),
    ("VitePress", ".vitepress/", "**/*.md", "{to}/{path}"),
    ("Rails", "config/locales/", "config/locales/**/{from}.yml", "config/locales/{dir}/{to}{ext}"),
    ("Rails", "config/locales/", "config/locales/**/*.{from}.yml", "config/locales/{dir}/{stem}.{to}{ext}"),
    ("Android", "values/strings.xml", "**/values/*strings*.xml", "{dir}-{android}/{stem}{ext}"),
    ("Android", "values/strings.xml", "**/values/arrays.xml", "{dir}-{android}/{stem}{ext}"),
    ("Android", "values/strings.xml", "**/values/plurals.xml", "{dir}-{android}/{stem}{ext}"),
    ("Qt", "*_{from}.ts", "**/*_{from}.ts", "{dir}/{stem}_{to}{ext}"),
    ("Qt", "*_{to}.ts", "**/*.ts", "{dir}/{stem}_{to}{ext}"),
    ("gettext", "*.pot", "*.pot", "{to}.po"),
    ("gettext", "*.pot", "*.pot", "{to}/LC_MESSAGES/{stem}.po"),
    ("gettext", "*.pot", "*.pot", "{to}/{stem}.po"),
    ("Apple", "{from}.lproj/", "{from}.lproj/**", "{to}.lproj/{path}"),
    ("Apple", "Base.lproj/", "Base.lproj/**", "{to}.lproj/{path}"),
    ("names of files", "{from}.*", "**/{from}.*", "{dir}/{to}{ext}"),
    ("names of files", "*.{from}.*", "**/*.{from}.*", "{dir}/{stem}.{to}{ext}"),
    ("names of files", "*_{from}.*", "**/*_{from}.*", "{dir}/{stem}_{to}{ext}"),
    ("names of files", "*-{from}.*", "**/*-{from}.*", "{dir}/{stem}-{to}{ext}"),
    ("names of files", "*.{to}.xlf", "**/*.xlf", "{dir}/{stem}.{to}{ext}"),
    ("names of files", "*.{to}.resx", "**/*.resx", "{dir}/{stem}.{to}{ext}"),
    ("names of files", "*_{to}.properties", "**/*.properties", "{dir}/{stem}_{to}{ext}"),
    ("names of files", "*.{to}.md", "**/*.md", "{dir}/{stem}.{to}{ext}"),
    ("folders", "{from}/", "{from}/**", "{to}/{path}"),
    ("folders", "docs/", "docs/**/*.md*", "i18n/{to}/{path}"),
    ("folders", "docs/", "docs/**/*.md*", "docs/{to}/{path}"),
))  # fmt: skip
"""The first that fits a file counts. ``{to}`` may be ``{posix}``, too: what is there decides."""

_CODE: Final = r"[a-z]{2,3}(?:[-_](?:r?[A-Z]{2}|[A-Z][a-z]{3}|\d{3}|[a-z]{2}))?"
_IN_NAMES: Final = re.compile(rf"(?<![^/._-])(?=({_CODE})(?![^/._-]))")
_SITES: Final = re.compile(
    r"docusaurus\.config\.\w+|mkdocs\.ya?ml|(?:hugo|config)\.(?:toml|ya?ml|json)|conf\.py|config/application\.rb|\.tx/config|\.vitepress/config\.\w+"
)
_FROM: Final = re.compile(
    rf"""^(?!\s*(?:#|//))[^\n]*?(?:defaultLocale|(?i:defaultContentLanguage)|default_locale|source_lang)["']?\s*[:=]\s*["':]?({_CODE})\b"""
    rf"""|^\s*-?\s*locale:\s*({_CODE})\b[^\n]*\n(?:(?!\s*-)[^\n]*\n)*?\s+default:\s*true"""
    rf"""|^language\s*=\s*["']({_CODE})["']|\broot\s*:\s*\{{[^{{}}]*?\blang\s*:\s*["']({_CODE})["']""",
    re.MULTILINE,
)
_TO: Final = re.compile(
    rf"""\blocales\s*:\s*\[([^\]]*)\]|^\s*-?\s*locale:\s*({_CODE})\b|^\s*\[[Ll]anguages\.({_CODE})\]"""
    rf"""|^\s*["']?({_CODE})["']?\s*:\s*\{{[^{{}}]*?\blang\s*:""",
    re.MULTILINE,
)
_CROWDIN: Final = {
    "%two_letters_code%": "{to}", "%locale%": "{to}", "%osx_code%": "{to}.lproj", "%osx_locale%": "{posix}",
    "%locale_with_underscore%": "{posix}", "%android_code%": "{android}", "%original_file_name%": "{stem}{ext}",
    "%file_name%": "{stem}", ".%file_extension%": "{ext}", "%original_path%": "{dir}", "**": "{dir}",
}  # fmt: skip
"""What its placeholders are called here."""


@dataclass
class Rule:
    """An entry of ``[[files]]``, and what it is about."""

    kind: str
    source: str
    target: str
    sources: set[str] = field(default_factory=set)
    translated: Counter[str] = field(default_factory=Counter)
    """How many sources have a translation, by language."""

    @property
    def root(self) -> str:
        """The folder that what makes its sources is in, if something does."""
        root, is_made, _ = self.source.partition(_MADE)
        return root.removesuffix("_") if root.endswith("_") else f"{root}source/" * bool(is_made)

    @property
    def maker(self) -> str:
        """The command that makes its sources, where they are not there yet."""
        made = self.source.partition("/**")[0]
        is_made = not self.sources and self.source.endswith(_MADE)
        return f"sphinx-build -b gettext {self.root or '.'} {made}" if is_made else ""


@dataclass
class Proposal:
    """What a project file may say."""

    source: str
    languages: list[str]
    rules: list[Rule]
    others: Sequence[Rule] = ()
    """What is of the same kinds, and not translated."""

    locales: dict[str, str] = field(default_factory=dict)
    """What some rules call languages, beside their codes."""

    @property
    def sources(self) -> set[str]:
        """The files that are translated."""
        return {name for rule in self.rules for name in rule.sources}

    def __str__(self) -> str:
        rows = ["version = 1", f"from = {_quoted(self.source)}", f"to = {_quoted(self.languages)}"]
        rows += [f"ignore = {_quoted(_IGNORED)}"]
        rows += ["", "[languages]"] * bool(self.locales)
        rows += [f"{to} = {{ locale = {_quoted(locale)} }}" for to, locale in self.locales.items()]
        for rule in self.rules:
            rows += ["", f"[[files]]  # {rule.kind}"]
            rows += [f"source = {_quoted(rule.source)}", f"target = {_quoted(rule.target)}"]
        return "\n".join(rows) + "\n"


def propose(folder: Path, source: str | None = None, languages: Sequence[str] = ()) -> Proposal:
    """Looks at the names of the files of a folder, and at the configuration of its site.

    :param source: the language that is translated from, if that is known
    :param languages: those to translate into, instead of those that are there
    :raises UsageError: nothing is found, or no languages.
    """
    names = [*walk(folder, _IGNORED)]
    pages = (folder / name for name in names if posixpath.basename(name) == "index.md")
    hidden = [*folder.glob(".tx/config"), *(each for page in pages for each in page.parent.glob(".vitepress/config.*"))]
    names += [each.relative_to(folder).as_posix() for each in hidden]
    sites = sorted(filter(_SITES.search, names), key=lambda name: name.count("/"))
    said = "\n".join((folder / each).read_text(encoding="utf-8", errors="replace") for each in sites)
    found = Counter(match[1] for name in names for match in _IN_NAMES.finditer(name) if is_code(match[1]))
    codes = {"de", "en", *map(_canonical, found), *languages}
    stated = (match[match.lastindex or 0] for match in _FROM.finditer(said))
    likely = source or next(filter(is_code, stated), "en")
    near = sorted((each for each in found if primary(each) == primary(likely)), key=lambda each: "US" not in each)
    read = (_read(folder, names, each, codes) for each in (likely, *near))
    best = next(filter(attrgetter("languages"), read), None)
    best = best or _read(folder, names, likely, codes)
    much = [spelt for spelt, count in found.most_common(_OTHERS) if count > _MUCH_MORE * found[likely]]
    for spelt in [*much, *["de"] * (not best.languages)] if source is None else ():
        other = _read(folder, names, spelt, codes)
        if other.languages and (not best.languages or len(other.sources) > _MUCH_MORE * len(best.sources) > 0):
            best = other
    if not best.rules:
        raise UsageError(f"{folder}: nothing is found that is translated, or is to be; `from` may help, or `to`.")
    if not languages:
        _join_locales(best)
    best.languages = [*languages] or best.languages or [to for to in _locales(said) if to != best.source]
    if not best.languages:
        raise UsageError("`to` must be given, for there is no translation.")
    return best


def _join_locales(proposal: Proposal) -> None:
    """Takes a language that some rules call by its code and others by its region, as de and de-DE, for one."""
    for locale in proposal.languages:
        to, rules = primary(locale), [rule for rule in proposal.rules if rule.translated[locale]]
        is_apart = not any(rule.translated[to] or "{posix}" in rule.target for rule in rules)
        if is_apart and [each for each in proposal.languages if primary(each) == to] == [to, locale]:
            proposal.locales[to] = locale
            for rule in rules:
                rule.translated[to] = rule.translated.pop(locale)
                rule.target = rule.target.replace("{to}", "{locale}")
    proposal.languages = [each for each in proposal.languages if each not in proposal.locales.values()]


def _read(folder: Path, names: Sequence[str], spelt: str, codes: Collection[str]) -> Proposal:
    source = _canonical(spelt)
    others = sorted(each for each in codes if primary(each) != primary(source))
    rules, new = _Folder(folder, names, spelt, others).rules()
    return Proposal(source, sorted({to for rule in rules for to in rule.translated}), rules, new)


def _locales(said: str) -> list[str]:
    codes = (code for match in _TO.finditer(said) for code in re.findall(_CODE, match[match.lastindex or 0]))
    return list(dict.fromkeys(filter(is_code, codes)))


def _canonical(code: str) -> str:
    return re.sub(r"[-_]r?(?=[A-Z]{2}$)|_", "-", code)


def _quoted(text: object) -> str:
    return json.dumps(text, ensure_ascii=False)


def _crowdin(folder: Path) -> Iterator[_Layout]:
    """Yields what the configuration of Crowdin says.

    :raises UsageError: it is not YAML.
    """
    for name in ("crowdin.yml", "crowdin.yaml"):
        try:
            said = yaml.safe_load((folder / name).read_bytes()) if (folder / name).exists() else None
        except yaml.YAMLError as error:
            raise UsageError(f"{folder / name}: is not YAML: {error}.") from error
        for each in (said or {}).get("files") or ():
            source, target = (str(each.get(key, "")).lstrip("/") for key in ("source", "translation"))
            for placeholder, ours in _CROWDIN.items():
                target = target.replace(placeholder, ours)
            if source and "{" in target and "%" not in target:
                yield _Layout(name, name, source, target)


class _Folder:
    """The files of a folder, one language being that of the sources."""

    def __init__(self, folder: Path, names: Sequence[str], spelt: str, codes: Sequence[str]) -> None:
        self._folder, self._names, self._spelt, self._codes = folder, names, spelt, codes
        folders = {f"{name[:end]}/" for name in names for end, mark in enumerate(name) if mark == "/"}
        self._known = frozenset(str(folder / name) for name in names)
        self._places = "\n".join([*names, *sorted(folders)])

    def rules(self) -> tuple[list[Rule], list[Rule]]:
        """Returns what of all that is known fits translations that are there, or else what fits sources; and what of
        the kinds that are translated is not."""
        taken: set[str] = set()
        wanted: set[str] = set()
        there: list[Rule] = []
        new, unmade = [], []
        for layout in (*_crowdin(self._folder), *_LAYOUTS):
            for rule in self._fitting(layout):
                targets = self._count(rule, taken)
                if rule.translated and not (rule.maker and rule.target in {each.target for each in there}):
                    there.append(rule)
                    taken |= rule.sources | targets
                elif rule.sources - wanted:
                    new.append(rule)
                    wanted |= rule.sources
                elif rule.maker and {f"{rule.root}index.rst", f"{rule.root}index.md"} & {*self._names}:
                    unmade.append(rule)
        if not there:
            return [rule for rule in new if rule.kind == new[0].kind] or unmade[:1], []
        return there, [rule for rule in new if rule.kind in {each.kind for each in there} and rule.sources - taken]

    def _fitting(self, layout: _Layout) -> Iterator[Rule]:
        """Yields a kind's rules, one for each folder that it may be in."""
        into = "|".join(map(re.escape, self._codes)) or "(?!)"
        said = "|".join(re.escape(glob).replace(r"\*", "[^/\n]*") for glob in layout.marker.split())
        said = said.replace(r"\{from\}", re.escape(self._spelt)).replace(r"\{to\}", f"(?:{into})")
        roots = sorted({*re.findall(f"(?m)^(.*/|)(?:{said})$", self._places)})
        if roots and layout.source.startswith("**/"):
            roots = [f"{posixpath.commonpath(roots)}/".lstrip("/")]
        for root in roots:
            source, target = (posixpath.normpath(root + each) for each in (layout.source, layout.target))
            yield Rule(layout.kind, source.replace("{from}", self._spelt), target)

    def _count(self, rule: Rule, taken: Collection[str]) -> set[str]:
        """Finds the sources of a rule, and its translations, the codes being written as they mostly are."""
        fixed = re.split(r"[*?\[]", rule.source)[0]
        names = tuple(name for name in self._names if name.startswith(fixed) and name not in taken)
        found: set[str] = set()
        for target in dict.fromkeys((rule.target, rule.target.replace("{to}", "{posix}"))):
            files = {"source": rule.source, "target": target}
            said = {"version": 1, "from": _canonical(self._spelt), "to": self._codes, "files": [files]}
            pairs = [*project_of(self._folder, said, names).pairs()]
            there = {(each.to, str(each.target)) for each in pairs if str(each.target) in self._known}
            there = {(to, name) for to, name in there if name not in taken}
            if not rule.sources or len(there) > len(found):
                rule.target, found = target, {name for _, name in there}
                rule.sources = {each.source.relative_to(self._folder).as_posix() for each in pairs}
                rule.translated = Counter(to for to, _ in there)
            if rule.source.endswith(_MADE) and not rule.sources and _MADE.partition("**")[0] not in self._places:
                place = target.partition("/{dir}")[0]
                spelt = {to: place.replace("{to}", to).replace("{posix}", to.replace("-", "_")) for to in self._codes}
                rule.translated |= Counter(to for to, each in spelt.items() if (self._folder / each).is_dir())
        return found
