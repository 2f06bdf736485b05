"""The models that come with the program: they translate, drafts change nothing, folders are complete."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from specmt.decoding import session
from specmt.decoding.drafters.base import Arm
from specmt.decoding.policy import FixedPolicy
from specmt.decoding.session import decode
from specmt.engine.fused import FusedBeam
from specmt.engine.kernels import backend as backend_module
from specmt.engine.kernels.decoder import KernelDecoder, KernelReplica
from specmt.models.folder import CARD, bundled
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Hypothesis, Stats

DATA = Path(__file__).parents[2] / "data"
CORPORA = os.environ.get("SPECMT_CORPORA")


@pytest.fixture(scope="module", params=["de-en", "en-de"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str) -> Model:
    return load_model(name)


@pytest.fixture(scope="module")
def sources(model: Model) -> list[list[int]]:
    """All of the sample from German, half of it from English."""
    lines = (DATA / f"sample.{model.folder.source}").read_text(encoding="utf-8").split("\n")
    return model.pieces.encode_batch([line for line in lines if line][:: 1 + (model.folder.source == "en")])


@pytest.fixture(scope="module")
def greedy(model: Model, sources: list[list[int]]) -> list[Hypothesis]:
    return decode(model, sources, DecodingOptions(strategy="greedy", batch_size=1))


def tokens(hypotheses: list[Hypothesis]) -> list[list[int]]:
    return [hypothesis.tokens for hypothesis in hypotheses]


def total(hypotheses: list[Hypothesis]) -> Stats:
    return sum((hypothesis.stats for hypothesis in hypotheses), Stats())


def test_folder_is_complete_and_small() -> None:
    for folder in bundled():
        for name in folder.files:
            folder.verified(name)
        assert (folder.path / CARD).is_file()
        assert sum(path.stat().st_size for path in folder.path.iterdir()) <= 60 * 2**20


@pytest.mark.parametrize(
    ("drafter", "block_size", "batch_size"),
    [
        *(("auto", *sizes) for sizes in ((1, 16), (3, 1), (7, 16), (12, 5), (25, 16))),
        *(("autoregressive", *sizes) for sizes in ((1, 16), (5, 1), (12, 5))),
    ],
)
def test_speculative_equals_greedy_and_is_worth_its_while(
    model: Model,
    sources: list[list[int]],
    greedy: list[Hypothesis],
    drafter: str,
    block_size: int,
    batch_size: int,
) -> None:
    options = DecodingOptions(drafter=drafter, block_size=block_size, batch_size=batch_size)
    drafted = decode(model, sources, options)
    assert tokens(drafted) == tokens(greedy)
    assert total(drafted).verifier_calls <= total(greedy).verifier_calls
    assert block_size < 5 or total(drafted).mean_accepted_length >= 2.3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_speculation_as_the_machine_likes_it_equals_greedy(dtype: str, name: str, sources: list[list[int]]) -> None:
    model, sources = load_model(name, dtype=dtype), sources[::2]
    greedy = decode(model, sources, DecodingOptions(strategy="greedy", batch_size=7))
    for batch_size in (1, 4, 32):
        assert tokens(decode(model, sources, DecodingOptions(batch_size=batch_size))) == tokens(greedy)


@pytest.mark.usefixtures("needs_kernels")
def test_drafts_in_codes_change_nothing_and_are_accepted_nearly_as_often(
    name: str, model: Model, sources: list[list[int]], greedy: list[Hypothesis], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of wide drafters are."""
    options = DecodingOptions(drafter="autoregressive", block_size=5)
    usual = decode(model, sources, options)
    monkeypatch.setattr(backend_module, "NARROW", 0)
    other = load_model(name)
    drafted = decode(other, sources, options)
    assert isinstance(drafter := other.network("autoregressive"), KernelDecoder) and drafter.format == "codes"
    assert tokens(drafted) == tokens(greedy)
    assert total(drafted).mean_accepted_length >= 0.95 * total(usual).mean_accepted_length


