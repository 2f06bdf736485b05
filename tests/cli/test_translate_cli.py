"""`specmt translate` in real processes. Each start costs seconds, so one run checks many things."""

from __future__ import annotations

import gzip
import json
import os
import select
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from specmt.cli.console import missing_kernels
from specmt.cli.main import run
from specmt.engine.kernels import library
from tests.cli.test_signals import start
from tests.commands import AS_SAID, COMMAND, TIMEOUT, Execute, execute, model_options

LINES = (
    b"\xef\xbb\xbfDas ist ein Haus.\r\n"
    b"\n"
    b" \t \r\n" + "  Ein\u2028Hund\f und eine\rKatze. \n".encode() + b"\xef\xbb\xbf\n"  # a BOM in the middle is text
    b"Kein Zeilenende"
)
"""Six lines by the contract of DESIGN §5, whatever str.splitlines thinks."""


specmt = partial(execute, *COMMAND)


def error_of(result: subprocess.CompletedProcess[bytes]) -> str:
    """Returns the message of a failure, which must be one line and no traceback."""
    message = result.stderr.decode()
    assert message.startswith("specmt: error: ")
    assert message.count("\n") == 1
    return message


def told(result: subprocess.CompletedProcess[bytes]) -> list[str]:
    """Returns what a run said on standard error, but for what comes of a model that talks nonsense."""
    return [line for line in result.stderr.decode().splitlines() if "stays as it is" not in line]


def answer(process: subprocess.Popen[bytes], writing: IO[bytes], line: bytes) -> bytes:
    """Sends one line, keeps the input open, and returns the line that comes back."""
    assert process.stdout is not None
    writing.write(line)
    writing.flush()
    got = b""
    while not got.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], TIMEOUT)
        assert ready, "No answer while the input is open."
        chunk = os.read(process.stdout.fileno(), 1)
        assert chunk, "The output ended without an answer."
        got += chunk
    return got


HELP = {
    "--help": ("translate", "prepare", "distill", "train", "Example:"),
    "--version": ("specmt ",),
    "translate --help": ("--tolerance", "Examples:"),
    "trace --help": ("--html", "--json", "--tree", "--temperature", "[default: own]", "Examples:"),
    "evaluate --help": ("tolerant[:BETA:TAU]", "--plot", "--report"),
    "bench --help": ("--block-sizes", "--plot"),
    "shortlist --help": ("--distilled", "--frequent"),
    "update --help": ("--into", "--adopt"),
    "accept --help": ("TARGET[:LINE]",),
    "check --help": ("--fail-on", "Examples:"),
    "memory export --help": ("--pair",),
    "glossary suggest --help": ("--least",),
}
"""Words that are in what is said."""


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys; from specmt.cli.main import run\n"
        f"for line in {[*HELP]}:\n"
        "    assert run(line.split()) == 0; print(end='\\0')\n"
        "names = 'torch', 'numpy', 'sentencepiece', 'fairseq2', 'rich', 'matplotlib', 'sacrebleu', 'specmt.project'\n"
        "names += 'specmt.formats.document', 'specmt.documents', 'markdown_it', 'yaml', 'urllib.request'\n"
        "heavy = {*names} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    result = execute(sys.executable, "-c", script)
    assert result.returncode == 0, result.stderr
    *said, rest = result.stdout.decode().split("\0")
    assert rest == ""
    for words, text in zip(HELP.values(), said, strict=True):
        assert all(word in text for word in words), text


@pytest.mark.usefixtures("needs_kernels")
def test_a_line_from_a_pipe_imports_no_more_than_it_needs(tiny_model: Path) -> None:
    script = (
        "import sys; from specmt.cli.main import run\n"
        f"assert run({['translate', *model_options(tiny_model), *AS_SAID]}) == 0\n"
        "names = 'torch', 'rich', 'importlib.metadata', 'specmt.formats.document', 'specmt.text.tags'\n"
        "print({*names} & set(sys.modules), file=sys.stderr)"
    )
    result = execute(sys.executable, "-c", script, data=b"Der Hund\n")
    assert (result.returncode, result.stderr.decode()) == (0, "set()\n")


