"""What is shown of traces, on terminals of any width, as pages and as JSON."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from typing_extensions import override

from specmt.cli.trace.page import page
from specmt.cli.trace.terminal import Drawing
from specmt.cli.trace.view import figures, legend, percent
from specmt.decoding.record import Record, Step, Text, record, step_of
from specmt.decoding.trace import Candidate, Iteration, Node, Trace, Trial
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
PIECES = [*SPECIAL, "▁The", "▁dog", "s", "▁sleep", ".", "▁", "<0xE2>", "▁<b>&", "▁日本語", "▁cat"]
THE, DOG, S, SLEEP, DOT, SPACE, BYTE, MARKUP, WIDE, CAT = range(4, 14)

LOSSLESS = DecodingOptions(drafter="masked", block_size=3)
LOSSY = DecodingOptions(drafter="masked", block_size=3, tolerance=1.0)
SAMPLED = DecodingOptions(drafter="masked", block_size=3, temperature=1.0, tree="sampled")

VOID = {"meta", "br", "link", "img", "hr"}


class Vocabulary:
    """Pieces without a SentencePiece model."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [PIECES[token] for token in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces(ids)).replace("▁", " ").strip()

    source_pieces = pieces
    decode_source = decode


def best(*tokens: int, gap: float = 0.5) -> list[Candidate]:
    """Returns candidates, each less likely than the one before by the same factor."""
    return [Candidate(token, -0.1 - gap * rank) for rank, token in enumerate(tokens)]


def chain(*tokens: int) -> list[Node]:
    return [Node(token, place, math.log(0.5)) for place, token in enumerate(tokens)]


CORRECTED = Iteration(
    prefix=[BOS],
    nodes=chain(THE, CAT, SLEEP),
    verified=[best(THE, DOG, CAT), best(DOG, CAT, S), best(SLEEP, S, DOT), best(EOS, DOT, S)],
    accepted=[1],
    emitted=[THE, DOG],
)
ENDED = Iteration(
    prefix=[BOS, THE, DOG],
    nodes=chain(S, SLEEP, EOS),
    verified=[best(S, DOT), best(SLEEP, DOT), best(EOS, DOT), best(EOS, DOT)],
    accepted=[1, 2, 3],
    emitted=[S, SLEEP, EOS],
)
CHAIN = Trace([THE, CAT, DOT], [CORRECTED, ENDED], [THE, DOG, S, SLEEP], True)

TREE = Trace(
    [THE],
    [
        Iteration(
            prefix=[BOS],
            # The first two are siblings, and so are the children of the second.
            nodes=[Node(token, parent, -0.5) for token, parent in ((DOG, 0), (THE, 0), (CAT, 2), (DOG, 2), (S, 4))],
            verified=[best(THE), best(S), best(DOG), best(S), best(S), best(EOS)],
            accepted=[2, 4, 5],
            emitted=[THE, DOG, S, EOS],
        )
    ],
    [THE, DOG, S],
    True,
)

DRAWN = Trace(
    [THE],
    [
        Iteration(
            prefix=[BOS],
            nodes=[Node(token, parent, -0.5) for token, parent in ((THE, 0), (CAT, 1), (S, 1), (DOT, 1))],
            verified=[best(THE, CAT), best(CAT, S), best(EOS), best(EOS), best(EOS)],
            accepted=[1],
            emitted=[THE, DOG],
            trials=[
                Trial(1, 0.6, 0.75, True),
                Trial(2, 0.8, 0.2, False, (Candidate(MARKUP, math.log(0.7)),)),
                Trial(3, 0.5, 0.0, False, (Candidate(WIDE, math.log(0.9)),)),
            ],
        )
    ],
    [THE, DOG],
    False,
)


def shown(trace: Trace, options: DecodingOptions = LOSSLESS) -> Record:
    return record(trace, Vocabulary(), options)


def verdicts(iteration: Iteration, options: DecodingOptions) -> list[str]:
    return [draft.verdict for draft in step_of(iteration, Vocabulary(), options).nodes]


def origins(iteration: Iteration) -> list[str]:
    return [token.origin for token in step_of(iteration, Vocabulary(), LOSSLESS).emitted]


