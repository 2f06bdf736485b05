"""CTranslate2 behind the server's own code: `serve_ctranslate2.py BATCH`, where a batch is whatever waits.

With a batch of 1 there is a call a request; otherwise whoever comes waits until the batch before is finished.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory

import ctranslate2

from peers.to_ctranslate2 import write_ctranslate2
from specmt.decoding.request import Request
from specmt.decoding.rows import target_limit
from specmt.models.folder import find
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.serve.app import create_app
from specmt.serve.clients import Limits
from specmt.serve.server import Server, run
from specmt.serve.service import Service, Source
from specmt.text.pieces import PieceModel
from specmt.translator import Translator
from specmt.types import Hypothesis, Stats


class Session:
    """Decodes with CTranslate2."""

    def __init__(self, path: Path, pieces: PieceModel, batch_size: int) -> None:
        threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        self._translator = ctranslate2.Translator(str(path), device="cpu", compute_type="int8", intra_threads=threads)
        self._pieces = pieces
        self._ids = {piece: number for number, piece in enumerate(pieces.pieces(range(len(pieces))))}
        self._batch_size = batch_size
        self._waiting: deque[Request] = deque()

    def submit(self, request: Request) -> None:
        """Takes in a request."""
        self._waiting.append(request)

    def step(self) -> list[tuple[int, Hypothesis]]:
        """Translates the requests that came first."""
        batch = [self._waiting.popleft() for _ in range(min(self._batch_size, len(self._waiting)))]
        results = self._translator.translate_batch(
            [self._pieces.pieces(request.source) for request in batch],
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=max(target_limit(len(request.source) + 1, 256) for request in batch),
        )
        return [
            (request.key, Hypothesis([self._ids[piece] for piece in result.hypotheses[0]], 0.0, Stats(sentences=1)))
            for request, result in zip(batch, results, strict=True)
        ]

    def cancel(self, key: int) -> bool:
        """Drops a request that waits."""
        before = len(self._waiting)
        self._waiting = deque(request for request in self._waiting if request.key != key)
        return len(self._waiting) < before


def main() -> None:
    folder = find("de-en", source="de", target="en")
    with TemporaryDirectory() as temporary:
        write_ctranslate2(folder, Path(temporary))

        def load() -> Translator:
            model = load_model(folder.path)
            return Translator(model, session=Session(Path(temporary), model.pieces, int(sys.argv[1])))

        service = Service([Source(("de", "en"), "", load)], DecodingOptions(), Limits(cache=0))

        def started(port: int) -> None:
            print(f"serving on http://127.0.0.1:{port}/", file=sys.stderr, flush=True)

        run(Server(create_app(service), "127.0.0.1", 0, started=started))


if __name__ == "__main__":
    main()
