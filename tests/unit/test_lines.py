from __future__ import annotations

import gzip
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from specmt.errors import DataError, InputNotFoundError, OutputError
from specmt.text.lines import Output, read_lines
from specmt.types import Line


def read(path: Path, **kwargs: str) -> list[Line]:
    return list(read_lines(path, **kwargs))  # type: ignore[arg-type]


@contextmanager
def pipe() -> Iterator[tuple[Path, int]]:
    """Yields a path that reads from a pipe and the descriptor that writes into it."""
    reading, writing = os.pipe()
    yield Path(f"/dev/fd/{reading}"), writing
    os.close(reading)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"\n", [("", "\n")]),
        (b"a", [("a", "")]),
        (b"a\nb", [("a", "\n"), ("b", "")]),
        (b"a\r\n\r\nb\r", [("a", "\r\n"), ("", "\r\n"), ("b\r", "")]),
        (b"a\rb\r\r\n", [("a\rb\r", "\r\n")]),
        ("a\u2028b\fc\x85d\u2029e\x1cf\vg\n".encode(), [("a\u2028b\fc\x85d\u2029e\x1cf\vg", "\n")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [("\ufeffa", "\n"), ("\ufeffb", "\n")]),
        (b"\xef\xbb\xbf\n", [("", "\n")]),
        (b"a\x00b\n", [("a\x00b", "\n")]),
    ],
)
def test_only_newline_ends_a_line(tmp_path: Path, data: bytes, expected: list[tuple[str, str]]) -> None:
    path = tmp_path / "in"
    path.write_bytes(data)
    assert [(line.text, line.ending) for line in read(path)] == expected
    assert [line.index for line in read(path)] == list(range(len(expected)))
    with pipe() as (piped, writing):
        os.write(writing, data)
        os.close(writing)
        assert [(line.text, line.ending) for line in read(piped)] == expected


