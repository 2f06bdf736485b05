"""How sure translations are: the fit, what a translator and documents make of it, and what comes with the program."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from confidence import Said, bins, choose_threshold, diagram, measure

from specmt.cli.documents import report_page
from specmt.cli.main import run as main
from specmt.documents import Selection
from specmt.models.folder import bundled
from specmt.options import DecodingOptions
from specmt.serve.sureness import sureness
from specmt.text.confidence import Confidence, features, fit, isotonic
from specmt.types import Hypothesis, Line, Translation
from tests.documents import Shouting, run
from tests.sessions import FakeModel, fake_translator

HALVES = Confidence(threshold=60, weights=(1, 0, 0, 0, 0, 2), scores=(0, 1), chances=(0, 1))
"""As sure as the mean log-probability plus two says."""

PO = """msgid "one"
msgstr ""

#, c-format
msgid "Two men. Three men."
msgstr ""
"""


def test_features_are_of_what_was_said() -> None:
    found = features("Das Haus in Wien", "the house in Vienna", [-1.0, -3.0])
    assert found == pytest.approx((-2, -3, math.log(2), 0.25, 9.5))


def test_adjacent_blocks_that_fall_are_pooled() -> None:
    ones = np.ones(6)
    curve = isotonic(np.arange(6.0), np.array([0, 1, 0, 0, 1, 1.0]), ones)
    assert curve == [(0, 0), (2, pytest.approx(1 / 3)), (4.5, 1)]
    heavy = isotonic(np.array([2.0, 1.0]), np.array([0.0, 1.0]), np.array([3.0, 1.0]))
    assert heavy == [(1.75, 0.25)]


def test_the_fit_finds_the_probabilities_of_what_it_is_given() -> None:
    rng = np.random.default_rng(1)
    inputs = np.column_stack([-rng.exponential(0.5, 4000), *rng.normal(size=(4, 4000))])
    chances = 1 / (1 + np.exp(-4 * inputs[:, 0] - 2))
    found = fit(inputs, (rng.random(4000) < chances).astype(float), np.ones(4000), 50)
    assert found.weights[0] == pytest.approx(4, abs=0.4)
    error = np.abs([found.of(row) for row in inputs] - chances).mean()
    assert error < 0.03
    assert list(found.chances) == sorted(found.chances)


def test_the_threshold_agrees_best_with_verdicts(tmp_path: Path) -> None:
    said = [Said("a", number, (-number, 0, number, 0, 0), chrf) for number, chrf in enumerate((90, 70, 60, 20))]
    judged = tmp_path / "judged.tsv"
    judged.write_text("a\t0\t1\na\t1\t1\na\t2\t0\na\t3\t0\n")
    assert choose_threshold(said, judged) == (61, 1.0)
    row, found = measure([*said] * 10, HALVES)
    assert (row.acceptable, row.worst_found, row.by_length) == (0.75, 0.5, 1.0)
    assert sum(share for share, *_ in found) == 1
    assert [*bins(np.array([0.05, 0.95, 1.0]), np.array([0, 1, 0.0]))] == [
        (pytest.approx(1 / 3), 0.05, 0),
        (pytest.approx(2 / 3), 0.975, 0.5),
    ]
    assert diagram({"a": found}).count("<circle") == len(found)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"scores": True}, 0.5),
        ({}, None),
        ({"scores": True, "shortlist": True}, None),
        ({"scores": True, "temperature": 1.0}, None),
        ({"scores": True, "tolerance": 1.0}, None),
    ],
)
def test_a_translator_says_it_of_greedy_output_with_scores(changes: dict[str, bool], wanted: float | None) -> None:
    model = FakeModel()
    model.confidence = HALVES
    model.shortlist = None  # type: ignore[attr-defined]

    def say(sources: list[list[int]]) -> list[Hypothesis]:
        return [Hypothesis(ids, -3.5, log_probs=(*[-1.5] * len(ids), -0.5)) for ids in sources]

    (said,) = fake_translator(say, model).translate(["a b"], DecodingOptions(**changes))  # type: ignore[arg-type]
    assert said.confidence == wanted
    if "scores" in changes:
        assert said.log_probs == (-1.5, -1.5)
    (blank,) = fake_translator(say, model).translate([" "], DecodingOptions(scores=True))
    assert blank.confidence == 1.0


def test_a_segment_is_as_sure_as_its_least_sure_sentence_and_sure_ones_are_not_fuzzy() -> None:
    translator = Shouting()
    translator.confidences = {"one": 0.9, "Two men.": 0.95, "Three men.": 0.4}
    (finished,) = run(translator, ("po", PO), fuzzy_below=0.8)
    assert finished.data.decode() == (
        'msgid "one"\nmsgstr "ONE"\n\n#, fuzzy, c-format\nmsgid "Two men. Three men."\nmsgstr "TWO MEN. THREE MEN."\n'
    )
    found = {remark.text: chance for chance, remark in finished.summary.confidences}
    assert found == {"one → ONE": 0.9, "Two men. Three men. → TWO MEN. THREE MEN.": 0.4}
    page = report_page([("a.po", finished.summary)], finished.summary)
    assert page.index("Three men.") < page.index("one → ONE")
    assert "Of 2 segments, about 1 are acceptable. These are least likely to be." in page
    assert "<td>40%</td>" in page


@pytest.mark.parametrize(("confidence", "state"), [(0.9, "translated"), (0.5, "needs-review-translation"), (None, "")])
def test_xliff_is_marked_likewise(confidence: float | None, state: str) -> None:
    translator = Shouting()
    translator.confidences = {} if confidence is None else {"one": confidence}
    unit = '<xliff version="1.2"><file source-language="de"><body><trans-unit id="1"><source>one</source>'
    (finished,) = run(translator, ("xliff", f"{unit}</trans-unit></body></file></xliff>"), fuzzy_below=0.8)
    assert f'state="{state or "needs-review-translation"}"' in finished.data.decode()


def test_what_people_approved_is_not_marked() -> None:
    (finished,) = run(Shouting(), ("po", PO), selection=Selection(known={"one": "eins"}), fuzzy_below=0.8)
    assert finished.data.decode().startswith('msgid "one"\nmsgstr "eins"\n\n#, fuzzy, c-format')
    assert finished.summary.confidences == []


def test_models_that_come_with_the_program_have_one() -> None:
    for folder in bundled():
        assert folder.confidence is not None
        assert folder.confidence.chances[0] < 0.05
        assert folder.confidence.chances[-1] > 0.9
        said = folder.confidence("Das ist gut.", "That is good.", [-0.01] * 5)
        assert said > folder.confidence("Das ist gut.", "That is good.", [-0.9] * 5)


def test_marks_by_confidence_need_greedy_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.po"
    path.write_text(PO)
    for other in (["--no-fuzzy"], ["--strategy", "beam"]):
        assert main(["translate", str(path), "-o", str(tmp_path / "b.po"), "--fuzzy-below", "0.5", *other]) == 2
        assert "`fuzzy_below` does not go together with" in capsys.readouterr().err


def test_words_have_the_product_of_their_pieces_where_they_are_as_the_model_said_them() -> None:
    tokens, log_probs = ["▁The", "▁win", "dow", "▁is", "▁%1", "."], (0.0, math.log(0.5), math.log(0.5), 0.0, 0.0, 0.0)
    said = [
        Translation(Line(0, "x"), "The window is ${a}.", tokens=tokens, log_probs=log_probs, confidence=0.5),
        Translation(Line(1, "", ""), "", confidence=1.0),
    ]
    found = sureness(said)
    assert found.confidence == 0.5
    assert found.parts == [
        ("The", 1),
        (" ", None),
        ("window", 0.25),
        (" ", None),
        ("is", 1),
        (" ${a}.", None),
        ("\n", None),
    ]
    assert sureness([Translation(Line(0, "x"), "y")]) == (None, [("y", None), ("\n", None)])
