"""PyTorch's calls of few shapes, compiled as on a GPU; here through inductor, on the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specmt.decoding.session import decode
from specmt.engine import linear
from specmt.engine.backends import TorchBackend
from specmt.engine.shapes import COMPILED, ShapePolicy, is_invariant, one_shape
from specmt.models.folder import AUTOREGRESSIVE, VERIFIER
from specmt.models.hub import Model, decoder_sizes, load_model, make_verifier
from specmt.options import DecodingOptions

CPU = torch.device("cpu")


def compiled(model: Model, shapes: ShapePolicy) -> Model:
    """Returns a model whose calls are compiled."""
    backend = TorchBackend(CPU, torch.float32, shapes)
    verifier = make_verifier(model.folder.weights(VERIFIER), model.folder.verifier, backend)
    made = replace(model, backend=backend, verifier=verifier)
    config = model.folder.autoregressive
    assert config is not None
    made.autoregressive = backend.autoregressive_drafter(model.folder.weights(AUTOREGRESSIVE), decoder_sizes(config))
    return made


@pytest.mark.parametrize("shapes", [COMPILED, one_shape(128)], ids=["free", "one shape"])
def test_compiled_calls_say_what_ordinary_ones_do(
    tiny_model: Path, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch, shapes: ShapePolicy
) -> None:
    monkeypatch.setattr(linear, "can_pack", lambda _: False)  # packed weights are for the CPU alone
    torch.compiler.reset()
    model = load_model(tiny_model, device="cpu", dtype="float32", kernels=False)
    made, greedy = compiled(model, shapes), DecodingOptions(strategy="greedy")
    sources = sources[:24]
    wanted = [h.tokens for h in decode(model, sources, greedy)]
    with torch._dynamo.config.patch(recompile_limit=8, fail_on_recompile_limit_hit=True):  # so few shapes
        for options in (
            greedy,
            replace(greedy, batch_size=5),
            DecodingOptions(drafter="autoregressive", block_size=3),
            DecodingOptions(drafter="masked", tree="best-first", nodes=12, block_size=4),
        ):
            assert [h.tokens for h in decode(made, sources, options)] == wanted
        if shapes.alone:
            assert is_invariant(made.verifier)
