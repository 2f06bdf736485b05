"""Shortlists: what they allow, that they change no bit of it, and how they are learnt and kept."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specmt.decoding.drafters import Drafter
from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import Arm, Plan
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.request import Request
from specmt.decoding.session import decode
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.protocols import Verifier
from specmt.engine.weights import verifier_tables
from specmt.engine.window import Window, branches
from specmt.errors import ModelError, UsageError
from specmt.models.config import VerifierConfig, autoregressive_config_for
from specmt.models.folder import DRAFTER, SHORTLIST, VERIFIER, ModelFolder, file_sha256
from specmt.models.hub import Model, fitting_weights, load_model
from specmt.models.parameters import drafter_shapes, verifier_shapes
from specmt.models.reference.modules import create_verifier
from specmt.models.tensors import write_tensors
from specmt.models.writing import add_drafter, add_shortlist
from specmt.options import DecodingOptions
from specmt.text.pieces import Pieces
from specmt.text.shortlist import DRAFTED_EACH, Shortlist
from specmt.training.data import ParallelData, Sequences
from specmt.training.lexicon import (
    HELD_OUT,
    learn_shortlist,
    read_distilled,
    translation_probabilities,
)
from specmt.training.validate import weights_of
from specmt.translator import Translator
from specmt.types import BOS, EOS, UNK
from tests.conftest import set_threads
from tests.decoding_helpers import sources_for
from tests.decoding_helpers import tokens_of as said
from tests.folders import trust
from tests.networks import drafter_network, scores, verifier_network

CPU = torch.device("cpu")
VOCAB = 437  # fills no register
CONFIG_OF_ALL = VerifierConfig(
    model_dim=32,
    num_heads=2,
    ffn_dim=64,
    encoder_layers=1,
    decoder_layers=2,
    vocab_size=VOCAB,
    max_length=64,
    output_bias=True,
    tied_output=False,
)
SOURCES = [[7, 8, 9, 7], [20], [30, 31, 32]]

WAYS: dict[str, dict[str, Any]] = {
    "masked": {"block_size": 5},
    "best-first": {"block_size": 4, "tree": "best-first", "nodes": 10},
    "autoregressive": {"drafter": "autoregressive", "block_size": 4},
    "autoregressive best-first": {"drafter": "autoregressive", "block_size": 3, "tree": "best-first", "nodes": 8},
    "lookup": {"drafter": "lookup"},
    "self": {"drafter": "self", "block_size": 6},
    "together": {"drafter": "masked+lookup", "block_size": 3, "tree": "best-first", "nodes": 6},
    "scores": {"strategy": "greedy", "scores": True},
}


def made_shortlist(pieces: int, *, always: int = 40, each: int = 3) -> Shortlist:
    """Returns a shortlist by chance, in which every piece allows itself."""
    generator = np.random.default_rng(5)
    targets = generator.integers(4, pieces, (pieces, each), dtype=np.int32)
    targets[:, 0] = np.arange(pieces)
    frequent = np.unique([UNK, EOS, *generator.integers(4, pieces, always)]).astype(np.int32)
    return Shortlist(frequent, np.arange(pieces + 1) * each, targets.ravel())


def only_eos(pieces: int) -> Shortlist:
    return Shortlist(np.array([EOS], dtype=np.int32), np.zeros(pieces + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))


def everything(pieces: int) -> Shortlist:
    return replace(only_eos(pieces), always=np.arange(pieces, dtype=np.int32))


def lists_of(shortlist: Shortlist, sources: Sequence[list[int]]) -> list[Ids]:
    return [shortlist.of(source) for source in sources]


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8"])
def format(request: pytest.FixtureRequest, kernels: bool) -> str:
    if request.param == "int8" and not kernels:
        pytest.skip("int8 is for the kernels")
    return str(request.param)


@pytest.fixture(scope="module")
def verifier(format: str, kernels: bool) -> Verifier:
    torch.manual_seed(4)
    weights = weights_of(create_verifier(CONFIG_OF_ALL, CPU))
    weights["final_proj.bias"] = torch.randn(VOCAB)
    return verifier_network(weights, CONFIG_OF_ALL, format, kernels=kernels)


ROWS = np.arange(len(SOURCES))
STARTS = np.zeros(len(SOURCES), dtype=np.int64)


def open_rows(verifier: Verifier, shortlists: Sequence[Ids] | None) -> State:
    state = verifier.new_state(len(SOURCES))
    verifier.start(state, ROWS, verifier.encode(SOURCES).listed(shortlists))
    return state


def assert_restricted(got: Floats, whole: Floats, allowed: Ids) -> None:
    """Asserts that logits (…, V) are those of the whole vocabulary, bit for bit, where that is allowed, else −inf."""
    assert np.isfinite(whole).all() and whole.any()
    assert np.array_equal(got[..., allowed], whole[..., allowed])
    rest = np.ones(got.shape[-1], dtype=np.bool_)
    rest[allowed] = False
    assert rest.any() and bool((got[..., rest] == -np.inf).all())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", ["one token", "chain", "tree"])
def test_what_is_allowed_keeps_its_bits(verifier: Verifier, shape: str, threads: int) -> None:
    set_threads(threads)
    lists = lists_of(made_shortlist(VOCAB), SOURCES)
    tokens = np.array([[BOS, 50, 60, 70, 80], [BOS, 51, 61, 71, 81], [BOS, 52, 62, 72, 82]])
    tokens = np.ascontiguousarray(tokens[:, :1]) if shape == "one token" else tokens
    tree = branches(np.array([[0, 0, 1, 2]] * 3)) if shape == "tree" else None
    window = Window(tokens, STARTS, branches=tree)
    whole = scores(verifier, window, open_rows(verifier, None))
    got = scores(verifier, window, open_rows(verifier, lists))
    for row, allowed in enumerate(lists):
        assert_restricted(got[row], whole[row], allowed)


def test_rows_take_their_lists_along(verifier: Verifier) -> None:
    """One row is moved, one may say everything again, and more rows come."""
    lists = lists_of(made_shortlist(VOCAB), SOURCES)
    window = Window(np.full((3, 2), BOS), STARTS)
    whole = scores(verifier, window, open_rows(verifier, None))
    state = open_rows(verifier, lists)
    state.move(2, 0, 0)
    state.allow(1, None)
    state.grow(5, 5)
    got = scores(verifier, window, state)
    assert_restricted(got[0], whole[2], lists[2])
    assert np.array_equal(got[1], whole[1])
    assert_restricted(got[2], whole[2], lists[2])
    assert sorted(state.shortlists) == [0, 2]
    state.move(2, 4, 0)
    last = window._replace(tokens=window.tokens[2:], starts=STARTS[:1], rows=np.array([4]))
    assert_restricted(scores(verifier, last, state)[0], whole[2], lists[2])
    state.move(1, 2, 0)
    assert sorted(state.shortlists) == [0, 4]
    assert np.array_equal(scores(verifier, window, state)[2], whole[1])


@pytest.fixture(scope="module")
def sources(sources: list[list[int]]) -> list[list[int]]:
    return sources[:20]


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8"])
def model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    """The tiny model on PyTorch in float32, on the kernels in other types."""
    kernels = request.param != "float32"
    if kernels:
        request.getfixturevalue("needs_kernels")
    loaded = load_model(tiny_model, device="cpu", dtype=request.param, kernels=kernels)
    loaded.__dict__["shortlist"] = made_shortlist(len(loaded.pieces))
    return loaded


@pytest.fixture(scope="module")
def greedy(model: Model, sources: list[list[int]]) -> list[list[int]]:
    return said(decode(model, sources, DecodingOptions(strategy="greedy", shortlist=True)))


def test_greedy_output_is_the_best_of_what_is_allowed(
    model: Model, sources: list[list[int]], greedy: list[list[int]]
) -> None:
    """Against logits of the whole vocabulary that are masked here."""
    changed = 0
    for source, tokens in list(zip(sources, greedy, strict=True))[:12]:
        allowed = model.shortlist.of(source)
        state = model.verifier.new_state(1)
        model.verifier.start(state, ROWS[:1], model.verifier.encode([source]))
        logits = scores(model.verifier, Window(np.array([[BOS, *tokens]]), STARTS[:1]), state)[0]
        wanted = allowed[logits[:, allowed].argmax(1)]
        assert wanted[: len(tokens)].tolist() == tokens
        changed += wanted.tolist() != logits.argmax(1).tolist()
    assert changed


@pytest.mark.parametrize("way", WAYS)
def test_speculative_output_is_greedy_output(
    model: Model, sources: list[list[int]], greedy: list[list[int]], way: str
) -> None:
    assert said(decode(model, sources, DecodingOptions(shortlist=True, **WAYS[way]))) == greedy


@pytest.mark.parametrize(("batch_size", "threads"), [(1, 1), (3, 2), (33, 1)])
def test_company_changes_nothing(
    model: Model, sources: list[list[int]], greedy: list[list[int]], batch_size: int, threads: int
) -> None:
    if model.backend.name == "kernels":  # others are tested bit by bit, and spin on a busy machine
        set_threads(threads)
    order = list(range(len(sources)))
    random.Random(batch_size).shuffle(order)
    options = DecodingOptions(shortlist=True, batch_size=batch_size, block_size=3)
    got = said(decode(model, [sources[index] for index in order], options))
    assert got == [greedy[index] for index in order]


@pytest.mark.parametrize("way", ["masked", "best-first", "autoregressive", "autoregressive best-first", "self"])
def test_a_list_shorter_than_the_candidates(model: Model, sources: list[list[int]], way: str) -> None:
    alone = replace(model)
    alone.__dict__["shortlist"] = only_eos(len(model.pieces))
    assert said(decode(alone, sources[:5], DecodingOptions(shortlist=True, **WAYS[way]))) == [[]] * 5


@pytest.mark.parametrize(
    "lossy",
    [
        {"temperature": 3.0, "tree": "chain", "block_size": 2},
        {"temperature": 3.0, "tree": "sampled", "block_size": 2},
        {"beta": 5, "tolerance": 50.0, "block_size": 4},
    ],
    ids=str,
)
def test_samples_and_tolerated_drafts_are_on_the_list(
    model: Model, sources: list[list[int]], lossy: dict[str, Any]
) -> None:
    sources = sources[:6] if "temperature" in lossy else sources
    found = decode(model, sources, DecodingOptions(shortlist=True, **lossy))
    for source, tokens in zip(sources, said(found), strict=True):
        assert set(tokens) <= set(model.shortlist.of(source).tolist())


def test_what_is_allowed_depends_on_the_pieces_of_the_source_alone() -> None:
    shortlist = Shortlist(np.array([1, 3, 9], np.int32), np.array([0, 0, 2, 3]), np.array([9, 4, 7], np.int32))
    assert shortlist.of([1]).tolist() == [1, 3, 4, 9]
    assert shortlist.of([2, 1, 1, 0]).tolist() == shortlist.of([0, 1, 2]).tolist() == [1, 3, 4, 7, 9]
    assert shortlist.of([]).tolist() == [1, 3, 9]
    assert shortlist.fits(3, 10)
    assert not shortlist.fits(4, 10) and not shortlist.fits(3, 9)
    assert not replace(shortlist, starts=np.array([0, 2, 0, 3])).fits(3, 10)
    assert not replace(shortlist, starts=np.array([0, 0, 2, 9])).fits(3, 10)


def test_a_narrow_list_is_the_beginning_of_the_whole() -> None:
    shortlist = Shortlist(
        np.array([3, 9, 1], np.int32), np.array([0, 0, 3, 4, 6]), np.array([9, 4, 7, 5, 8, 6], np.int32)
    )
    narrow = shortlist.narrow(2, 2)
    assert narrow.always.tolist() == [3, 9]
    assert [narrow.likeliest(piece).tolist() for piece in range(4)] == [[], [9, 4], [5], [8, 6]]
    assert narrow.fits(4, 10)
    assert narrow.of([1, 3]).tolist() == [3, 4, 6, 8, 9]
    assert shortlist.narrow(99, 99).of([1, 3]).tolist() == shortlist.of([1, 3]).tolist()


def wishes(sources: Sequence[list[int]]) -> list[Request]:
    return [Request(number, source) for number, source in enumerate(sources)]


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("drafter", ["masked", "autoregressive"])
def test_drafts_are_on_a_list_of_their_own(model: Model, sources: list[list[int]], drafter: str, tree: bool) -> None:
    """Whatever the verifier may say."""
    sources = sources[:3]
    narrow = model.shortlist.narrow(10, 2)
    plan = Plan(Arm(0, 4, 4, 12) if tree else Arm(0, 4))
    if drafter == "masked":
        assert model.network("masked") is not None
        proposer: Drafter = MaskedDrafter(lambda: model.network("masked"), 3, lambda: narrow)
    else:
        assert model.network("autoregressive") is not None
        proposer = AutoregressiveDrafter(lambda: model.network("autoregressive"), 3, lambda: narrow)
    encoded, state = model.verifier.encode(sources), model.verifier.new_state(3)
    proposer.start(state, ROWS, encoded, wishes(sources))
    drafts = proposer.propose(np.full((3, 1), BOS), np.ones(3, dtype=np.int64), plan)
    for number, source in enumerate(sources):
        assert {node.token for node in drafts.nodes(number)} <= set(narrow.of(source).tolist())


def test_a_drafter_that_may_say_little_changes_no_output(model: Model, sources: list[list[int]]) -> None:
    """Drafts that can never stand cost calls where lists save work, and are not asked for where they do not."""
    plain = replace(model)
    listed = replace(model)
    plain.__dict__["draft_shortlist"] = None
    listed.__dict__["draft_shortlist"] = only_eos(len(model.pieces))
    listed.__dict__["shortlist"] = everything(len(model.pieces))  # what the replica may say
    sources = sources_for(model, sources)
    for way in ("masked", "best-first", "autoregressive", "autoregressive best-first", "together", "self"):
        options = DecodingOptions(**WAYS[way])
        wanted, got = decode(plain, sources, options), decode(listed, sources, options)
        assert said(got) == said(wanted)
        accepted = [sum(h.stats.accepted - len(h.tokens) * (way == "together") for h in hs) for hs in (wanted, got)]
        if way == "self" or not plain.backend.shortlists_pay:
            assert accepted[0] == accepted[1]
        else:
            assert accepted[0] > accepted[1]


def exact_drafter(model: Model, kernels: bool) -> Any:
    """Returns the drafter in float32, where another type would draft a little differently."""
    config = model.folder.drafter
    assert config is not None
    verifier = fitting_weights(model.folder, VERIFIER, verifier_shapes(model.folder.verifier))
    weights = fitting_weights(model.folder, DRAFTER, drafter_shapes(config))
    weights.setdefault("embed.weight", verifier[verifier_tables(verifier).target])
    return drafter_network(weights, config, "float32", kernels=kernels)


def test_tolerated_outputs_do_not_depend_on_whether_lists_save_work(
    tiny_model: Path, sources: list[list[int]], needs_kernels: None
) -> None:
    outputs = []
    for kernels in (True, False):
        model = load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)
        model.networks["masked"] = exact_drafter(model, kernels)
        model.__dict__["draft_shortlist"] = made_shortlist(len(model.pieces), always=100)
        options = DecodingOptions(beta=5, tolerance=50.0, block_size=4)
        outputs.append(said(decode(model, sources, options)))
    assert outputs[0] == outputs[1]


def data_of(pairs: Sequence[tuple[list[int], list[int]]]) -> ParallelData:
    return ParallelData(*(Sequences.of([pair[side] for pair in pairs]) for side in (0, 1)))


def test_probabilities_are_those_of_model_1() -> None:
    """Against the algorithm as it is written down, word by word."""
    pairs = [([4, 5], [7, 8]), ([4, 4, 6], [7]), ([5], [8, 9, 8]), ([6, 5], [6, 8])]
    null, size = 10, 12
    table = {(s, t): 1.0 for source, target in pairs for s in [null, *source] for t in target}
    for _ in range(4):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            for t in target:
                norm = sum(table[s, t] for s in [null, *source])
                for s in [null, *source]:
                    counts[s, t] += table[s, t] / norm
                    totals[s] += table[s, t] / norm
        table = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    keys, probabilities = translation_probabilities(data_of(pairs), null, size)
    assert {divmod(int(key), size): pytest.approx(p) for key, p in zip(keys, probabilities, strict=True)} == table


@pytest.fixture(scope="module")
def pieces(pieces_path: Path) -> Pieces:
    return Pieces(pieces_path)


@pytest.fixture(scope="module")
def made_up(pieces: Pieces) -> ParallelData:
    """A language in which every piece from 100 to 199 is translated by one piece, after a filler now and then."""
    generator = random.Random(3)
    pairs = []
    for _ in range(400):
        source = [generator.randrange(100, 200) for _ in range(generator.randint(2, 8))]
        target = [token for piece in source for token in ([300] if generator.random() < 0.5 else []) + [piece + 150]]
        pairs.append((source, target))
    return data_of(pairs)


def test_obvious_translations_are_learnt(made_up: ParallelData, pieces: Pieces) -> None:
    shortlist, config = learn_shortlist(made_up, pieces, frequent=1, associated=1)
    in_bytes = [pieces.source.processor.piece_to_id(f"<0x{value:02X}>") for value in range(256)]
    assert shortlist.always.tolist() == [EOS, 300, UNK, *in_bytes]
    assert all(shortlist.always != 350)
    found = [set(shortlist.of([piece]).tolist()) - set(shortlist.always.tolist()) for piece in range(300, 400)]
    assert all(each <= {piece} for piece, each in enumerate(found, 300))  # never seen: nothing but itself
    right = sum(piece + 150 in shortlist.of([piece]) for piece in range(100, 200))
    assert right >= 98
    assert all(piece in shortlist.of([piece]) for piece in range(4, 400))
    assert config.sentences == 380
    assert config.recall > 0.97 and config.whole <= config.recall
    assert config.allowed < len(shortlist.always) + (1 + DRAFTED_EACH) * 8
    assert shortlist.fits(pieces.source_size, len(pieces))


def test_the_likeliest_come_first(pieces: Pieces) -> None:
    """A piece is a copy, or becomes 300 often, 301 at times and 302 now and then; 300 is frequent everywhere."""
    generator = random.Random(8)
    target = {210: [300] * 6 + [301] * 3 + [302], 211: [303], 212: [300]}
    pairs = []
    for _ in range(600):
        source = generator.sample([210, 211, 212], generator.randint(1, 2))
        pairs.append((source, [generator.choice(target[piece]) for piece in source]))
    shortlist, _ = learn_shortlist(data_of(pairs), pieces, frequent=1, associated=5)
    assert shortlist.always[:2].tolist() == [EOS, 300]
    begin, end = shortlist.starts[210], shortlist.starts[211]
    assert shortlist.targets[begin : begin + 3].tolist() == [210, 301, 302]
    assert 300 not in shortlist.targets[begin:end]


def test_drafts_find_what_may_always_be_said(
    made_up: ParallelData, pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frequent pieces are among the translations of a piece, too: drafts are chosen from fewer of the former."""
    monkeypatch.setattr("specmt.training.lexicon.DRAFTED_ALWAYS", 5)
    few = learn_shortlist(made_up, pieces, frequent=300, associated=1)[0].narrow(5, DRAFTED_EACH)
    said_of = [set(few.of([piece]).tolist()) for piece in range(100, 200)]
    assert sum(piece + 150 in allowed for piece, allowed in enumerate(said_of, 100)) >= 98