@pytest.mark.parametrize(
    "options", [["--drafter", "auto"], ["--no-deterministic"], ["--drafter", "self"], ["--dtype", "int8"]]
)
def test_ways_that_need_not_change_a_word(tiny_model: Path, options: list[str], tmp_path: Path, here: Execute) -> None:
    """On this input: int8 and free shapes may round otherwise, but no word hangs by that little."""
    if "int8" in options and library.kernels() is None:
        pytest.skip("int8 is for the kernels")
    data = b"Guten Tag.\nWo ist der Bahnhof?\n"
    stats = tmp_path / "stats.json"
    wanted = here("translate", *model_options(tiny_model), "--strategy", "greedy", data=data)
    got = here("translate", *model_options(tiny_model), *options, "--stats", stats, data=data)
    assert got.returncode == 0
    assert got.stdout == wanted.stdout
    report = json.loads(stats.read_text())
    if "self" in options:
        assert report["replayed"] == report["matched"] + report["recomputed"] > 0
    else:
        assert "replayed" not in report
    told = report["drafting"]
    assert sum(each["tokens"] for each in told.values()) == report["tokens"]
    assert {*told} == {"self 16"} if "self" in options else "none" in told
    assert all(each["turns"] > 0 and each["seconds"] > 0.0 for each in told.values())


def test_a_model_without_drafter_looks_up(tiny_model_without_drafter: Path, tmp_path: Path, here: Execute) -> None:
    options = model_options(tiny_model_without_drafter)
    data = b"Guten Tag.\nWo ist der Bahnhof?\n" * 3
    stats = tmp_path / "stats.json"
    wanted = here("translate", *options, "--strategy", "greedy", data=data)
    got = here("translate", *options, "--batch-size", "1", "--block-size", "32", "--stats", stats, data=data)
    assert (got.returncode, got.stdout) == (0, wanted.stdout)
    report = json.loads(stats.read_text())
    assert report["signature"]["drafter"] == "lookup"
    assert report["verifier_calls"] < 0.7 * report["tokens"]  # four of six lines came before
    for arguments, code, message in (
        (["--drafter", "masked"], 69, "the model has no masked drafter"),
        (["--from", "EN-gb"], 2, "`from` must be de, as the model is de-en, but is 'EN-gb' instead."),
        (["--from", "DE", "--to", "fr"], 2, "`to` must be en, as the model is de-en, but is 'fr' instead."),
    ):
        result = here("translate", *options, *arguments, data=data)
        assert result.returncode == code
        assert message in error_of(result)


def test_streams_and_variables_that_cannot_be_used(tmp_path: Path) -> None:
    for command, code, message in (
        ("echo x | SPECMT translate <&-", 66, "is closed"),
        ("echo x | SPECMT translate >&-", 74, "is closed"),
        ("echo x > f && SPECMT translate --stats f < f", 2, "`--stats` and the input are the same file, f."),
        ("echo x | SPECMT translate --stats f > f", 2, "`--stats` and `--output` are the same file, f."),
        ("OMP_NUM_THREADS=100000 SPECMT models list", 2, "`OMP_NUM_THREADS` must be at most"),
        ("SPECMT translte", 2, "No such command 'translte'. See `specmt --help`."),
    ):
        result = execute("bash", "-c", command.replace("SPECMT", " ".join(COMMAND)), folder=tmp_path)
        assert result.returncode == code
        assert message in error_of(result)


def test_a_fault_of_the_program_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fault(*_: object) -> None:
        raise RecursionError("maximum recursion depth\nexceeded")

    monkeypatch.setattr("specmt.cli.main.check_environment", fault)
    monkeypatch.delenv("SPECMT_DEBUG", raising=False)
    assert run(["models", "list"]) == 1
    wanted = "specmt: error: RecursionError: maximum recursion depth exceeded (a fault of the program; "
    assert capfd.readouterr().err.startswith(wanted)
    monkeypatch.setenv("SPECMT_DEBUG", "1")
    with pytest.raises(RecursionError):
        run(["models", "list"])


