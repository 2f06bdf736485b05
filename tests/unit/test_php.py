"""Texts in PHP: which strings are texts, plural forms of Laravel, and what is written is read by PHP as the same."""

from __future__ import annotations

import pytest

from specmt.types import Tagged
from tests.documents import read, texts_of, translate, with_capitals


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("$string['a'] = 'Haus {$a}';", ["Haus {$a}"]),
        ("$lang['a']['b'] = 'Haus';", ["Haus"]),
        ("$lang = array_merge($lang, array('A' => 'Haus', 'B' => array(1 => 'Tür')));", ["Haus", "Tür"]),
        ("$lang += ['a' => 'Haus'];", ["Haus"]),
        ("$_['a']   = 'Haus';", ["Haus"]),
        ("$other['a'] = 'Haus';", []),
        ("return 'Haus';", []),
        ("return array('a' => 'Um 12:30 :Name');", ["Um 12:30 {t1}"]),
        ("return ['a' => '您必须接受:attribute的:größe。'];", ["您必须接受{t1}的{t2}。"]),
        ("return ['a' => 60 * 60, 'b' => 'https://a.de', 'c' => ':name', 'd' => X, 'e' => __('Haus')];", []),
        ("$lang['a'] = \"\\u{e4}\\x41\\101 \\q\";", ["äAA \\q"]),
        ("$lang['a'] = 'Ä:x';", ["Ä:x"]),
        ("$lang['ä'] = 'Öl'; $lang['b'] = 'Haus';", ["Öl", "Haus"]),
    ],
)
def test_only_text_is_translated(data: str, expected: list[str]) -> None:
    assert texts_of(read("php", f"<?php\n{data}".encode())) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("'x' . \"y\"", "it is put together from parts"),
        ("<<<A\nx\nA", "it is a heredoc"),
        ("<<<'A'\nx\nA", "it is a nowdoc"),
    ],
)
def test_what_is_left_says_why(value: str, reason: str) -> None:
    data = f"<?php\n$lang['a'] = {value};\n".encode()
    (segment,) = read("php", data).segments
    assert (segment.state, segment.reason, segment.line) == ("skipped", f"kept as it was: {reason}", 2)


@pytest.mark.parametrize(
    ("target", "written"),
    [("ja", "TÜREN"), ("en", "EINE TÜR|TÜREN"), ("pl", "EINE TÜR|TÜREN|TÜREN"), ("ar", "EINE TÜR" + "|TÜREN" * 5)],
)
def test_plural_forms_of_laravel(target: str, written: str) -> None:
    data = "<?php return ['a' => 'eine Tür|Türen'];"
    assert translate(read("php", data.encode(), target=target)).decode() == data.replace("eine Tür|Türen", written)
    data = "<?php return ['a' => '{0} keine|[1,19] einige|[20,*] viele'];"
    expected = with_capitals(data, "keine", "einige", "viele")
    assert translate(read("php", data.encode(), target=target)).decode() == expected
    data = "<?php $string['a'] = 'eins|zwei';"
    assert translate(read("php", data.encode(), target=target)).decode() == with_capitals(data, "eins|zwei")


@pytest.mark.parametrize("said", ["it's \\ \"x\" $a {$b} \\'", "a\nb\tc", "end\\", "x ${a}"])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_what_is_written_is_read_as_the_same_text(said: str, quote: str) -> None:
    document = read("php", f"<?php $lang['a'] = {quote}Haus{quote};".encode())
    written = document.write({0: Tagged(said)}, print)
    (segment,) = read("php", written).segments
    assert (segment.source.text, segment.source.tags) == (said, ())
