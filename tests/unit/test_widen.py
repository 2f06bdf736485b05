"""scripts/widen.py: a model of another width that says and drafts the same."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from widen import widen_config, write_wide

from specmt.decoding.session import decode
from specmt.engine.architecture import POSITIONS
from specmt.errors import ModelError, UsageError
from specmt.models.config import VerifierConfig
from specmt.models.folder import ModelFolder
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.types import Hypothesis
from tests.commands import AS_SAID, COMMAND, ROOT, execute
from tests.folders import change_config

SCRIPT = [sys.executable, ROOT / "scripts" / "widen.py"]
WAYS = [{"drafter": "masked", "block_size": 4}, {"drafter": "autoregressive", "block_size": 3}]


@pytest.fixture(autouse=True)
def taught() -> Iterator[None]:
    """Yields, and has what the script teaches this process forgotten."""
    known = dict(POSITIONS)
    yield
    POSITIONS.clear()
    POSITIONS.update(known)


def decoded(model: Path, sources: list[list[int]], *, kernels: bool) -> list[Hypothesis]:
    loaded = load_model(model, dtype="float32", kernels=kernels)
    ways = (DecodingOptions(batch_size=3, scores=True, **way) for way in WAYS)  # type: ignore[arg-type]
    return [hypothesis for options in ways for hypothesis in decode(loaded, sources, options)]


@pytest.mark.parametrize(("copies", "layers", "pieces"), [(2, None, None), (3, None, 500), (2, 4, None)])
def test_a_wide_model_says_and_drafts_the_same(
    tiny_model: Path,
    tmp_path: Path,
    sources: list[list[int]],
    kernels: bool,
    copies: int,
    layers: int | None,
    pieces: int | None,
) -> None:
    wide = write_wide(tiny_model, copies, tmp_path / "wide", layers, pieces)
    assert wide.verifier.model_dim == 32 * copies and wide.verifier.decoder_layers == (layers or 2)
    assert wide.verifier.vocab_size == (pieces or ModelFolder.read(tiny_model).verifier.vocab_size)
    narrow = decoded(tiny_model, sources, kernels=kernels)
    found = decoded(tmp_path / "wide", sources, kernels=kernels)
    assert [each.tokens for each in found] == [each.tokens for each in narrow]
    if pieces is None:  # those that are never said have a share of the probability
        assert [each.score for each in found] == pytest.approx([each.score for each in narrow], abs=1e-3)
    accepted = [sum(each.stats.accepted for each in some) for some in (narrow, found)]
    assert accepted[0] > 0 and abs(accepted[1] - accepted[0]) <= 0.05 * accepted[0]  # drafts are in int8 on the kernels


def test_what_was_measured_goes_along(tiny_model: Path, tmp_path: Path) -> None:
    measured = {"longest": 20, "alignment": {"layer": 1, "heads": [1], "reads": "input"}}
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    change_config(folder, lambda record: record.update(measured))
    narrow, wide = ModelFolder.read(folder), write_wide(folder, 2, tmp_path / "wide")
    assert (wide.longest, wide.alignment) == (narrow.longest, narrow.alignment) == (20, narrow.alignment_heads)


def test_what_cannot_be_widened(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`norm` must be pre"):
        widen_config(VerifierConfig(norm="post"), 2)
    with pytest.raises(UsageError, match="is there already"):
        write_wide(tiny_model, 2, tmp_path)
    with pytest.raises(UsageError, match="at least 2, but is 1"):
        write_wide(tiny_model, 2, tmp_path / "wide", 1)
    with pytest.raises(UsageError, match=r"`--pieces` must be at least \d+, .* is 5 instead"):
        write_wide(tiny_model, 2, tmp_path / "wide", pieces=5)


def test_specmt_runs_with_a_wide_model_in_the_script_alone(tiny_model: Path, tmp_path: Path) -> None:
    wide, line = tmp_path / "wide", b"der Hund sieht das Haus\n"
    run_wide, translate = [*SCRIPT, "run", wide, "--"], ["translate", "-q", *AS_SAID]
    written = execute(*SCRIPT, "write", tiny_model, "2", wide)
    assert (written.returncode, written.stderr) == (0, b"")
    narrow = execute(*COMMAND, *translate, "--model", tiny_model, data=line)
    found = execute(*run_wide, *translate, data=line)
    assert (found.returncode, found.stdout, found.stderr) == (0, narrow.stdout, b"") and len(found.stdout) > 3
    refused = execute(*COMMAND, *translate, "--model", wide, data=line)
    assert (refused.returncode, refused.stdout) == (69, b"")
    assert b"`positions` must be one of sinusoidal, marian, but is 'sinusoidal:2' instead" in refused.stderr
    assert b"wide: " in execute(*run_wide, "models", "show", wide).stdout
    absent = execute(*SCRIPT, "run", tmp_path / "absent", "--", *translate)
    assert absent.returncode == 1 and re.fullmatch(rb"widen.py: error: .*absent: is no model folder.*\n", absent.stderr)


@pytest.mark.parametrize("part", ["verifier", "drafter", "autoregressive"])
def test_a_configuration_may_say_that_there_is_one_copy(tiny_model: Path, tmp_path: Path, part: str) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    wanted = ModelFolder.read(folder)
    change_config(folder, lambda record: record[part].update(copies=1))
    assert getattr(ModelFolder.read(folder), part) == getattr(wanted, part)
    for copies in (2, 0, True, "1", [1]):
        change_config(folder, lambda record, copies=copies: record[part].update(copies=copies))
        with pytest.raises(ModelError, match=rf"`copies` must be 1, but is {re.escape(repr(copies))} instead"):
            ModelFolder.read(folder)