def test_a_note_says_that_the_kernels_are_missing_where_they_would_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "why_absent", lambda: "the processor lacks AVX2")
    wanted = "PyTorch computes, 4 to 8 times slower than the C++ kernels, because the processor lacks AVX2."
    assert missing_kernels(SimpleNamespace(device="cpu", dtype="float32")) == wanted
    assert missing_kernels(SimpleNamespace(device="cuda:0", dtype="bfloat16")) is None
    assert missing_kernels(SimpleNamespace(device="cpu", dtype="float64")) is None
    monkeypatch.setattr(library, "why_absent", str)
    assert missing_kernels(SimpleNamespace(device="cpu", dtype="float32")) is None


def test_text_keeps_the_line_contract_by_every_route(tiny_model: Path, tmp_path: Path) -> None:
    options = [*model_options(tiny_model), *AS_SAID]
    piped = specmt("translate", *options, data=LINES)
    assert piped.returncode == 0, piped.stderr.decode()
    assert told(piped) == []
    first, blank, space, layout, bom, last = piped.stdout.split(b"\n")
    assert not first.startswith(b"\xef\xbb\xbf")
    assert first.endswith(b"\r")
    assert blank == b""
    assert space == b" \t \r"
    assert layout.startswith(b"  ")
    assert layout.endswith(b" ")
    assert all(mark.encode() in layout for mark in "\u2028\f\r")
    assert bom == b"\xef\xbb\xbf"
    assert not last.endswith(b"\r")

    files: list[str | Path]
    (tmp_path / "in.de").write_bytes(LINES)
    (tmp_path / "in.de.gz").write_bytes(gzip.compress(LINES))
    files = [tmp_path / "in.de", "-o", tmp_path / "out.en", "--stats", tmp_path / "stats.json"]
    named = specmt("translate", *files, "-v", "--batch-size", "1", *options)
    assert named.returncode == 0, named.stderr.decode()
    assert named.stdout == b""
    assert b"specmt: note: speculative: 6 lines, " in named.stderr
    assert (tmp_path / "out.en").read_bytes() == piped.stdout
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["lines"] == 6
    assert stats["tokens"] >= stats["sentences"] >= 4
    assert stats["verifier_calls"] >= stats["sentences"]
    assert stats["accepted"] <= stats["drafted"]
    assert stats["seconds"] > 0
    assert stats["load_seconds"] > 0
    assert stats["signature"]["strategy"] == "speculative"
    assert stats["signature"]["batch_size"] == 1
    assert len(stats["signature"]["model_sha256"]) == 64

    files = ["-i", tmp_path / "in.de.gz", "-o", tmp_path / "out.en.gz"]
    zipped = specmt("translate", *files, "--strategy", "greedy", *options)
    assert zipped.returncode == 0, zipped.stderr.decode()
    assert gzip.decompress((tmp_path / "out.en.gz").read_bytes()) == piped.stdout
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {"in.de", "in.de.gz", "out.en", "out.en.gz", "stats.json"}


def test_formats_notes_and_warnings(tiny_model: Path, tmp_path: Path, here: Execute) -> None:
    data = b"Ein\tHund \\ Katze\n\nschl\xfccht\n" + b"Wort und Wort, " * 400 + b"\nEnde."
    path = tmp_path / "in.de"
    path.write_bytes(data)
    options = ["translate", str(path), "--errors", "replace", "--scores", "--strategy", "speculative", *AS_SAID]
    tsv = here(*options, "--format", "tsv", "--tolerance", "1", *model_options(tiny_model))
    assert tsv.returncode == 0, tsv.stderr.decode()
    note, warning = told(tsv)
    assert note.startswith("specmt: note: beta 3 with tolerance 1 is lossy")
    assert warning.startswith(f"specmt: warning: {path}:4: a sentence is longer than ")
    rows = [row.split(b"\t") for row in tsv.stdout.split(b"\n")]
    assert [len(row) for row in rows] == [3, 3, 3, 3, 3, 1]
    assert rows[0][0] == rb"Ein\tHund \\ Katze"
    assert float(rows[0][2]) < 0

    jsonl = here(*options, "--format", "jsonl", "-q", *model_options(tiny_model))
    assert jsonl.returncode == 0
    assert jsonl.stderr == b""
    records = [json.loads(line) for line in jsonl.stdout.decode().removesuffix("\n").split("\n")]
    assert [record["index"] for record in records] == [0, 1, 2, 3, 4]
    assert records[2]["source"] == "schl\ufffdcht"
    assert records[3]["stats"]["sentences"] > 1
    assert all(record["lossless"] is True for record in records)
    assert set(records[0]) == {"index", "source", "translation", "tokens", "score", "stats", "lossless"}