def drawn(trace: Record, width: int, options: DecodingOptions = LOSSLESS, *, colours: bool = False) -> str:
    system = "truecolor" if colours else None
    console = Console(width=width, file=io.StringIO(), color_system=system, force_terminal=colours)
    console.print(Drawing(trace, options))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# What is shown


def test_chain_with_a_correction() -> None:
    first, last = shown(CHAIN).iterations
    assert not first.is_tree
    assert [token.text for token in first.prefix] == ["<s>"]
    assert first.mask_slots == 3
    assert [(position, place, token.text, token.origin) for position, place, token in first.checks] == [
        (1, 0, "The", "accepted"),
        (2, 1, "dog", "corrected"),
    ]
    assert [draft.verdict for draft in first.run(first.nodes[0])] == ["accepted", "rejected", "unseen"]
    assert first.unseen == 1
    assert [choice.text for choice in first.verified[1]] == ["dog", "cat", "s"]
    # EOS was an accepted draft, so nothing is added after it.
    assert [token.origin for token in last.emitted] == ["accepted"] * 3


def test_figures_of_a_chain() -> None:
    trace = shown(CHAIN)
    assert (trace.source.text, trace.translation.text) == ("The cat.", "The dogs sleep")
    assert [*figures(trace, LOSSLESS)] == [
        ("Attempt", "0: freely"),
        ("Verifier calls", "2 for 5 tokens: 2.50 a call"),
        ("Drafts", "6 drafted, 4 accepted (67%)"),
        ("Method", "speculative, drafter masked, tree chain, block size 3"),
        ("Output", "lossless: exactly what greedy decoding says"),
    ]


def test_the_attempt_is_named_and_what_is_written() -> None:
    trace = CHAIN._replace(attempt=1, line="Nr. 12 .", text="The dogs 12", alignment=[(0, 0), (1, 2)])
    assert [*figures(shown(trace), LOSSLESS)][:3] == [
        ("Written", "The dogs 12"),
        ("Attempt", "1: numbers and what is copied held fast"),
        ("Alignment", "Nr.–The  12–12"),
    ]
    assert "Attempt 1: numbers and what is copied held fast" in " ".join(drawn(shown(trace), 100).split())
    assert "<dd>1: numbers and what is copied held fast</dd>" in page(shown(trace), LOSSLESS)
    found = shown(trace).as_json()
    assert (found["attempt"], found["line"], found["text"]) == (1, "Nr. 12 .", "The dogs 12")


def test_greedy_decoding_has_no_drafts_and_no_slots() -> None:
    iteration = Iteration([BOS], [], [best(THE, DOG)], [], [THE])
    options = DecodingOptions(strategy="greedy")
    trace = shown(Trace([THE], [iteration], [THE], True), options)
    (step,) = trace.iterations
    assert (step.mask_slots, step.nodes, step.emitted[0].origin) == (0, [], "added")
    assert "Drafts" not in dict(figures(trace, options))
    assert [sign for sign, _, _ in legend(trace.iterations)] == ["+", "1 2 …", "·"]


def test_drafts_that_all_stand_bring_one_more_token() -> None:
    iteration = CORRECTED._replace(verified=[best(THE), best(CAT), best(SLEEP), best(DOT)])
    iteration = iteration._replace(accepted=[1, 2, 3], emitted=[THE, CAT, SLEEP, DOT])
    assert origins(iteration) == ["accepted"] * 3 + ["added"]
    assert verdicts(iteration, LOSSLESS) == ["accepted"] * 3


def test_what_the_limit_cuts_off_was_not_committed() -> None:
    iteration = ENDED._replace(emitted=[S, SLEEP])
    assert origins(iteration) == ["accepted", "accepted"]
    assert verdicts(iteration, LOSSLESS) == ["accepted", "accepted", "unseen"]


def test_tree() -> None:
    (step,) = shown(TREE).iterations
    assert step.is_tree
    assert [draft.verdict for draft in step.nodes] == ["rejected", "accepted", "rejected", "accepted", "accepted"]
    assert [[draft.text for draft in step.children(place)] for _, place, _ in step.checks] == [
        ["dog", "The"],
        ["cat", "dog"],
        ["s"],
        [],
    ]
    assert step.emitted[3].origin == "added"


