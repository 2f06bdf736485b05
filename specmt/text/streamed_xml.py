"""XML files that are read as their bytes come in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, Generic, TypeVar
from xml.parsers import expat

from specmt.errors import DataError
from specmt.languages import primary
from specmt.text.lines import reading

T = TypeVar("T")

_CHUNK: Final = 1 << 16


class StreamedXml(ABC, Generic[T]):
    """What an XML file holds, of which no more is kept than a subclass keeps.

    Straight on the parser below ElementTree, which alone says where in the file it is and that a document declares
    entities; a few of those can stand for gigabytes of text.
    """

    def __init__(self, name: str) -> None:
        """
        :param name: what errors call the file
        """
        self.name = name
        self.items: list[T] = []
        """What was found since the last bytes."""
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.EntityDeclHandler = self._refuse_declared
        self.parser.SkippedEntityHandler = self._refuse_unknown

    @abstractmethod
    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Takes in the start of an element."""

    @abstractmethod
    def end(self, tag: str) -> None:
        """Takes in the end of an element."""

    @abstractmethod
    def text(self, text: str) -> None:
        """Takes in text."""

    def read(self, stream: BinaryIO) -> Iterator[T]:
        """Yields what is found in a file.

        :raises DataError: it is not what it should be; while iterating.
        """
        with reading(stream, self.name):
            while chunk := stream.read(_CHUNK):
                yield from self.feed(chunk)
            yield from self.feed(b"", last=True)

    def feed(self, data: bytes, *, last: bool = False) -> list[T]:
        """Returns what is found in the next bytes."""
        try:
            self.parser.Parse(data, last)
        except expat.ExpatError as error:
            raise self.error(f"is not well-formed XML ({expat.ErrorString(error.code)})") from error
        except (LookupError, ValueError) as error:  # from the declaration of the encoding
            raise self.error(f"cannot be decoded ({error})") from error
        items, self.items = self.items, []
        return items

    def error(self, what: str) -> DataError:
        """Returns an error at the place that the parser is at."""
        return DataError(f"{self.name}: line {self.parser.CurrentLineNumber} {what}.")

    def _refuse_declared(self, entity: str, *_: object) -> None:
        raise self.error(f"declares the entity {entity}, which it must not")

    def _refuse_unknown(self, entity: str, *_: object) -> None:
        raise self.error(f"uses the entity {entity}, which it does not declare")


def language_of(attributes: Mapping[str, str]) -> str:
    """Returns the language that the attributes of an element name."""
    return primary(attributes.get("xml:lang", attributes.get("lang", "")))
