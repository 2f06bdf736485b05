"""Jobs on a real Ray cluster of two nodes on this machine, one of which dies in the middle."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specmt.cli.main import run
from specmt.jobs import manifest
from specmt.jobs.folder import JobFolder
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Translation
from tests.commands import COMMAND, ENVIRONMENT, TIMEOUT, execute, model_options

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.long
LINES = ["eine Katze sieht das Haus", "", "der Hund läuft", "12 Leute und die Frau"] * 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Processes that wait are kept for what comes next: as many as there are processors are, else, and that is one.
        patch.setenv("RAY_num_workers_soft_limit", "8")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1)
        # For a new connection, as processes of their own make them below, the cluster starts all its processes anew.
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        with pytest.MonkeyPatch.context() as kept:
            kept.setattr(ray, "init", lambda **_: None)
            kept.setattr(ray, "shutdown", lambda: None)
            yield made
        ray.shutdown()
        made.shutdown()


def test_a_node_and_a_worker_die_in_the_middle(
    cluster: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "SHARD_LINES", 20)
    source, output = tmp_path / "in.de", tmp_path / "out.en"
    source.write_text("\n".join(LINES), encoding="utf-8")
    options = [*model_options(tiny_model), "-q"]
    assert run(["translate", str(source), "-o", str(tmp_path / "plain.en"), *options]) == 0
    node, write, written, dead = next(iter(cluster.worker_nodes)), JobFolder.write, [], tmp_path / "dead"

    def write_and_kill(job: JobFolder, shard: int, *rest: Any) -> None:
        write(job, shard, *rest)
        written.append(shard)
        if len(written) == 1:
            cluster.remove_node(node, allow_graceful=False)

    def renderer(*_: Any, **__: Any) -> Callable[[Translation], str]:
        def render(translation: Translation) -> str:
            if translation.line.index == 90 and not dead.exists():
                dead.touch()
                os._exit(9)
            return translation.text + translation.line.ending

        return render

    monkeypatch.setattr("specmt.cli.translate.renderer", renderer)
    monkeypatch.setattr(JobFolder, "write", write_and_kill)
    try:
        assert run(["translate", str(source), "-o", str(output), *options, "--ray", cluster.address]) == 0
    finally:
        cluster.add_node(num_cpus=1)
    dead.unlink()
    assert sorted(written) == list(range(8))
    assert output.read_bytes() == (tmp_path / "plain.en").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in.de", "out.en", "plain.en"]


def test_rows_of_a_dataset(cluster: Any, tiny_model: Path) -> None:
    from specmt.jobs.ray import translate_dataset

    options = DecodingOptions(scores=True)
    rows = [{"id": number, "source": line, "author": "a"} for number, line in enumerate(LINES[:40])]
    rows[7]["source"] = None
    dataset = ray.data.from_items(rows, override_num_blocks=4)
    made = translate_dataset(dataset, str(tiny_model), options, actors=2, device="cpu", dtype="float32")
    found = made.sort("id").take_all()
    assert [row["id"] for row in found] == list(range(40)) and all(row["author"] == "a" for row in found)
    assert [row["id"] for row in found if row["error"]] == [7]
    translator = Translator.from_pretrained(tiny_model, device="cpu", dtype="float32", threads=1)
    for row, wanted in zip(found, translator.translate(LINES[:40], options), strict=True):
        if row["id"] != 7:
            assert (row["translation"], row["score"]) == (wanted.text, wanted.score)

    with pytest.raises(Exception, match="must be other-float32 on every node"):
        translate_dataset(dataset, str(tiny_model), device="cpu", dtype="float32", numerics="other-float32").take_all()


def test_nodes_that_compute_otherwise(cluster: Any, tiny_model: Path, tmp_path: Path, needs_kernels: None) -> None:
    (tmp_path / "in.de").write_text("der Hund\n", encoding="utf-8")
    command = [*COMMAND, "translate", tmp_path / "in.de", "-o", tmp_path / "out.en", *model_options(tiny_model)]
    result = execute(*command, "-q", "--ray", cluster.address, SPECMT_KERNELS="none")  # here PyTorch, kernels there
    assert result.returncode == 69
    last = result.stderr.decode().strip().splitlines()[-1]
    assert re.fullmatch(r"specmt: error: `numerics` must be torch\S+ on every node, but is kernels-float32 on .*", last)
    assert not (tmp_path / "out.en").exists()


def test_parquet_goes_on_after_its_driver_was_killed(
    cluster: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from specmt.jobs.parquet import Place

    source, output, job = (tmp_path / name for name in ("in.parquet", "out.parquet", "out.parquet.job"))
    sources = [*LINES, None]
    ids = list(range(len(sources)))[::-1]
    parquet.write_table(pyarrow.table({"id": ids, "source": sources, "author": ["a"] * len(ids)}), source)
    command = ["translate", str(source), "-o", str(output), *model_options(tiny_model), "--ray", cluster.address]
    code = "import sys, specmt.jobs.manifest as m; m.SHARD_LINES = 10; from specmt.cli.main import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *command], env=ENVIRONMENT)

    def done() -> set[str]:
        return {path.name for path in job.glob("checkpoint/*.parquet") if ".pending" not in path.name}

    until = time.monotonic() + 3 * TIMEOUT  # where other work keeps the processors busy
    while not done() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = {path.name: path.stat().st_mtime_ns for path in job.glob("rows/*") if path.name in done()}
    assert 0 < len(done()) < len(ids) // 10 and not output.exists()

    remove = Place.remove
    monkeypatch.setattr(Place, "remove", lambda place: place.path.endswith(".job") or remove(place))
    assert run([*command, "--strategy", "greedy"]) == 2
    assert "`strategy` speculative, but it is greedy now" in capfd.readouterr().err
    assert run(command) == 0
    assert "161 rows, 1 of them with an error" in capfd.readouterr().err
    assert before == {path.name: path.stat().st_mtime_ns for path in job.glob("rows/*") if path.name in before}

    table = parquet.read_table(output).to_pydict()
    assert table["id"] == sorted(ids) and table["source"] == sources[::-1] and set(table["author"]) == {"a"}
    translator = Translator.from_pretrained(tiny_model, device="cpu", dtype="float32", threads=1)
    wanted = [translation.text for translation in translator.translate(LINES[::-1])]
    assert table["translation"] == ["", *wanted]
    assert [number for number, error in zip(table["id"], table["error"], strict=True) if error] == [0]


def test_what_parquet_must_have(
    cluster: Any, tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(code: int, message: str, columns: dict[str, list[Any]], *options: str) -> None:
        parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
        assert run([*command, *options]) == code
        assert message in capfd.readouterr().err

    command = ["translate", str(tmp_path / "in.parquet"), "-o", str(tmp_path / "out"), *model_options(tiny_model)]
    on_cluster = ("--ray", cluster.address)
    fails(2, "need `--ray`", {"id": [1], "source": ["a"]})
    fails(2, "`format` has no effect", {"id": [1], "source": ["a"]}, *on_cluster, "--format", "tsv")
    fails(65, "must have a column `source`, but has id, text instead", {"id": [1], "text": ["a"]}, *on_cluster)
    assert os.listdir(tmp_path) == ["in.parquet"]
    fails(65, "1 of 3 rows have one twice", {"id": [1, 2, 1], "source": ["a", "b", "c"]}, *on_cluster)
    fails(65, "is a job over other text", {"id": [1, 2, 3, 4], "source": ["a", "b", "c", "d"]}, *on_cluster)
    command[1] = "s3x://bucket/in.parquet"
    assert run([*command, *on_cluster]) == 2
    assert "s3x://bucket/in.parquet: cannot be reached" in capfd.readouterr().err


def test_no_cluster_there(tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("a\n", encoding="utf-8")
    command = ["translate", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--model", str(tiny_model)]
    assert run([*command, "--ray", "127.0.0.1:1"]) == 2
    assert "there is no cluster at 127.0.0.1:1" in capfd.readouterr().err
    assert run([*command, "--ray", "local", "--processes", "2"]) == 2