def test_what_is_measured_on_is_not_learnt_from(made_up: ParallelData, pieces: Pieces) -> None:
    pairs = [(made_up.source[number], made_up.target[number]) for number in range(len(made_up))]
    for number in range(HELD_OUT - 1, len(pairs), HELD_OUT):
        pairs[number] = ([210, 211], [390, 391])
    shortlist, config = learn_shortlist(data_of(pairs), pieces, frequent=200, associated=50)
    assert config.recall == config.whole == 0.0
    assert not {390, 391} & set(shortlist.of([210, 211]).tolist())


def test_distilled_data_is_read_at_even_distances(pieces: Pieces, tmp_path: Path) -> None:
    Sequences.of([[number, 5] for number in range(10, 20)]).save(tmp_path / "train.source")
    Sequences.of([[number] for number in range(10, 20)]).save(tmp_path / "train.target")
    data = read_distilled(tmp_path, pieces, limit=3)
    assert [data.source[number] for number in range(len(data))] == [[10, 5], [13, 5], [16, 5]]
    assert [data.target[number] for number in range(len(data))] == [[10], [13], [16]]
    assert len(read_distilled(tmp_path, pieces, limit=50)) == 10
    Sequences.of([[len(pieces)]] * 10).save(tmp_path / "train.target")
    with pytest.raises(UsageError, match="distilled from a model with other pieces"):
        read_distilled(tmp_path, pieces, limit=50)


