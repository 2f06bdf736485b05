"""docs/benchmarks.md and the README say what docs/benchmarks.json says, and are made of nothing else."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmark_docs import benchmarks_markdown, fill, readme_parts
from benchmark_sections import SECTIONS, methods_numbers, methods_readme
from benchmarks import measure
from click import ClickException
from peers.tables import notes, numbers, speed_tables, summary, times

ROOT = Path(__file__).parents[2]

PEERS: dict[str, Any] = {
    "environment": {},
    "sets": ["docs-test"],
    "lines": 10,
    "rounds": 2,
    "block_size": 5,
    "checks": [{"peer": "CTranslate2", "lines": 10, "identical": 9}],
    "results": [
        {"batch_size": size, "way": way, "setting": "x", "seconds": seconds, "bleu": 20.04, "identical": 0.95}
        for size, way, seconds in (
            (1, "specmt greedy", [1.0, 2.0]),
            (1, "CTranslate2 int8 greedy", [2.0, 8.0]),
            (1, "fairseq2 beam 5", [10.0, 10.0]),
            (32, "specmt greedy", [0.5, 0.5]),
            (32, "CTranslate2 int8 greedy", [0.25, 0.25]),
        )
    ],
}


@pytest.fixture(scope="module")
def benchmarks() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "docs" / "benchmarks.json").read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_is_what_was_measured(benchmarks: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == benchmarks_markdown(benchmarks), "run scripts/benchmarks.py --readme"
    assert [each.name for each in SECTIONS] == list(benchmarks["steps"])
    for step in benchmarks["steps"].values():
        assert step["command"] in page


def test_the_readme_is_what_was_measured(benchmarks: dict[str, Any], readme: str) -> None:
    assert readme == fill(readme, benchmarks), "run scripts/benchmarks.py --readme"
    blocks, figures = readme_parts(benchmarks)
    assert set(re.findall(r"<!-- numbers: ([\w-]+) -->", readme)) == set(blocks)
    assert set(re.findall(r"<!--n:([\w-]+)-->", readme)) <= set(figures)
    for name, block in blocks.items():
        assert f"<!-- numbers: {name} -->\n\n{block}\n<!-- /numbers -->" in readme


@pytest.mark.parametrize("place", ["block", "figure"])
def test_a_readme_that_drifted_is_found(benchmarks: dict[str, Any], readme: str, place: str) -> None:
    changed = copy.deepcopy(benchmarks)
    if place == "block":
        changed["steps"]["quality"]["record"]["results"][-1]["scores"]["BLEU"]["value"] += 1.0
    else:
        changed["steps"]["memory"]["record"]["rows"][-1]["mebibytes"] += 1.0
    assert fill(readme, changed) != readme
    assert benchmarks_markdown(changed) != benchmarks_markdown(benchmarks)
    assert fill(fill(readme, changed), benchmarks) == readme


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- numbers: nothing -->\n<!-- /numbers -->", "nothing must be among"),
        ("about <!--n:nothing-->5<!--/n-->", "nothing must be among"),
        ("<!-- numbers: peers -->\n", "must be closed, but 1 are not"),
        ("<!--n:memory-many-->5", "must be closed, but 1 are not"),
    ],
)
def test_markers_that_cannot_be_filled(benchmarks: dict[str, Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fill(text, benchmarks)


def test_a_trial_says_so(benchmarks: dict[str, Any], readme: str) -> None:
    for trial in (True, False):
        changed = {**benchmarks, "trial": trial}
        for text in (benchmarks_markdown(changed), fill(readme, changed)):
            assert ("figures mean nothing" in text) is trial


def test_speeds_and_ratios_of_peers() -> None:
    first, second = speed_tables(PEERS)
    assert [table.title for table in (first, second)] == ["Batch size 1", "Batch size 32"]
    assert list(first.rows) == [
        ("specmt greedy", "x", "7.5 [5.0, 10.0]", "1", "20.0", "95.0%"),
        # Ratios are taken within a round: 1/2 and 2/8.
        ("CTranslate2 int8 greedy", "x", "3.1 [1.2, 5.0]", "0.38 [0.25, 0.50]", "20.0", "95.0%"),
        ("fairseq2 beam 5", "x", "1.0 [1.0, 1.0]", "0.15 [0.10, 0.20]", "20.0", "95.0%"),
    ]


def test_the_summary_has_a_column_for_each_batch_size() -> None:
    table = summary(PEERS)
    assert list(table.columns) == ["sentences/s", "batch 1", "batch 32", "BLEU"]
    assert list(table.rows)[1:] == [
        ("CTranslate2 int8 greedy", "3.1", "40.0", "20.0"),
        ("fairseq2 beam 5", "1.0", "", "20.0"),
    ]


def test_figures_for_prose() -> None:
    assert times(PEERS, 1, "specmt greedy", "CTranslate2 int8 greedy") == 3.0  # the median of 2 and 4
    assert numbers(PEERS) == {"ctranslate2-one": "3.0", "ctranslate2-many": "0.5", "fairseq2-one": "7.5"}
    with pytest.raises(ValueError, match="batch size 8"):
        times(PEERS, 8, "specmt greedy", "fairseq2 beam 5")


def test_notes_tell_of_peers_only_where_there_are_any() -> None:
    assert "CTranslate2 9 of 10" in notes(PEERS)[-1]
    assert not any("Hugging Face" in note for note in notes({**PEERS, "checks": []}))
    assert "`CT2_USE_MKL=1`" in notes({**PEERS, "environment": {"CT2_USE_MKL": "1"}})


def test_drafters_and_trees_side_by_side() -> None:
    rows = [
        {"set": name, "way": way, "lines": 200, "dtype": "bfloat16", "changed": 0.01, "mean_accepted_length": length}
        for name, way, length in (
            ("docs-test", "none", 1.0),
            ("docs-test", "masked, chain", 3.456),
            ("docs-test", "masked, best-first 16", 4.0),
            ("docs-test", "self", 12.0),
            ("newstest2014.de-en", "masked, chain", 2.0),
        )
    ]
    table = methods_readme({"rows": rows})
    assert list(table.columns) == ["tokens per verifier call", "chain", "best-first 16"]
    assert list(table.rows) == [("masked", "3.46", "4.00"), ("self", "12.00", "")]
    assert methods_numbers({"rows": rows})["methods-changed"] == "10"


def test_a_measurement_is_kept_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECMT_CORPORA", "/corpora")
    command = (
        """python -c "import json, sys; json.dump({'rows': sys.argv[1:2]}, open(sys.argv[-1], 'w'))" $SPECMT_CORPORA"""
    )
    path = tmp_path / "x.json"
    step = measure(SECTIONS[0], command, path)
    assert step["record"] == {"rows": ["/corpora"]}
    assert step["command"] == command
    assert step["machine"]["cores"] >= 1
    assert json.loads(path.read_text(encoding="utf-8")) == step
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "pass"])
def test_a_measurement_that_fails_is_not_kept(tmp_path: Path, code: str) -> None:
    with pytest.raises(ClickException, match=r"peers: .* failed"):
        measure(SECTIONS[0], f"python -c '{code}'", tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []
