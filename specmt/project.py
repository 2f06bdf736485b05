"""The project file, ``specmt.toml``: which files are translated into which languages, where that goes, and how."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from pathspec import GitIgnoreSpec

from specmt.errors import InputNotFoundError, UsageError
from specmt.formats import format_in_folder, format_of, names
from specmt.formats.anchors import rebase
from specmt.formats.dialects import DIALECTS, dialect_in
from specmt.formats.document import FormatOptions, TagRules
from specmt.formats.known import HEAD, kind_of
from specmt.languages import is_code, primary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME: Final = "specmt.toml"

_Shape = Any
"""What a value must be: a type, a tuple of values, a list of one shape, a mapping of a name or ``*`` to shapes."""

_OPTIONS: Final[dict[str, _Shape]] = {
    "format": str,
    "dialect": DIALECTS,
    "keys": [str],
    "skip_keys": [str],
    "columns": [str],
    "elements": [str],
    "anchors": ("auto", "explicit", "rewrite", "keep"),
    "obsolete": ("keep", "remove"),
}
_SHAPE: Final[dict[str, _Shape]] = {
    "version": (1,),
    "from": str,
    "to": [str],
    "model": str,
    "ignore": [str],
    "memory": [str],
    "glossary": {"*": str},
    "forbidden": {"*": [str]},
    "keep": [str],
    "tone": {"*": ("du", "Sie")},
    "fuzzy_below": float,
    "languages": {"*": {"*": str}},
    "files": [{"source": str, "target": str, **_OPTIONS}],
    "check": {"fail_on": ("error", "warning", "never"), "ignore": [str], "baseline": str},
    **_OPTIONS,
}
_MEANT: Final = ("json", "php", "yaml")
"""The formats of files that are translated if their names say a language, or a glob of a project says their suffix."""

_NEEDED: Final = (("", ("version", "from", "to", "files")), ("files", ("source", "target")))
_SAID: Final = {str: "a text", float: "a number", list: "a list", dict: "a table"}
_FIELD: Final = re.compile(r"\{(\w+)\}")
_PARTS: Final = {"path": r"(?:[^\0]+)", "dir": r"(?:[^\0]*)", "stem": "(?:[^/]+)", "ext": r"(?:\.[^/.]+)?"}
"""What the fields of targets that stand for parts of a source may be."""
_STARS: Final = re.compile(r"(\\.|(?<![^/!])\*\*(?![^/]))|\*{2,}")
"""Stars of a glob that are no more than one; before them, what is."""
_MOST_STARS: Final = 4
"""With n of them in a name, it is compared with a name of m letters in up to m**n steps."""


@dataclass(frozen=True)
class Settings:
    """How some files are read and written; what is ``None`` or empty is as it is without a project."""

    format: str | None = None
    dialect: str = "auto"
    keys: tuple[str, ...] = ()
    """Those of the front matter of Markdown that are translated."""
    skip_keys: tuple[str, ...] = ()
    """Those of catalogues whose texts stay as they are."""
    columns: tuple[str, ...] = ()
    """Those of tables that are translated."""
    elements: tuple[str, ...] = ()
    """The names of elements of HTML and XML that stay as they are."""
    anchors: Literal["auto", "explicit", "rewrite", "keep"] = "auto"
    obsolete: Literal["keep", "remove"] = "keep"

    def options(self, options: FormatOptions) -> FormatOptions:
        """Returns how documents are read."""
        tags = replace(options.tags, ignored=options.tags.ignored | {*self.elements}) if self.elements else TagRules()
        return replace(
            options,
            dialect=self.dialect,
            anchors=self.anchors,
            keys=self.keys or options.keys,
            skip_keys=self.skip_keys,
            columns=self.columns or options.columns,
            tags=tags,
        )


def options_of(path: Path, languages: tuple[str, str], settings: Settings) -> FormatOptions:
    """Returns how a document is read."""
    options = settings.options(FormatOptions(source=languages[0], target=languages[1]))
    dialect = dialect_in(path.resolve().parent) if options.dialect == "auto" else options.dialect
    return replace(options, dialect=dialect)


@dataclass(frozen=True)
class ProjectFile:
    """A source and where its translation into a language is, or is to be."""

    source: Path
    target: Path
    to: str
    file_format: str
    settings: Settings


@dataclass(frozen=True)
class Checks:
    """What `specmt check` does in a project."""

    fail_on: Literal["error", "warning", "never"] = "warning"
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None


class _Rule(NamedTuple):
    """An entry of ``[[files]]``."""

    pattern: GitIgnoreSpec
    base: str
    """The folders before the first one of the pattern that has a wildcard."""
    target: str
    settings: Settings
    source: str


class _Mapped(NamedTuple):
    source: str
    rule: _Rule
    file_format: str


@dataclass(frozen=True)
class Project:
    """What a project file says; paths are those of files in its folder."""

    folder: Path
    source_language: str
    languages: tuple[str, ...]
    """Those that are translated into."""

    model: str | None = None
    memory: tuple[Path, ...] = ()
    glossary: Mapping[str, Path] = field(default_factory=dict)
    forbidden: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    tone: Mapping[str, str] = field(default_factory=dict)
    fuzzy_below: float | None = None
    check: Checks = Checks()
    variants: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """How languages are named otherwise, as by Android."""

    _rules: tuple[_Rule, ...] = ()
    _ignored: tuple[str, ...] = ()
    _names: Sequence[str] | None = None
    """The files that are there, where that is known."""

    def pairs(self, paths: Sequence[Path] = (), only: str | None = None) -> Iterator[ProjectFile]:
        """Yields every source with each of its translations, by source.

        :param paths: sources, translations, and folders of either, which alone are meant
        :param only: the language that is meant, if it is one
        :raises InputNotFoundError: one of them is nothing of the project.
        :raises UsageError: it is not translated into this language.
        """
        if only is not None and only not in self.languages:
            raise UsageError(f"`to` must be one of {', '.join(self.languages)}, but is {only!r} instead.")
        wanted = [Path(os.path.abspath(path)) for path in paths]
        unused = set(wanted)
        for mapped in self._found[0]:
            for pair in self._pairs(mapped):
                asked = {path for path in wanted if _is_below(pair.source, path) or _is_below(pair.target, path)}
                unused -= asked
                if (asked or not wanted) and only in (None, pair.to):
                    yield pair
        for path in wanted:
            if path in unused:
                raise InputNotFoundError(f"{path}: is no source or translation of {self.folder / NAME}.")

    def left(self, paths: Sequence[Path] = ()) -> list[tuple[Path, str]]:
        """Returns the files that a rule fits and no format reads, of those that are meant, and what they are."""
        wanted = [Path(os.path.abspath(path)) for path in paths] or [self.folder]
        return [each for each in self._found[1] if any(_is_below(each[0], path) for path in wanted)]

    @property
    def unused(self) -> list[str]:
        """The globs of sources that no file fits, or none that an earlier one does not."""
        return [rule.source for rule in self._found[2]]

    def knows(self, path: Path) -> bool:
        """Whether a file or a folder is, or has, a source or a translation."""
        place = Path(os.path.abspath(path))
        return any(_is_below(each, place) for pair in self._targets.values() for each in (pair.source, pair.target))

    def pair_of(self, target: Path) -> ProjectFile | None:
        """Returns the pair that a file is the translation of, if it is one."""
        return self._targets.get(Path(os.path.abspath(target)))

    def translations_of(self, path: Path) -> list[ProjectFile]:
        """Returns a source with each of its translations, none of which need be there; nothing of other files."""
        name = Path(os.path.relpath(path, self.folder)).as_posix()
        is_hidden = any(part.startswith(".") for part in name.split("/")) or self._spec.match_file(name)
        rule = None if is_hidden else self._rule(name)
        return [] if rule is None else [*self._pairs(_Mapped(name, rule, rule.settings.format or ""))]

    def has_source(self, path: Path) -> bool:
        """Whether a file is a source, or a folder has one."""
        if not path.is_dir():
            return bool(self.translations_of(path))
        return any(_is_below(pair.source, Path(os.path.abspath(path))) for pair in self._targets.values())

    def rebase(self, pair: ProjectFile) -> Callable[[str], str]:
        """Returns what makes of the targets of a page's links those of its translation.

        What is translated, too, is linked in that language, and other files where they are. A page that links another
        language of itself does so in all of them.
        """
        page, folder = str(pair.source), str(pair.target.parent)

        def place(path: str) -> str | None:
            if path in (page, *self._versions.get(page, {}).values()):
                return path
            target = self._versions.get(path, {}).get(pair.to)
            return target or (path if os.path.exists(path) else None)

        return partial(rebase, source=str(pair.source.parent), folder=folder, place=place)

    @cached_property
    def _found(self) -> tuple[list[_Mapped], list[tuple[Path, str]], list[_Rule]]:
        """The files that are translated, each by the first rule that fits, none of them a translation of another; those
        that no format reads, and what they are; the rules that fit nothing."""
        found: list[_Mapped] = []
        left: list[tuple[Path, str]] = []
        unused = [*self._rules]
        for name in walk(self.folder, self._ignored) if self._names is None else self._names:
            rule = self._rule(name)
            if rule is None:
                continue
            unused = [each for each in unused if each is not rule]
            path = self.folder / name
            with path.open("rb") as file:
                head = file.read(HEAD)
            known = rule.settings.format or format_in_folder(Path(name), head, self.source_language)
            if known is None:
                left.append((path, kind_of(name, head)))
            else:
                found.append(_Mapped(name, rule, known))
        return found, left, unused

    def _rule(self, name: str) -> _Rule | None:
        """Returns the first rule that fits a source."""
        rule = next((rule for rule in self._rules if rule.pattern.match_file(name)), None)
        return None if rule is None or any(pattern.fullmatch(name) for pattern in self._made) else rule

    @cached_property
    def _made(self) -> list[re.Pattern[str]]:
        """What translations are called."""
        return [re.compile(self._target(rule.target)) for rule in self._rules]

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        return _spec(self._ignored)

    @cached_property
    def _targets(self) -> dict[Path, ProjectFile]:
        return {pair.target: pair for pair in self.pairs()}

    @cached_property
    def _versions(self) -> dict[str, dict[str, str]]:
        """The translations of each source, by language."""
        found: dict[str, dict[str, str]] = {}
        for pair in self._targets.values():
            found.setdefault(str(pair.source), {})[pair.to] = str(pair.target)
        return found

    def _pairs(self, mapped: _Mapped) -> Iterator[ProjectFile]:
        """Yields a source with each of its translations."""
        base, template, settings = mapped.rule.base, mapped.rule.target, mapped.rule.settings
        path = mapped.source.removeprefix(f"{base}/") if base else mapped.source
        stem, ext = posixpath.splitext(posixpath.basename(path))
        marks = "." + "".join(mark for mark in "_-" if f"{{stem}}{mark}{{" in template)
        for code in (self.source_language, *self._codes[self.source_language].values()):
            stem = re.sub(rf"[{marks}]{re.escape(code)}$", "", stem)
        parts = {"path": path, "dir": posixpath.dirname(path), "stem": stem, "ext": ext}
        source = self.folder / mapped.source
        for to in self.languages:
            said = _filled(template, parts | self._codes[to])
            target = Path(os.path.normpath(self.folder / said.lstrip("/")))
            yield ProjectFile(source, target, to, mapped.file_format, settings)

    def _target(self, template: str) -> str:
        """Returns the pattern of what a template of targets makes."""
        codes = [self._codes[to] for to in self.languages]
        parts = _FIELD.split(posixpath.normpath(template).lstrip("/"))
        said = (
            re.escape(part)
            if not number % 2
            else _PARTS.get(part) or f"(?:{'|'.join(re.escape(each.get(part, part)) for each in codes)})"
            for number, part in enumerate(parts)
        )
        return "".join(said).replace(r"(?:[^\0]*)/", r"(?:[^\0]*/)?")

    @cached_property
    def _codes(self) -> dict[str, dict[str, str]]:
        """How each language is called in targets."""
        languages = (self.source_language, *self.languages)
        return {each: codes(each, self.source_language, self.variants) for each in languages}


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Returns a template with the fields that are known."""
    return _FIELD.sub(lambda match: parts.get(match[1], match[0]), template)


