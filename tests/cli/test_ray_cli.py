"""Jobs on a real Ray cluster of two nodes on this machine, one of which dies in the middle."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specmt.cli.main import run
from specmt.jobs import manifest
from specmt.jobs.folder import JobFolder
from specmt.options import DecodingOptions
from specmt.translator import Translator
from tests.cli.test_translate_cli import ENVIRONMENT

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")

LINES = ["eine Katze sieht das Haus", "", "der Hund läuft", "12 Leute und die Frau"] * 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1)
        yield made
        ray.shutdown()
        made.shutdown()


def test_a_node_dies_in_the_middle(
    cluster: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "SHARD_LINES", 20)
    source, output = tmp_path / "in.de", tmp_path / "out.en"
    source.write_text("\n".join(LINES), encoding="utf-8")
    options = ["--model", str(tiny_model), "--device", "cpu", "--dtype", "float32", "--threads", "1", "-q"]
    assert run(["translate", str(source), "-o", str(tmp_path / "plain.en"), *options]) == 0

    def kill() -> None:
        until = time.monotonic() + 100
        while not list(JobFolder.of(output).glob("shard-*")) and time.monotonic() < until:
            time.sleep(0.01)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run(["translate", str(source), "-o", str(output), *options, "--ray", cluster.address]) == 0
    finally:
        killer.join()
        cluster.add_node(num_cpus=1)
    assert output.read_bytes() == (tmp_path / "plain.en").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in.de", "out.en", "plain.en"]


def test_rows_of_a_dataset(cluster: Any, tiny_model: Path) -> None:
    from specmt.jobs.ray import translate_dataset

    options = DecodingOptions(scores=True)
    ray.init(address=cluster.address, log_to_driver=False, ignore_reinit_error=True)
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
    ray.shutdown()


def test_no_cluster_there(tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("a\n", encoding="utf-8")
    command = ["translate", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--model", str(tiny_model)]
    assert run([*command, "--ray", "127.0.0.1:1"]) == 2
    assert "there is no cluster at 127.0.0.1:1" in capfd.readouterr().err
    assert run([*command, "--ray", "local", "--processes", "2"]) == 2
