from __future__ import annotations

import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specmt.files import whole, write_whole
from specmt.models.folder import DRAFTER, PIECES, VERIFIER, ModelFolder
from specmt.models.writing import add_drafter
from specmt.training.checkpoints import save_tensors
from tests.folders import write_model

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=[0o022, 0o027])
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    """The mode of new files."""
    before = os.umask(request.param)
    yield 0o666 & ~request.param
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "älter\n")
    with pytest.raises(KeyboardInterrupt), whole(path) as temporary:
        temporary.write_text("half")
        assert path.read_text(encoding="utf-8") == "älter\n"
        raise KeyboardInterrupt
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text(encoding="utf-8") == "älter\n"
    with whole(path) as temporary:
        temporary.unlink()  # as some writers do
        temporary.with_name("other").touch()
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_the_next_writer_of_a_file_removes_what_killed_processes_left_and_nothing_else(
    tmp_path: Path, mode: int
) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from specmt.files import Temporary\n"
        "temporary = Temporary(Path(sys.argv[1]))\n"
        "temporary.path.write_text('half')\n"
        "temporary.path.with_name('more').touch()\n"
        "print(temporary.path.parent.name, flush=True)\n"
        "sys.stdin.read() or os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    def start(path: Path) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", script, str(path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    def end(process: subprocess.Popen[str]) -> None:
        process.communicate()
        assert process.returncode == -signal.SIGKILL

    path = tmp_path / ("a" * 255)
    (dead, left), (other, others), (living, used) = start(path), start(tmp_path / "b"), start(path)
    end(dead)
    end(other)
    foreign = left.replace(left.split("-")[2], "4194305")  # a process of another machine, with its lock
    (tmp_path / foreign).mkdir()
    lock = os.open(tmp_path / foreign, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    reused = re.sub(r"-\d+-\d+-\d+\.tmp$", f"-{os.getpid()}-1-0.tmp", left)  # its number is now ours
    (tmp_path / reused).mkdir()
    assert {each.name for each in tmp_path.iterdir()} == {left, others, used, foreign, reused}
    write_whole(path, "whole")
    assert path.read_text() == "whole"
    assert mode_of(path) == mode
    assert {each.name for each in tmp_path.iterdir()} == {path.name, others, used, foreign}
    os.close(lock)
    end(living)
    write_whole(path, "whole")
    assert {each.name for each in tmp_path.iterdir()} == {path.name, others}


def test_weights_can_be_read_by_whom_the_umask_says(tiny_model: Path, tmp_path: Path, mode: int) -> None:
    save_tensors({"a": torch.zeros(2)}, tmp_path / "checkpoint.safetensors")
    model = ModelFolder.read(tiny_model)
    assert model.drafter is not None
    path = tmp_path / "model"
    write_model(path, tiny_model / PIECES, model.verifier, model.weights(VERIFIER))
    add_drafter(tmp_path / "other", model, replace(model.drafter, dropout=0.2), model.weights(DRAFTER))
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert {each.name for each in files} >= {"checkpoint.safetensors", VERIFIER, DRAFTER, PIECES, "config.json"}
    assert {each.relative_to(tmp_path): mode_of(each) for each in files} == {
        each.relative_to(tmp_path): mode for each in files
    }