@pytest.mark.usefixtures("needs_kernels")
def test_the_verifiers_replica_in_codes_says_nearly_what_it_does(
    name: str, sources: list[list[int]], greedy: list[Hypothesis], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of wide verifiers are."""
    monkeypatch.setattr(backend_module, "NARROW", 0)
    model = load_model(name)
    assert isinstance(model.replica, KernelReplica) and model.replica.format == "codes" and "self" in model.drafters
    for batch_size in (1, 5):
        drafted = decode(model, sources, DecodingOptions(drafter="self", block_size=8, batch_size=batch_size))
        assert tokens(drafted) == tokens(greedy)
        assert total(drafted).mean_accepted_length >= 5.5


def test_a_revised_file_needs_under_half_of_the_calls_with_its_former_translation(tmp_path: Path) -> None:
    """With one line in ten edited."""
    model = load_model("de-en")
    lines = (DATA / "sample.de").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    edits = {
        "Busse": "Straßenbahnen",
        "zwölf": "sechzehn",
        "schwarzer": "kleiner schwarzer",
        "2:30": "4:15",
        "Zucker": "Milch",
        "Beachten Sie": "Beachten Sie bitte",
        "25 MB": "100 MB",
    }
    revised = lines
    for old, new in edits.items():
        revised = [line.replace(old, new) for line in revised]
    assert sum(one != other for one, other in zip(lines, revised, strict=True)) == len(edits)
    translator = Translator(model)
    former = translator.translate(lines, DecodingOptions(strategy="greedy"))
    memory = tmp_path / "former.tsv"
    memory.write_text("".join(f"{each.line.text}\t{each.text}\n" for each in former), encoding="utf-8")
    greedy = list(translator.translate(revised, DecodingOptions(strategy="greedy")))
    calls = {}
    for name, options in {
        "masked": DecodingOptions(block_size=10),
        "lookup": DecodingOptions(drafter="lookup", block_size=32, memory=memory),
        "both": DecodingOptions(block_size=10, memory=memory),
    }.items():
        got = list(translator.translate(revised, options))
        assert [each.text for each in got] == [each.text for each in greedy]
        calls[name] = sum(each.stats.verifier_calls for each in got)
    assert calls["lookup"] < 0.5 * calls["masked"]
    assert calls["both"] < 0.5 * calls["masked"]


def test_beam_of_one_equals_greedy(name: str, sources: list[list[int]]) -> None:
    """In float32: fairseq2 rounds bfloat16 at other places."""
    model = load_model(name, dtype="float32")
    beam = decode(model, sources[:12], DecodingOptions(strategy="beam", beam_size=1))
    assert tokens(beam) == tokens(decode(model, sources[:12], DecodingOptions(strategy="greedy")))


def test_beams_ahead_are_beams_in_fewer_calls(
    model: Model, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(model.verifier, FusedBeam):
        pytest.skip("only the kernels verify hypotheses ahead")
    options = DecodingOptions(strategy="beam", scores=True, n_best=5, drafter="none")
    plain = decode(model, sources, options)
    monkeypatch.setattr(session, "make_beam_policy", lambda *_: FixedPolicy(Arm(0, 1, 5, session.GUESSES)))
    ahead = decode(model, sources, replace(options, drafter="autoregressive"))
    for one, other in zip(ahead, plain, strict=True):
        assert (one.tokens, one.score, one.alternatives) == (other.tokens, other.score, other.alternatives)
    calls, steps = (sum(each.stats.verifier_calls for each in some) for some in (ahead, plain))
    assert calls < 0.9 * steps


@pytest.mark.skipif(CORPORA is None, reason="SPECMT_CORPORA does not name the folder of the test sets")
@pytest.mark.parametrize(("test_set", "bleu"), [("docs-test", 18.0), ("multi30k.test_2016_flickr", 27.0)])
def test_quality_and_exactness_on_test_sets(model: Model, test_set: str, bleu: float) -> None:
    folder = Path(str(CORPORA)) / "tests"
    lines, references = (
        (folder / f"{test_set}.{side}").read_text(encoding="utf-8").split("\n")[:200]
        for side in (model.folder.source, model.folder.target)
    )
    sources = model.pieces.encode_batch(lines)
    greedy = decode(model, sources, DecodingOptions(strategy="greedy", batch_size=16))
    assert tokens(decode(model, sources, DecodingOptions(batch_size=3))) == tokens(greedy)
    texts = [model.pieces.decode(hypothesis.tokens) for hypothesis in greedy]
    assert BLEU().corpus_score(texts, [references]).score >= bleu
