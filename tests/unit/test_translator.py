from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from specmt.decoding.drafters import choose
from specmt.decoding.request import Request
from specmt.decoding.translation_memory import TranslationMemory
from specmt.errors import DataError, InputNotFoundError, ModelError, UsageError
from specmt.feeder import AHEAD, CHUNK
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Hypothesis, Line, Stats
from tests.sessions import FakeModel, FakeSession, fake_translator, reverse


def texts(*lines: str | Line) -> list[str]:
    return [translation.text for translation in fake_translator().translate(lines)]


def test_lines_are_translated_in_order_and_blank_ones_bypass_the_model() -> None:
    assert texts("a b c", "", " \t\u2003", "\u200b", "d e") == ["c b a", "", " \t\u2003", "\u200b", "e d"]


def test_a_mark_of_no_width_is_kept_at_the_ends_and_in_what_is_copied_and_left_out_elsewhere() -> None:
    assert texts("\ufeffa b", "a\ufeffa b\ufeff", "a \ufeff b", "\ufeff") == [
        "\ufeffb a",
        "b aa\ufeff",
        "b a",
        "\ufeff",
    ]
    assert texts("a\t\ufeffb c", "ist\ufeff https://a.de/\ufeffb.") == ["a\tc b", "https://a.de/\ufeffb. ist"]


def test_lines_keep_index_and_ending() -> None:
    line = Line(41, "a b", "\r\n")
    (translation,) = fake_translator().translate([line])
    assert translation.line is line
    assert translation.tokens == ["b", "a"]
    assert translation.warnings == []


def test_a_long_line_is_translated_in_parts_with_a_warning() -> None:
    (translation,) = fake_translator().translate(["a b c. d e f g h i j"])
    assert translation.text == "c. b a h g f e d j i"
    what = "a sentence is longer than 5 pieces; its 3 parts were translated by themselves"
    assert translation.warnings == [what]
    assert translation.stats == Stats(lines=1, sentences=3, tokens=13, verifier_calls=3, attempts=[3, 0, 0])


def test_attempts_and_what_is_left_are_counted() -> None:
    model = FakeModel()

    def lose(sources: Sequence[list[int]]) -> list[Hypothesis]:
        """Says no numbers, no stand-ins beside an x, and a number behind a y."""
        found = []
        for words in map(model.pieces.pieces, sources):
            said = [word for word in words if not word.isdecimal() and not ("x" in words and word.startswith("%"))]
            text = " ".join(said).replace("y", "y 7")
            found.append(Hypothesis(model.pieces.encode(text), 0.0, Stats(sentences=1)))
        return found

    lines = ["a b", "a 12 b", "x 34 b", "y 56 b"]
    found = list(fake_translator(lose, model).translate(lines, DecodingOptions(check=True)))
    assert [each.text for each in found] == lines
    assert [each.stats.attempts for each in found] == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert [each.warnings for each in found] == [[]] * 3 + [["'y' stays as it is: what the model says is damaged"]]
    total = sum((each.stats for each in found), Stats())
    assert (total.attempts, total.left, total.warnings) == ([1, 1, 2], 1, 1)


def test_scores_only_where_asked_for() -> None:
    lines = ["a b c", ""]
    assert all(math.isnan(each.score) for each in fake_translator().translate(lines))
    scored = fake_translator().translate(lines, DecodingOptions(scores=True))
    assert [each.score for each in scored] == [-3.0, 0.0]


def test_lossless_comes_from_the_options() -> None:
    assert [each.lossless for each in fake_translator().translate(["a"])] == [True]
    assert [each.lossless for each in fake_translator().translate(["a"], DecodingOptions(tolerance=1.0))] == [False]


def test_a_decoded_line_break_becomes_a_space() -> None:
    model = FakeModel()
    model.pieces.words = ["a\nb"]
    fixed = fake_translator(lambda _: [Hypothesis([0], math.nan)], model)
    assert [each.text for each in fixed.translate(["x"])] == ["a b"]


class Numbered:
    """Lines, of which the first so many are there, and the rest when nothing else can be done."""

    def __init__(self, count: int, there: int) -> None:
        self.count, self.there, self.read = count, there, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.read == self.count:
            raise StopIteration
        self.read += 1
        return "a"

    def ready(self) -> bool:
        return self.read < self.there


def test_it_reads_some_batches_ahead_and_no_more() -> None:
    lines = Numbered(100_000, there=100_000)
    translations = fake_translator().translate(lines, DecodingOptions(batch_size=4))
    assert lines.read == 0
    for _ in range(3):
        next(translations)
    assert 3 <= lines.read <= AHEAD * 4 + CHUNK


@pytest.mark.parametrize("there", [0, 1, 5])
def test_a_translation_does_not_wait_for_the_next_line(there: int) -> None:
    lines = Numbered(10, there=there)
    translations = fake_translator().translate(lines)
    next(translations)
    assert lines.read == max(1, there)
    for number in range(lines.read + 1, 11):
        for _ in range(1 if number > max(1, there) + 1 else max(1, there)):
            next(translations)
        assert lines.read <= number


