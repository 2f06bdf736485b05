"""What the bundled models make of lines as people have them."""

from __future__ import annotations

from collections import Counter

import pytest

from specmt.models.folder import ModelFolder, bundled
from specmt.options import DecodingOptions
from specmt.translator import Translator
from tests.golden.hostile import KINDS, find_faults, made
from tests.golden.robustness import LISTED, SHAPES, listed, unlisted

GREEDY = DecodingOptions(strategy="greedy")

FOR_EXAMPLE = {
    "de": ("z. B.", "z.B.", "zum Beispiel", "beispielsweise", "etwa", "wie"),
    "en": ("e.g.", "for example", "for instance", "such as", "including", "like"),
}
"""What a short form may become, by language."""

Shapes = dict[str, str]


@pytest.fixture(scope="module", params=list(bundled()), ids=lambda folder: folder.path.name)
def folder(request: pytest.FixtureRequest) -> ModelFolder:
    found: ModelFolder = request.param
    return found


@pytest.fixture(scope="module")
def translator(folder: ModelFolder) -> Translator:
    return Translator.from_pretrained(folder.path)


@pytest.fixture(scope="module")
def shapes(folder: ModelFolder, translator: Translator) -> Shapes:
    """Translations of lines of unusual shape."""
    lines = SHAPES[folder.source]
    return dict(zip(lines, (each.text for each in translator.translate(lines.values(), GREEDY)), strict=True))


def test_what_is_listed_comes_out_as_it_went_in(folder: ModelFolder, translator: Translator) -> None:
    kinds = [kind for kind in LISTED for _ in range(-(-1000 // len(LISTED)))]
    made = {kind: listed(folder.source, kind) for kind in LISTED}
    lines = [next(made[kind]) for kind in kinds]
    assert len(lines) >= 1000
    translations = translator.translate((line for line, _ in lines), GREEDY)
    lost = [
        (kind, line, translation.text)
        for kind, (line, things), translation in zip(kinds, lines, translations, strict=True)
        if any(translation.text.count(thing) != line.count(thing) for thing in things)
    ]
    assert not lost, (Counter(kind for kind, _, _ in lost), lost[:10])


def test_names_and_other_scripts_are_copied_mostly(folder: ModelFolder, translator: Translator) -> None:
    lines = unlisted(folder.source)
    translations = translator.translate((line for line, _ in lines), GREEDY)
    lost = [each.text for (_, thing), each in zip(lines, translations, strict=True) if thing not in each.text]
    assert len(lost) <= len(lines) // 20, lost


def test_odd_shapes_are_kept(folder: ModelFolder, shapes: Shapes) -> None:
    assert not shapes["no full stop"].endswith((".", "!", "?"))
    assert any(f" {form} " in shapes["short form"].replace(",", "") for form in FOR_EXAMPLE[folder.target])


def test_numbers_are_written_as_the_language_writes_them(folder: ModelFolder, shapes: Shapes) -> None:
    thousands, decimal = {"en": ("1,234,567", "3.50"), "de": ("1.234.567", "3,50")}[folder.target]
    assert thousands in shapes["thousands"]
    assert decimal in shapes["decimal"]
    assert "3" in shapes["ordinal"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_hold_of_hostile_lines(kind: str, folder: ModelFolder, translator: Translator) -> None:
    assert not find_faults(translator, made(folder.source, kind, 50), GREEDY)
