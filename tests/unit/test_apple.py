"""Strings of Apple's programs in their three forms: plural forms, states, and what is no text."""

from __future__ import annotations

import json
import plistlib

import pytest

from tests.documents import SAMPLES, read, translate


def unit(value: str, state: str = "translated") -> dict[str, object]:
    return {"stringUnit": {"state": state, "value": value}}


FORMS = {"plural": {"one": unit("ein Tag"), "other": unit("%arg Wochen")}}
DAYS = {**unit("%#@tage@"), "substitutions": {"tage": {"argNum": 1, "variations": FORMS}}}
CATALOGUE = {
    "sourceLanguage": "de",
    "strings": {
        "Tom &amp; Jo": {},
        "yyyy-MM-dd": {},
        "a": {"localizations": {"de": unit(" Haus ")}},
        "b": {"localizations": {"en": unit("door")}},
        "c": {"extractionState": "stale"},
        "d": {"extractionState": "manual", "localizations": {"de": DAYS}},
    },
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("target", "forms"),
    [("pl", ["one", "few", "many", "other"]), ("ja", ["other"]), ("en", ["one", "other"])],
)
def test_catalogues_of_xcode(target: str, forms: list[str], indent: int | None) -> None:
    data = json.dumps(CATALOGUE, indent=indent, separators=(",", " : ")).encode()
    document = read("xcstrings", data, target=target)
    assert document.write({}, print) == data
    written = translate(document)
    assert translate(document) == written
    strings = json.loads(written)["strings"]
    assert strings["a"]["localizations"][target] == unit(" HAUS ", "needs_review")
    found = strings["d"]["localizations"][target]
    assert found["stringUnit"]["value"] == "%#@tage@"
    plural = found["substitutions"]["tage"]["variations"]["plural"]
    assert {form: unit["stringUnit"]["value"] for form, unit in plural.items()} == {
        form: "EIN TAG" if form == "one" else "%arg WOCHEN" for form in forms
    }
    assert found["substitutions"]["tage"]["argNum"] == 1
    assert strings["Tom &amp; Jo"]["localizations"][target]["stringUnit"]["value"] == "TOM &amp; JO"
    assert "localizations" not in strings["c"] | strings["yyyy-MM-dd"]
    if target == "en":
        assert strings["b"] == CATALOGUE["strings"]["b"]  # type: ignore[index]
        assert [segment.state for segment in document.segments] == ["new", "new", "translated", "new", "new"]


def test_plural_rules_get_the_forms_of_the_target() -> None:
    sample = next(sample for sample in SAMPLES if sample.format == "stringsdict")

    def forms(target: str) -> dict[str, str]:
        written = translate(read("stringsdict", sample.data, target=target))
        found: dict[str, str] = plistlib.loads(written)["tage"]["n"]
        assert found.pop("NSStringFormatSpecTypeKey") == "NSStringPluralRuleType"
        return found

    many = dict.fromkeys(("few", "many", "other"), "VIELE WOCHEN")
    assert forms("pl") == {"one": "EIN TAG & MEHR"} | many
    assert forms("ja") == {"other": "VIELE WOCHEN"}
    written = translate(read("stringsdict", sample.data, target="ja")).decode()
    assert "RuleType</string>\n      <key>other</key>" in written


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (r'"a" = "Tür\U00e4\344\'s";', ["Türää's"]),
        ('"a" = "";\n"b" = "%@";\n"c" = "12";', []),
        ('"Haus";', []),
        ('<?xml version="1.0"?><plist><dict><key>a</key><string>Haus</string> x <!-- y --></dict></plist>', ["Haus"]),
    ],
)
def test_texts_of_strings(data: str, texts: list[str]) -> None:
    for codec in ("utf-8", "utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"):
        if not data.startswith("<") or codec.startswith("utf-8"):
            document = read("strings", data.encode(codec))
            assert [segment.source.text for segment in document.segments if not segment.reason] == texts
            assert document.write({}, print) == data.encode(codec)