def codes(to: str, source: str, variants: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Returns the fields of targets that stand for languages: each as it is called in a place."""
    language, _, region = to.replace("_", "-").partition("-")
    android = f"{language}-r{region}" if len(region) == 2 else f"b+{language}+{region}".replace("-", "+")
    own = {"to": to, "from": source, "posix": to.replace("-", "_"), "android": android if region else language}
    return {name: to for each in variants.values() for name in each} | own | dict(variants.get(to, {}))


def walk(folder: Path, ignored: Sequence[str]) -> Iterator[str]:
    """Yields the names of the files in a folder that are not ignored, without those that are hidden."""
    spec = _spec(ignored)
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder).as_posix()
        shown = [[posixpath.normpath(f"{below}/{n}") for n in sorted(s) if n[0] != "."] for s in (folders, files)]
        folders[:] = [posixpath.basename(name) for name in shown[0] if not spec.match_file(f"{name}/")]
        yield from (name for name in shown[1] if not spec.match_file(name))


def _spec(patterns: Iterable[str]) -> GitIgnoreSpec:
    """
    :raises UsageError: one is none, or tells names apart by so many stars that this would take for ever.
    """
    patterns = [_STARS.sub(lambda found: found[1] or "*", pattern) for pattern in patterns]
    for pattern in patterns:
        if any(part.count("*") > _MOST_STARS for part in pattern.split("/")):
            raise UsageError(f"{pattern!r} must have at most {_MOST_STARS} `*` in a name.")
    try:
        return GitIgnoreSpec.from_lines(patterns)
    except (ValueError, re.error) as error:
        raise UsageError(f"{' '.join(patterns)!r} must be patterns of files: {error}.") from error


def find_project(start: Path) -> Project | None:
    """Returns the project that a file or a folder is in: that of the nearest project file, upwards.

    :raises UsageError: what it says is not what it should be.
    """
    place = Path(os.path.abspath(start))
    found = next((each / NAME for each in (place, *place.parents) if (each / NAME).is_file()), None)
    return None if found is None else read_project(found)


def read_project(path: Path) -> Project:
    """Reads a project file.

    :raises UsageError: what it says is not what it should be.
    """
    try:
        said = tomllib.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as error:  # of numbers of thousands of digits, it is no other
        raise UsageError(f"{path}: is not TOML: {error}.") from error
    try:
        return project_of(path.parent, said)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def project_of(folder: Path, said: dict[str, Any], names: Sequence[str] | None = None) -> Project:
    """Returns what a project file says.

    :param names: the files that are there, where that is known
    :raises UsageError: it is not what it should be.
    """
    said = cast("dict[str, Any]", _checked(said, _SHAPE, ""))
    for place, keys in _NEEDED:
        for table in said.get(place, [said]):
            for key in keys:
                if key not in table:
                    raise UsageError(f"`{key}` {f'in `{place}` ' * bool(place)}must be given, but is not.")
    for number, code in enumerate((said["from"], *said["to"])):
        name = "to" if number else "from"
        if not is_code(code):
            raise UsageError(f"`{name}` must be the code of a language, as de, but is {code!r} instead.")
        if number and primary(code) == primary(said["from"]):
            raise UsageError(f"`to` must be other languages than `from`, {said['from']}, but has {code!r}.")
    if len({*said["to"]}) < len(said["to"]):
        raise UsageError("`to` must have each language once.")
    variants = said.get("languages", {})
    for key in ("glossary", "forbidden", "languages"):
        for code in said.get(key, {}):
            _known(code, [said["from"], *said["to"]], f"in `{key}`")
    common = {key: value for key, value in said.items() if key in _OPTIONS}
    rules = tuple(_rule(said["from"], variants, common | each) for each in said["files"])
    _spec(said.get("ignore", ()))
    checks = said.get("check", {})
    baseline = folder / checks["baseline"] if "baseline" in checks else None
    return Project(
        folder,
        said["from"],
        said["to"],
        memory=tuple(folder / each for each in said.get("memory", ())),
        glossary={code: folder / each for code, each in said.get("glossary", {}).items()},
        check=Checks(**checks | {"baseline": baseline}),
        variants=variants,
        **{key: said[key] for key in ("model", "forbidden", "keep", "tone", "fuzzy_below") if key in said},
        _rules=rules,
        _ignored=said.get("ignore", ()),
        _names=names,
    )


def _rule(source: str, variants: Mapping[str, Mapping[str, str]], said: dict[str, Any]) -> _Rule:
    """
    :param source: the language of sources
    """
    known = codes(source, source, variants)
    for name in _FIELD.findall(said["target"]):
        _known(name, [*_PARTS, *known], "in `target`")
    if not any(name in known and name != "from" for name in _FIELD.findall(said["target"])):
        raise UsageError(f"`target` must have {{to}} in it, but is {said['target']!r} instead.")
    if said.get("format") is not None:
        _known(said["format"], names(), "as `format`")
    glob = _filled(said["source"], known).removeprefix("./").strip("/")
    fixed = re.split(r"[*?\[]", glob)[0]
    base = posixpath.dirname(fixed) if fixed != glob or posixpath.splitext(glob)[1] else glob
    if (named := format_of(glob)) in _MEANT:
        said = {"format": named} | said
    settings = Settings(**{each.name: said[each.name] for each in fields(Settings) if each.name in said})
    return _Rule(_spec([f"/{glob}"]), base, said["target"], settings, said["source"])


def _checked(value: object, shape: _Shape, where: str) -> object:
    """Returns a value as it is kept: lists as tuples.

    :param where: its name
    :raises UsageError: it has another shape.
    """
    if isinstance(shape, tuple):
        if value not in shape or isinstance(value, bool):
            raise UsageError(f"`{where}` must be {' or '.join(map(str, shape))}, but is {value!r} instead.")
        return value
    kind = list if isinstance(shape, list) else dict if isinstance(shape, dict) else shape
    if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
        raise UsageError(f"`{where}` must be {_SAID[kind]}, but is {value!r} instead.")
    if isinstance(value, list):
        return tuple(_checked(each, shape[0], where) for each in value)
    if isinstance(value, dict):
        for key in value if "*" not in shape else ():
            _known(key, shape, f"in `{where}`" if where else "")
        return {key: _checked(each, shape.get(key, shape.get("*")), key) for key, each in value.items()}
    return value


def _known(name: str, allowed: Iterable[str], where: str) -> None:
    """
    :raises UsageError: a name is not known; it says the nearest that is.
    """
    if name not in (known := list(allowed)):
        near = get_close_matches(name, known, 1, 0.5)
        advice = f"; is {near[0]!r} meant?" if near else f"; known are {', '.join(known)}."
        raise UsageError(f"{name!r} {f'{where} ' * bool(where)}is not known{advice}")


def _is_below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents
