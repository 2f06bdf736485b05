"""Sessions that decode by a function instead of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specmt.decoding.request import Request
from specmt.types import Hypothesis


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