@pytest.mark.parametrize(("tolerance", "blanks"), [(0.4, [False, True, True]), (0.5, [False] * 2 + [True])])
def test_tolerance_blanks_what_lies_too_far_below_the_best(tolerance: float, blanks: list[bool]) -> None:
    iteration = CORRECTED._replace(verified=[[Candidate(t, -r / 2) for r, t in enumerate((THE, DOG, CAT))]] * 4)
    options = replace(LOSSY, tolerance=tolerance)
    trace = shown(Trace([THE], [iteration], [THE, DOG], False), options)
    assert [choice.ruled_out for choice in trace.iterations[0].verified[0]] == blanks
    assert ("[BLANK]", "ruled out by τ", "") in legend(trace.iterations)
    assert "lossy" in dict(figures(trace, options))["Output"]


def test_tolerance_does_not_reject_what_it_would_accept() -> None:
    """Of two siblings that would both do, one is taken; the other was not needed."""
    nodes = [Node(token, 0, -0.5) for token in (THE, DOG, CAT)]
    iteration = Iteration([BOS], nodes, [best(DOG, THE, CAT, gap=0.8), *[best(EOS)] * 3], [1], [THE, EOS])
    assert verdicts(iteration, LOSSY) == ["accepted", "unseen", "rejected"]
    assert verdicts(iteration._replace(accepted=[2]), LOSSLESS) == ["rejected", "accepted", "rejected"]


def test_trials_of_sampling() -> None:
    trace = shown(DRAWN, SAMPLED)
    (step,) = trace.iterations
    assert [draft.verdict for draft in step.nodes] == ["accepted", "rejected", "rejected", "unseen"]
    assert step.trial(4) is None
    cat = step.trial(2)
    assert cat is not None and (cat.draft, cat.verifier) == (0.8, 0.2)
    assert [left.text for left in cat.residual] == ["<b>&"]
    assert not any(choice.ruled_out for best in step.verified for choice in best)
    assert dict(figures(trace, SAMPLED))["Output"].startswith("sampled")
    text = drawn(trace, 80, SAMPLED)
    assert re.search(r"✗ cat +p 80% q 20%", text) and re.search(r"r <b>& +70%", text)
    assert re.search(r"– ·\. +61%", text)  # it was not tested
    assert "p 80% q 20%" in page(trace, SAMPLED)


def test_tokens_are_readable() -> None:
    iteration = ENDED._replace(prefix=[BOS, THE, S, SPACE, BYTE, MARKUP])
    tokens = shown(Trace([THE], [iteration], [], True)).iterations[0].prefix
    assert [token.alone for token in tokens] == ["<s>", "The", "·s", "␣", "·⟨E2⟩", "<b>&"]
    assert "<s> The·s ␣·⟨E2⟩ <b>&" in drawn(shown(Trace([THE], [iteration], [], True)), 100)


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "0%"), (1.0, "100%"), (0.004, "<1%"), (0.996, ">99%"), (0.5, "50%"), (math.nan, "")],
)
def test_percent(probability: float, text: str) -> None:
    assert percent(probability) == text


# Terminals


def test_terminal_says_without_colours_what_became_of_drafts() -> None:
    text = drawn(shown(CHAIN), 80)
    for line in ("✓ The 50%", "✗ cat 50%", "→ dog", "1 dog 90%", "– 1 more dropped"):
        assert line in text
    assert text.count("[MASK]") == 3 * 3  # two inputs, one of them twice
    assert "The·dog" not in text


def test_a_line_goes_through_the_rejected_token_alone() -> None:
    assert re.search(r"\x1b\[9;31mcat\x1b\[0m +", drawn(shown(CHAIN), 80, colours=True))


def test_terminal_draws_the_tree() -> None:
    text = drawn(shown(TREE), 80)
    for line in ("├─ ✗ dog 61%", "└─ ✓ The 61%", "   ├─ ✗ cat 61%", "   └─ ✓ dog 61% ─ ✓ ·s 61%"):
        assert line in text


