"""Lists of words, and of regular expressions for words, by their names in the file that has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import specmt

_LIST: Final = re.compile(r"^\[([^\]]+)\]\n(.*?)(?=^[\[#]|\Z)", re.MULTILINE | re.DOTALL)
_FILE: Final = Path(specmt.__file__).with_name("assets") / "words.txt"

WORDS: Final = {name: words.split() for name, words in _LIST.findall(_FILE.read_text(encoding="utf-8"))}