@pytest.fixture
def folder(tiny_model: Path, made_up: ParallelData, pieces: Pieces, tmp_path: Path) -> Path:
    path = tmp_path / "model"
    shutil.copytree(tiny_model, path)
    shortlist, config = learn_shortlist(made_up, pieces, frequent=20, associated=5)
    add_shortlist(path, config, asdict(shortlist))
    return path


def test_a_model_folder_keeps_it(folder: Path, tiny_model: Path, made_up: ParallelData, pieces: Pieces) -> None:
    wanted, config = learn_shortlist(made_up, pieces, frequent=20, associated=5)
    read = ModelFolder.read(folder)
    assert read.shortlist == config
    assert read.files == {**ModelFolder.read(tiny_model).files, SHORTLIST: file_sha256(folder / SHORTLIST)}
    kept = load_model(folder, device="cpu", dtype="float32").shortlist
    for name, part in asdict(wanted).items():
        assert getattr(kept, name).dtype == part.dtype
        assert np.array_equal(getattr(kept, name), part)
    shortlist, config = learn_shortlist(made_up, pieces, frequent=30, associated=5)
    add_shortlist(folder, config, asdict(shortlist))
    again = ModelFolder.read(folder)
    assert again.shortlist is not None and again.shortlist.frequent == 30
    assert again.verified(SHORTLIST)
    assert not list(folder.glob("*.tmp"))


