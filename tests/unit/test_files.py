from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specmt.files import whole, write_whole
from specmt.models.folder import DRAFTER, PIECES, VERIFIER, ModelFolder, add_drafter, write_folder
from specmt.training.checkpoints import save_tensors


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
    with whole(path, suffix=".own") as temporary:
        assert temporary == tmp_path / "a.json.own"
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path, mode: int) -> None:
    left = tmp_path / "a.tmp"
    left.write_text("half")
    left.chmod(0o400)
    write_whole(tmp_path / "a", "whole")
    assert (tmp_path / "a").read_text() == "whole"
    assert mode_of(tmp_path / "a") == mode
    assert not left.exists()


def test_weights_can_be_read_by_whom_the_umask_says(tiny_model: Path, tmp_path: Path, mode: int) -> None:
    save_tensors({"a": torch.zeros(2)}, tmp_path / "checkpoint.safetensors")
    model = ModelFolder.read(tiny_model)
    assert model.drafter is not None
    path = tmp_path / "model"
    write_folder(
        path,
        source="de",
        target="en",
        pieces=tiny_model / PIECES,
        verifier=model.verifier,
        verifier_weights=model.weights(VERIFIER),
        drafter=model.drafter,
        drafter_weights=model.weights(DRAFTER),
    )
    add_drafter(tmp_path / "other", model, replace(model.drafter, dropout=0.2), model.weights(DRAFTER))
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert {each.name for each in files} >= {"checkpoint.safetensors", VERIFIER, DRAFTER, PIECES, "config.json"}
    assert {each.relative_to(tmp_path): mode_of(each) for each in files} == {
        each.relative_to(tmp_path): mode for each in files
    }
