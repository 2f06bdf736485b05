"""Jobs in real processes: killed at any moment, resumed, shared, merged; and what is wrong with them in one line."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specmt.cli.main import run
from specmt.jobs import manifest
from specmt.jobs.folder import JobFolder
from specmt.jobs.manifest import Manifest, survey
from tests.cli.test_translate_cli import ENVIRONMENT, TIMEOUT, model_options

WORDS = ("der Hund", "eine Katze", "das Haus", "sieht", "und", "%d Leute", "läuft", "", "die Frau")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 lines: some blank, one with CR, the last without an end."""
    draw = random.Random(3)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(0, 6))) for _ in range(23)]
    lines[5] += "\r"
    path = tmp_path_factory.mktemp("text") / "in.de"
    path.write_bytes("\n".join(lines).encode() + b" am Ende")
    return path


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "SHARD_LINES", 4)


def translate(text: Path, output: Path, model: Path, *options: str) -> int:
    return run(["translate", str(text), "-o", str(output), *model_options(model), *options])


@pytest.fixture(scope="module")
def plain(text: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    output = tmp_path_factory.mktemp("plain") / "out.en"
    assert translate(text, output, tiny_model) == 0
    return output.read_bytes()


@pytest.fixture
def book(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 times the text: more than any process does before it is killed."""
    path = tmp_path_factory.mktemp("book") / "in.de"
    path.write_bytes(b"\n".join([text.read_bytes()] * 20))
    return path


def driver(text: Path, output: Path, model: Path, *options: str) -> list[str]:
    """Returns the command of a process that makes small shards."""
    code = "import sys, specmt.jobs.manifest as m; m.SHARD_LINES = 4; from specmt.cli.main import main; main()"
    return [sys.executable, "-c", code, "translate", str(text), "-o", str(output), *model_options(model), *options]


@pytest.mark.parametrize("options", [(), ("--processes", "3")], ids=["one process", "three processes"])
def test_killed_at_any_moment_and_resumed(
    book: Path, plain: bytes, tiny_model: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    output, draw, killed = tmp_path / "out.en", random.Random(5), 0
    command = driver(book, output, tiny_model, "--resume", "--batch-size", "1", *options)
    job = JobFolder.of(output)
    for attempt in range(12):
        process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True)
        before = len(list(job.glob("shard-*")))
        until = time.monotonic() + TIMEOUT
        # Let it do a shard or two, and sometimes none.
        while process.poll() is None and len(list(job.glob("shard-*"))) < before + attempt % 2:
            assert time.monotonic() < until
            time.sleep(0.001)
        time.sleep(draw.random() * 0.02)
        process.kill()
        _, errors = process.communicate(timeout=TIMEOUT)
        killed += process.returncode == -signal.SIGKILL
        assert b"Traceback" not in errors
    assert killed == 12
    assert subprocess.run(command, env=ENVIRONMENT, timeout=TIMEOUT, check=False).returncode == 0
    assert output.read_bytes() == b"\n".join([plain] * 20)
    assert os.listdir(tmp_path) == ["out.en"]


@pytest.mark.usefixtures("small_shards")
def test_parts_on_several_machines(
    text: Path, plain: bytes, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.en.gz"
    assert translate(text, output, tiny_model, "--shard", "2/3") == 0
    assert run(["jobs", "status", str(output)]) == 0
    assert capfd.readouterr().out == "8 of 23 lines, 2 of 6 shards are done.\n"
    assert run(["jobs", "merge", str(output)]) == 65
    assert "is missing" in capfd.readouterr().err
    for part in ("1/3", "3/3"):
        assert translate(text, output, tiny_model, "--shard", part, "-q") == 0
    assert run(["jobs", "verify", str(output)]) == 0
    assert run(["jobs", "merge", str(output)]) == 0
    assert gzip.decompress(output.read_bytes()) == plain
    assert translate(text, tmp_path / "plain.gz", tiny_model) == 0
    assert output.read_bytes() == (tmp_path / "plain.gz").read_bytes()
    assert run(["jobs", "status", str(output)]) == 66


@pytest.mark.usefixtures("small_shards")
def test_what_a_job_must_not_go_on_with(
    text: Path, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "in.de", tmp_path / "out.en"
    source.write_bytes(text.read_bytes())
    job = JobFolder.of(output)

    def fails(code: int, message: str, *options: str) -> None:
        assert translate(source, output, tiny_model, *(options or ("--resume",))) == code
        errors = capfd.readouterr().err
        assert message in errors and errors.count("error: ") == 1 and "Traceback" not in errors
        assert not output.exists()

    assert translate(source, output, tiny_model, "--shard", "1/2", "-q") == 0
    fails(2, "`strategy` speculative, but it is greedy now", "--resume", "--strategy", "greedy")
    fails(2, "`format` text, but it is tsv now", "--resume", "--format", "tsv")
    with JobFolder.open(output).locked("1-of-2"):
        fails(2, "another process is working on this job")
        fails(2, "another process is working on this job", "--shard", "1/2")
    source.write_bytes(text.read_bytes() + b"!")
    fails(65, "is a job over other text")
    source.write_bytes(text.read_bytes())
    written = (job / "manifest.json").read_text()
    for damage in ("", "{}", written[:-9], written.replace('"lines": 23', '"lines": null'), "[" * 10_000):
        (job / "manifest.json").write_text(damage)
        fails(65, "is damaged")
    (job / "manifest.json").unlink()
    fails(65, "has shards but no manifest.json")
    (job / "manifest.json").write_text(written)
    shard = job / "shard-000000"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-2] + b"??")
    fails(65, "shard-000000: is damaged")
    shard.write_bytes(whole[:-1])  # which its size tells: it is done again
    assert translate(source, output, tiny_model, "--resume", "-q") == 0
    assert not job.exists()


def test_a_job_needs_files(text: Path, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for options in (["-"], ["-", "-o", str(tmp_path / "out")], [str(text)], [str(text), "-o", "/dev/null"]):
        assert run(["translate", *options, "--resume"]) == 2
        assert "need an input and an output that are files" in capfd.readouterr().err
    for options in (["--shard", "0/2"], ["--shard", "3/2"], ["--shard", "x"], ["--processes", "0"]):
        assert run(["translate", str(text), "-o", str(tmp_path / "out"), *options]) == 2
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", [b"", b"\xef\xbb\xbf", b"a", b"a\n", b"\n\n", b"\xef\xbb\xbfa\nb", b"\r"], ids=repr)
def test_lines_are_counted_as_they_are_read(text: bytes, tmp_path: Path) -> None:
    from specmt.text.lines import read_lines

    for path in (tmp_path / "a", tmp_path / "a.gz"):
        path.write_bytes(gzip.compress(text) if path.suffix else text)
        assert survey(path, {}).lines == len(list(read_lines(path)))


def test_every_line_is_in_one_shard_of_one_part() -> None:
    job = Manifest("a", 0, "", 10_007, {}, 100)
    lines = [line for part in (1, 2, 3) for shard in job.part(part, 3) for line in job.span(shard)]
    assert sorted(lines) == list(range(10_007))
    assert all(line in job.span(job.shard_of(line)) for line in range(0, 10_007, 37))
    assert Manifest.from_json(job.to_json(), "") == job


def test_a_full_disk_loses_nothing(text: Path, tiny_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.en"
    code = driver(text, output, tiny_model, "--resume", "-q")
    whole = list(code)
    assert subprocess.run([*code[:-2], "--shard", "6/6", "-q"], env=ENVIRONMENT, check=False).returncode == 0
    code[2] = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (250, 250)); {code[2]}"
    failed = subprocess.run(code, env=ENVIRONMENT, capture_output=True, check=False)
    assert failed.returncode == 74 and failed.stderr.count(b"\n") == 1
    assert not output.exists()
    assert subprocess.run(whole, env=ENVIRONMENT, check=False, timeout=TIMEOUT).returncode == 0
    assert output.exists()
