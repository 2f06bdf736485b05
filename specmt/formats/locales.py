"""Texts of programs and sites in YAML: Rails, Symfony, Hugo, Jekyll."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import yaml

from specmt.errors import DataError
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Part,
    Pieces,
    RefusedError,
    Segment,
    TextDocument,
)
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place
from specmt.formats.inline import written as joined
from specmt.formats.plurals import CATEGORIES, plural_forms
from specmt.formats.scalars import IN_QUOTES, TEXT, composed, is_glued, quoted, start_of, written
from specmt.formats.values import is_code
from specmt.languages import is_code as is_language
from specmt.languages import primary
from specmt.types import Tagged

_PATTERNS: Final = re.compile(
    r"(?:.*\.)?(?:(?:date|time|datetime)\.(?:formats\..+|order\.\d+)|number\.(?:.*\.)?format\.\w+)"
)
"""Where Rails has patterns of numbers, dates and times."""

_ICU: Final = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
_NOT_PLAIN: Final = re.compile(r":(?!\S)|\s#")
_NAMES: Final = frozenset(("class", "href", "icon", "id", "identifier", "layout", "link", "permalink", "slug", "url"))
"""Keys of data whose values in small letters are no text."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads values that are text; where the keys at the root are languages, those of the source's language.

    :raises DataError: it is no YAML.
    """
    text, encoding = decode(data)
    try:
        roots = composed(text)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1} "
        raise DataError(f"{line}is not YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        raise DataError(f"line {text.count(chr(10), 0, error.position) + 1} is not YAML: {error.reason}") from error
    except (OverflowError, ValueError) as error:
        raise DataError(f"line 1 is not YAML: {error}") from error
    reader = _Reader(text, options)
    segments = [segment for root in roots for segment in reader.root(root)]

    def finish(_: Mapping[int, Tagged]) -> Iterator[Edit]:
        for key in reader.languages:
            raw = text[start_of(text, key) : key.end_mark.index]
            yield Edit(start_of(text, key), key.end_mark.index, [written(options.target, key, raw)])

    return TextDocument(text, encoding, segments, finish=finish, parts=reader.parts)


class _Reader:
    def __init__(self, text: str, options: FormatOptions) -> None:
        self.languages: list[yaml.ScalarNode] = []
        """The keys that become the target language."""
        self.parts: list[Part] = []
        self._text = text
        self._lines = LineNumbers(text)
        self._end = "\r\n" if "\r\n" in text[:1000] else "\n"
        self._options = options
        self._forms = plural_forms(options.target)
        self._is_data = False
        self._seen: set[int] = set()

    def root(self, root: yaml.Node) -> Iterator[Segment]:
        """Yields the texts of a document."""
        pairs: list[tuple[yaml.Node, yaml.Node]] = root.value if isinstance(root, yaml.MappingNode) else []
        codes = [str(key.value) for key, value in pairs if isinstance(value, yaml.MappingNode)]
        if not codes or len(codes) < len(pairs) or not all(map(is_language, codes)):
            self._is_data = True
            yield from self._node(root, "", is_flow=False)
            return
        source = primary(self._options.source)
        wanted = [each for each in pairs if primary(each[0].value) == source]
        has_target = any(primary(code) == primary(self._options.target) for code in codes)
        if has_target or (len(pairs) > 1 and not wanted):
            reason = "the file has the target language" if has_target else "the file has another language"
            line = self._lines(pairs[0][0].start_mark.index)
            yield Segment(Tagged(codes[0]), line, lambda *_: (), "skipped", reason=f"left as it is: {reason}")
            return
        for key, value in pairs if wanted else ():
            if primary(key.value) != source:
                self.parts.append(Part(key.start_mark.index, value.end_mark.index, "another language"))
        for key, value in wanted or pairs:
            self.languages.append(key)  # type: ignore[arg-type]
            yield from self._node(value, "", is_flow=False)

    def _node(self, node: yaml.Node, path: str, *, is_flow: bool) -> Iterator[Segment]:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield from self._scalar(node, path, self._write(node, is_flow=is_flow))
            return
        assert isinstance(node, yaml.CollectionNode)
        is_flow = is_flow or bool(node.flow_style)
        if isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                yield from self._node(value, f"{path}.{number}", is_flow=is_flow)
            return
        names = [str(key.value) if isinstance(key, yaml.ScalarNode) else "" for key, _ in node.value]
        plain = all(isinstance(value, yaml.ScalarNode) and id(value) not in self._seen for _, value in node.value)
        forms = {*names}  # what has one of them twice is no plural
        is_plural = plain and "other" in forms <= {*CATEGORIES} and len(forms) == len(names)
        is_message = "id" in names and "translation" in names
        for name, (_, value) in zip(names, node.value, strict=True):
            below = f"{path}.{name}".lstrip(".")
            if is_plural and name == "other":
                self._seen.add(id(value))
                yield from self._scalar(value, below, self._plural(node, names, is_flow=is_flow))
            elif (is_message and name != "translation") or (is_plural and name not in ("zero", *self._forms)):
                reason = "note, or the name of a message" if is_message else "form that the target lacks"
                self.parts.append(Part(value.start_mark.index, value.end_mark.index, reason))
            else:
                yield from self._node(value, below, is_flow=is_flow)

    def _scalar(self, node: yaml.ScalarNode, path: str, write: Callable[[str], list[Edit]]) -> Iterator[Segment]:
        value = str(node.value)
        core = value.strip()
        if node.tag != TEXT or is_glued(self._text, node) or _is_read(core, path, is_data=self._is_data):
            self.parts.append(Part(node.start_mark.index, node.end_mark.index, "no text"))
            return
        line = self._lines(node.start_mark.index)
        if _ICU.search(core) or ("'{" in core and node.style not in ("|", ">")):
            yield from self._message(node, path)
            return
        head, tail = value[: len(value) - len(value.lstrip())], value[len(value.rstrip()) :]
        inline = Inline(core)
        inline.text(0, len(core))
        spell = inline.read_breaks()
        edits = lambda translation, _: write(f"{head}{spell(translation.text)}{tail}")  # noqa: E731
        yield Segment(Tagged(inline.plain()), line, edits, context=path)

    def _message(self, node: yaml.ScalarNode, path: str) -> Iterator[Segment]:
        """Yields the texts of a message with plurals or selects of ICU."""
        start, end = start_of(self._text, node), node.end_mark.index
        if node.style in ("|", ">"):
            start = self._text.index("\n", start)
        elif node.style:
            start, end = start + 1, end - 1
        decode, encode = IN_QUOTES.get(node.style or "", (str, str))

        def guarded(pieces: Pieces, _: int) -> Pieces:
            if not node.style and _NOT_PLAIN.search(joined(self._text, pieces)):
                raise RefusedError("YAML would not read it as text")
            return pieces

        inline = Inline(self._text, decode, collapses=True, escaped=r"\\[ntr]" if node.style == '"' else "")
        inline.text(start, end)
        yield from in_place(inline, self._lines, encode, context=path, guard=guarded, forms=self._forms, entities=True)

    def _write(self, node: yaml.ScalarNode, *, is_flow: bool) -> Callable[[str], list[Edit]]:
        start, end = start_of(self._text, node), node.end_mark.index
        return lambda said: [Edit(start, end, [written(said, node, self._text[start:end], flow=is_flow)])]

    def _plural(self, node: yaml.CollectionNode, names: list[str], *, is_flow: bool) -> Callable[[str], list[Edit]]:
        """Returns how the form for other numbers is written, with those of the target that the source has not."""
        place = names.index("other")
        key, value = node.value[place]
        write = self._write(value, is_flow=is_flow)
        begin = key.start_mark.index
        span = start_of(self._text, value), value.end_mark.index
        before = ", " if is_flow else self._end + " " * key.start_mark.column

        def edits(said: str) -> list[Edit]:
            raw = (
                quoted(said)
                if value.style in ("|", ">")
                else written(said, value, self._text[slice(*span)], flow=is_flow)
            )
            more = [f"{form}: {raw}{before}" for form in self._forms if form not in names]
            gone = [
                Edit(one.start_mark.index, node.value[number + 1][0].start_mark.index, [])
                for number, (one, _) in enumerate(node.value[:place])
                if names[number] not in ("zero", *self._forms)
            ]
            return [*gone, Edit(begin, begin, ["".join(more)]), *write(said)]

        return edits


def _is_read(said: str, path: str, *, is_data: bool) -> bool:
    """Whether a value is read by programs."""
    key = path.rpartition(".")[2]
    is_name = is_data and key in _NAMES and said == said.lower()
    return is_name or is_code(said, key) or _PATTERNS.fullmatch(path) is not None
