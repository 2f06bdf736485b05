"""What Python reads of the kernels' headers is what a compiler makes of them."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from specmt.engine.arrays import BFLOAT16, zeros
from specmt.engine.kernels import header, structures

NAMES = re.findall(r"struct (\w+) {", header.structures())


def declared(name: str) -> type[ctypes.Structure]:
    found = getattr(structures, name)
    assert issubclass(found, ctypes.Structure)
    return found


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_fields_lie_where_the_compiler_puts_them(tmp_path: Path) -> None:
    places = [(name, str(field[0])) for name in NAMES for field in declared(name)._fields_]
    asked = [f"sizeof({name})" for name in NAMES] + [f"offsetof({name}, {field})" for name, field in places]
    lines = "".join(f'std::printf("%zu\\n", {each});' for each in asked)
    source = f'#include <cstddef>\n#include <cstdio>\n#include "structures.h"\nint main() {{ {lines} }}\n'
    (tmp_path / "ask.cpp").write_text(source)
    command = ["g++", "-std=c++20", "-w", f"-I{header.FOLDER}", tmp_path / "ask.cpp", "-o", tmp_path / "ask"]
    subprocess.run(command, check=True)
    found = subprocess.check_output([tmp_path / "ask"], text=True).split()
    ours = [ctypes.sizeof(declared(name)) for name in NAMES]
    ours += [getattr(declared(name), field).offset for name, field in places]
    assert list(map(int, found)) == ours
    assert len(places) > 150


def test_numbers_and_calls() -> None:
    assert structures.TYPES == {"float32": 0, "bfloat16": 1, "int8": 2, "float16": 3, "codes": 4}
    assert (structures.ALL, structures.LAST, structures.SLOTS) == (0, 1, 2)
    assert structures.LANES == 16 and 48 in structures.HEAD_DIMS
    assert len(structures.LEVELS) == 16 and structures.LEVELS[-1] == -structures.LEVELS[0] == 127
    result, parameters = structures.CALLS["ahead"]
    network, step = (ctypes.POINTER(declared(name)) for name in ("Network", "Step"))
    pointer = ctypes.c_void_p
    assert (result, parameters) == (ctypes.c_int, (network, step, ctypes.c_int, ctypes.c_int64, pointer, pointer))
    assert structures.CALLS["fail_allocation"][0] == ctypes.c_int64
    assert structures.type_of(np.zeros(1, BFLOAT16)) == 1 and structures.type_of(np.zeros(1, np.float16)) == 3


def test_a_cache_is_told_in_elements() -> None:
    data = zeros((2, 2, 3, 4, 64, 16), np.float32)
    view = structures.cache_view(data)
    assert view.data == data.ctypes.data and view.data % 64 == 0
    assert (view.layer, view.value, view.row, view.head) == (2 * 3 * 4 * 1024, 3 * 4 * 1024, 4 * 1024, 1024)


def test_declarations_have_another_number_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("structures.h", "calls.h"):
        shutil.copy(header.FOLDER / name, tmp_path)
    monkeypatch.setattr(header, "FOLDER", tmp_path)
    before = header.number()
    assert header.definition() == f"-DSPECMT_DECLARATIONS={before}u"

    def changed(name: str, old: str, new: str) -> bool:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new, 1), encoding="utf-8")
        number = header.number()
        (tmp_path / name).write_text(text, encoding="utf-8")
        return number != before

    assert changed("structures.h", "int32_t threads, sentences", "int32_t sentences, threads")
    assert changed("structures.h", "FLOAT32 = 0, BFLOAT16 = 1", "FLOAT32 = 1, BFLOAT16 = 0")
    assert changed("calls.h", "CALL(int, run)(const Run* run)", "CALL(int, run)(const Run* run, int more)")
    assert not changed("structures.h", "// of embeddings", "// of what is embedded")
    assert not changed("calls.h", "// Returns the number of iterations.", "// How many there were.")
