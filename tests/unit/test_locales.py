"""Texts of programs in YAML: what is text, plural forms, and quotes where YAML would read something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from specmt.formats.plurals import count_of_forms, plural_forms
from specmt.types import Tagged
from tests.documents import fill, read, texts_of, translate


def answer(data: str, said: str, **options: Any) -> str:
    document = read("yaml", data.encode(), **options)
    return document.write({n: Tagged(said) for n in range(len(document.segments))}, print).decode()


NO_TEXTS = [
    "No", "on", "y", "12:30", "~", "null", "1e3", "0x1F", "1_000", ".inf", "2026-01-01", "- a", "? a", "*a", "&a", "!a",
    "a: b", "a #b", "a:", "#a", "{a", "[a", "@a", "`a", "%a", "|", ">", "'a", '"a', "a\nb", "=", "<<", "", " a ", "---",
    "a, b", "a]", "a} b", "\x07", "\x85", "\ufeff", "\u2028",
]  # fmt: skip


@pytest.mark.parametrize("said", NO_TEXTS)
@pytest.mark.parametrize(
    "data",
    ["a: Haus", "a: 'Haus'", 'a: "Haus"', "- Haus", "[Haus, x]", "{a: Haus}", "a: |\n  Haus\n", "a: >\n  Haus\nb: c"],
)  # fmt: skip
def test_what_is_written_is_read_as_the_same_text(data: str, said: str) -> None:
    def found(value: object) -> Iterator[object]:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from found(each)
        if not isinstance(value, dict | list):
            yield value

    document = read("yaml", data.encode())
    written = document.write({0: Tagged(said)}, print).decode()
    text = said if document.segments[0].source.text == next(found(yaml.safe_load(data))) else f"{said}\n"
    assert next(found(yaml.safe_load(written))) in (text, said)
    if "\x07" not in said:  # ruamel, as YAML 1.2
        assert next(found(YAML(typ="safe", pure=True).load(written))) in (text, said)


def test_plain_text_stays_plain() -> None:
    assert answer("a: Haus\nb: [Tür, 'x']\n", "Noah, on time: 12:30") == (
        'a: "Noah, on time: 12:30"\nb: ["Noah, on time: 12:30", \'Noah, on time: 12:30\']\n'
    )
    assert answer("a: Haus\n", "Noah, on time") == "a: Noah, on time\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("de:\n  a: Haus\nx: 1\n", ["Haus"]),
        ("en:\n  a: house\nde:\n  a: Haus\nfr:\n  a: maison\n", ["Haus"]),
        ("a: ':sym'\nb: '%d.%m.%Y'\nc: '%n %u'\nd: '%{a} %{b}'\ne: a_b\nf: img/a.png\ng: a@b.de\n", []),
        ("id: haus\nlink: Verweis\nurl: /haus\nclass: btn rot\n", ["Verweis"]),
        ("- id: haus\n  translation: Haus\n", ["Haus"]),
        ("de:\n  date:\n    formats: {a: Am %d. Mai}\n    order: [tag]\n  number:\n    format: {unit: EUR}\n", []),
        ("a: !!binary SGF1cw==\nb: !x Haus\nc: yes\nd: 2026-01-01\n", []),
        ("a: !!str Haus\nb: &t Tür\n", ["Haus", "Tür"]),
        ("a: Haus\n--- \na: Tür\n", ["Haus", "Tür"]),
    ],
)  # fmt: skip
def test_only_text_is_translated(data: str, expected: list[str]) -> None:
    assert texts_of(read("yaml", data.encode(), target="pl")) == expected


def test_a_file_with_the_target_language_is_left() -> None:
    document = read("yaml", b"de:\n  a: Haus\nen:\n  a: house\n")
    assert [segment.reason for segment in document.segments] == ["left as it is: the file has the target language"]
    (segment,) = read("yaml", b"a: 'x {n, plural, other {Haus}'\n").segments
    assert segment.reason == "kept as it was: its braces do not match"


@pytest.mark.parametrize(
    "data",
    [
        "a: Da {n, plural, one {ein Haus} other {# Häuser}} so\n",
        "a: 'Gib''s {g, select, male {ihm''s} other {allen}}'\n",
        'a: "Sag \\"{n, plural, =1 {nichts} other {\\u00e4ndern\\n}}\\""\n',
        "a: >-\n  {n, plural,\n    one {ein Haus}\n    other {# Häuser}\n  }\nb: Tür\n",
    ],
)
def test_branches_of_icu_are_texts(data: str) -> None:
    values = [yaml.safe_load(each) for each in (data, translate(read("yaml", data.encode())).decode())]
    names = r"\b(?:n|g|plural|select|one|other|male)\b(?=[ ,])"
    words = re.split(f"({names})", values[0]["a"])
    assert values[1]["a"] == "".join(word if re.match(names, f"{word},") else word.upper() for word in words)


def test_what_icu_quotes_is_copied() -> None:
    assert texts_of(read("yaml", b"a: \"Gib '{'n'}' dort\"\n")) == ["Gib {t1}n{t2} dort"]


def test_what_would_be_a_comment_is_refused() -> None:
    document = read("yaml", b"a: Da {n, plural, other {so:#}}\n")
    assert [len(fill(document, {1: Tagged(said)})[1]) for said in ("so: #", "so #", "so:")] == [1, 1, 1]


def test_plurals_get_the_forms_of_the_target() -> None:
    data = "de:\n  a:\n    one: Tür\n    other: |\n      Türen\n  b: {zero: keine, one: eins, other: mehr} # b\n"
    assert translate(read("yaml", data.encode(), target="pl")).decode() == (
        'pl:\n  a:\n    one: TÜR\n    few: "TÜREN\\n"\n    many: "TÜREN\\n"\n    other: |\n      TÜREN\n'
        "  b: {zero: KEINE, one: EINS, few: MEHR, many: MEHR, other: MEHR} # b\n"
    )
    assert translate(read("yaml", data.encode(), target="ja")).decode() == (
        "ja:\n  a:\n    other: |\n      TÜREN\n  b: {zero: KEINE, other: MEHR} # b\n"
    )
    assert translate(read("yaml", data.replace("\n", "\r\n").encode(), target="no")).decode().startswith('"no":\r\n')


def test_forms_of_languages() -> None:
    assert [count_of_forms(code) for code in ("ja", "en-GB", "pl", "cs", "sl", "ar", "lv")] == [1, 2, 3, 3, 4, 6, 3]
    assert plural_forms("de") == ("one", "other")


def test_an_anchor_that_its_text_stands_right_behind_stays() -> None:
    data = "de:\n  a: &x:Haus\n  b: *x\n  c: &y Baum\n  d: *y\n"
    page = "---\ntitle: &x:Das Haus\nother: *x\n---\n\nBaum\n"
    for name, text in (("yaml", data), ("yaml", data.replace(":Haus", ":Das Haus")), ("markdown", page)):
        assert texts_of(read(name, text.encode())) == ["Baum"]
    assert answer(data, "TREE").endswith(data[4:].replace("Baum", "TREE"))


def test_a_second_byte_order_mark_has_its_place() -> None:
    assert answer("\ufeff\ufeffa: Haus\nb: 'Tür'\n", "Hof") == "\ufeff\ufeffa: Hof\nb: 'Hof'\n"
