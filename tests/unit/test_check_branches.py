"""What `specmt check` says of plurals and selects of ICU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specmt.check.branches import compare_messages, take_apart
from specmt.check.rules import Rules
from tests.growth import assert_linear
from tests.unit.test_check import checked

GERMAN = Rules(languages=("de", "en"))
PLURAL = "{n, plural, =0 {Nichts für {name}} one {# Bild für {name}} other {# Bilder für {name}}}"
SELECT = "{art, select, er {Er hat {n, plural, one {# Bild} other {# Bilder}}.} other {Es gibt {n} Bilder.}}"


def told(source: str, target: str, to: str = "en") -> list[str]:
    message = take_apart(source)
    assert message is not None
    return [f"{each.kind}: {each.text}" for each in compare_messages(message, target, Rules(languages=("de", to)))]


@pytest.mark.parametrize(
    ("source", "target", "to"),
    [
        (PLURAL, "{n, plural, =0 {Nothing for {name}} one {A picture for {name}} other {# pictures for {name}}}", "en"),
        (PLURAL, "{n,plural,=0{{name} has none} =1{One for {name}} other{{n} for {name}}}", "en"),
        (
            PLURAL,
            "{n, plural, zero {0 {name}} one {# x {name}} few {# y {name}} many {# z {name}} other {# {name}}}",
            "pl",
        ),
        (PLURAL, "{n, plural, =0 {{name}} other {# {name}}}", "ja"),
        (PLURAL, "{n, plural, =0 {{name}} one {{name}} many {# {name}} other {# {name}}}", "fr"),
        (
            SELECT,
            "{art, select, er {He has {n, plural, one {# picture} other {# pictures}}.} other {There are {n}.}}",
            "en",
        ),
        (
            "{g, select, er {Er} other {Es}} hat {n, plural, one {ein Bild} other {# Bilder}}",
            "{g, select, er {He} other {It}} has {n, plural, one {one picture} other {# pictures}}",
            "en",
        ),
        ("{n, plural, other {# Tage}} frei", "{n, plural, other {# days}} off", "en"),
        (
            "{n, selectordinal, one {#.} other {#.}} Tag",
            "{n, selectordinal, one {#st} two {#nd} other {#th}} day",
            "en",
        ),
    ],
)
def test_nothing_is_said_of_good_messages(source: str, target: str, to: str) -> None:
    assert told(source, target, to) == []


def test_cases_are_looked_for_in_linear_time() -> None:
    def check(count: int) -> None:
        source, said = (
            "".join(f"a{number} {{x}} " for number in range(start, start + count)) for start in (0, count // 2)
        )
        assert told(f"{{n, select, {source} other {{b}}}}", f"{{n, select, {said} other {{b}}}}")

    assert_linear(check, 150)


_TS = '<TS language="en" sourcelanguage="de"><message><source>{}</source><translation>{}</translation></message></TS>'
_FORMS = (
    '{{"stringUnit": {{"value": "%#@n@ {0} %@"}}, "substitutions": {{"n": {{"variations": {{"plural": '
    '{{"one": {{"stringUnit": {{"value": "{1}"}}}}, "other": {{"stringUnit": {{"value": "%arg {2}"}}}}}}}}}}}}}}'
)
_CATALOGUE = (
    '{"sourceLanguage": "de", "strings": {"a": {"localizations": {"de": '
    f'{_FORMS.format("in", "eins", "Tage")}, "en": {_FORMS.format("within", "one", "days")}}}}}}}}}'
)
_TMX = (
    '<tmx version="1.4"><header srclang="de"/><body><tu><tuv xml:lang="de"><seg>{}</seg></tuv>'
    '<tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>'
)


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("properties", "a={0,choice,0#keine|1<{0} Dateien}\n", "a={0,choice,0#none|1<{0} files}\n"),
        ("qt", _TS.format("Wort<byte/>hier", ""), _TS.format("Wort<byte/>hier", "word<byte/>here")),
        ("xcstrings", _CATALOGUE, _CATALOGUE),
        ("tmx", _TMX.format('Ein <ph x="1"/> Wort', ""), _TMX.format('Ein <ph x="1"/> Wort', 'A <ph x="1"/> word')),
    ],
)
def test_nothing_is_said_of_good_files(name: str, source: str, target: str, tmp_path: Path) -> None:
    assert [each.text for each in checked(tmp_path, name, source, target, GERMAN)] == []


LOST = "branch: the plural of 'n' is not in the translation"
N, ART = "plural of 'n'", "select of 'art'"
LACKS = "branch: the {} has no {!r}".format
NEVER = "branch: the {} has {!r}, which is never taken".format
PLACEHOLDER = "placeholder: '{}' is not in the translation".format
HE = "{art, select, he {He {n, plural, one {#} other {#}}} other {{n}}}"


@pytest.mark.parametrize(
    ("source", "target", "to", "said"),
    [
        (PLURAL, "Pictures for {name}", "en", LOST),
        (PLURAL, "{n, plural, =0 {{name}} other {# {name}}}", "en", LACKS(N, "one")),
        (PLURAL, "{n, plural, one {{name}} other {# {name}}}", "en", LACKS(N, "=0")),
        (PLURAL, "{n, plural, =0 {{name}} one {# {name}} other {# {name}}}", "pl", LACKS(N, "few")),
        (PLURAL, "{n, plural, =0 {{name}} one {# {name}}}", "en", LACKS(N, "other")),
        (PLURAL, "{n, plural, =0 {{name}} one {{name}} eins {{name}} other {# {name}}}", "en", NEVER(N, "eins")),
        (PLURAL, "{n, plural, =0 {{name}} one {{name}} few {# {name}} other {# {name}}}", "en", NEVER(N, "few")),
        (PLURAL, "{n, plural, =0 {{name}} one {# {name}} other {#}}", "en", PLACEHOLDER("{name}")),
        (PLURAL, "{n, plural, =0 {{name}} one {# {name}} other {{name}}}", "en", PLACEHOLDER("{n}")),
        (PLURAL, "{n, plural, =0 {{name} =1 {}}", "en", "branch: its braces do not match"),
        (SELECT, HE, "en", LACKS(ART, "er")),
        (SELECT, HE, "en", NEVER(ART, "he")),
        (SELECT, "{art, select, er {He has {n}.} other {{n}}}", "en", LOST),
    ],
)
def test_what_is_wrong_with_branches(source: str, target: str, to: str, said: str) -> None:
    assert said in told(source, target, to)


@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("file_format", ["json", "properties", "po", "xliff"])
def test_messages_of_documents(file_format: str, is_good: bool, tmp_path: Path) -> None:
    target = "{n, plural, =0 {Nothing for {name}} one {One for {name}} other {# for {name}}}"
    target = target if is_good else target.replace("# for {name}", "#")
    pages = {
        "json": lambda text, _: json.dumps({"a": text, "b": f"{text}."}),
        "properties": lambda text, _: f"a={text}\nb={text}.\n",
        "po": lambda text, said: f'msgid "{PLURAL}"\nmsgstr "{said}"\n',
        "xliff": lambda text, said: '<xliff version="1.2"><file original="a" source-language="de" target-language="en" '
        f'datatype="x"><body><trans-unit id="a"><source>{PLURAL}</source>{said and f"<target>{said}</target>"}'
        "</trans-unit></body></file></xliff>",
    }  # fmt: skip
    source, target = pages[file_format](PLURAL, ""), pages[file_format](target, target)
    count = 0 if is_good else 2 if file_format in ("json", "properties") else 1
    assert [each.kind for each in checked(tmp_path, file_format, source, target, GERMAN)] == ["placeholder"] * count
