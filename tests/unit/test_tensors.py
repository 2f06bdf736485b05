"""Safetensors files as arrays: every format that is read, and files that are not what they were checked to be."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmt.engine.arrays import Array, to_bfloat16
from specmt.engine.weights import Outline, Rounded
from specmt.errors import ModelError
from specmt.models import tensors
from specmt.models.tensors import read_arrays, read_outline, read_shapes, read_tensors, write_tensors

VALUES = np.random.default_rng(3).standard_normal((5, 7)).astype(np.float32)
FLOATS: dict[str, Array] = {
    "F16": VALUES.astype(np.float16),
    "BF16": to_bfloat16(VALUES),
    "F32": VALUES,
    "F64": VALUES.astype(np.float64),
}
OTHERS: dict[str, Array] = {
    "I8": np.arange(-4, 4, dtype=np.int8),
    "I16": np.arange(-4, 4, dtype=np.int16),
    "I32": np.arange(-4, 4, dtype=np.int32),
    "I64": np.arange(-4, 4),
    "U8": np.arange(8, dtype=np.uint8),
    "BOOL": np.array([True, False]),
}


def write(path: Path, arrays: dict[str, tuple[str, Array]], *, shift: int = 0) -> None:
    """Writes a file byte by byte, its tensors so many bytes off from where numbers begin well."""
    entries, data = {}, b""
    for name, (kind, array) in arrays.items():
        entries[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8 + shift)
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_every_format_is_read(tmp_path: Path, shift: int) -> None:
    path = tmp_path / "file"
    kinds = FLOATS | OTHERS
    write(path, {kind: (kind, array) for kind, array in kinds.items()}, shift=shift)
    for name, array in read_arrays(path).items():
        assert array.dtype == kinds[name].dtype and np.array_equal(array, kinds[name])
        assert array.flags.aligned and array.flags.writeable
    write(path, {kind: (kind, array) for kind, array in FLOATS.items()}, shift=shift)
    found = read_tensors(path)
    assert found.keys() == FLOATS.keys()
    assert all(isinstance(each, np.ndarray) and np.array_equal(each, FLOATS[name]) for name, each in found.items())
    assert read_outline(path) == {name: Outline((5, 7), array.dtype) for name, array in FLOATS.items()}
    assert read_shapes(path) == dict.fromkeys(FLOATS, (5, 7))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    rounded = Rounded(np.arange(-20, 15, dtype=np.int8).reshape(5, 7), np.arange(1, 6, dtype=np.float32))
    strided = np.arange(12, dtype=np.float32).reshape(3, 4).T
    write_tensors(path, {"rounded": rounded, "strided": strided, "half": FLOATS["F16"], "bits": FLOATS["BF16"]})
    found = read_tensors(path)
    again = found["rounded"]
    assert isinstance(again, Rounded)
    assert np.array_equal(again.values, rounded.values) and np.array_equal(again.scale, rounded.scale)
    assert np.array_equal(found["strided"], strided) and np.array_equal(found["half"], FLOATS["F16"])
    assert np.array_equal(to_bfloat16(found["bits"]), FLOATS["BF16"])  # type: ignore[arg-type]
    assert read_outline(path)["rounded"] == Outline((5, 7), np.dtype(np.int8))
    assert read_shapes(path).keys() == found.keys()


def test_nothing_that_is_written_to_arrays_reaches_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensors(path, {"a": VALUES})
    before = path.read_bytes()
    read_arrays(path)["a"][:] = 7.0
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["U16", "U32", "U64", "F8_E4M3"])
def test_formats_that_are_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    size = {"U16": np.uint16, "U32": np.uint32, "U64": np.uint64, "F8_E4M3": np.uint8}[kind]
    write(path, {"a": (kind, np.zeros(8, dtype=size))})
    for read in (read_arrays, read_tensors):
        with pytest.raises(ModelError, match=f"is not a safetensors file .*a is {kind}"):
            read(path)
    with pytest.raises(ModelError, match=f"is not a safetensors file of a network .a is {kind}"):
        read_outline(path)
    assert read_shapes(path) == {"a": (8,)}


@pytest.mark.parametrize(
    "entry",
    [
        {"data_offsets": [0, 36]},
        {"data_offsets": [-8, 24]},
        {"data_offsets": [4, 0]},
        {"data_offsets": [0, 1 << 62], "shape": [1 << 60]},
        {"data_offsets": [0]},
        {"data_offsets": None},
        {"data_offsets": ["0", "32"]},
        {"shape": [9]},
        {"shape": [-2, -4]},
        {"shape": [-1]},
        {"shape": [-1, -8]},
        {"shape": [2.0, 4.0]},
        {"shape": [10**400]},
        {"shape": "8"},
        {"shape": None},
        {"dtype": "F8_E4M3"},
        {"dtype": ["F32"]},
        {"dtype": None},
        {"more": 1},
    ],
)
def test_a_file_that_changes_behind_the_librarys_back(
    tmp_path: Path, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another one had taken its place right after it was checked."""

    @contextmanager
    def unchecked(*_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(tensors, "safe_open", unchecked)
    path = tmp_path / "file"
    whole = {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}
    for record in ({"a": whole | entry}, {"a": 3}, ["a"], "a", None):
        head = json.dumps(record).encode()
        path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(32))
        with pytest.raises(ModelError, match="is not a safetensors file"):
            read_tensors(path)
    for content in (b"", b"{}", struct.pack("<Q", 1 << 62) + b"{}", struct.pack("<Q", 2) + b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(ModelError, match="is not a safetensors file"):
            read_tensors(path)