def test_a_former_translation_saves_calls_and_changes_nothing(tiny_model: Path, tmp_path: Path, here: Execute) -> None:
    lines = [f"Hund {i} und Katze\t{i * i}, \\Haus\r" for i in range(20)]
    former, revised, again, stats = (tmp_path / name for name in ("a.tsv", "b.tsv", "c.tsv.gz", "stats.json"))
    drafts = ["--drafter", "masked", "--block-size", "4"]
    options = [*model_options(tiny_model), "--format", "tsv", *drafts, "--stats", stats]
    result = here("translate", *options, "-o", former, data="\n".join(["", *lines]).encode())
    assert result.returncode == 0, result.stderr.decode()

    data = "\n".join([*lines[:10], "Kein Hund.", *lines[10:]]).encode()
    calls = []
    for path, extra in ((revised, []), (again, ["--memory", former])):
        result = here("translate", *options, *extra, "-o", path, data=data)
        assert result.returncode == 0, result.stderr.decode()
        calls.append(json.loads(stats.read_text())["verifier_calls"])
    assert gzip.decompress(again.read_bytes()) == revised.read_bytes()
    assert calls[1] < 0.9 * calls[0]  # the tiny model's pieces are mostly not those that its text is encoded in
    assert json.loads(stats.read_text())["signature"]["memory"] == "a.tsv"

    former.write_bytes(b"Hund\tdog\nKatze cat\n")
    result = here("translate", *options, "--memory", former, data=data)
    assert result.returncode == 65
    assert result.stdout == b""
    assert error_of(result).endswith(f"{former}: line 2 must be source, tab, target, but has no tab.\n")
    # A pipe can be opened only once.
    command = " ".join([*COMMAND, "translate", *map(str, options), "--memory", f"<(zcat {again})"])
    piped = execute("bash", "-c", command, data=data)
    assert piped.returncode == 0, piped.stderr.decode()
    assert piped.stdout == revised.read_bytes()


def test_lines_before_invalid_utf8_come_first(tiny_model: Path, here: Execute) -> None:
    piped = here("translate", *model_options(tiny_model), data=b"eins\nzwei\nschl\xfccht\n")
    assert piped.returncode == 65
    assert "standard input: line 3 is not valid UTF-8 at byte offset 14;" in error_of(piped)
    assert piped.stdout.count(b"\n") == 2


@pytest.mark.parametrize("route", ["pipe", "fifo"])
def test_a_line_alone_is_answered_at_once(tiny_model: Path, tmp_path: Path, route: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = ["-m", "specmt", "translate", *model_options(tiny_model), "--stats", tmp_path / "stats.json"]
    with start(*command) if route == "pipe" else start(*command, fifo) as process, ExitStack() as stack:
        writing = process.stdin if route == "pipe" else stack.enter_context(fifo.open("r+b", buffering=0))
        assert writing is not None
        assert answer(process, writing, b"\r\n") == b"\r\n"
        assert answer(process, writing, b"Ein Hund.\n")
        assert answer(process, writing, b"Eine Katze.\n")
        writing.close()
        assert process.wait(TIMEOUT) == 0
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["lines"] == 3
    assert 0 < stats["seconds"] < 60


def test_closed_pipe_and_full_disk_and_empty_input(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.de"
    path.write_bytes(b"Hund\n" * 400)
    translate = " ".join([*COMMAND, "translate", *model_options(tiny_model), "--batch-size", "1"])
    for command, out, err, code in (
        (f"{translate} {path} | head -1 | wc -l; exit ${{PIPESTATUS[0]}}", b"1\n", b"", 141),
        (f"head -1 {path} | {translate} > /dev/full", b"", b"No space left", 74),
        (f"{translate} < /dev/null", b"", b"", 0),
    ):
        result = execute("bash", "-c", command)
        assert result.returncode == code, result.stderr.decode()
        assert result.stdout.strip() == out.strip()
        assert err in result.stderr
        assert result.stderr.count(b"\n") == bool(err)
