"""Translates with CTranslate2 in a process without PyTorch: one request a line of standard input, as JSON."""

from __future__ import annotations

import json
import sys
import time

import ctranslate2
import sentencepiece


def main() -> None:
    path, pieces_path, compute_type, workers, threads = sys.argv[1:]
    pieces = sentencepiece.SentencePieceProcessor(model_file=pieces_path)
    translator = ctranslate2.Translator(
        path, device="cpu", compute_type=compute_type, inter_threads=int(workers), intra_threads=int(threads)
    )
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        results = translator.translate_batch(
            pieces.encode(request["lines"], out_type=str),
            max_batch_size=request["batch_size"],
            beam_size=request["beam_size"],
            min_decoding_length=0,
            max_decoding_length=request["limit"],
        )
        found = [result.hypotheses[0] for result in results]
        texts = [pieces.decode_pieces(tokens) for tokens in found]
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "texts": texts, "pieces": found}), flush=True)


if __name__ == "__main__":
    main()
