"""Headings that are linked and links: what keeps working where headings are translated and files lie elsewhere."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from specmt.formats.document import Edit, Part, edited
from specmt.formats.inline import render
from specmt.types import Span, Tagged

_TARGET: Final = re.compile(
    r"""\]\([ \t]*<?(?P<inline>[^\s<>()]+)
        | ^[ \t>*+-]*\[(?!\^)(?:\\.|[^\[\]\\])*\]:[ \t]*<?(?P<reference>[^\s<>]+)
        | \b(?:src|href)=["'](?P<tag>[^"'{}\s]+)["']""",
    re.VERBOSE | re.MULTILINE,
)
_WITH_TARGETS: Final = frozenset(("link target", "link definition", "image", "tag", "HTML", "JSX"))
_FRAGMENT: Final = re.compile(
    r"""(?:\]\([^\s()#]*|\]:[ \t]*[^\s#\]]*(?:\](?!:)[^\s#\]]*)*|\bhref=["'][^"'#\s]*)#([\w.:%-]+)"""
)
_ID: Final = re.compile(r"\{:?[ ]*#([\w:.-]+)(?![\w:.-])[^{}]*\}[ \t]*\Z")
_GIVEN: Final = re.compile(r"""(?:\b(?:id|name)=["']?|\{:?[ ]?\#|^\()([\w:.-]+)""", re.MULTILINE)
_CODE: Final = re.compile("`+(.+?)`+")
_OTHER: Final = re.compile(r"[a-z][a-z0-9+.-]*:|[/#{@~]|\Z", re.IGNORECASE)
"""Targets that are not relative."""

_ENDS: Final = ("", ".md", ".mdx", "/index.md", "/README.md")
"""What links may leave out of the name of a page."""

_SEPARATORS: Final = re.compile(r"""[\s~`!@#$%^&*()\-_+=\[\]{}|\\;:"'“”‘’<>,.?/]+""")
EXPLICIT: Final = {
    "docusaurus": "{#%s}", "hugo": "{#%s}", "jekyll": "{#%s}", "mkdocs": "{ #%s }", "myst": "(%s)=", "pandoc": "{#%s}",
    "vitepress": "{#%s}",
}  # fmt: skip
"""How dialects write the id of a heading."""


class Heading(NamedTuple):
    """A heading of a page."""

    span: Span
    """Where its content is."""

    text: str
    """What a reader sees, for its slug."""

    first: int
    last: int
    """The numbers of its segments, from one up to another."""


def slug_of(text: str, dialect: str) -> str:
    """Returns the id that a site gives a heading."""
    if dialect == "mkdocs":
        ascii_ = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
        return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_).strip().lower())
    if dialect == "vitepress":
        plain = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text))
        slug = _SEPARATORS.sub("-", plain).strip("-").lower()
        return f"_{slug}" if slug[:1].isdigit() else slug
    if dialect == "pandoc":
        said = re.sub(r"[^\w\s.-]", "", text).lower()
        return re.sub(r"\s+", "-", re.sub(r"^[\W\d_]+", "", said)) or "section"
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def slugs_of(texts: Iterable[str], dialect: str) -> list[str]:
    """Returns the ids of the headings of a page, of which no two are the same."""
    seen: Counter[str] = Counter()
    slugs = []
    for text in texts:
        given = _ID.search(text)
        slug = given[1] if given else slug_of(text, dialect)
        number = seen[slug]
        seen[slug] += 1
        slugs.append(f"{slug}{'_' if dialect == 'mkdocs' else '-'}{number}" if number and not given else slug)
    return slugs


def fragments(text: str) -> set[str]:
    """Returns the ids that links in a page name, in it or in others."""
    return {unquote(each) for each in _FRAGMENT.findall(text)}


def given_ids(text: str) -> set[str]:
    """Returns the ids that a page gives parts of itself, beside those that its headings have anyhow."""
    return set(_GIVEN.findall(text))


