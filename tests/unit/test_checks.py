"""What `--check` says of translations, also of those that people wrote."""

from __future__ import annotations

import pytest

from specmt.text.checks import check

LOST = "the number {} is not in the translation".format
NEW = "the number {} is in the translation only".format
ENDS = "the source ends with {}, the translation with {}".format


@pytest.mark.parametrize(
    ("source", "translation", "problems"),
    [
        ("Um 3,5 Prozent.", "By 3.5 percent.", []),
        ("Zwei von 3.", "Two of three.", []),
        ("Im Jahr 2013.", "In the year.", [LOST("2013")]),
        ("Im Jahr.", "In the year 2013.", [NEW("2013")]),
        ("Tel. (555) 12, Fax (555) 34", "Tel. (55) 12, fax (555) 34", [LOST("555 (1 of 2)"), NEW("55")]),
        ("Von 8:30 bis 18 Uhr", "From 8:30 a.m. 1:30 to 6 pm", [NEW("1:30")]),
        ("Der @property-Dekorator", "The @property decorator", []),
        (
            "5 € und 3 %",
            "$5 and 3",
            [
                "'%' at a number is not in the translation",
                "'€' at a number is not in the translation",
                "'$' at a number is in the translation only",
            ],
        ),
        ("5 €, 3 % und £2, -4", "5 euros, 3 percent and 2 pounds, minus 4", []),
        ("Bei -5 °C", "At 5 °C", ["'-' at a number is not in the translation"]),
        ("%s und %d", "%d and %s", ["placeholders without a number are in another order"]),
        ("Hier %1$sklicken%2$s, %sdort%s", "Click %1$shere%2$s, %sthere%s", []),
        ("Dass%1$s darf, %2$serlauben", "Allow%2$s that %1$smay", []),
        ("Hier %sklicken%s", "Click here", ["'%s' is not in the translation"]),
        ("Siehe http://a.de/b.", "See it.", ["'http://a.de/b' is not in the translation"]),
        ("Grün", "Gr\ufffdn", ["the character '\ufffd' is in the translation only"]),
        ("Ja?", "Yes.", [ENDS("'?'", "'.'")]),
        ("Ja", "Yes.", [ENDS("no mark", "'.'")]),
        ("Sehr geehrte Frau Muster,", "Dear Ms. Muster", [ENDS("','", "no mark")]),
        ("So; ", "So:", [ENDS("';'", "':'")]),
        ("Und dann –", "And then -", []),
        ("Und...", "And…", []),
        ("„Ja.“", 'He said "yes."', []),
        ("Ja.", " ", ["the translation is empty"]),
        ("„“", '""', ["a text without letters is changed"]),
        ("?!", "?!?", ["a text without letters is changed"]),
        ("1.234,50 €", "€1,234.50", []),
        ("1.234", "1.234", []),
        ("3,50 €", "3,50 €", [LOST("3,50"), NEW("3,50")]),
        ("Geboren 1. 2. 1970", "1st 2nd 1970", [LOST("1. 2. 1970"), NEW("1st"), NEW("2nd"), NEW("1970")]),
        ("12.03 !", "12.03!", []),
        ("Das ist nicht gut.", "Das ist nicht gut!", [ENDS("'.'", "'!'"), "the text is not translated"]),
        ("Microsoft Visual Studio Code", "Microsoft Visual Studio Code", []),
        ("Rom in Italien", "Rom in Italien", ["the text is not translated"]),
        ("Max Muster", "Max Muster", []),
        ("{name} {of_the} `this and that`", "{name} {of_the} `this and that`", []),
        ("Ein Satz, der lang ist, und noch einer.", "Short one.", ["the source has 39 characters, the translation 10"]),
        ("", "", []),
    ],
)
def test_translations_are_checked(source: str, translation: str, problems: list[str]) -> None:
    assert check(source, translation, ("de", "en")) == problems
