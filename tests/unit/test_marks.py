"""Marks at the ends of a line, and quotation marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmt.text.marks import match_ends, match_quotes


@pytest.mark.parametrize(
    ("source", "translation", "matched"),
    [
        ("Dear Ms. Smith,", "Liebe Frau Smith", "Liebe Frau Smith,"),
        ("Dear Ms. Smith,", "Liebe Frau Smith.", "Liebe Frau Smith,"),
        ("Price:", "Preis", "Preis:"),
        ("Price:", "Prix :", "Prix :"),
        ("Price:", "价格：", "价格："),
        ("Price", "Preis:", "Preis"),
        ("He came.", "Er kam:", "Er kam."),
        ("He came.", "Er kam", "Er kam"),
        ("apples etc.,", "Äpfel usw.", "Äpfel usw.,"),
        ("– yes", "- ja", "– ja"),
        ("wait –", "warte -", "warte –"),
        ("wait—", "warte –", "warte—"),
        ("wait", "warte –", "warte"),
        (", and then", "und dann", ", und dann"),
        ("-5 °C", "-5 °C", "-5 °C"),
        ("pre-", "Vor-", "Vor-"),
        (":-) hello", ":-) hallo", ":-) hallo"),
        ("%1:", "%1", "%1:"),
        ("so:", "so .", "so:"),
        ("Why?", "Warum?", "Warum?"),
        ("Why?", "Γιατί;", "Γιατί;"),
        ("--", "-", "-"),
        ("", "", ""),
    ],
)
def test_ends(source: str, translation: str, matched: str) -> None:
    assert match_ends(source, translation) == matched


@pytest.mark.parametrize(
    ("source", "translation", "language", "matched"),
    [
        ("Sie rief: „Halt!“", 'She called: "Stop!"', "en", "She called: “Stop!”"),
        ("Sie rief: »Halt!«", 'She called: "Stop!"', "en-GB", "She called: “Stop!”"),
        ("Sie rief: «Halt!»", "She called: „Stop!“", "en", "She called: “Stop!”"),
        ("She called: “Stop!”", 'Sie rief: "Halt!"', "de", "Sie rief: „Halt!“"),
        ("“Yes”, “no” (“so”)", "« Oui », « non » (« ça »)", "fr", "« Oui », « non » (« ça »)"),
        ("She called: “Stop!”", 'Elle cria : "Halte !"', "fr", "Elle cria : «\u00a0Halte !\u00a0»"),
        ('She called: "Stop!"', "Sie rief: „Halt!“", "de", 'Sie rief: "Halt!"'),
        ("“It’s ‘odd’,” he said", "\"Es ist 'komisch'\", sagte er", "de", "„Es ist ‚komisch‘“, sagte er"),
        ("„‚Gut‘, sagte er.“", "\"'Good', he said.\"", "en", "“‘Good’, he said.”"),
        ("“the 'end'” of it", "\"das 'Ende'\" davon", "de", "„das 'Ende'“ davon"),
        ("‘the end’ of it", '"das Ende" davon', "de", "„das Ende“ davon"),
        ('„Ja“ "nein"', '"yes" „no“', "en", '"yes" “no”'),
        ("„„Ja““, sagte er", '""Yes"", he said', "en", "““Yes””, he said"),
        ("„ Ja “, sagte er", '" Yes ", he said', "en", "“ Yes ”, he said"),
        ("(„Gut“)", '("Good")', "en", "(“Good”)"),
        ("Sie ging“, sagte er.", 'She went", he said.', "en", "She went”, he said."),
        ("It’s Peter's.", "Es ist Peter's.", "de", "Es ist Peter's."),
        ("“It's Hans’ car”", '"Es ist Hans\' Auto"', "de", "„Es ist Hans' Auto“"),
        ('5\'10" and 27"', '5\'10" und 27"', "de", '5\'10" und 27"'),
        ('“A 27" screen”', '"Ein Bildschirm"', "de", "„Ein Bildschirm“"),
        ("Weiter »", "Next »", "en", "Next »"),
        ("nothing", 'a "quote"', "en", 'a "quote"'),
        ("„“", '""', "en", "„“"),
    ],
)
def test_quotes(source: str, translation: str, language: str, matched: str) -> None:
    assert match_quotes(source, translation, language) == matched


TEXTS = st.lists(st.sampled_from([*"aB 5,.:;–—-!?\"'“”„«»‘’‚()", "%1", " a", "b "])).map("".join)


@given(TEXTS, TEXTS)
def test_only_marks_change(source: str, translation: str) -> None:
    matched = match_ends(source, translation)
    assert [*filter(str.isalnum, matched)] == [*filter(str.isalnum, translation)]
    assert match_ends(source, matched) == matched
    quoted = match_quotes(f"a{source}", matched, "de")
    assert [*filter(str.isalnum, quoted)] == [*filter(str.isalnum, translation)]
    assert len(quoted) == len(matched)
    assert match_quotes(f"a{source}", quoted, "de") == quoted
