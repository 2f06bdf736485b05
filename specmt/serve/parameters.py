"""What a request says, in whichever of the ways that clients have of saying it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, final
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartParser

from specmt.serve.errors import RefusedError

MOST_FIELDS: Final = 10_000
"""In a form."""

SMALL: Final = 1 << 16
"""The bytes or characters of which something is made on the loop; of more of them it is, beside it."""

MultiPartParser.spool_max_size = 0  # files stay in memory, of which the gate counts every byte: no disk is waited for

_T = TypeVar("_T")


async def beside(size: int, work: Callable[..., _T], *arguments: Any) -> _T:
    """Does work with so many bytes or characters, beside the loop if they are many."""
    return work(*arguments) if size <= SMALL else await asyncio.to_thread(work, *arguments)


@final
class Parameters:
    """Named values: those of a JSON object, or of a form and the query together."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """
        :param values: in forms, lists of texts and files
        """
        self._values = values

    @classmethod
    async def read(cls, request: Request) -> Parameters:
        """Reads the body and the query of a request.

        :raises RefusedError: the body is not what it says that it is.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        values: dict[str, Any] = {}
        try:
            add_fields(values, request.scope["query_string"])
            if kind == "multipart/form-data":
                form = await request.form(max_files=1, max_fields=100)
                for name, value in form.multi_items():
                    values.setdefault(name, _Field()).append(value)
                return cls(values)
            body = await request.body()
            is_json = kind.endswith("json") or (body[:1] == b"{" and kind != "application/x-www-form-urlencoded")
            add = _add_json if is_json else add_fields
            await beside(len(body), add, values, body)
        except UnicodeDecodeError:
            raise RefusedError(400, "Invalid request: must be UTF-8") from None
        except (ValueError, RecursionError):
            what = "JSON" if kind.endswith("json") else "request"
            raise RefusedError(400, f"Invalid {what}: cannot be read") from None
        return cls(values)

    def text(self, name: str) -> str | None:
        """Returns the value of a name, if there is one.

        :raises RefusedError: it is no text, or none that can be written down.
        """
        value = self._single(name)
        return None if value is None else _checked(name, value)

    def texts(self, name: str) -> list[str] | None:
        """Returns all values of a name.

        :raises RefusedError: one of them is no text.
        """
        value = self._values.get(name)
        if value is None or isinstance(value, _Texts):
            return value
        return [_checked(name, each) for each in (value if isinstance(value, _Field) else [value])]

    def is_list(self, name: str) -> bool:
        """Whether there is a list of values, or a name several times."""
        return isinstance(self._single(name), list)

    def has(self, name: str) -> bool:
        """Whether there is a value that says something."""
        return self._single(name) not in (None, "", [])

    def flag(self, name: str, *, default: bool = False) -> bool:
        """
        :raises RefusedError: it is neither true nor false.
        """
        if not self.has(name):
            return default
        value = self._single(name)
        for meant, ways in ((True, ("1", "true", "True")), (False, ("0", "false", "False"))):
            if value is meant or (value in ways and not isinstance(value, int)):
                return meant
        raise RefusedError(400, f"Invalid request: {name} must be true or false")

    def number(self, name: str) -> int:
        """Returns a whole number of at least 0; 0 where there is none.

        :raises RefusedError: it is none.
        """
        value = self._single(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
            value = int(value)
        if value is None or value == "":
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**9:
            raise RefusedError(400, f"Invalid request: {name} must be a whole number of at least 0")
        return value

    def objects(self, name: str) -> list[Parameters]:
        """Returns the objects of a list; none where there is no list.

        :raises RefusedError: it is something else.
        """
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise RefusedError(400, f"Invalid request: {name} must be a list of objects")
        return [Parameters(each) for each in value]

    def file(self, name: str) -> UploadFile | None:
        """Returns an uploaded file."""
        value = self._single(name)
        return value if isinstance(value, UploadFile) else None

    def _single(self, name: str) -> Any:
        """Returns a value; that of a form's field, if there is one only."""
        value = self._values.get(name)
        return value[0] if isinstance(value, _Field) and len(value) == 1 else value


class _Field(list[Any]):
    """The values of a form's field."""


class _Texts(list[str]):
    """A list of texts that are checked."""


def _add_json(values: dict[str, Any], body: bytes) -> None:
    """Adds what an object has.

    :raises ValueError: it cannot be read.
    :raises RefusedError: it is no object, or a text in it is none that can be written down.
    """
    found = json.loads(body)
    if not isinstance(found, dict):
        raise RefusedError(400, "Invalid JSON: must be an object")
    for name, value in found.items():
        is_texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        values[name] = _Texts(_checked(name, each) for each in value) if is_texts else value


def add_fields(values: dict[str, Any], form: bytes) -> None:
    """Adds the fields of a form or query.

    :raises ValueError: there are too many, or they are not UTF-8.
    """
    for name, value in parse_qsl(form.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS):
        values.setdefault(name.removesuffix("[]"), _Field()).append(value)


def _checked(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise RefusedError(400, f"Invalid request: {name} must be text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusedError(400, f"Invalid request: {name} has half of a surrogate pair") from None
    return value
