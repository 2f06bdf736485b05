"""Jobs in real processes: killed at any moment, resumed, shared, merged; and what is wrong with them in one line."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from pathlib import Path

import pytest

from specmt.cli.main import run
from specmt.errors import DataError, OutputError, UsageError
from specmt.jobs import manifest
from specmt.jobs.documents import Recorded
from specmt.jobs.folder import JobFolder, Shard
from specmt.jobs.manifest import Manifest, survey
from specmt.options import DecodingOptions
from specmt.types import Line
from tests.commands import ROOT, execute, model_options
from tests.documents import Shouting

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


@pytest.mark.long
@pytest.mark.crossed("either_model", "options")
@pytest.mark.parametrize("options", [(), ("--processes", "3")], ids=["one process", "three processes"])
def test_killed_at_any_moment_and_resumed(text: Path, either_model: Path, options: tuple[str, ...]) -> None:
    script = [sys.executable, ROOT / "scripts" / "soak.py", "kills", "--text", text]
    script += ["--lines", "1000", "--times", "5", "--shard-lines", "4", "--"]
    result = execute(*script, *model_options(either_model), *options)
    assert result.returncode == 0, result.stdout.decode() + result.stderr.decode()
    figures = json.loads(result.stdout)
    assert figures["killed"] == 5 and figures["same_bytes"] and figures["nothing_left"]
    assert figures["most_done_again_after_a_kill"] <= 4 * figures["processes"]
    assert b"Traceback" not in result.stderr


@pytest.mark.usefixtures("small_shards")
def test_a_glossary_that_changes_stops_a_job(
    text: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terms, output, write = tmp_path / "terms.tsv", tmp_path / "out.en", JobFolder.write
    terms.write_text("Hund\tdog\n")

    def write_and_change(job: JobFolder, shard: int, part: Shard) -> None:
        write(job, shard, part)
        terms.write_text("Hund\thound\n")

    monkeypatch.setattr(JobFolder, "write", write_and_change)
    assert translate(text, output, tiny_model, "--resume", "--glossary", str(terms), "-q") == 65
    assert capsys.readouterr().err == f"specmt: error: {terms}: has changed since the job began.\n"
    assert not output.exists() and len(list(JobFolder.of(output).glob("shard-*"))) == 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents with 8 sentences, one of which occurs twice."""
    path = tmp_path / "in"
    (path / "sub").mkdir(parents=True)
    entries = ("der Hund", "eine Katze sieht das Haus. Die Frau", "12 Leute", "das Haus")
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    (path / "a.po").write_text(header + "".join(f'msgid "{text}"\nmsgstr ""\n\n' for text in entries))
    (path / "sub" / "b.html").write_text("<p>Der <b>Hund</b> sieht das Haus</p><p>das Haus</p>")
    (path / "c.csv").write_text('de,x\n"Zeile\neins",1\n')
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("small_shards")
def test_documents_are_jobs(
    folder: Path, either_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ("--column", "de")
    assert translate(folder, tmp_path / "plain", either_model, *given) == 0
    output, plain = tmp_path / "out", contents(tmp_path / "plain")
    assert sorted(plain) == ["a.po", "c.csv", "sub/b.html"]
    assert translate(folder, output, either_model, *given, "--shard", "2/2") == 0
    assert run(["jobs", "status", str(output)]) == 0
    assert capfd.readouterr().out == "4 of 8 lines, 1 of 2 shards are done.\n"
    assert run(["jobs", "merge", str(output)]) == 2
    assert "is a job over documents" in capfd.readouterr().err
    assert not output.exists()
    assert translate(folder, output, either_model, *given, "--resume") == 0
    assert "1 of 2 shards were done before" in capfd.readouterr().err
    assert contents(output) == plain
    assert translate(folder, tmp_path / "shared", either_model, *given, "--processes", "2", "-q") == 0
    assert contents(tmp_path / "shared") == plain
    assert translate(folder / "a.po", tmp_path / "a.po", either_model, "--resume", "-q") == 0
    assert (tmp_path / "a.po").read_bytes() == plain["a.po"]
    assert sorted(os.listdir(tmp_path)) == ["a.po", "in", "out", "plain", "shared"]


@pytest.mark.usefixtures("small_shards")
def test_what_a_job_over_documents_must_not_go_on_with(
    folder: Path, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"

    def fails(code: int, message: str, target: Path, *options: str) -> None:
        assert translate(folder, target, tiny_model, *options, "-q") == code
        assert message in capfd.readouterr().err
        assert not target.exists()

    assert translate(folder, output, tiny_model, "--column", "de", "--shard", "1/2", "-q") == 0
    fails(65, "is a job over other text", output, "--column", "x", "--resume")
    fails(2, "is in", folder / "out", "--column", "de", "--resume")
    fails(2, "leave it out", output, "--column", "de", "--shard", "1/2", "--report", str(tmp_path / "report.html"))
    job = JobFolder.open(output)
    with pytest.raises(DataError, match="shard-000001: is missing"):
        list(Recorded(job, Shouting()).translate([Line(index, "") for index in range(8)], DecodingOptions()))
    job.write(1, Shard(job.read(0).output))
    for count in (7, 9):
        with pytest.raises(DataError, match="has changed while it was translated"):
            list(Recorded(job, Shouting()).translate([Line(index, "") for index in range(count)], DecodingOptions()))


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
def test_warnings_are_those_of_a_run_at_one_go(
    text: Path, folder: Path, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def warnings(source: Path, output: Path, *options: str) -> tuple[int, list[str]]:
        code = translate(source, output, tiny_model, *options)
        return code, [line for line in capfd.readouterr().err.splitlines() if "warning" in line]

    code, plain = warnings(text, tmp_path / "plain.en", "--strict")
    assert code == 65
    assert plain[-1] == f"specmt: error: the check has {len(plain) - 1} warnings; the output is written."
    assert all(line.startswith(f"specmt: warning: {text}:") for line in plain[:-1])
    output = tmp_path / "out.en"
    assert warnings(text, output, "--check", "--shard", "2/3") == (0, [])
    assert warnings(text, output, "--check", "--resume") == (0, plain[:-1])
    assert warnings(text, output, "--strict", "--processes", "2") == (65, plain)
    assert output.read_bytes() == (tmp_path / "plain.en").read_bytes()
    assert translate(text, tmp_path / "b.en", tiny_model, "--check", "--shard", "1/1") == 0
    capfd.readouterr()
    assert run(["jobs", "merge", str(tmp_path / "b.en"), "--strict"]) == 65
    merged = [line for line in capfd.readouterr().err.splitlines() if "warning" in line]
    assert merged == [line.replace(f"{text}:", "in.de:") for line in plain]

    code, plain = warnings(folder, tmp_path / "plain", "--strict", "--column", "de")
    assert code == 65 and len(plain) > 1
    assert warnings(folder, tmp_path / "jobs", "--strict", "--column", "de", "--resume") == (65, plain)
    assert contents(tmp_path / "jobs") == contents(tmp_path / "plain")


@pytest.mark.usefixtures("small_shards")
def test_what_a_job_must_not_go_on_with(
    text: Path, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setattr("specmt.jobs.folder._PATIENCE", 0.1)
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


@pytest.mark.usefixtures("small_shards")
def test_only_what_carries_our_manifest_is_touched(
    text: Path, plain: bytes, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output, job, done = tmp_path / "out.en", tmp_path / "out.en.job", tmp_path / "out.en.job.done"
    done.mkdir()
    (done / "diary").write_text("mine")
    for make in (job.mkdir, lambda: (job / "diary").write_text("mine"), lambda: (job.rename(done / "x"), job.touch())):
        make()
        assert translate(text, output, tiny_model, "--resume", "-q") == 2
        assert f"{job}: is there already, but is no job" in capfd.readouterr().err
    job.unlink()
    assert translate(text, output, tiny_model, "--shard", "1/2", "-q") == 0
    (job / "diary").write_text("mine")
    assert translate(text, output, tiny_model, "--resume", "-q") == 0
    assert output.read_bytes() == plain
    assert contents(tmp_path) == {
        **{"out.en": plain, "out.en.job/diary": b"mine"},
        **dict.fromkeys(("out.en.job.done/diary", "out.en.job.done/x/diary"), b"mine"),
    }


def test_rows_of_others_are_not_touched(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")
    parquet, table = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow").table
    from specmt.jobs.parquet import Place, _begin

    parquet.write_table(table({"id": [1], "source": ["a"]}), tmp_path / "in.parquet")
    places = [Place.of(str(tmp_path / name)) for name in ("in.parquet", "out", "out.job")]

    def begin() -> None:
        _begin(*places, "in.parquet", {})

    for name in ("out", "out.job"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "diary").touch()
        with pytest.raises(UsageError, match=f"{name}: is there already"):
            begin()
        (tmp_path / name / "diary").unlink()
        (tmp_path / name).rmdir()
    begin()
    (tmp_path / "out").mkdir()  # since the job began
    with pytest.raises(UsageError, match="out: is there already"):
        begin()


def test_a_job_needs_files(text: Path, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(tmp_path / "out")]
    for options in (["-"], ["-", *out], [str(text)], [str(text), "-o", "/dev/null"], ["/dev/null", *out]):
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


@pytest.mark.usefixtures("small_shards")
def test_a_full_disk_loses_nothing(text: Path, plain: bytes, tiny_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.en"
    assert translate(text, output, tiny_model, "--shard", "6/6", "-q") == 0
    code = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (250, 250)); import specmt.jobs.manifest as m; "
    code += "m.SHARD_LINES = 4; from specmt.cli.main import main; main()"
    failed = execute(
        *(sys.executable, "-c", code, "translate", text, "-o", output, "--resume", "-q", *model_options(tiny_model))
    )
    assert failed.returncode == 74 and failed.stderr.count(b"\n") == 1
    assert not output.exists()
    assert translate(text, output, tiny_model, "--resume", "-q") == 0
    assert output.read_bytes() == plain


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    place = tmp_path / "read-only"
    place.mkdir()
    place.chmod(0o555)
    is_root = os.geteuid() == 0
    try:
        if is_root:  # who may write everywhere
            os.seteuid(65534)
        with pytest.raises(OutputError, match=r"out.en.job: cannot be written \(Permission denied\)"):
            JobFolder.begin(place / "out.en", Manifest("a", 0, "", 1, {}, 4))
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.usefixtures("small_shards")
def test_lines_that_cannot_be_translated(
    plain: bytes, text: Path, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = text.read_bytes().split(b"\n")
    source, output = tmp_path / "in.de", tmp_path / "out.en"
    source.write_bytes(b"\n".join([*lines[:13], b"\xff", *lines[14:]]))
    for _ in range(2):
        assert translate(source, output, tiny_model, "--resume", "-q") == 65
        assert f"{source}: line 14 is not valid" in capfd.readouterr().err
        assert JobFolder.open(output).done() == {0, 1, 2} and not output.exists()
    made = b"".join(JobFolder.open(output).read(shard).output for shard in range(3))
    assert made.split(b"\n")[:-1] == plain.split(b"\n")[:12]
