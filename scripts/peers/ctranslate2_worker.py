"""Translates with CTranslate2, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

_loaded: list[Any] = []


def load(path: str, pieces_path: str, compute_type: str, workers: int, threads: int) -> None:
    """Loads a model and its pieces, by which this process translates from then on."""
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    translator = ctranslate2.Translator(
        path, device="cpu", compute_type=compute_type, inter_threads=workers, intra_threads=threads
    )
    _loaded[:] = translator, SentencePieceProcessor(model_file=pieces_path)


def translate(
    lines: Sequence[str], batch_size: int, beam_size: int, limit: int
) -> tuple[float, list[str], list[list[str]]]:
    """Returns the seconds, the texts and their pieces."""
    translator, pieces = _loaded
    started = time.perf_counter()
    results = translator.translate_batch(
        pieces.encode(lines, out_type=str),
        max_batch_size=batch_size,
        beam_size=beam_size,
        min_decoding_length=0,
        max_decoding_length=limit,
    )
    found = [result.hypotheses[0] for result in results]
    texts = [pieces.decode_pieces(tokens) for tokens in found]
    return time.perf_counter() - started, texts, found
