"""What the data recipe keeps, mends and makes up."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given, settings
from hypothesis import strategies as st
from recipe import augment
from recipe.augment import CHANGES, Change, is_sentence, join, vary
from recipe.cleaning import (
    MAX_CHARACTERS,
    Deduplicator,
    evidence,
    find_fault,
    literals,
    modern_spelling,
    normalise,
    numbers,
    plain_quotes,
)
from recipe.synthetic import Pair, date, price, quantity, synthesise, time
from sacrebleu.metrics import CHRF

from specmt.decoding.session import decode
from specmt.errors import UsageError
from specmt.models.folder import ASSETS
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.text.pieces import Pieces
from specmt.training.data import ParallelData
from specmt.training.prepare import PrepareOptions, prepare

quick = settings(max_examples=100, deadline=None)
seeds = st.integers(0, 10**9)
# SentencePiece writes spaces as ▁, so that this one character comes back as a space.
words = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cn"], exclude_characters="▁"), min_size=1
)
PAIR = ("Am Montag kam Frau Obama in Berlin an.", "Mrs Obama arrived in Berlin on Monday.")


@quick
@given(st.lists(words, min_size=1, max_size=5))
def test_no_character_is_lost_in_the_pieces(text: list[str]) -> None:
    pieces = Pieces(ASSETS / "de-en" / "pieces.model")
    assert pieces.decode(pieces.encode(" ".join(text))) == " ".join(text)


@quick
@given(st.text())
def test_normalising_is_done_once(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert "\n" not in once
    assert "  " not in once
    assert once == once.strip()


def test_normalising_mends_what_is_invisible_and_keeps_the_rest() -> None:
    assert normalise("  Gru\u0308\u00dfe\u00a0 an\u00ad\u200b alle\ufeff ") == "Grüße an alle"
    assert normalise("auβerdem β-Version") == "außerdem β-Version"
    assert normalise("👨\u200d👩\u200d👧 „a“\tb") == "👨\u200d👩\u200d👧 „a“\tb"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("daß er muß, weiß er", "dass er muss, weiß er"),
        ("Daß der Ausschuß mißbraucht", "Dass der Ausschuss missbraucht"),
        ("Er läßt den Prozeß, wußte er bewußt.", "Er lässt den Prozess, wusste er bewusst."),
        ("Das paßt; der Fluß faßt", "Das passt; der Fluss fasst"),
        ("Spaß und Muße, müßig, am Fuß der Straße, Gruß, groß, Maß, gemäß, süß, ließ, heiß, Gefäß, Fleiß", None),
        ("außer, äußern, schließen, genießen, Größe, stoßen, Preußen, draußen, büßen, weißt", None),
    ],
)
def test_old_spelling_is_modernised_and_right_spelling_stays(old: str, new: str | None) -> None:
    assert modern_spelling(old) == (old if new is None else new)


def test_english_quotes_become_plain() -> None:
    assert plain_quotes("“It’s here”, ‘he’ said") == "\"It's here\", 'he' said"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Siehe https://a.de/b?c=1. Und www.x.org!", ["https://a.de/b?c=1", "www.x.org"]),
        ("Mail an a.b@c-d.de, bitte", ["a.b@c-d.de"]),
        ("{name} hat %d von %(n)s, ${VAR}, {{x}} und %1$s", ["{name}", "%d", "%(n)s", "${VAR}", "{{x}}", "%1$s"]),
        ('<a href="x">hier</a> und <b>da</b>', ["a", "a", "b", "b"]),
        ("5% der Fälle, 3%ig, a < b > c, <Wert>, 100%.", []),
    ],
)
def test_literals_are_found(text: str, found: list[str]) -> None:
    assert sorted(literals(text).elements()) == sorted(found)


def test_numbers_are_compared_without_separators() -> None:
    assert numbers("1.234,56 am 3. Mai") == numbers("1,234.56 on 3 May")
    assert numbers("14 Tage") != numbers("15 days")


def test_words_speak_for_their_language() -> None:
    assert evidence("Das ist nicht der Weg") == (4, 0)
    assert evidence("This is not the way") == (0, 3)


@pytest.mark.parametrize(
    ("german", "english", "fault"),
    [
        (*PAIR, None),
        ("Ja", "Yes", None),
        ("Microsoft Windows 95", "Microsoft Windows 95", None),
        ("", "Empty", "empty"),
        ("x" * (MAX_CHARACTERS + 1), "x" * 900, "too long"),
        ("Kurz.", "This English sentence is far too long for that.", "length ratio"),
        ("This is what it was before", "This is what it was before", "identical"),
        ("This is what it was before.", "That is what it has been before.", "language"),
        ("Das ist nicht der Weg.", "Dies ist auch kein Weg.", "language"),
        ("Öffnen Sie https://a.de.", "Open https://b.de.", "literals"),
        ("{name} fehlt", "%s is missing", "literals"),
        ("Es sind 3 da.", "There are 4.", None),
    ],
)
def test_faults_of_pairs(german: str, english: str, fault: str | None) -> None:
    assert find_fault(german, english) == fault


def test_noisy_sources_are_looked_at_more_strictly() -> None:
    assert find_fault("Es sind 3 da.", "There are 4.", strict=True) == "numbers"
    assert find_fault("Es sind 1.000 da.", "There are 1,000.", strict=True) is None
    names = "Berlin Hamburg Bremen Köln Essen Dortmund Kiel Jena"
    assert find_fault(names, "Berlin Hamburg Bremen Cologne Essen Dortmund Kiel Jena", strict=True) == "language"


def test_pairs_pass_once_and_sentences_with_few_translations() -> None:
    seen = Deduplicator(2)
    assert seen.admit("Hallo!", "Hello!")
    assert not seen.admit("hallo", "Hello")
    assert seen.admit("Hallo!", "Hi!")
    assert not seen.admit("Hallo!", "Hey!")
    assert seen.admit("Servus!", "Hi!")
    assert not seen.admit("Tach!", "Hi!")
    assert seen.admit("Version 1.2", "Release 1.2")
    assert not seen.admit("Version 3.4", "Release 3.4")
    assert seen.admit("😀", "😀")
    assert seen.admit("🚀", "🚀")


@quick
@given(seeds, st.sampled_from([0, 1]))
def test_a_seed_decides_everything(seed: int, source: int) -> None:
    def draw() -> list[Pair]:
        rng = random.Random(seed)
        return [pair for _ in range(10) for pair in (vary(PAIR, rng, source=source, rate=9), synthesise(rng))]

    assert draw() == draw()


def test_most_pairs_stay_and_none_change_at_rate_0() -> None:
    rng = random.Random(1)
    pairs = [vary(PAIR, rng, source=0) for _ in range(5000)]
    share = 1 - pairs.count(PAIR) / len(pairs)
    assert sum(share for share, _ in CHANGES) + augment.LOWERED == pytest.approx(share, abs=0.015)
    assert all(vary(PAIR, rng, source=0, rate=0) == PAIR for _ in range(100))


@pytest.mark.parametrize("source", [0, 1])
def test_only_the_source_is_lowered(source: int) -> None:
    rng = random.Random(1)
    pairs = {vary(PAIR, rng, source=source) for _ in range(3000)}
    lowered = [PAIR[0].lower(), PAIR[1]] if source == 0 else [PAIR[0], PAIR[1].lower()]
    assert tuple(lowered) in pairs
    assert not any(pair[1 - source] == PAIR[1 - source].lower() for pair in pairs)


@pytest.mark.parametrize(("source", "share"), [(0, augment.SWISS), (1, 0.0)])
def test_german_that_is_read_has_ss_for_sz_now_and_then(source: int, share: float) -> None:
    rng = random.Random(1)
    pairs = [vary(("Er saß da.", "He sat there."), rng, source=source) for _ in range(3000)]
    assert pairs.count(("Er sass da.", "He sat there.")) / len(pairs) == pytest.approx(share, abs=0.01)


def test_neighbours_share_a_line_now_and_then() -> None:
    rng = random.Random(1)
    document = [(f"Satz {n}.", f"Sentence {n}.") for n in range(6)]
    joined = [join(document[: n % 6 + 1], rng) for n in range(6000)]
    counts = Counter(english.count(".") for _, english in joined)
    assert set(counts) == {1, 2, 3, 4}
    assert joined.count(document[-1]) > 900
    assert ("Satz 4. Satz 5.", "Sentence 4. Sentence 5.") in joined
    assert 1 - counts[1] / len(joined) == pytest.approx(5 / 6 * augment.JOINED, abs=0.01)


@pytest.mark.parametrize(
    ("pair", "ends"),
    [
        (("Er kam.", "He came."), True),
        (("„Er kam!“", '"He came!"'), True),
        (("Er kam (gestern).", "He came (yesterday.)"), True),
        (("Er kam", "He came."), False),
        (("Über uns", "About us"), False),
    ],
)
def test_what_ends_as_a_sentence(pair: Pair, ends: bool) -> None:
    assert is_sentence(pair) == ends


@pytest.mark.parametrize("change", [change for _, change in CHANGES])
@pytest.mark.parametrize("pair", [PAIR, ("Siehe {x} auf https://a.de/B.", "See {x} at https://a.de/B."), ("Ja", "Yes")])
@quick
@given(seed=seeds)
def test_changes_add_the_same_to_both_sides(change: Change, pair: Pair, seed: int) -> None:
    german, english = change(*pair, random.Random(seed))
    assert literals(german) == literals(english)
    assert literals(pair[0]) <= literals(german)
    assert "\n" not in german + english
    assert (german, english) != pair or change in (augment.unpunctuate,)


def test_names_give_way_to_what_is_copied() -> None:
    found = {augment.replace_shared(*PAIR, random.Random(seed)) for seed in range(50)}
    assert all(("Obama" in german) == ("Obama" in english) for german, english in found)
    assert all(("Berlin" in german) == ("Berlin" in english) for german, english in found)
    assert all("Berlin" not in german or "Obama" not in german for german, _ in found)


def test_capitals_spare_what_is_copied() -> None:
    german, english = "Straße: {name} an https://a.de/b", "Street: {name} at https://a.de/b"
    changed = augment.upper(german, english, random.Random(1))
    assert changed == ("STRASSE: {name} AN https://a.de/b", "STREET: {name} AT https://a.de/b")


def test_the_full_stop_goes_on_both_sides_or_none() -> None:
    rng = random.Random(1)
    assert augment.unpunctuate("Er kam.", "He came.", rng) == ("Er kam", "He came")
    assert augment.unpunctuate("Er kam.", "He came!", rng) == ("Er kam.", "He came!")
    assert augment.unpunctuate("Am 3.", "On 3.", rng) == ("Am 3.", "On 3.")


@quick
@given(seeds)
def test_quantities_are_the_same_number_in_both_notations(seed: int) -> None:
    german, english = quantity(random.Random(seed))
    assert numbers(german) == numbers(english)
    swapped = english.translate(str.maketrans(",.", ".,"))
    assert german.split(" ")[0].strip("€%") == swapped.split(" ")[0].strip("€%")


@quick
@given(seeds)
@example(34106)  # nothing but things to copy, one of them with a word in it
def test_made_up_pairs_are_clean_and_have_the_same_to_copy(seed: int) -> None:
    german, english = synthesise(random.Random(seed))
    assert german == normalise(german)
    assert english == normalise(english)
    assert literals(german) == literals(english)
    assert numbers(german) == numbers(english)


def test_made_up_pairs_are_of_every_kind_and_hardly_ever_left_out() -> None:
    pairs = [synthesise(random.Random(seed)) for seed in range(2000)]
    assert sum(find_fault(*pair) is not None for pair in pairs) <= 4
    for german, english in (
        (r"^Siehe \S", "^See "),
        (r"Die Summe beträgt [\d.,]+ ", r"The sum is .?[\d.,]+"),
        (r"am \d+\. Mai", r"on (May \d+|\d+ May)"),
        (r"um \d+:\d\d Uhr", r"at \d+:\d\d"),
        (r"kostet [\d.,]+ (€|Euro)", r"costs (€[\d.,]+|[\d.,]+ euros)"),
        ("am Freitag", "on Friday"),
        (r"^z\. ?B\. ", r"^e\.g\. "),
    ):
        assert any(re.search(german, pair[0]) and re.search(english, pair[1]) for pair in pairs), german


@quick
@given(seeds)
def test_times_prices_and_dates_are_written_as_their_language_does(seed: int) -> None:
    german, english = time(random.Random(seed))
    assert german.removesuffix(" Uhr") == english.removesuffix(" am")
    german, english = price(random.Random(seed))
    swapped = english.translate(str.maketrans(",.", ".,"))
    assert re.findall(r"[\d.,]+", german) == re.findall(r"[\d.,]+", swapped)
    assert not re.search(r"Dollar|Euro$", english)
    german, english = date(random.Random(seed))
    assert re.match(r"\d+\. \w+", german) and re.search(r"\d+ \w+|\w+ \d+", english)


def test_the_models_own_words_are_trained_on(tmp_path: Path) -> None:
    import best_of_beam

    sample, model = ASSETS / "sample", ASSETS / "de-en"
    pair = (sample.with_suffix(".de"), sample.with_suffix(".en"))
    prepare(tmp_path / "data", PrepareOptions(train=(pair,), valid=(pair,), pieces=model / "pieces.model"))
    options = ["--data", str(tmp_path / "data"), "--model", str(model), "--pairs", "12", "--references", "5"]

    def run(*more: str) -> Result:
        return CliRunner().invoke(best_of_beam.main, [str(tmp_path / "out"), *options, *more])

    assert run().exit_code == 0
    had, made = (ParallelData.load(tmp_path / name, "train") for name in ("data", "out"))
    references = {tuple(had.source[i]): had.target[i] for i in range(len(had))}
    pairs = [(made.source[i], made.target[i], references[tuple(made.source[i])]) for i in range(len(made))]
    assert len({tuple(source) for source, _, _ in pairs}) == 17
    assert all(target == reference for _, target, reference in pairs[12:])
    own, pieces = [pair for pair in pairs[:12] if pair[1] != pair[2]], Pieces(model / "pieces.model")
    assert own
    loaded = load_model(model, device="cpu", dtype="float32")
    greedy = decode(loaded, [source for source, _, _ in own], DecodingOptions(strategy="greedy"))

    def likeness(ids: list[int], reference: list[int]) -> float:
        return CHRF().sentence_score(pieces.decode(ids), [pieces.decode(reference)]).score

    nearest = sum(likeness(target, reference) for _, target, reference in own)
    assert nearest > sum(likeness(each.tokens, pair[2]) for each, pair in zip(greedy, own, strict=True))

    shard = tmp_path / "out" / "shards" / "00000.json"
    before = shard.stat().st_mtime_ns
    assert run().exit_code == 0
    assert shard.stat().st_mtime_ns == before
    assert isinstance(run("--seed", "2").exception, UsageError)


def test_the_recipe_writes_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One source and back-translated text, cleaned, weighted and made ready for training."""
    import data

    corpora, folder = tmp_path / "corpora", tmp_path / "out"
    for part in ("train", "valid"):
        (corpora / part).mkdir(parents=True)
    german = [f"Das ist der Hund Nummer {n}, und er schläft." for n in range(30)]
    english = [f"This is the dog number {n}, and it is sleeping." for n in range(30)]
    sides = {"de": german, "en": english}
    for side, lines in sides.items():
        (corpora / "train" / f"xquad.{side}.gz").write_bytes(gzip.compress("\n".join([*lines, lines[0]]).encode()))
        for name in data.VALID:
            (corpora / "valid" / f"{name}.{side}").write_text(lines[0] + "\n")
        (tmp_path / "back").mkdir(exist_ok=True)
        back = {"de": "Ein Mann las 7 Bücher.\nDer Mann hatte 8.\n", "en": "A man read 7 books.\nThe man had 9.\n"}
        (tmp_path / "back" / f"news.{side}").write_text(back[side])
    others = ",".join(name for _, name, _ in data.read_sources(set()) if name != "xquad")
    arguments = ["data.py", str(folder), "--direction", "de-en", "--exclude", others, "--back", str(tmp_path / "back")]
    monkeypatch.setenv("SPECMT_CORPORA", str(corpora))
    monkeypatch.setattr("sys.argv", [*arguments, "--pieces", str(ASSETS / "de-en" / "pieces.model")])
    with pytest.raises(SystemExit) as ended:
        data.main()
    assert ended.value.code == 0
    record = json.loads((folder / "text" / "recipe.json").read_text())
    assert (record["xquad"]["kept"], record["xquad"]["left_out"]) == (1, {"duplicate": 30})  # but for their numbers
    assert (record["back-news"]["domain"], record["back-news"]["kept"]) == ("back-translated", 1)
    assert record["back-news"]["left_out"] == {"numbers": 1}
    assert len(ParallelData.load(folder, "train")) == sum(each["written"] for each in record.values())
    with pytest.raises(ValueError, match="no such source: nothing"):
        data.read_sources({"nothing"})