def test_a_terminal_may_be_narrower_than_what_was_verified() -> None:
    seen = shown(Trace([THE], [CORRECTED], [THE, DOG], True))
    assert all(drawn(seen, width) for width in range(6, 24))


def test_a_long_path_goes_on_below() -> None:
    nodes = [*chain(*[DOG] * 40), Node(THE, 0, -1.0)]
    iteration = Iteration([BOS], nodes, [best(CAT)] * 42, [], [CAT])
    lines = drawn(shown(Trace([THE], [iteration], [CAT], True)), 40).split("\n")
    assert sum(line.count("– dog") for line in lines) == 39
    assert max(map(cell_len, lines)) <= 40


# Pages


class Page(HTMLParser):
    """Checks that elements nest, and collects what a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def attributes(self, name: str) -> list[str]:
        return [str(attributes[name]) for _, attributes in self.tags if name in attributes]


def test_page_needs_nothing_else() -> None:
    parsed = Page(text := page(shown(CHAIN), LOSSLESS))
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in parsed.tags}
    assert not parsed.attributes("src")
    assert not re.search(r"https?:|@import|url\(", text)
    targets = parsed.attributes("href")
    assert targets == ["#i1", "#i2"]
    assert {target.removeprefix("#") for target in targets} <= set(parsed.attributes("id"))


def test_page_says_without_colours_what_became_of_drafts() -> None:
    text = Page(page(shown(CHAIN), LOSSLESS)).text
    for part in ("✓The 50%", "✗cat 50%", "→dog", "– 1 more dropped"):
        assert part in text
    assert "<s>cat</s>" in page(shown(CHAIN), LOSSLESS)


def test_page_escapes_what_it_is_given() -> None:
    trace = Trace([MARKUP], [CORRECTED._replace(emitted=[THE, MARKUP])], [MARKUP], True)
    source, translation = Text("<script>alert('1')</script>", []), Text('"><img onerror=x>', [])
    hostile = replace(shown(trace), source=source, translation=translation)
    text = page(hostile, LOSSLESS, source='"><script>', target="'\"")
    parsed = Page(text)
    assert not {"script", "img"} & {tag for tag, _ in parsed.tags}
    assert "<b>" not in text
    assert "<script>alert('1')</script>" in parsed.text
    assert "<b>&" in parsed.text


def test_page_draws_the_tree_as_nested_lists() -> None:
    text = page(shown(TREE), LOSSLESS)
    tree = re.sub(r"\s", "", text[text.index('<div class="tree">') : text.index("<dt>Verify")])
    assert tree.count("<ul>") == tree.count("</ul>") == 2
    assert tree.count('class="nodeaccepted"') == 3
    assert tree.count('class="noderejected"') == 2


# JSON


def test_record_of_a_chain() -> None:
    found = json.loads(json.dumps(shown(CHAIN).as_json(), allow_nan=False))
    assert found["source"] == {
        "text": "The cat.",
        "tokens": [{"id": 4, "piece": "▁The"}, {"id": 13, "piece": "▁cat"}, {"id": 8, "piece": "."}],
    }
    assert found["stats"] == {
        "tokens": 5,
        "verifier_calls": 2,
        "drafted": 6,
        "accepted": 4,
        "mean_accepted_length": 2.5,
    }
    first = found["iterations"][0]
    assert first["nodes"][1] == {
        "id": 13,
        "piece": "▁cat",
        "place": 2,
        "parent": 1,
        "log_prob": pytest.approx(math.log(0.5)),
        "verdict": "rejected",
    }
    assert first["emitted"][1] == {"id": 5, "piece": "▁dog", "origin": "corrected"}
    assert (first["mask_slots"], first["accepted"], first["trials"]) == (3, [1], [])


def test_unknown_probabilities_are_null() -> None:
    iteration = CORRECTED._replace(nodes=[node._replace(log_prob=math.nan) for node in CORRECTED.nodes])
    found = shown(Trace([THE], [iteration], [THE, DOG], True)).as_json()
    assert [node["log_prob"] for node in found["iterations"][0]["nodes"]] == [None] * 3


# Any trace at all


TOKENS = st.integers(EOS, CAT)
LOG_PROBS = st.floats(-20, 0)
CANDIDATES = st.lists(st.builds(Candidate, TOKENS, LOG_PROBS), min_size=1, max_size=5)


@st.composite
def iterations(draw: st.DrawFn) -> Iteration:
    count = draw(st.integers(0, 30))
    nodes = [Node(draw(TOKENS), draw(st.integers(max(0, i - 3), i)), draw(LOG_PROBS)) for i in range(count)]
    path: list[int] = []
    while children := [i for i, node in enumerate(nodes, 1) if node.parent == (path[-1] if path else 0)]:
        if not draw(st.booleans()):
            break
        path.append(draw(st.sampled_from(children)))
    emitted = [nodes[place - 1].token for place in path] + [draw(TOKENS)]
    emitted = emitted[: draw(st.integers(1, len(emitted)))]
    places = draw(st.lists(st.integers(1, count), unique=True, max_size=8)) if count else []
    trials = [
        Trial(p, draw(st.floats(0, 1)), draw(st.floats(0, 1)), draw(st.booleans()), tuple(draw(CANDIDATES)))
        for p in sorted(places)
    ]
    verified = [draw(CANDIDATES) for _ in range(count + 1)]
    return Iteration([BOS, *draw(st.lists(TOKENS, max_size=40))], nodes, verified, path, emitted, trials)


TRACES = st.tuples(
    st.lists(TOKENS, min_size=1), st.lists(iterations(), min_size=1, max_size=3), st.lists(TOKENS), st.booleans()
).map(lambda given: Trace(*given))


@settings(max_examples=60, deadline=None)
@given(TRACES, st.sampled_from([LOSSLESS, LOSSY, SAMPLED]), st.integers(24, 140))
def test_any_trace_fits_any_terminal_and_survives_json(trace: Trace, options: DecodingOptions, width: int) -> None:
    seen = shown(trace, options)
    rows = dict.fromkeys(("Source", "Decoder input", "Verify", "Output", "Next input"), len(trace.iterations))
    rows["Draft"] = sum(bool(each.nodes) for each in trace.iterations)
    text = drawn(seen, width, options)
    assert max(map(cell_len, text.split("\n"))) <= width and "\x1b" not in text
    if width >= 40:
        assert all(
            re.search(rf"^{row}\b", text, re.MULTILINE) for row in ("Translation", *(r for r in rows if rows[r]))
        )
    parsed = Page(page(seen, options, source="de", target="en"))
    assert all(parsed.text.count(row) >= count for row, count in rows.items())
    assert parsed.tags[0] == ("html", {"lang": "en"})
    assert {"de", "en"} <= {*parsed.attributes("lang")} and "viewport" in parsed.attributes("name")
    for each in trace.iterations:
        tokens = {*each.prefix, *each.emitted, *(node.token for node in each.nodes)} - {BYTE}
        assert all(PIECES[token].removeprefix("▁") in parsed.text for token in tokens)
    written = json.loads(json.dumps(seen.as_json(), allow_nan=False))["iterations"]
    for each, iteration in zip(written, trace.iterations, strict=True):
        assert [token["id"] for token in each["emitted"]] == iteration.emitted
        assert [(node["id"], node["parent"]) for node in each["nodes"]] == [
            (n.token, n.parent) for n in iteration.nodes
        ]
        assert [len(tokens) for tokens in each["verified"]] == list(map(len, iteration.verified))
        assert [trial["place"] for trial in each["trials"]] == [trial.place for trial in iteration.trials]
    for step, iteration in zip(seen.iterations, trace.iterations, strict=True):
        check_accounting(step, iteration)


def check_accounting(step: Step, iteration: Iteration) -> None:
    assert [token.id for _, _, token in step.checks] == iteration.emitted
    assert [position for position, _, _ in step.checks] == [
        len(iteration.prefix) + i for i in range(len(iteration.emitted))
    ]
    waiting = [0]
    found = []
    while waiting:
        children = step.children(waiting.pop())
        found += [draft.verdict for draft in children]
        waiting += [draft.place for draft in children]
    assert len(found) == len(iteration.nodes)
    assert found.count("unseen") == step.unseen
    assert found.count("accepted") == sum(token.origin == "accepted" for token in step.emitted)
