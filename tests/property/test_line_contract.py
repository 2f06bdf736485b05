"""n lines in, n lines out, byte for byte where the model says nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from specmt.options import DecodingOptions
from specmt.text.lines import read_lines
from specmt.text.segment import segment, split_layout, split_sentences
from specmt.text.view import view
from specmt.types import Hypothesis
from tests.sessions import FakeModel, fake_translator

quick = settings(max_examples=40, deadline=None)
text = st.text(st.sampled_from("ab.!3é\u0301\u200d „“\u00a0\u2028\t\r\f\x85\ufeff😀"), max_size=40)
lines = st.lists(st.tuples(text, st.sampled_from(["\n", "\r\n"])), max_size=12)


class CharacterPieces:
    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [chr(i) for i in ids]


def copy(sources: Sequence[list[int]]) -> list[Hypothesis]:
    assert all(1 <= len(ids) < 9 for ids in sources)
    return [Hypothesis(ids, 0.0) for ids in sources]


INSIDE = re.compile(r"[^\s\ufeff\u200d](?:.*[^\s\ufeff\u200d])?", re.DOTALL)


def seen(line: str) -> str:
    return re.sub("[„“]", "", re.sub(r"\s+", " ", view(line).text))


@quick
@given(lines, text.filter(lambda last: not last.endswith("\n")), st.integers(1, 5))
@example([], "3 \ufeff", 1)
@example([], "a\ufeff\u0301", 1)
@example([], "3 \ufeff\t b", 1)
@example([], "a\ufeff\u200d3", 1)
@example([], "333aaa😀", 1)
@example([], "aa😀aaaaaaa", 1)
@example([], "3😀a333😀", 1)  # what stands for an emoji is where a long word is cut
def test_a_model_that_copies_gives_the_file_back(body: list[tuple[str, str]], last: str, batch: int) -> None:
    data = ("".join(line + ending for line, ending in body) + last).encode()
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    model = FakeModel()
    model.pieces, model.max_source_length, model.languages = CharacterPieces(), 9, ("de", "de")  # type: ignore[assignment]
    translator = fake_translator(copy, model)
    try:
        flat = list(read_lines(Path(f"/dev/fd/{reading}")))
    finally:
        os.close(reading)
    assert len(flat) == data.count(b"\n") + (not data.endswith(b"\n") and data not in (b"", b"\xef\xbb\xbf"))
    out = "".join(
        each.text + each.line.ending for each in translator.translate(flat, DecodingOptions(batch_size=batch))
    )
    wanted = data.removeprefix(b"\xef\xbb\xbf").decode()
    # Inside text the model sees no more than this of it, and closing marks may become opening ones.
    for one, other in zip(out.split("\n"), wanted.split("\n"), strict=True):
        assert seen(one) == seen(other)
        assert INSIDE.split(one) == INSIDE.split(other)  # what is at both ends


@quick
@given(text, st.integers(1, 12))
def test_segments_join_to_the_text_and_fit(line: str, limit: int) -> None:
    parts = segment(line, limit, len)
    assert "".join(part + separator for part, separator in parts) == line
    assert all(len(part) <= limit for part, _ in parts)
    assert all(not separator or separator.isspace() for _, separator in parts)


@quick
@given(text)
def test_sentences_and_layout_join_to_the_text(line: str) -> None:
    for parts in (split_layout(line), *(split_sentences(line, language) for language in ("de", "fr", "ja", "xx"))):
        assert "".join(part + separator for part, separator in parts) == line