def new_anchors(
    text: str, headings: Sequence[Heading], written: Mapping[int, Tagged], dialect: str, linked: Collection[str]
) -> Iterator[Edit]:
    """Yields what gives translated headings that are linked the ids that they had."""
    for heading, slug in zip(headings, slugs_of((each.text for each in headings), dialect), strict=True):
        is_new = any(number in written for number in range(heading.first, heading.last))
        if not is_new or slug not in linked or _ID.search(heading.text):
            continue
        said = EXPLICIT.get(dialect, "{#%s}") % slug
        if dialect == "myst":
            place = text.rfind("\n", 0, heading.span[0]) + 1
            yield Edit(place, place, [f"{said}\n"])
        else:
            yield Edit(heading.span[1], heading.span[1], [f" {said}"])


def moved_anchors(
    text: str, headings: Sequence[Heading], written: Mapping[int, Tagged], dialect: str
) -> dict[str, str]:
    """Returns what the ids of headings become where these are translated."""
    after = []
    for heading in headings:
        said = written.get(heading.first) if heading.last == heading.first + 1 else None
        after.append(heading.text if said is None or _ID.search(heading.text) else _plain(said, text))
    before = slugs_of((each.text for each in headings), dialect)
    return {one: other for one, other in zip(before, slugs_of(after, dialect), strict=True) if one != other}


def follow(target: str, page: str, moved: Callable[[str], Mapping[str, str]]) -> str:
    """Returns a link to a heading, as it is where the ids of the page of that have moved.

    :param page: the file that has the link; its folder, with a slash: links within a page stay
    :param moved: returns what the ids of a file become, of one that is no page none
    """
    path, mark, slug = target.partition("#")
    if not mark or (path and _OTHER.match(path)):
        return target
    named = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(path))) if path else page
    ids = next(filter(None, (moved(f"{named}{end}") for end in _ENDS)), {})
    return f"{path}#{ids.get(unquote(slug), slug)}"


def _plain(said: Tagged, text: str) -> str:
    """Returns what a reader sees of a text: of its markup, code alone."""
    raw = (piece if isinstance(piece, str) else _CODE.match(text, *piece) for piece in render(said))
    return "".join(piece if isinstance(piece, str) else piece[1] if piece else "" for piece in raw)


def new_targets(text: str, parts: Iterable[Part], change: Callable[[str], str]) -> Iterator[tuple[Edit, str, str]]:
    """Yields the targets of links and images that change: the edit, and what they were and are."""
    for part in parts:
        if part.reason in _WITH_TARGETS:
            for match in _TARGET.finditer(text, part.start, part.end):
                kind = str(match.lastgroup)
                old = match[kind]
                if (new := change(old)) != old:
                    yield Edit(*match.span(kind), [new]), old, new


def targets_in(text: str) -> list[str]:
    """Returns the targets of links and images."""
    return [match[str(match.lastgroup)] for match in _TARGET.finditer(text)]


def relinked(markup: str, change: Callable[[str], str]) -> str:
    """Returns markup with other targets, or one that it is itself."""
    if not targets_in(markup):
        return markup if re.search(r"[\s<>()\[\]]", markup) else change(markup)
    return edited(markup, [edit for edit, *_ in new_targets(markup, [Part(0, len(markup), "image")], change)])


def rebase(target: str, source: str, folder: str, place: Callable[[str], str | None]) -> str:
    """Returns a relative target as it is from another folder.

    :param source: the folder of the page that has it
    :param folder: the folder that its translation goes to
    :param place: returns where what a translation links is, of a file; nothing: the target stays as it is written
    """
    path, mark, rest = re.match(r"([^?#]*)([?#]?)(.*)", target, re.DOTALL).groups()  # type: ignore[union-attr]
    named = None if _OTHER.match(path) else place(posixpath.normpath(posixpath.join(source, path)))
    if named is None or named == posixpath.normpath(posixpath.join(folder, path)):
        return target
    return posixpath.relpath(named, folder) + mark + rest