def test_regular_files_are_always_ready_and_know_their_position(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("".join(f"{i}\n" for i in range(10)))
    lines = read_lines(path)
    assert (lines.name, lines.size) == (str(path), 20)
    assert lines.ready()
    assert len(list(lines)) == 10
    assert lines.ready()
    assert lines.position == 20
    assert lines.waited == 0.0


def test_invalid_utf8_names_line_and_offset_after_the_lines_before_it(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfgut\nna ja\nschl\xfccht\nnie\n"
    path = tmp_path / "in.de"
    path.write_bytes(data)
    with pipe() as (piped, writing):
        os.write(writing, data)
        os.close(writing)
        for each in (path, piped):
            seen: list[str] = []
            with pytest.raises(DataError, match=f"{each}: line 3 is not valid UTF-8 at byte offset 17;"):
                seen.extend(line.text for line in read_lines(each))
            assert seen == ["gut", "na ja"]
    assert data[17] == 0xFC
    assert [line.text for line in read(path, errors="replace")] == ["gut", "na ja", "schl\ufffdcht", "nie"]


def test_encoded_surrogates_and_truncated_characters_are_invalid(tmp_path: Path) -> None:
    for data in (b"\xed\xa0\x80\n", b"a\xc3\n", b"a\xe2\x82"):
        (tmp_path / "in").write_bytes(data)
        with pytest.raises(DataError):
            read(tmp_path / "in")


def test_gzip_by_name(tmp_path: Path) -> None:
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    assert [line.text for line in read(path)] == ["a", "b"]
    for damaged in (b"no gzip", gzip.compress(os.urandom(1000))[:-20], gzip.compress(b"a\n" * 99)[:-6] + b"123456"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="gzip"):
            read(path)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match="no such file"):
        read_lines(tmp_path / "none")
    for name in ("dir", "dir.gz"):
        (tmp_path / name).mkdir()
        with pytest.raises(InputNotFoundError, match="is a directory"):
            read_lines(tmp_path / name)


def test_what_is_waiting_on_a_pipe_is_known_without_waiting_for_it() -> None:
    with pipe() as (path, writing):
        lines = read_lines(path)
        assert (lines.size, lines.position) == (None, 0)
        assert not lines.ready()
        os.write(writing, b"one\npart of ")
        assert next(lines) == Line(0, "one")
        time.sleep(0.05)
        assert not lines.ready()
        threading.Timer(0.05, os.write, (writing, b"two\nthree")).start()
        assert next(lines) == Line(1, "part of two")
        assert 0.0 < lines.waited < 5.0
        os.close(writing)
        assert next(lines) == Line(2, "three", "")
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(lines)
            assert lines.ready()


@pytest.mark.parametrize(("count", "size"), [(5000, 100), (40, 100_000)], ids=["lines", "bytes"])
def test_reading_ahead_is_bounded(count: int, size: int) -> None:
    with pipe() as (path, writing):
        lines = read_lines(path)
        done = threading.Event()

        def produce() -> None:
            with os.fdopen(writing, "wb") as stream:
                for _ in range(3 * count):
                    stream.write(b"x" * size + b"\n")
            done.set()

        threading.Thread(target=produce, daemon=True).start()
        assert not done.wait(0.3)
        assert sum(1 for _ in lines) == 3 * count
        assert done.wait(5)


def write(path: Path, *texts: str) -> None:
    with Output(path) as output:
        for text in texts:
            output.write(text)


def test_output_appears_when_complete_and_leaves_nothing_behind_on_failure(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with Output(path) as output:
        output.write("ä\r\n")
        assert not path.exists()
    assert path.read_bytes() == b"\xc3\xa4\r\n"
    with pytest.raises(KeyboardInterrupt), Output(path) as output:
        output.write("other")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"\xc3\xa4\r\n"
    assert list(tmp_path.iterdir()) == [path]


def test_output_keeps_mode_and_link(tmp_path: Path) -> None:
    path = tmp_path / "out"
    umask = os.umask(0o027)
    try:
        write(path, "new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(umask)
    path.chmod(0o604)
    link = tmp_path / "link"
    link.symlink_to(path)
    write(link, "a", "b")
    assert link.is_symlink()
    assert path.read_text() == "ab"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    dangling = tmp_path / "dangling"
    dangling.symlink_to("elsewhere")
    write(dangling, "c")
    assert (tmp_path / "elsewhere").read_text() == "c"


def test_output_over_its_input(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a\nb\n")
    with Output(path) as output:
        for line in read_lines(path):
            output.write(line.text.upper() + line.ending)
    assert path.read_text() == "A\nB\n"


def test_gzip_output_is_reproducible(tmp_path: Path) -> None:
    write(tmp_path / "a.gz", "x\n")
    write(tmp_path / "b.gz", "x\n")
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"x\n"
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_devices_and_pipes_are_written_to_directly(tmp_path: Path) -> None:
    write(Path("/dev/null"), "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_text()))
    reader.start()
    write(fifo, "x\n", "y\n")
    reader.join(5)
    assert got == ["x\ny\n"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    with pytest.raises(OutputError, match="No space left"):
        write(Path("/dev/full"), "x")


def test_output_that_cannot_be_written_fails_on_opening(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "none" / "out", tmp_path / "file" / "out", tmp_path / ("x" * 300)):
        with pytest.raises(OutputError), Output(path):
            pytest.fail("opened")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_standard_output_that_goes_to_a_file_gets_whole_lines_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    with path.open("w") as file:
        monkeypatch.setattr("sys.stdout", file)
        with Output(None) as output:
            output.write("first\n")
            assert path.read_text() == "first\n"
            output.write("second\n" * 5)
            assert path.read_text() == "first\n"
            output.write("x" * (1 << 16))
            assert path.stat().st_size > 1 << 16
        with pytest.raises(KeyboardInterrupt), Output(None) as output:
            output.write("a\n")
            output.write("b\n")
            raise KeyboardInterrupt
    assert path.read_text().endswith("a\nb\n")
