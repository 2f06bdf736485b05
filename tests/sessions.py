"""Sessions that decode by a function instead of a model, and a model to go with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from specmt.decoding.request import Request
from specmt.text.confidence import Confidence
from specmt.text.lexicon import Lexicon
from specmt.translator import Translator
from specmt.types import Hypothesis, Stats


class FakeSession:
    """Decodes what was submitted, all at a time, by a function of the sources."""

    def __init__(self, decode: Callable[[Sequence[list[int]]], list[Hypothesis]]) -> None:
        self.decode = decode
        self.requests: list[Request] = []
        self.seen: list[Request] = []

    def submit(self, request: Request) -> None:
        self.requests.append(request)
        self.seen.append(request)

    def step(self) -> list[tuple[int, Hypothesis]]:
        requests, self.requests = self.requests, []
        found = self.decode([request.source for request in requests])
        return [(request.key, hypothesis) for request, hypothesis in zip(requests, found, strict=True)]

    def cancel(self, key: int) -> bool:
        before = len(self.requests)
        self.requests = [request for request in self.requests if request.key != key]
        return len(self.requests) < before


class WordPieces:
    """Every word is a piece, as long as it is not one of the unencodable."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def encode(self, text: str) -> list[int]:
        ids = []
        for word in text.replace("\u200b", " ").split():
            if word not in self.words:
                self.words.append(word)
            ids.append(self.words.index(word))
        return ids

    def encode_batch(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    encode_targets = encode_batch

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.words[i] for i in ids]


class FakeModel:
    block_size = 7

    def __init__(self, path: Path = Path("fake"), *, has_drafter: bool = True) -> None:
        self.pieces = WordPieces()
        self.max_source_length = 6
        self.languages = ("de", "en")
        self.path = path
        self.drafters = ("masked",) if has_drafter else ()
        self.protects = True
        self.lexicon = Lexicon()
        self.confidence: Confidence | None = None
        self.sha256 = "0" * 64


def reverse(sources: Sequence[list[int]]) -> list[Hypothesis]:
    assert sources
    assert all(1 <= len(ids) < FakeModel().max_source_length for ids in sources)
    return [
        Hypothesis(ids[::-1], -float(len(ids)), Stats(sentences=1, tokens=len(ids) + 1, verifier_calls=1))
        for ids in sources
    ]


def fake_translator(
    decode: Callable[[Sequence[list[int]]], list[Hypothesis]] = reverse, model: FakeModel | None = None
) -> Translator:
    """Returns a translator whose model says what a function says."""
    return Translator(model or FakeModel(), session=FakeSession(decode))  # type: ignore[arg-type]
