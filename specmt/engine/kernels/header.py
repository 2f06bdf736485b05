"""What csrc declares for Python, as text: structures.py reads it, and whatever compiles csrc compiles its number in.

    python -m specmt.engine.kernels.header    # prints what compilers are told

Imports nothing that building does not have.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("csrc")


def structures() -> str:
    """Returns structures.h without comments, all white space being single spaces."""
    text = (FOLDER / "structures.h").read_text(encoding="utf-8")
    return " ".join(re.sub(r"//.*|#.*", "", text).split())


def calls() -> list[tuple[str, str, str]]:
    """Returns result, name and parameters of each call that calls.h defines."""
    text = (FOLDER / "calls.h").read_text(encoding="utf-8")
    found = re.findall(r"^CALL\((\w+), (\w+)\)\(([^)]*)\)", text, re.MULTILINE)
    return [(result, name, " ".join(parameters.split())) for result, name, parameters in found]


def number() -> int:
    """Returns a number that another one takes the place of when a declaration changes."""
    return zlib.crc32(f"{structures()}{calls()}".encode())


def definition() -> str:
    """Returns what compilers are told of the declarations."""
    return f"-DSPECMT_DECLARATIONS={number()}u"


if __name__ == "__main__":
    print(definition())