def test_a_drafter_takes_it_along(folder: Path, tmp_path: Path) -> None:
    model = ModelFolder.read(folder)
    config = autoregressive_config_for(model.verifier)
    both = add_drafter(tmp_path / "both", model, config, model.weights("autoregressive.safetensors"))
    assert both.shortlist == model.shortlist
    assert both.files[SHORTLIST] == model.files[SHORTLIST]
    assert both.verified(SHORTLIST)


def test_translations_without_it_stay_what_they_were(folder: Path) -> None:
    translator = Translator.from_pretrained(folder, device="cpu", dtype="float32", threads=1)
    plain, listed = DecodingOptions(), DecodingOptions(shortlist=True)
    assert "shortlist" not in translator.signature(plain)
    assert translator.signature(listed) == {**translator.signature(plain), "shortlist": True}
    texts = [[each.text for each in translator.translate(["Ein Hund."], each)] for each in (plain, listed, plain)]
    assert texts[0] == texts[2]


def test_a_model_without_says_how_to_get_one(tiny_model: Path) -> None:
    model = load_model(tiny_model, device="cpu", dtype="float32")
    with pytest.raises(ModelError, match=r"has no shortlist; learn one with `specmt shortlist .* FILES`"):
        Translator(model).translate([], DecodingOptions(shortlist=True))
    with pytest.raises(ModelError, match="has no shortlist"):
        decode(model, [[5]], DecodingOptions(shortlist=True))


@pytest.mark.parametrize("fault", ["ids", "names", "kinds", "sizes"])
def test_one_that_does_not_fit_is_refused(folder: Path, fault: str) -> None:
    parts = {"always": np.array([3]), "starts": np.zeros(401, np.int64), "targets": np.zeros(0, np.int32)}
    faults = {
        "ids": {**parts, "always": np.array([400])},
        "names": {"ids": parts["always"]},
        "kinds": {**parts, "always": np.array([3.0])},
        "sizes": {**parts, "always": np.array([[3]])},
    }
    write_tensors(folder / SHORTLIST, faults[fault])
    trust(folder, SHORTLIST)
    with pytest.raises(ModelError, match=r"does not fit config\.json; learn it again"):
        _ = load_model(folder, device="cpu", dtype="float32").shortlist