def test_lines_before_a_failure_of_the_input_come_first() -> None:
    def lines() -> Iterator[str]:
        yield "a b"
        yield "c d"
        raise DataError("bad")

    translations = fake_translator().translate(lines())
    assert [next(translations).text, next(translations).text] == ["b a", "d c"]
    with pytest.raises(DataError, match="bad"):
        next(translations)


def test_what_is_not_wanted_any_more_is_taken_back() -> None:
    session = FakeSession(reverse)
    translations = Translator(FakeModel(), session=session).translate(["a b"] * 100)  # type: ignore[arg-type]
    next(translations)
    session.submit(Request(10**6, [1]))
    translations.close()  # type: ignore[attr-defined]
    assert [request.key for request in session.requests] == [10**6]


def test_several_threads_are_served_by_one_session() -> None:
    shared = fake_translator()

    def work(number: int) -> list[str]:
        return [each.text for each in shared.translate([f"a{number} b{k}" for k in range(200)])]

    with ThreadPoolExecutor(8) as pool:
        for number, got in enumerate(pool.map(work, range(8))):
            assert got == [f"b{k} a{number}" for k in range(200)]


class FailsOnce(FakeSession):
    """Waits for two sentences, and fails then."""

    failed = False

    def step(self) -> list[tuple[int, Hypothesis]]:
        if len(self.seen) < 2:
            return []
        if not self.failed:
            self.failed, self.requests = True, []
            raise MemoryError
        return super().step()


def test_what_fails_in_one_thread_leaves_no_other_waiting() -> None:
    shared, said = Translator(FakeModel(), session=FailsOnce(reverse)), []  # type: ignore[arg-type]

    def work() -> None:
        try:
            said.extend(each.text for each in shared.translate(["a b"]))
        except MemoryError:
            said.append("out of memory")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert said == ["out of memory"] * 2
    assert [each.text for each in shared.translate(["a b"])] == ["b a"]


class Interrupted(FailsOnce):
    """Is interrupted in the middle, in whichever thread that is."""

    by: threading.Thread | None = None

    def step(self) -> list[tuple[int, Hypothesis]]:
        try:
            return super().step()
        except MemoryError:
            self.by = threading.current_thread()
            raise KeyboardInterrupt from None


def test_an_interrupt_reaches_one_thread_and_the_sentences_of_others_go_on() -> None:
    session = Interrupted(reverse)
    shared, said = Translator(FakeModel(), session=session), {}  # type: ignore[arg-type]

    def work() -> None:
        try:
            said[threading.current_thread()] = [each.text for each in shared.translate(["a b"])]
        except KeyboardInterrupt:
            said[threading.current_thread()] = ["interrupted"]

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert said == {thread: ["interrupted" if thread is session.by else "b a"] for thread in threads}
    assert not session.requests and not len(shared.session)


def test_a_memory_is_not_changed_in_the_middle_of_a_step() -> None:
    stepping, may_go_on = threading.Event(), threading.Event()

    def decode(sources: Sequence[list[int]]) -> list[Hypothesis]:
        stepping.set()
        assert may_go_on.wait(20)
        return reverse(sources)

    options = DecodingOptions(drafter="lookup")
    shared = Translator(FakeModel(), session=FakeSession(decode))  # type: ignore[arg-type]
    memory = shared._memory(options, choose(options, shared.model))
    assert memory is not None
    with ThreadPoolExecutor(2) as pool:
        translations = pool.submit(lambda: [*shared.translate(["a b"], options)])
        assert stepping.wait(20)
        remembering = pool.submit(shared.remember, [("c", "d")], options)
        wait([remembering], timeout=0.3)
        during = memory.size
        may_go_on.set()
        assert translations.result(20) and remembering.result(20) is None
    assert (during, memory.size) == (0, 1)


def test_options_are_checked_before_anything_is_read() -> None:
    model = FakeModel(has_drafter=False)
    for options in (DecodingOptions(drafter="masked"), DecodingOptions(tolerance=1.0)):
        with pytest.raises(ModelError, match="no masked drafter"):
            fake_translator(model=model).translate([], options)
    fake_translator(model=model).translate([], DecodingOptions(strategy="greedy"))
    fake_translator(model=model).translate([], DecodingOptions(drafter="none"))


def test_a_pickled_translator_loads_its_model_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def from_pretrained(name: str, **loading: object) -> Translator:
        calls.append((name, loading))
        return fake_translator()

    original = Translator(FakeModel(Path("folder")), session=FakeSession(reverse), threads=2)  # type: ignore[arg-type]
    data = pickle.dumps(original)
    monkeypatch.setattr(Translator, "from_pretrained", from_pretrained)
    copy = pickle.loads(data)
    assert calls == [("folder", {"threads": 2})]
    assert [each.text for each in copy.translate(["a b"])] == ["b a"]


