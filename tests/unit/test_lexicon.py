"""What a model folder says of its training text."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from recipe.spellings import choose_spellings, learn

from specmt.errors import ModelError
from specmt.models.folder import ASSETS, ModelFolder
from specmt.text.lexicon import LEXICON, Lexicon, load_lexicon, read_lexicon, write_lexicon


def test_comes_back(tmp_path: Path) -> None:
    spellings = {"STRASSE": "Straße", "SELECT": "select", "DON'T": "don't"}
    lexicon = Lexicon.of(frozenset("aß„"), spellings, ["SELECT"])
    assert lexicon.spellings == spellings and lexicon.keywords == {"SELECT"}
    write_lexicon(tmp_path / LEXICON, lexicon)
    first = (tmp_path / LEXICON).read_bytes()
    assert read_lexicon(tmp_path / LEXICON) == lexicon
    write_lexicon(tmp_path / LEXICON, lexicon)
    assert (tmp_path / LEXICON).read_bytes() == first


def test_without_the_file() -> None:
    lexicon = load_lexicon([], Path, lambda: frozenset("ж"))
    assert lexicon == Lexicon(frozenset("ж"))
    assert lexicon.unlearnt is not None and lexicon.unlearnt("жaßłаह\u2003") == {"а", "ह"}
    assert Lexicon().unlearnt is None


@pytest.mark.parametrize("data", [b"no gzip", gzip.compress(b"\xff", mtime=0), gzip.compress(b"abc", mtime=0)[:-9]])
def test_damaged(tmp_path: Path, data: bytes) -> None:
    (tmp_path / LEXICON).write_bytes(data)
    with pytest.raises(ModelError, match="is no lexicon"):
        read_lexicon(tmp_path / LEXICON)


def test_spellings_are_chosen() -> None:
    words = Counter({"Straße": 90, "Strasse": 9, "straße": 1, "NULL": 6, "null": 30, "NASA": 20, "Nasa": 3, "rare": 3})
    words += Counter({"Casa": 40, "don’t": 9, "don't": 9})
    known = {"STRASSE": "Straße", "NULL": "null", "NASA": "NASA", "DON'T": "don't", "CASA": "Casa"}
    assert choose_spellings(frozenset("a"), words) == Lexicon.of(frozenset("a"), known, ["NULL", "CASA"])


def test_only_sentences_count(tmp_path: Path) -> None:
    source, target = tmp_path / "text.de", tmp_path / "text.en"
    source.write_text("Der Baum ist ein Baum.\nKEIN BAUM IST HIER.\nBaum baum\n" * 100, encoding="utf-8")
    target.write_text("Ж€\n" * 300, encoding="utf-8")
    lexicon = learn([source], [target])
    assert lexicon.spellings == {"BAUM": "Baum", "IST": "ist", "EIN": "ein"}
    assert {"Ж", "€", "a", "I"} <= lexicon.letters
    assert "B" in lexicon.letters and "D" not in lexicon.letters


@pytest.mark.parametrize("name", ["de-en", "en-de"])
def test_bundled(name: str) -> None:
    folder = ModelFolder.read(ASSETS / name)
    lexicon = load_lexicon(folder.files, folder.verified)
    assert folder.verified(LEXICON).stat().st_size < 200_000
    assert lexicon.unlearnt is not None
    assert lexicon.unlearnt("aZäßéñ€„“–5.% हไաΞ√") == {*"हไաΞ√"}
    assert {lexicon.spell(word) for word in ("USB", "NASA", "BERLIN", "TOM")} == {"USB", "NASA", "Berlin", "Tom"}
