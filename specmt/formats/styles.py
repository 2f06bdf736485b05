"""Which styles of word processors say that something is code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_CODE: Final = re.compile(
    r"\b(?:source ?(?:code|text)|verbatim|(?:html )?(?:pre|vor)format|quell(?:code|text)|code|teletype|macro text"
    r"|literal\b|html ?(?:code|keyboard|sample|typewriter|variable))"
)
_SPACE: Final = re.compile(r"_20_|(?<=[a-z])(?=[A-Z])|[_-]")
_ENOUGH: Final = 20


def is_code_style(names: Mapping[str, tuple[str, str]], style: str) -> bool:
    """Whether the style of an id is one of code, or made from one.

    :param names: the name of a style and what it is made from, by its id
    """
    for _ in range(_ENOUGH):
        name, parent = names.get(style, (style, ""))
        if _CODE.search(_SPACE.sub(" ", name).lower()) is not None:
            return True
        if not parent:
            return False
        style = parent
    return False