def memories(session: FakeSession) -> list[TranslationMemory | None]:
    """Returns the memories of the requests that a session was given."""
    return [request.memory for request in session.seen]


def test_a_memory_is_read_once_and_lives_on(tmp_path: Path) -> None:
    path = tmp_path / "memory.tsv"
    long = "a " * 200
    path.write_text(f"a b\tB A\n{long}\tx\nc d e f g h i\tI H G F E D C\n\nj\u2028k\tJ\u2028K\nl\\tm\tL m\n")
    options = DecodingOptions(memory=path)
    model = FakeModel()
    session = FakeSession(reverse)
    translator = Translator(model, session=session)  # type: ignore[arg-type]
    translator.translate([], options)
    path.unlink()
    assert len(list(translator.translate(["a b", "c"], options))) == 2
    list(translator.translate(["a b"], options))
    list(translator.translate(["a b"]))
    first, *others, without = memories(session)
    assert first is not None
    assert others == [first] * 2
    assert without is None
    assert first.size == 5
    for source, target in [("a b", "B A"), ("c d e f g h i", "I H G F E D C"), ("j", "J"), ("k", "K"), ("l\tm", "L m")]:
        assert first.nearest(model.pieces.encode(source))[0].target == model.pieces.encode(target)


def test_a_memory_has_stand_ins_where_the_model_sees_them(tmp_path: Path) -> None:
    path = tmp_path / "memory.tsv"
    path.write_text("a {x} b {y}\tB {y} A {x}\n")
    model = FakeModel()
    session = FakeSession(reverse)
    translator = Translator(model, session=session)  # type: ignore[arg-type]
    protected = DecodingOptions(memory=path)
    for options in (protected, replace(protected, protect=False), protected):
        list(translator.translate(["a"], options))
    found = []
    for memory, source in zip(memories(session), ["a %1 b %2", "a {x} b {y}", "a %1 b %2"], strict=True):
        assert memory is not None
        found.append(model.pieces.decode(memory.nearest(model.pieces.encode(source))[0].target))
    assert found == ["B %2 A %1", "B {y} A {x}", "B %2 A %1"]
    assert session.seen[0].memory is session.seen[2].memory


def test_the_signature_says_what_is_protected() -> None:
    greedy = DecodingOptions(strategy="greedy")
    found = [
        fake_translator().signature(options)["protect"]
        for options in (greedy, replace(greedy, protect=False), replace(greedy, temperature=0.5))
    ]
    assert found == [True, False, True]
    model = FakeModel()
    model.protects = False
    free, held = (fake_translator(model=model).signature(DecodingOptions(protect=protect)) for protect in (None, True))
    assert {name: held[name] for name in held if held[name] != free.get(name)} == {"stand_ins": True}


@pytest.mark.parametrize(("protect", "seen"), [(None, ["a {x} b"]), (True, ["a %1 b"]), (False, ["a {x} b"])])
def test_whether_there_are_stand_ins_is_up_to_the_model_where_nobody_says(
    protect: bool | None, seen: list[str]
) -> None:
    model = FakeModel()
    model.protects = False
    rules = fake_translator(model=model).cutter(DecodingOptions(protect=protect)).rules
    assert [part.text for part in rules.split("a {x} b")] == seen


def test_what_is_wrong_with_a_memory_is_said_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "memory.tsv"
    with pytest.raises(InputNotFoundError, match="no such file"):
        fake_translator().translate([], DecodingOptions(memory=path))
    path.write_text("a b")
    with pytest.raises(DataError, match="line 1 must be"):
        fake_translator().translate([], DecodingOptions(memory=path))
    fake_translator().translate([], DecodingOptions(memory=path, strategy="greedy"))


def test_lookups_are_exact_and_depend_on_what_came_before() -> None:
    options = DecodingOptions(memory=Path("memory.tsv"), block_size=5)
    assert fake_translator().drafts_are_fixed(DecodingOptions(block_size=5))
    assert not fake_translator().drafts_are_fixed(options)
    assert fake_translator().signature(options)["memory"] == "memory.tsv"
    assert "memory" not in fake_translator().signature(DecodingOptions())
    with pytest.raises(UsageError, match="`tolerance` must be 0 with the drafter lookup"):
        DecodingOptions(memory=Path("memory.tsv"), tolerance=1.0)


def test_a_pickled_translator_reads_its_memory_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.tsv"
    path.write_text("a b\tB A\n")
    options, sessions = DecodingOptions(memory=path), [FakeSession(reverse), FakeSession(reverse)]
    original, loaded = (Translator(FakeModel(), session=session) for session in sessions)  # type: ignore[arg-type]
    list(original.translate(["a b"], options))
    monkeypatch.setattr(Translator, "from_pretrained", lambda name, **loading: loaded)
    list(pickle.loads(pickle.dumps(original)).translate(["a b"], options))
    first, second = (session.seen[0].memory for session in sessions)
    assert first is not None and second is not None
    assert second is not first
    assert second.size == first.size == 1
