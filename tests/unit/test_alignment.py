"""Alignments: the attention of both engines, links of words, and error rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specmt.decoding.session import decode
from specmt.errors import ModelError
from specmt.evaluation.alignment import alignment_error_rate, choose_heads
from specmt.models.folder import ASSETS, CONFIG, ModelFolder
from specmt.models.hub import Model, load_model
from specmt.models.writing import write_heads
from specmt.options import AlignmentHeads, DecodingOptions
from specmt.text.alignment import link_words, words_of
from specmt.translator import Translator
from specmt.types import BOS
from tests.decoding_helpers import GREEDY, Sources, sources_for
from tests.networks import module_logits

HEADS = [
    AlignmentHeads(layer=0, heads=(0,)),
    AlignmentHeads(layer=1, heads=(1,), reads="output"),
    AlignmentHeads(layer=1, heads=(0, 1)),
]


@pytest.fixture(scope="module")
def model(tiny_model: Path, kernels: bool) -> Model:
    """The tiny model in float32, on either backend."""
    return load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)


def weights_of(model: Model, pairs: list[tuple[list[int], list[int]]], heads: AlignmentHeads) -> list[Any]:
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    state = model.verifier.new_state(len(pairs))
    rows = np.arange(len(pairs))[::-1]
    model.verifier.start(state, rows, model.verifier.encode(sources))
    return model.verifier.attention(state, rows.tolist(), targets, heads)


@pytest.fixture(scope="module")
def pairs(model: Model, sources: Sources) -> list[tuple[list[int], list[int]]]:
    found = decode(model, sources, GREEDY)
    return [(source, each.tokens) for source, each in zip(sources, found, strict=True) if each.tokens]


@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_attention_is_that_of_the_fairseq2_modules(
    model: Model, pairs: list[tuple[list[int], list[int]]], heads: AlignmentHeads
) -> None:
    """Their attention modules tell their weights to hooks."""
    layer = model.reference.decoder.layers[heads.layer]
    seen: list[torch.Tensor] = []
    layer.encoder_decoder_attn.register_attn_weight_hook(lambda module, attention, weights: seen.append(weights))
    for (source, target), got in zip(pairs[:12], weights_of(model, pairs[:12], heads), strict=True):
        seen.clear()
        module_logits(model.reference, [source], np.array([[BOS, *target]]))
        theirs = seen[0][0, list(heads.heads)].mean(0)  # (T + 1, S + 1)
        rows = theirs[1:] if heads.reads == "input" else theirs[:-1]
        assert got.shape == (len(target), len(source))
        np.testing.assert_allclose(got, rows[:, :-1].numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        GREEDY,
        DecodingOptions(drafter="masked", block_size=3),
        DecodingOptions(strategy="beam", beam_size=3),
        DecodingOptions(temperature=1.0),
    ],
    ids=lambda options: options.strategy,
)
def test_hypotheses_carry_their_attention(model: Model, sources: Sources, options: DecodingOptions) -> None:
    sources = sources_for(model, sources)
    got = decode(model, sources, replace(options, alignments=True, batch_size=6))
    plain = decode(model, sources, replace(options, batch_size=6))
    assert [each.tokens for each in got] == [each.tokens for each in plain]
    assert all(each.attention is None for each in plain)
    pairs = [(source, each.tokens) for source, each in zip(sources, got, strict=True)]
    for each, wanted in zip(got, weights_of(model, pairs, model.alignment_heads), strict=True):
        assert each.attention is not None
        assert np.array_equal(each.attention, wanted)


def test_attention_does_not_depend_on_the_batch(model: Model, pairs: list[tuple[list[int], list[int]]]) -> None:
    together = weights_of(model, pairs, HEADS[2])
    for pair, weights in zip(pairs, together, strict=True):
        assert np.array_equal(weights_of(model, [pair], HEADS[2])[0], weights)


def test_words_are_linked_by_what_their_pieces_have_together() -> None:
    weights = np.array([[0.6, 0.3, 0.1], [0.0, 0.5, 0.5], [0.1, 0.1, 0.1]], dtype=np.float32)
    words = [np.array(numbers) for numbers in ([4, 5, 5], [0, 0, 1], [-1, 2, 2], [-1, -1, -1])]
    first, second, third, none = words
    assert link_words(weights, first, second) == [(5, 0)]  # the last one has less than a quarter
    assert link_words(weights, second, first) == [(0, 4), (0, 5)]
    assert link_words(weights, third, first) == [(2, 4), (2, 5)]
    assert link_words(weights, none, first) == link_words(weights, first, none) == []


def test_pieces_are_of_the_word_that_they_begin_or_go_on_with() -> None:
    starts = np.array([True, False, True, True, False])
    assert words_of(starts, 3).tolist() == [0, 0, 1, 2, 2]
    assert words_of(starts[1:], 3).tolist() == [0, 1, 2, 2]  # one goes on with what is not there
    assert words_of(starts, 6).tolist() == [0, 0, 2, 4, 4]
    assert words_of(starts[:0], 0).tolist() == []


def test_error_rate() -> None:
    sure = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 1)})]
    assert alignment_error_rate([[(0, 0), (1, 1)], [(0, 1)]], sure) == 0.0
    assert alignment_error_rate([[], []], sure) == 1.0
    assert alignment_error_rate([[(0, 0), (2, 1)], [(0, 1)]], sure) == pytest.approx(1 - 4 / 6)


@pytest.mark.parametrize(
    ("line", "target", "pairs"),
    [
        ("Das neue Haus ist leer.", "The new house is empty.", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]),
        ("  Siehe   http://a.de/b!  ", "  See   http://a.de/b!  ", None),
        ("", "", []),
    ],
)
def test_words_of_lines(translator: Translator, line: str, target: str, pairs: list[tuple[int, int]] | None) -> None:
    (found,) = translator.translate([line], DecodingOptions(alignments=True))
    assert found.alignment is not None
    if pairs is not None:
        assert (found.text, found.alignment) == (target, pairs)
    else:
        copied = [words.index("http://a.de/b!") for words in (line.split(), found.text.split())]
        assert tuple(copied) in found.alignment


LINES = [
    "Der Parameter ist optional. Er kann mit https://example.org/a?b=1 und dem Schalter --foo weggelassen werden.",
    "Siehe <b>die neue Datei</b> im Ordner /usr/share/doc, Absatz 3.",
    "(%s) [Link mit Text](http://a.b/c) und **fett**: `code here`; 1.234,56 €\u00a0und\u200bmehr",
    "--- 12 --- ###",
    "<p>Erster Absatz.</p><p>Zweiter <i>Absatz</i> mit %d Wörtern.</p>",
]


@pytest.mark.parametrize("options", [DecodingOptions(), DecodingOptions(strategy="beam", n_best=4, scores=True)])
def test_links_are_within_their_lines_and_what_is_copied_is_linked_to_itself(
    translator: Translator, options: DecodingOptions
) -> None:
    lines = LINES * 2
    for line, found in zip(lines, translator.translate(lines, replace(options, alignments=True)), strict=True):
        words, others = line.split(), found.text.split()
        assert found.alignment is not None
        assert found.alignment == sorted({*found.alignment})
        assert all(0 <= one < len(words) and 0 <= other < len(others) for one, other in found.alignment)
        for one, word in enumerate(words):
            if word.startswith(("http", "--foo", "/usr")) and word in others:
                assert (one, others.index(word)) in found.alignment
        texts = [found.text, *(each.text for each in found.alternatives)]
        assert len({*texts}) == len(texts) <= options.n_best
        if options.n_best > 1:
            assert all(each.score > -1e3 for each in found.alternatives)


def test_n_best_lists_of_lines_are_those_of_their_sentences(translator: Translator) -> None:
    options = DecodingOptions(strategy="beam", n_best=5, scores=True)
    alone = [next(iter(translator.translate([text], options))) for text in ("Das Haus ist neu.", "Die Katze schläft.")]
    (both,) = translator.translate(["Das Haus ist neu.\tDie Katze schläft."], options)
    every = [[(each.text, each.score), *each.alternatives] for each in alone]
    wanted = {f"{one}\t{other}": a + b for one, a in every[0] for other, b in every[1]}
    assert both.text == "\t".join(each.text for each in alone)
    assert len(both.alternatives) == 4
    for each in both.alternatives:
        assert each.score == pytest.approx(wanted[each.text], abs=1e-4)


@pytest.mark.parametrize("name", ["de-en", "en-de"])
def test_bundled_models_have_their_heads(name: str) -> None:
    heads = ModelFolder.read(ASSETS / name).alignment_heads
    assert (heads.layer, heads.heads[0], heads.reads) == (0, 0, "input")


def test_the_best_heads_are_chosen_and_stored(tiny_model: Path, tmp_path: Path) -> None:
    model = load_model(tiny_model, device="cpu", dtype="float32")
    assert model.alignment_heads == AlignmentHeads(layer=0, heads=(0, 1))  # nothing was measured
    tried: list[tuple[AlignmentHeads, float]] = []
    sentences = [("ein Haus", "ein Haus", frozenset({(0, 0), (1, 1)}))]
    heads, rate = choose_heads(model, sentences, tried.append)
    rates = dict(tried)
    assert rate == min(rates.values()) == rates[heads]
    assert len(rates) == 9
    (tmp_path / CONFIG).write_bytes((tiny_model / CONFIG).read_bytes())
    write_heads(tmp_path, heads)
    assert ModelFolder.read(tmp_path).alignment_heads == heads


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"layer": 2, "heads": [0], "reads": "input"}, "`layer` must be a whole number from 0 to 1"),
        ({"layer": 0, "heads": [2], "reads": "input"}, "`heads` must be a whole number from 0 to 1"),
        ({"layer": 0, "heads": [], "reads": "input"}, "`heads` must be a list of heads"),
        ({"layer": 0, "heads": [0, 0], "reads": "input"}, "`heads` must be different heads"),
        ({"layer": 0, "heads": [0], "reads": "both"}, "`reads` must be input or output"),
    ],
)
def test_heads_of_strangers_are_checked(
    tiny_model: Path, tmp_path: Path, record: dict[str, object], message: str
) -> None:
    config = json.loads((tiny_model / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, "alignment": record}))
    with pytest.raises(ModelError, match=message):
        ModelFolder.read(tmp_path)
