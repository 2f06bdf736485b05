"""scripts/widen.py: a model of another width that says and drafts the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from widen import widen_config, write_wide

from specmt.decoding.session import decode
from specmt.errors import UsageError
from specmt.models.config import VerifierConfig
from specmt.models.folder import ModelFolder
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.types import Hypothesis

WAYS = [{"drafter": "masked", "block_size": 4}, {"drafter": "autoregressive", "block_size": 3}]


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


def test_what_cannot_be_widened(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`norm` must be pre"):
        widen_config(VerifierConfig(norm="post"), 2)
    with pytest.raises(UsageError, match="is there already"):
        write_wide(tiny_model, 2, tmp_path)
    with pytest.raises(UsageError, match="at least 2, but is 1"):
        write_wide(tiny_model, 2, tmp_path / "wide", 1)
    with pytest.raises(UsageError, match=r"`--pieces` must be at least \d+, .* is 5 instead"):
        write_wide(tiny_model, 2, tmp_path / "wide", pieces=5)
